#!/bin/bash
# The same picture on several ranks, as threads and as processes: every fixture case within 2e-5 of one rank and 1e-4 of
# diffusers. Case 5: fused projections are cut block by block.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
expected=$source_root/tests/fixtures/klein_expected
base_model "$klein"

# everywhere NAME MODEL EXPECTED PICTURES OPTION... PROMPT...: as klein_case, on one rank and then in each layout.
everywhere() {
    local what=$1 kind ranks i
    shift
    name "$what, one rank"
    launcher=()
    klein_case "$@"
    rm -rf one && mkdir one && mv dump case*.png one/
    for kind in threads mpirun; do
        for ranks in 2 4; do
            name "$what, $kind, $ranks ranks"
            in_layout $kind $ranks
            klein_case "$@" "${degrees[@]}"
            same dump/stages.safetensors one/dump/stages.safetensors --except image_u8 --tolerance 2e-5
            for i in case*.png; do same "$i" "one/$i" --tolerance 1; done
        done
    done
    [ "$(png_text "$i" layout)" = "tp 4" ] || fail "layout: $(png_text "$i" layout)"
}

everywhere a64 "$klein" "$expected/a64" 1 -H 64 -W 64 --steps 4 --guidance-scale 1 --max-sequence-length 32 \
    "A cat holding a sign that says hello world"
everywhere batch "$klein" "$expected/batch" 4 -H 32 -W 48 --steps 2 --guidance-scale 1 --max-sequence-length 28 -n 2 \
    "A bowl of ripe oranges" 'The word "OPEN" on a green door, 35 mm film, in the rain at night'
everywhere cfg base "$expected/cfg" 1 -H 48 -W 80 --steps 2 --guidance-scale 4 --max-sequence-length 24 \
    "A red fox beside a frozen lake"
everywhere debug32 "$klein" "$expected/debug32" 1 -H 32 -W 16 --steps 1 --guidance-scale 1 --max-sequence-length 16 "A cat"
finish
