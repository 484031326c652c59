#!/bin/bash
# A component's weights, streamed and whole.
. "$(dirname "$0")/lib.sh"
load=("$TESSERA" bench load "$klein/transformer" --no-progress)

name "bytes: a rank reads its part, or everything"
expect 0 '' "${load[@]}" --json
grep -Eq '"ranks": \[\{"rank": 0, "weight_bytes": 738688, "plain": \{"seconds": [^{}]*"bytes_read": 738688,[^{}]*\}, "streamed": \{[^{}]*"bytes_read": 738688,[^{}]*\}, "whole": \{[^{}]*"bytes_read": 738688,' out || fail "$(cat out)"
for kind in threads mpirun; do
    in_layout $kind 2
    expect 0 '' "${launcher[@]}" "${load[@]}" "${degrees[@]}" --json
    [ "$(grep -o '"weight_bytes": 456064, "plain": {"seconds": [^{}]*"bytes_read": 456064,[^{}]*}, "streamed": {[^{}]*"bytes_read": 456064,[^{}]*}, "whole": {[^{}]*"bytes_read": 738688' out | wc -l)" -eq 2 ] ||
        fail "$kind: $(cat out)"
done

name "peak memory: streamed about the part, whole about everything and the part"
peak() { sed -E "s/.*\"$1\": \\{[^}]*\"peak_bytes\": ([0-9]+).*/\\1/" out; }
expect 0 '' "${load[@]}" --as-rank 3 --of 4 --json
grep -q '"rank": 3, "weight_bytes": 314752,' out || fail "$(cat out)"
[ "$(peak streamed)" -ge 314752 ] && [ "$(peak streamed)" -le 600000 ] || fail "streamed: $(peak streamed)"
[ "$(peak whole)" -ge 1053440 ] || fail "whole: $(peak whole)"

name "a device with memory of its own"
expect 0 '"rank": 1, "weight_bytes": 456064, .*"whole": \{' "${load[@]}" --tp 2 --device ref --json

name "a table"
expect 0 '^ +1  streamed +[0-9.]+ s +456.06 kB' "${load[@]}" --tp 2
[ "$(grep -c 'plain read\|streamed\|whole, then cut' out)" -eq 6 ] || fail "$(cat out)"

name "what cannot be loaded"
expect 1 'degrees that work: 1, 2, 4$' "${load[@]}" --tp 3
expect 1 'no-model' "$TESSERA" bench load no-model
expect 1 'no tensor-parallel plan' "$TESSERA" bench load "$klein/vae" --tp 2
finish
