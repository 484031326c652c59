#!/bin/bash
# The klein cases of ../shared/golden for context.sh. Text and image tokens of the first three divide over 2 and 4 ranks,
# the 15 image tokens of the last over none. Sourced after lib.sh, klein_case.sh and context.sh.
need_golden
model=$golden/models/flux2-klein
expected=$golden/expected/flux2-klein_
base_model "$model"
case_a64=("$model" "${expected}_a64" 1 -H 64 -W 64 --steps 4 --guidance-scale 1 --max-sequence-length 64
    "A cat holding a sign that says hello world")
case_base_cfg=(base "${expected}_base_cfg_96x64" 1 -H 96 -W 64 --steps 3 --guidance-scale 4 --max-sequence-length 48
    "A red fox sleeps beside a frozen lake")
case_batch2=("$model" "${expected}_batch2" 2 -H 48 -W 64 --steps 2 --guidance-scale 1 --max-sequence-length 40
    "A bowl of ripe oranges" "Watercolour painting of a quiet village street in the rain")
case_odd=("$model" "${expected}_odd_48x80" 1 -H 48 -W 80 --steps 2 --guidance-scale 1
    'The word "OPEN" is painted in white letters on a green door.')
for case in a64 base_cfg batch2 odd; do alone $case; done
