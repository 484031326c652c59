#!/bin/bash
# `tessera verify`: what is right passes, in every layout; what is wrong is found, by name and by how much.
. "$(dirname "$0")/lib.sh"
small=(-H 32 -W 32 --steps 2 --max-sequence-length 20 --no-progress)
v=("$TESSERA" verify "$klein" "a red fox" "${small[@]}")
fixtures=$source_root/tests/fixtures

# passes OUTPUTS COMMAND...: exit status 0, at least so many outputs, nothing worse than 2e-5.
passes() {
    local least=$1 compared worst
    shift
    run "$@"
    [ "$status" -eq 0 ] || { fail "exit status $status: $* : $(head -c 600 out err)"; return; }
    compared=$(sed -nE 's/^([0-9]+) outputs? at tp .*/\1/p' out)
    worst=$(sed -nE 's/^worst .*: ([^ ]+), .*/\1/p' out)
    [ "${compared:-0}" -ge "$least" ] || fail "$compared outputs: $*"
    awk "BEGIN { exit !($worst <= 2e-5) }" || fail "the worst is $worst: $*"
    echo "$compared outputs, worst $worst"
}

# json KEY: the first value of that key in out
json() { sed -nE "s/.*\"$1\": (\"[^\"]*\"|[^,}]+).*/\1/p" out | head -n 1 | tr -d '"'; }

name "the layouts of the fixture agree with one rank: submodules, latents of each step, picture"
for kind in threads mpirun; do
    in_layout $kind 2
    passes 600 "${launcher[@]}" "${v[@]}" "${degrees[@]}"
    [ "$(grep -c '^picture: [01] of 255 levels' out)" -eq 1 ] || fail "$(cat out)"
done
passes 600 "${v[@]}" --tp 4
passes 600 "${v[@]}" --tp 4 --text-encoder-tp 1 --tp-plan reference --device ref

name "two pictures of two prompts under guidance: stages of both passes; nothing of the VAE's modules"
link_model "$klein" base && ln -sfn "$klein/model_index_base.json" base/model_index.json
passes 500 "$TESSERA" verify base "a red fox" "a bowl" "${small[@]}" -n 2 --guidance-scale 4 --tp 2 --seed 1,2,3,4

name "a component on saved tensors"
guided=$fixtures/flux2_guidance
passes 70 "$TESSERA" verify "$guided/transformer" --inputs "$guided/forward.safetensors" --tp 3 --no-progress
passes 70 mpirun --oversubscribe -n 3 "$TESSERA" verify "$guided/transformer" --inputs "$guided/forward.safetensors" --tp 3
passes 90 "$TESSERA" verify "$fixtures/minimax_h3/transformer" --inputs "$fixtures/minimax_h3/forward.safetensors" --tp 4
if [ -d "$golden" ]; then
    heads=$golden/expected/flux2-6heads.safetensors
    for ranks in 2 3 6; do passes 110 "$TESSERA" verify "$golden/models/flux2-6heads/transformer" --inputs "$heads" --tp $ranks; done
    for ranks in 2 4; do passes 110 "$TESSERA" verify "$golden/models/minimax-h3/transformer" --inputs "$golden/expected/minimax-h3.safetensors" --tp $ranks; done
    for ranks in 2 4; do passes 600 "$TESSERA" verify "$golden/models/flux2-klein" "a red fox" "${small[@]}" --tp $ranks; done
    passes 1 "$TESSERA" verify "$golden/models/flux2-6heads/transformer" --inputs "$heads" --against "$heads" --tp 2
else
    echo "(golden left out: $golden is absent)"
fi

name "float32 is not exact: with no tolerance the sums over ranks depart, and it is the first of them that is named"
for kind in threads mpirun; do
    in_layout $kind 2
    expect 1 'outputs depart, first text_encoder.model.layers.0.self_attn.o_proj#0$' "${launcher[@]}" "${v[@]}" "${degrees[@]}" --device ref --atol 0 --rtol 0
    grep -Eq '^first to depart: .*o_proj#0 \[1, 20, 24\]: [0-9]+ of 480 elements, by up to ' out || fail "$(cat out)"
