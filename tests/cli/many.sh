#!/bin/bash
# Many runs in a row, without a hang. Sourced after lib.sh.
# many RUNS: of the small pipeline on 4 ranks, as threads and as processes, text encoder and transformer both split
# (2 key/value heads, 4 ranks), with a second text pass for every second picture: cases 25 and 26.
many() {
    local kind i
    base_model "$klein"
    for model in "$klein" base; do
        launcher=()
        run "$TESSERA" generate "$model" "a red fox" "${tiny[@]}" --guidance-scale 3 -o "one-$(basename "$model").png"
        [ "$status" -eq 0 ] || fail "$(cat err)"
    done
    for kind in threads mpirun; do
        name "$1 runs, $kind, 4 ranks"
        in_layout $kind 4
        for i in $(seq "$1"); do
            model=$klein
            [ $((i % 2)) -eq 0 ] && model=base
            run timeout 60 "${launcher[@]}" "$TESSERA" generate "$model" "a red fox" "${tiny[@]}" --guidance-scale 3 "${degrees[@]}" -o run.png
            [ "$status" -eq 0 ] || fail "run $i: exit status $status: $(cat err)"
            same run.png "one-$(basename "$model").png" --tolerance 1
            [ $failures -eq 0 ] || return
        done
    done
}
