#!/bin/bash
# ../shared/golden on several ranks: the klein cases, and a transformer of 6 heads by itself.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
need_golden
model=$golden/models/flux2-klein
expected=$golden/expected/flux2-klein_
base_model "$model"

for layout in "threads 2" "threads 4" "mpirun 2" "mpirun 4"; do
    in_layout $layout
    name "a64, $layout"
    klein_case "$model" "${expected}_a64" 1 -H 64 -W 64 --steps 4 --guidance-scale 1 --max-sequence-length 64 \
        "A cat holding a sign that says hello world" "${degrees[@]}"
    name "base_cfg_96x64, $layout"
    klein_case base "${expected}_base_cfg_96x64" 1 -H 96 -W 64 --steps 3 --guidance-scale 4 --max-sequence-length 48 \
        "A red fox sleeps beside a frozen lake" "${degrees[@]}"
    name "batch2, $layout"
    klein_case "$model" "${expected}_batch2" 2 -H 48 -W 64 --steps 2 --guidance-scale 1 --max-sequence-length 40 \
        "A bowl of ripe oranges" "Watercolour painting of a quiet village street in the rain" "${degrees[@]}"
    name "odd_48x80, $layout"
    klein_case "$model" "${expected}_odd_48x80" 1 -H 48 -W 80 --steps 2 --guidance-scale 1 \
        'The word "OPEN" is painted in white letters on a green door.' "${degrees[@]}"
done

heads=$golden/models/flux2-6heads/transformer
inputs=$golden/expected/flux2-6heads.safetensors
run "$TESSERA" forward "$heads" --inputs "$inputs" -o one.safetensors
for layout in "threads 2" "threads 3" "threads 6" "mpirun 2" "mpirun 3"; do
    name "6 heads, $layout"
    in_layout $layout
    expect 0 'saved heads.safetensors' "${launcher[@]}" "$TESSERA" forward "$heads" --inputs "$inputs" "${degrees[@]}" -o heads.safetensors
    same heads.safetensors "$inputs" --only transformer_out --tolerance 1e-4
    same heads.safetensors one.safetensors --tolerance 2e-5
done

name "6 heads cannot be shared by 4 ranks: one message that lists those that can, and no weight is read"
for kind in threads mpirun; do
    in_layout $kind 4
    expect 1 '6 attention heads.*tp 4.*: 1, 2, 3, 6$' "${launcher[@]}" "$TESSERA" forward "$heads" --inputs "$inputs" "${degrees[@]}" -o result/x.safetensors
done
if traced trace "$TESSERA" forward "$heads" --inputs "$inputs" --tp 4 -o result/x.safetensors; then
    read=$(bytes_read trace diffusion_pytorch_model.*safetensors) headers=$(header_bytes "$heads"/*.safetensors)
    [ "$status" -eq 1 ] && [ "$read" -gt 0 ] && [ "$read" -le $((4 * headers)) ] || fail "$read bytes were read; headers have $headers"
fi
finish
