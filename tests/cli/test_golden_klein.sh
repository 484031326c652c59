#!/bin/bash
# Every FLUX.2 [klein] case of ../shared/golden through the command.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
need_golden
model=$golden/models/flux2-klein
expected=$golden/expected/flux2-klein_

name "flux2-klein__a64, with every submodule"
klein_case "$model" "${expected}_a64" 1 -H 64 -W 64 --steps 4 --guidance-scale 1 --max-sequence-length 64 --dump-blocks \
    "A cat holding a sign that says hello world"
same dump/stages.safetensors "${expected}_a64.debug.safetensors" --tolerance 1e-4
tail -n 1 compared

name "flux2-klein__base_cfg_96x64"
base_model "$model"
klein_case base "${expected}_base_cfg_96x64" 1 -H 96 -W 64 --steps 3 --guidance-scale 4 --max-sequence-length 48 \
    "A red fox sleeps beside a frozen lake"

name "flux2-klein__batch2"
klein_case "$model" "${expected}_batch2" 2 -H 48 -W 64 --steps 2 --guidance-scale 1 --max-sequence-length 40 \
    "A bowl of ripe oranges" "Watercolour painting of a quiet village street in the rain"

name "flux2-klein__odd_48x80"
klein_case "$model" "${expected}_odd_48x80" 1 -H 48 -W 80 --steps 2 --guidance-scale 1 \
    'The word "OPEN" is painted in white letters on a green door.'

name "flux2-klein__bf16_noise: the initial latents of every row, bit for bit (case 18)"
for size in 64x64 48x80 96x64; do
    for seed in 42 0 9223372036854775807; do
        run "$TESSERA" generate "$model" x -H ${size%x*} -W ${size#*x} --steps 1 --max-sequence-length 16 --seed $seed \
            --dtype bfloat16 --dump noise --output-type latent -o noise.safetensors
        [ "$status" -eq 0 ] || fail "$(cat err)"
        same noise/stages.safetensors "${expected}_bf16_noise.safetensors" --exact "latents_*" \
            --pair "latents_initial=latents_${size}_seed$seed"
    done
done
finish
