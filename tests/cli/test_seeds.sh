#!/bin/bash
# Which seed made which picture, and from what noise.
. "$(dirname "$0")/lib.sh"
three=("$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -n 3)
alone() { run "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" --seed "$1" -o "alone$1.png"; }
for seed in 1 5 9; do alone $seed; done

name "case 20: one seed a picture: each equals the run with that seed alone, and says its seed"
run "${three[@]}" --seed 5,1,9 -o list.png
same list.0.png alone5.png
same list.1.png alone1.png
same list.2.png alone9.png
grep -q 'saved list.2.png: .*seed 9$' err || fail "not printed: $(cat err)"
[ "$(png_text list.1.png seed)" = 1 ] || fail "not stored: $(png_text list.1.png seed)"

name "case 20: one generator for the batch, as diffusers: the first row is the seed's own, the others are nobody's"
run "${three[@]}" --seed 5 -o batch.png
same batch.0.png alone5.png
for other in alone1.png alone5.png alone9.png; do differ batch.1.png $other; done
[ "$(png_text batch.1.png seed)" = 5 ] || fail "seed of the batch: $(png_text batch.1.png seed)"
[ "$(png_text batch.1.png picture)" = "1 of 3 from one generator" ] || fail "$(png_text batch.1.png picture)"

name "case 20: a random seed is printed, stored, and draws the picture again"
run "$TESSERA" generate "$klein" "a red fox" -H 32 -W 32 --steps 1 --max-sequence-length 20 --dtype float32 --no-progress -o random.png
seed=$(sed -n 's/^tessera: seed \([0-9]*\)$/\1/p' err)
[ -n "$seed" ] || fail "not printed: $(cat err)"
[ "$(png_text random.png seed)" = "$seed" ] || fail "not stored"
alone "$seed"
same "alone$seed.png" random.png
differ random.png alone1.png

name "a random seed that draws nothing is not printed: an error stands alone"
for words in "$work/none a" "$klein a --tp 3" "$klein a -H 65536 -W 65536"; do
    expect 1 '' "$TESSERA" generate $words -o result/x.png
    grep -vq '^tessera: error: ' err && fail "$(cat err)"
done

name "several prompts are one batch; --prompt-file adds more"
printf 'a green door\r\n\n' > prompts.txt
run "$TESSERA" generate "$klein" "a red fox" --prompt-file prompts.txt "${tiny[@]}" -o two.png
run "$TESSERA" generate "$klein" "a red fox" "a green door" "${tiny[@]}" -o both.png
same two.0.png both.0.png
same two.1.png both.1.png
same two.0.png alone1.png
[ "$(png_text two.1.png prompt)" = "a green door" ] || fail "prompt: $(png_text two.1.png prompt)"

name "case 18: bfloat16 noise is the float32 noise, rounded"
for dtype in float32 bfloat16 float16; do
    run "$TESSERA" generate "$klein" x "${tiny[@]}" --dtype $dtype --seed 42 --dump $dtype -o noise.png
    [ "$status" -eq 0 ] || fail "$(cat err)"
done
same bfloat16/stages.safetensors float32/stages.safetensors --only latents_initial --relative 0.00390625
differ bfloat16/stages.safetensors float32/stages.safetensors --only latents_initial --relative 0.0001
same float16/stages.safetensors float32/stages.safetensors --only latents_initial --relative 0.00048828125
finish