done

name "three plans that are wrong: each is refused with the name of the module"
all='"transformer_blocks.*.attn.to_k": "colwise", "transformer_blocks.*.attn.to_v": "colwise"'
echo '{"transformer_blocks.*.attn.to_q": "rowwise", "transformer_blocks.*.attn.to_out.0": "colwise", '"$all}" > exchanged.json
echo '{"single_transformer_blocks.*.attn.to_qkv_mlp_proj": "colwise"}' > plain.json
echo '{"transformer_blocks.*.attn.to_q": "colwise", "transformer_blocks.*.attn.add_q_proj": "colwise", '"$all"', "transformer_blocks.*.attn.add_k_proj": "colwise", "transformer_blocks.*.attn.add_v_proj": "colwise", "transformer_blocks.*.attn.to_add_out": "rowwise"}' > left_out.json
for model in "$klein" "$golden/models/flux2-klein"; do
    [ -d "$model" ] || continue
    for kind in threads mpirun; do
        in_layout $kind 2
        w=("${launcher[@]}" "$TESSERA" verify "$model" "a red fox" "${small[@]}" "${degrees[@]}" --tp-plan)
        expect 1 'transformer_blocks.0.attn.to_q \(rowwise\): its input is whole on every rank' "${w[@]}" exchanged.json
        expect 1 'single_transformer_blocks.0.attn.to_qkv_mlp_proj .*needs a packed style\?' "${w[@]}" plain.json
        expect 1 'transformer_blocks.0.attn.to_out.0 \(replicated\): its input is split over ranks' "${w[@]}" left_out.json
        grep -q . out && fail "something was compared: $(cat out)"
    done
done
expect 1 'to_q \(rowwise\): its input is whole' "$TESSERA" verify "$klein/transformer" --inputs "$fixtures/klein_expected/a64.safetensors" --tp 2 --tp-plan exchanged.json

name "against a dump: the same model agrees, all elements of every output"
g=("$TESSERA" generate "${small[@]}" --seed 0 --dtype float32 --dump-blocks -o x.png --dump)
run "${g[@]}" dump "$klein" "a red fox" --tp 2
[ "$status" -eq 0 ] || fail "$(cat err)"
for layout in "--tp 1" "--tp 2" "--tp 4"; do passes 600 "${v[@]}" --against dump $layout; done
passes 100 "$TESSERA" verify "$klein/transformer" --inputs dump/stages.safetensors --against dump/stages.safetensors --tp 2
grep -q '^tessera: ignored .* and [0-9]* more$' err || fail "$(head -c 600 err)"
run "$TESSERA" generate "${small[@]}" --seed 0 --dtype float32 -o x.png --dump stages "$klein" "a red fox"
passes 19 "${v[@]}" --against stages --tp 2
grep -Eq '^not compared: [0-9]+ outputs that stages lacks$' out || fail "$(cat out)"

