#!/bin/bash
# A step without a checkpoint.
. "$(dirname "$0")/lib.sh"
step=("$TESSERA" bench step --config "$klein/transformer" --random-weights --tokens 16 --text-tokens 8 --repeats 1 --no-progress)

name "a table, and JSON with the same numbers by name"
expect 0 'ratio|yardstick' "${step[@]}"
grep -q '^weights  *738.69 kB$' out || fail "weights: $(cat out)"
expect 0 '"ratio": [0-9.e+-]+\}$' "${step[@]}" --json
for key in device dtype weights tokens text_tokens weight_bytes activation_bytes peak_resident_bytes flops seconds gflops \
    yardstick_gflops; do
    grep -q "\"$key\": " out || fail "no $key in: $(cat out)"
done
grep -q '"weight_bytes": 738688,' out || fail "weight bytes: $(cat out)"

name "fewer blocks, and float32 weights"
expect 0 '"weights": "float32", .*"weight_bytes": [0-9]+' "${step[@]}" --num-layers 1 --num-single-layers=0 --weights float32 --json

name "what is no transformer"
expect 1 'AutoencoderKLFlux2' "$TESSERA" bench step --config "$klein/vae/config.json" --random-weights --no-progress
expect 1 'none/config.json' "$TESSERA" bench step --config none/config.json --random-weights --no-progress
finish
