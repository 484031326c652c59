#!/bin/bash
# A component's weights, streamed and whole.
. "$(dirname "$0")/lib.sh"
load=("$TESSERA" bench load "$klein/transformer" --no-progress --repeats 1)

name "bytes: a rank reads its part, or everything"
expect 0 '' "${load[@]}" --json
grep -Eq '"ranks": \[\{"rank": 0, "weight_bytes": 738688, "plain": \{"seconds": [^{}]*"bytes_read": 738688,[^{}]*\}, "streamed": \{[^{}]*"bytes_read": 738688,[^{}]*\}, "whole": \{[^{}]*"bytes_read": 738688,' out || fail "$(cat out)"
for kind in threads mpirun; do
    in_layout $kind 2
    expect 0 '' "${launcher[@]}" "${load[@]}" "${degrees[@]}" --json
    [ "$(grep -o '"weight_bytes": 371584, "plain": {"seconds": [^{}]*"bytes_read": 371584,[^{}]*}, "streamed": {[^{}]*"bytes_read": 371584,[^{}]*}, "whole": {[^{}]*"bytes_read": 738688' out | wc -l)" -eq 2 ] ||
        fail "$kind: $(cat out)"
    [ "$(grep -o '"streamed": {"seconds": [0-9.e-]*' out | sort -u | wc -l)" -eq 1 ] ||
        fail "$kind: the time is not that of the slowest rank: $(cat out)"
done

# value WAY FIELD: of the first rank, from JSON.
value() { sed -E "s/.*\"$1\": \\{[^}]*\"$2\": ([0-9.e+-]+).*/\\1/" out; }

name "peak memory: streamed about the part, whole about everything"
expect 0 '' "${load[@]}" --as-rank 3 --of 4 --json
grep -q '"rank": 3, "weight_bytes": 188032,' out || fail "$(cat out)"
[ "$(value streamed peak_bytes)" -ge 188032 ] && [ "$(value streamed peak_bytes)" -le 600000 ] || fail "streamed: $(cat out)"
[ "$(value whole peak_bytes)" -gt 738688 ] || fail "whole: $(cat out)"
for way in plain streamed whole; do
    [ "$(value $way beyond_bytes)" -eq $(($(value $way peak_bytes) - 188032)) ] || fail "$way, beyond: $(cat out)"
    [ "$(value $way peak_resident_bytes)" -ge 188032 ] || fail "$way, resident: $(cat out)"
    awk "BEGIN { r = $(value $way seconds) / $(value plain seconds); exit !(r - $(value $way ratio) < 1e-4 * r && $(value $way ratio) - r < 1e-4 * r) }" ||
        fail "$way: the ratio is not its time over the plain read's: $(cat out)"
done

name "modes, repeats and the page cache"
expect 0 '"page_cache": "warm", "repeats": 1, .*"streamed": \{.*"whole": null' "${load[@]}" --mode streamed --json
expect 0 '"plain": \{.*"streamed": null, "whole": \{' "${load[@]}" --mode whole --json
expect 0 '"streamed": \{.*"whole": \{' "${load[@]}" --mode both --json
expect 0 '"page_cache": "cold", "repeats": 3, ' "${load[@]}" --cold --repeats 3 --json
expect 0 '"repeats": 5, ' "$TESSERA" bench load "$klein/transformer" --no-progress --json

name "a device with memory of its own"
expect 0 '"rank": 1, "weight_bytes": 371584, .*"whole": \{' "${load[@]}" --tp 2 --device ref --json

name "a table"
expect 0 '^ +1  streamed +[0-9.]+ s +[0-9.]+ +371.58 kB' "${load[@]}" --tp 2
[ "$(grep -cE '^ +[01]  (plain read|streamed|whole, then cut) ' out)" -eq 6 ] || fail "$(cat out)"
expect 0 'page cache dropped before each, the best of 1' "${load[@]}" --cold --mode whole
[ "$(grep -cE '^ +0  (plain read|whole, then cut) ' out)" -eq 2 ] && ! grep -q '  streamed ' out || fail "$(cat out)"

name "what cannot be loaded, or asked for"
expect 1 'degrees that work: 1, 2, 4$' "${load[@]}" --tp 3
expect 1 'no-model' "$TESSERA" bench load no-model
expect 1 'no tensor-parallel plan' "$TESSERA" bench load "$klein/vae" --tp 2
expect 2 '--mode takes streamed\|whole\|both' "${load[@]}" --mode fast
expect 2 '--repeats takes a whole number from 1' "${load[@]}" --repeats 0
expect 2 '--cold: bench step takes no such option' "$TESSERA" bench step --config "$klein/transformer" --random-weights --cold
finish