# edited FILE TENSOR FIRST: with that tensor of the model changed, FIRST is the first to depart, by as much as the two
# dumps are apart.
edited() {
    copy_klein changed
    edit "changed/$1" "changed/$1" scale "$2" 1.05
    run "${g[@]}" other changed "a red fox"
    [ "$status" -eq 0 ] || fail "$(cat err)"
    run "$TESSERA_TOOLS/tessera-compare" dump/stages.safetensors other/stages.safetensors --only "$3"
    local figure
    figure=$(sed -nE 's/.*: ([^ ]+)$/\1/p' out | tail -n 1)
    expect 1 "outputs depart, first $3\$" "${v[@]}" --against other --tp 2
    grep -qF "first to depart: $3 [" out || fail "$(cat out)"
    expect 1 "first $3" "${v[@]}" --against other --tp 2 --json
    [ "$(json agrees)" = false ] && [ "$(grep -c '"agrees"' out)" -eq 1 ] || fail "$(head -c 600 out)"
    awk "BEGIN { a = $(sed -nE 's/.*"first": \{.*"figure": ([^,}]+)\}.*/\1/p' out); b = ${figure:-0}; exit !(b > 1e-3 && (a - b) ^ 2 <= (0.01 * b) ^ 2) }" ||
        fail "the figure of $3 is not $figure: $(head -c 900 out)"
}
name "against the dump of a model with one tensor changed: the module of that tensor is named"
shard=$(grep -l transformer_blocks.1.attn.to_k.weight "$klein"/transformer/*.safetensors | xargs -n 1 basename)
edited "transformer/${shard##* }" transformer_blocks.1.attn.to_k.weight 'transformer.transformer_blocks.1.attn.to_k#0'
edited text_encoder/model.safetensors model.layers.3.mlp.down_proj.weight 'text_encoder.model.layers.3.mlp.down_proj#0'
edited vae/diffusion_pytorch_model.safetensors decoder.conv_out.weight 'vae.decoder.conv_out#0'

name "NaN agrees with nothing, not even with NaN"
copy_klein nan
shard=$(grep -l transformer_blocks.1.attn.to_k.weight nan/transformer/*.safetensors)
for _ in $(seq 32); do printf '\377\177'; done | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 64)) conv=notrunc status=none
expect 1 'outputs depart, first transformer\..*, which is not finite' "$TESSERA" verify nan "a red fox" "${small[@]}" --tp 2
run "$TESSERA" generate nan "a red fox" "${small[@]}" --seed 0 -o x.png
[ "$status" -eq 0 ] && grep -q 'warning: .*latents are not finite' err || fail "$status: $(cat err)"
rm -f x.png

name "against a dump of another call: the inputs depart, or their shapes"
expect 1 'first latents_initial$|first transformer_in.hidden_states$' "${v[@]}" --against dump --seed 1
expect 1 'first ' "${v[@]}" --against dump -H 48
grep -Eq '^first to depart: .*\[.*\], expected \[' out || fail "$(cat out)"
expect 1 "holds no output of this model" "${v[@]}" --against "$fixtures/klein/vae/diffusion_pytorch_model.safetensors"
expect 1 'none/stages.safetensors|none: ' "${v[@]}" --against none --tp 2

name "what large outputs are compared by: 65536 elements of a module's, all of a stage"
expect 0 '' "$TESSERA" verify "$klein" "a red fox" -H 256 -W 256 --steps 1 --max-sequence-length 20 --no-progress --tp 2 --json
[ "$(json agrees)" = true ] && [ "$(json departed)" = 0 ] && [ "$(json against)" = null ] || fail "$(head -c 600 out)"
grep -q '"vae_out", "shape": \[1, 3, 256, 256\], "compared": 196608' out || fail "vae_out"
grep -q 'to_qkv_mlp_proj#0", "shape": \[1, 276, [0-9]*\], "compared": 65536' out || fail "to_qkv_mlp_proj"

name "usage"
expect 2 'on one rank there is nothing to compare: give --tp N, or --against DUMP' "${v[@]}"
for ranks in 1 2; do
    expect 2 'there is no prompt' "$TESSERA" verify "$klein" --tp $ranks
    expect 2 'transformer is a component: --inputs FILE is missing' "$TESSERA" verify "$klein/transformer" --tp $ranks
    expect 2 'transformer is a component: --inputs FILE is missing' "$TESSERA" verify "$klein/transformer" x --tp $ranks
    expect 2 '--steps: verify with --inputs takes no such option' "$TESSERA" verify "$klein/transformer" --inputs y --steps 3 --tp $ranks
done
expect 2 "'x' is too much" "$TESSERA" verify "$klein" x --inputs y --tp 2
for value in -1 x nan ""; do expect 2 "--atol takes a number" "${v[@]}" --tp 2 --atol "$value"; done
expect 2 'unknown option --dump' "${v[@]}" --tp 2 --dump x
expect 1 'tp 3 does not divide' "${v[@]}" --tp 3
expect 0 '65536 elements' "$TESSERA" verify --help
finish
