#!/bin/bash
# The embedded model: what `make demo` draws is what diffusers draws with the same folder, on any number of ranks.
. "$(dirname "$0")/lib.sh"
emoji=$source_root/demo/emoji-klein
expected=$source_root/tests/fixtures/emoji_klein_expected
pictures=$(wc -l < "$source_root/demo/prompts.txt")
prompt=$(head -n 1 "$source_root/demo/prompts.txt")

same_as_diffusers() { # pictures, launcher and command
    rm -f out.*.png
    run "${@:2}" --seed 42 --dtype float32 --no-progress -o out.png
    [ "$status" -eq 0 ] || fail "$(cat err)"
    for ((i = 0; i < $1; i++)); do same "out.$i.png" "$expected/out.$i.png" --tolerance 1; done
}

batch=("$TESSERA" generate "$emoji" --prompt-file "$source_root/demo/prompts.txt")
for ranks in 1 2 4; do
    name "$ranks ranks, threads"
    same_as_diffusers "$pictures" "${batch[@]}" --tp "$ranks"
done
for ranks in 2 4; do
    name "$ranks ranks, processes"
    same_as_diffusers "$pictures" mpirun --oversubscribe -n "$ranks" "${batch[@]}" --tp "$ranks"
done
name "ring and Ulysses"
same_as_diffusers "$pictures" "${batch[@]}" --mesh ring=2,ulysses=2

name "one prompt, nothing asked for: the size, length and steps that the folder says"
run "$TESSERA" generate "$emoji" "$prompt" --seed 42 --no-progress
[ "$status" -eq 0 ] || fail "$(cat err)"
run "$TESSERA" generate "$emoji" "$prompt" --seed 42 --no-progress -H 64 -W 64 --steps 4 --guidance-scale 1 \
    --max-sequence-length 36 --dtype bfloat16 -o asked.png
same out.png asked.png

name "the reference device; the first of a batch is drawn as it is alone"
run "$TESSERA" generate "$emoji" "$prompt" --seed 42 --dtype float32 --device ref --no-progress -o ref.png
same ref.png "$expected/out.0.png" --tolerance 1

name "verify"
expect 0 'picture: [01] of 255 levels apart' "$TESSERA" verify "$emoji" "$prompt" --tp 4 --no-progress

name "it is small, in shards, and made for 2 and 4 ranks"
[ "$(find "$emoji" -type f -printf '%s\n' | awk '{ n += $1 } END { print n <= 16000000 }')" = 1 ] || fail "more than 16 MB"
[ "$(find "$emoji/transformer" -name '*.safetensors' | wc -l)" -ge 2 ] || fail "not in shards"
expect 0 'Flux2Transformer2DModel, tp 4.*possible degrees: 1, 2, 4' "$TESSERA" plan "$emoji" --tp 4
finish
