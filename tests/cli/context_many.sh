#!/bin/bash
# Many runs in a row, without a hang. Sourced after lib.sh, klein_case.sh and context.sh.
# many_contexts KIND RUNS: of the small pipeline, in one layout after the other, plain and with any lengths in turn; of
# the model that makes two passes in every second round of the layouts.
many_contexts() {
    local model=$klein how=plain size=(-H 64 -W 64) i
    base_model "$klein"
    for model in "$klein" base; do
        for how in plain anything; do
            [ $how = plain ] && size=(-H 64 -W 64) || size=(-H 48 -W 80)
            run "$TESSERA" generate $model "a red fox" "${tiny[@]}" "${size[@]}" --guidance-scale 3 -o "one-$(basename $model)-$how.png"
            [ "$status" -eq 0 ] || fail "$(cat err)"
        done
    done
    name "$2 runs, $1"
    for i in $(seq 0 $(($2 - 1))); do
        layout=${contexts[$((i % ${#contexts[@]}))]}
        [ $((i % 2)) -eq 0 ] && how=plain size=(-H 64 -W 64) || { how=anything size=(-H 48 -W 80); }
        [ $((i / ${#contexts[@]} % 2)) -eq 0 ] && model=$klein || model=base
        in_context "$1" "$layout" $how
        run timeout 60 "${launcher[@]}" "$TESSERA" generate $model "a red fox" "${tiny[@]}" "${size[@]}" --guidance-scale 3 "${degrees[@]}" -o run.png
        [ "$status" -eq 0 ] || fail "run $i, $layout: exit status $status: $(cat err)"
        same run.png "one-$(basename $model)-$how.png" --tolerance 1
        [ $failures -eq 0 ] || return
    done
}
