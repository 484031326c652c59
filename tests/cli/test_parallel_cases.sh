#!/bin/bash
# Reports about ranks, retold (../shared/cases.md).
. "$(dirname "$0")/lib.sh"
size=(-H 64 -W 64 --steps 2 --seed 7 --max-sequence-length 24 --dtype float32 --no-progress)

# layouts_agree MODEL: two and four ranks draw what one rank draws, stage by stage.
layouts_agree() {
    local kind ranks
    run "$TESSERA" generate "$1" "a red fox" "${size[@]}" --dump one -o one.png
    [ "$status" -eq 0 ] || fail "$(cat err)"
    for kind in threads mpirun; do
        for ranks in 2 4; do
            in_layout $kind $ranks
            rm -rf many
            run "${launcher[@]}" "$TESSERA" generate "$1" "a red fox" "${size[@]}" "${degrees[@]}" --dump many -o many.png
            [ "$status" -eq 0 ] || fail "$kind $ranks: $(cat err)"
            same many/stages.safetensors one/stages.safetensors --except image_u8 --tolerance 2e-5
            same many.png one.png --tolerance 1
        done
    done
}

name "case 7: norms over a head see the whole head, whatever the heads' scales"
copy_klein scaled
for file in scaled/transformer/*.safetensors; do
    for pattern in norm_q norm_k norm_added_q norm_added_k; do
        edit "$file" "$file" scale "*$pattern.weight" 0.3 1.7 0.9 2.5 0.5 1.1 3 0.2
    done
    for pattern in to_q add_q_proj to_k; do edit "$file" "$file" scale "*$pattern.weight" 0.2 3 1 0.6; done
done
layouts_agree scaled
run "$TESSERA" generate "$klein" "a red fox" "${size[@]}" --dump plain -o plain.png
differ plain/stages.safetensors one/stages.safetensors --only transformer_out --tolerance 1e-2

name "case 26: text encoder and transformer split differently, and the encoder on one rank alone"
for words in "2 --text-encoder-tp 1" "4 --text-encoder-tp 2" "4 --text-encoder-tp 1"; do
    for kind in threads mpirun; do
        in_layout $kind ${words%% *}
        run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${size[@]}" --tp $words --dump many -o many.png
        [ "$status" -eq 0 ] || fail "$kind $words: $(cat err)"
        same many/stages.safetensors plain/stages.safetensors --except image_u8 --tolerance 2e-5
    done
done

name "case 29: progress from the first rank alone"
for kind in threads mpirun; do
    in_layout $kind 2
    run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" -H 32 -W 32 --steps 8 --seed 1 --max-sequence-length 20 "${degrees[@]}" -o out.png
    [ "$status" -eq 0 ] || fail "$(cat err)"
    [ "$(grep -c '^tessera: loading transformer: ' err)" -eq 1 ] || fail "$kind: $(cat err)"
    [ "$(grep -c '^tessera: denoising: step 8 of 8, ' err)" -eq 1 ] || fail "$kind: $(cat err)"
    [ "$(grep -c '^tessera: saved ' err)" -eq 1 ] || fail "$kind: $(cat err)"
    grep -q $'\r' err && fail "$kind: a carriage return in a file"
    [ "$(wc -l < err)" -le 20 ] || fail "$kind: $(cat err)"
    run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" "${degrees[@]}" --quiet -o out.png
    [ "$status" -eq 0 ] && [ ! -s err ] && [ ! -s out ] || fail "$kind, --quiet: $(cat err out)"
    run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -H 40 "${degrees[@]}" -o out.png
    [ "$(grep -c '^tessera: warning: ' err)" -eq 1 ] || fail "$kind: warnings: $(cat err)"
    "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" "${degrees[@]}" -o closed.png < /dev/null 2>&- > /dev/null ||
        fail "$kind: with stderr closed"
done

name "case 29: a transformer in many small shards, two ranks, stderr to a file and to a terminal"
cp -r "$klein" sharded
shards=$("$TESSERA_TOOLS/tessera-reshard" sharded/transformer 20000) || fail "no shards"
[ "$shards" -ge 26 ] && [ "$(ls sharded/transformer/*.safetensors | wc -l)" -eq "$shards" ] || fail "$shards shards"
eight=(generate sharded "a red fox" -H 32 -W 32 --steps 8 --seed 1 --max-sequence-length 20 --dtype float32 --tp 2)
run "$TESSERA" "${eight[@]}" -o many.png
[ "$status" -eq 0 ] || fail "$(cat err)"
grep -q $'\r' err && fail "a carriage return in a file"
[ "$(wc -l < err)" -le 20 ] || fail "$(wc -l < err) lines"
run "$TESSERA" generate "$klein" "${eight[@]:2}" --quiet -o few.png
same many.png few.png
if command -v script > /dev/null; then
    line=$(printf '%q ' "$TESSERA" "${eight[@]}" -o tty.png)
    script -qec "$line" /dev/null < /dev/null > tty.txt 2>&1 || fail "$(cat tty.txt)"
    [ "$(tr -cd '\r' < tty.txt | wc -c)" -le 200 ] || fail "a storm of carriage returns"
    same tty.png few.png
fi

name "a random seed is one for all ranks, printed once, and draws the picture again"
in_layout mpirun 2
run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${size[@]:0:6}" --max-sequence-length 20 --dtype float32 --no-progress "${degrees[@]}" -o random.png
seed=$(sed -n 's/^tessera: seed \([0-9]*\)$/\1/p' err)
run "$TESSERA" generate "$klein" "a red fox" "${size[@]:0:6}" --max-sequence-length 20 --dtype float32 --no-progress --seed "$seed" -o again.png
same random.png again.png --tolerance 1
finish
