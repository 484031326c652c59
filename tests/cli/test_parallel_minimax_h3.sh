#!/bin/bash
# MiniMax-H3, a transformer with two outputs and weights of two dtypes: on one rank and on several, planned, measured.
. "$(dirname "$0")/lib.sh"
own=$source_root/tests/fixtures/minimax_h3

# check WHAT MODEL FILE: in every layout, against diffusers and against one rank.
check() {
    local what=$1 model=$2 inputs=$3 layout
    name "$what, one rank"
    expect 0 'ignored .no arguments of MiniMaxH3Transformer3DModel.: .*sample' "$TESSERA" forward "$model" --inputs "$inputs" -o one.safetensors
    same one.safetensors "$inputs" --only 'sample,audio_sample' --tolerance 1e-4
    for layout in "threads 2" "threads 4" "mpirun 2"; do
        name "$what, $layout"
        in_layout $layout
        expect 0 'saved several.safetensors' "${launcher[@]}" "$TESSERA" forward "$model" --inputs "$inputs" "${degrees[@]}" -o several.safetensors
        same several.safetensors "$inputs" --only 'sample,audio_sample' --tolerance 1e-4
        same several.safetensors one.safetensors --tolerance 2e-5
    done
    for layout in "--ring 2" "--ring 2 --rotate-method alltoall" "--ulysses 2" "--ring 2 --ulysses 2" "--ring 3 --rotate-method alltoall" \
        "--ulysses 3" "--tp 2 --ring 2" "--tp 2 --ring 2 --ulysses 2"; do
        name "$what, $layout, any number of rows"
        split=($layout)
        [[ $layout == *ring* ]] && split+=(--ring-anything)
        [[ $layout == *ulysses* ]] && split+=(--ulysses-anything)
        expect 0 'saved several.safetensors' "$TESSERA" forward "$model" --inputs "$inputs" "${split[@]}" -o several.safetensors
        same several.safetensors "$inputs" --only 'sample,audio_sample' --tolerance 1e-4
        same several.safetensors one.safetensors --tolerance 2e-5
    done
}

check fixture "$own/transformer" "$own/forward.safetensors"
if [ -d "$golden/models/minimax-h3" ]; then
    check golden "$golden/models/minimax-h3/transformer" "$golden/expected/minimax-h3.safetensors"
else
    echo "(left out: $golden is absent)"
fi

name "a degree that does not divide the heads"
expect 1 'MiniMaxH3Transformer3DModel has 4 attention heads, which tp 3 does not divide; degrees that work: 1, 2, 4$' \
    "$TESSERA" forward "$own/transformer" --inputs "$own/forward.safetensors" --tp 3 -o result/x.safetensors

name "a sequence whose rows do not divide"
expect 1 'output 0 of rope: .* tokens do not divide over 4 ranks .ring 4 x ulysses 1.; ring_anything .--ring-anything. allows that$' \
    "$TESSERA" forward "$own/transformer" --inputs "$own/forward.safetensors" --ring 4 -o result/x.safetensors

name "every submodule with a split sequence"
expect 0 '^[0-9]+ outputs at ring 2 x tp 2 against one rank' "$TESSERA" verify "$own/transformer" --inputs "$own/forward.safetensors" --ring 2 --tp 2 \
    --ring-anything --quiet

name "inspect and plan"
expect 0 'MiniMaxH3Transformer3DModel, 62 tensors, .* tensor parallel: degrees 1, 2, 4$' "$TESSERA" inspect "$own/transformer"
expect 0 '^  transformer_blocks[.][*][.]ff[.]net[.]0[.]proj[.]weight +2 +packed_colwise +\[72, 28\] +\[36, 28\] +\[36, 36\]$' "$TESSERA" plan "$own/transformer" --tp 2
grep -Eq '^  token_refiner[.]refiner_blocks[.][*][.]attn[.]to_out[.]0[.]weight +2 +rowwise +\[28, 64\] +\[28, 32\]' out || fail "$(cat out)"
echo '{"_class_name": "MiniMaxH3Transformer3DModel"}' > config.json
expect 0 'tp 8, each rank holds and reads .* of 66[.]25 GB; possible degrees: 1, 2, 4, 7, 8, 14$' "$TESSERA" plan config.json --tp 8

name "a step without a checkpoint"
expect 0 '"text_tokens": 8, .*"ratio": ' "$TESSERA" bench step --config "$own/transformer" --random-weights --tokens 16 \
    --text-tokens 8 --repeats 1 --num-layers 1 --no-progress --json
finish
