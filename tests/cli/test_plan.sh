#!/bin/bash
# What each rank would hold, from configs alone (tests/parallel/test_plan.c compares every number with diffusers').
. "$(dirname "$0")/lib.sh"
plan() { expect 0 "$1" "$TESSERA" plan "${@:2}"; }

name "a table that fits a screen: a line for all weights that differ in their block alone"
plan '^transformer: Flux2Transformer2DModel, tp 2, each rank holds and reads 456.06 kB of 738.69 kB; possible degrees: 1, 2, 4$' "$klein" --tp 2
grep -Eq '^  transformer_blocks[.][*][.]ff[.]linear_in[.]weight +2 +packed_colwise +\[320, 64\] +\[160, 64\] +\[160, 160\]$' out || fail "$(cat out)"
grep -Eq '^vae: .* rank 0 alone holds' out || fail "$(grep '^vae' out)"
[ "$(wc -l < out)" -le 50 ] || fail "$(wc -l < out) lines"
[ ! -s err ] || fail "it said: $(cat err)"
plan '^text_encoder: .* tp 2, each of the first 2 ranks holds' "$klein" --tp 4 --text-encoder-tp 2
plan '^transformer: .* rank 3 of 4 holds and reads 314.75 kB' "$klein/transformer" --as-rank 3 --of 4
plan '^text_encoder: .* rank 3 of 4 holds and reads 0 bytes' "$klein" --as-rank 3 --of 4 --text-encoder-tp 2

name "--verbose: every weight"
plan '^  transformer_blocks.1.attn.to_q.weight +1 +colwise' "$klein/transformer" --tp 2 --verbose
[ "$(grep -c '^  transformer_blocks.0.attn.' out)" -eq 12 ] || fail "$(cat out)"

name "JSON: the keys of CLI.md"
plan '"ranks": \[\{"rank": 0, "weight_bytes": 456064, "bytes_to_read": 456064\}, \{"rank": 1, ' "$klein/transformer" --tp 2 --json
[ "$(head -n 1 out)" = '{"component": "transformer", "class": "Flux2Transformer2DModel", "mesh": {"ring": 1, "ulysses": 1, "tp": 2},' ] || fail "$(head -n 1 out)"
for line in '{"name": "x_embedder.weight", "style": "replicated", "dtype": "BF16", "shape": [64, 32], "dim": null, "block_sizes": [], "local_shape": [64, 32]}' \
    '{"name": "single_transformer_blocks.1.attn.to_out.weight", "style": "packed_rowwise", "dtype": "BF16", "shape": [64, 224], "dim": 1, "block_sizes": [64, 160], "local_shape": [64, 112]}' \
    '"tp_degrees": [1, 2, 4], "problems": []}'; do
    grep -Fq "$line" out || fail "no $line in: $(cat out)"
done
[ "$(grep -c '"name": ' out)" -eq 49 ] || fail "$(grep -c '"name": ' out) weights"
plan '^\[\{"component": "text_encoder"' "$klein" --json
[ "$(grep -c '"component": ' out)" -eq 3 ] || fail "$(cat out)"
plan '"ranks": \[\{"rank": 3, "weight_bytes": 314752, "bytes_to_read": 314752\}\]' "$klein/transformer" --as-rank 3 --of 4 --json
if command -v jq > /dev/null; then
    for words in "$klein --tp 4" "$klein/transformer" "$klein/text_encoder --tp 2"; do
        "$TESSERA" plan $words --json | jq -e . > /dev/null || fail "no JSON for $words"
    done
fi

name "from a config alone; no weight is read"
mkdir -p alone && cp "$klein/transformer/config.json" alone/
plan '"weight_bytes": 456064' alone --tp 2 --json
plan '"weight_bytes": 456064' alone/config.json --tp 2 --json
if traced trace "$TESSERA" plan "$klein" --tp 2; then
    read=$(bytes_read trace 'klein/.*[.]safetensors>') headers=$(header_bytes "$klein"/*/*.safetensors)
    [ "$read" -gt 0 ] && [ "$read" -le "$headers" ] || fail "$read bytes were read; the headers have $headers"
fi

name "what has no plan, or is not there"
expect 1 'no-model' "$TESSERA" plan no-model --tp 2
expect 1 'heads, which tp 3 does not divide; degrees that work: 1, 2, 4$' "$TESSERA" plan "$klein" --tp 3
finish
