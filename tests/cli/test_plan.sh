#!/bin/bash
# What each rank would hold, compute and send, from configs alone. tests/parallel/test_plan.c compares every weight with
# diffusers', test_plan_forward.c the rest with a forward.
. "$(dirname "$0")/lib.sh"
plan() { expect 0 "$1" "$TESSERA" plan "${@:2}"; }

name "a table that fits a screen: a line for all weights that differ in their block alone"
plan '^transformer: Flux2Transformer2DModel, tp 2, each rank holds and reads 371.58 kB of 738.69 kB; possible degrees: 1, 2, 4$' "$klein" --tp 2
grep -Eq '^  transformer_blocks[.][*][.]ff[.]linear_in[.]weight +2 +packed_colwise +\[320, 64\] +\[160, 64\] +\[160, 160\]$' out || fail "$(cat out)"
grep -Eq '^vae: .* rank 0 alone holds' out || fail "$(grep '^vae' out)"
grep -Eq '^for 1024x1024 pixels, 512 text tokens, 1 picture of a prompt$' out || fail "$(head -n 1 out)"
grep -Eq '^  activations [0-9.]+ MB; a step: 1 pass, [0-9.]+ TFLOP a rank, sends 7[.][0-9]+ MB: 4 allreduce [(]tp[)] of 1[.]05 MB, ' out || fail "$(grep activations out)"
grep -Eq '^  whole on every rank: 4[.]48 kB, 1[.]21 % of what it holds: x_embedder[.]weight [(]4[.]10 kB[)], ' out || fail "$(grep whole out)"
grep -Eq '^memory that a rank needs, by the number of ranks: 1: [0-9.]+ MB [(]vae[)], 2: .*, 4: ' out || fail "$(tail -n 1 out)"
[ "$(wc -l < out)" -le 50 ] || fail "$(wc -l < out) lines"
[ ! -s err ] || fail "it said: $(cat err)"
plan '^text_encoder: .* tp 2, each of the first 2 ranks holds' "$klein" --tp 4 --text-encoder-tp 2
plan '^transformer: .* rank 3 of 4 holds and reads 188.03 kB' "$klein/transformer" --as-rank 3 --of 4
plan '^text_encoder: .* rank 3 of 4 holds and reads 0 bytes' "$klein" --as-rank 3 --of 4 --text-encoder-tp 2

name "--verbose: every weight"
plan '^  transformer_blocks.1.attn.to_q.weight +1 +colwise' "$klein/transformer" --tp 2 --verbose
[ "$(grep -c '^  transformer_blocks.0.attn.' out)" -eq 12 ] || fail "$(cat out)"

name "--tp-plan reference: what diffusers splits, and what it leaves whole"
plan 'each rank holds and reads 456.06 kB of 738.69 kB' "$klein/transformer" --tp 2 --tp-plan reference
grep -Eq '^  whole on every rank: 173[.]44 kB, 38[.]03 % of what it holds: double_stream_modulation_' out || fail "$(grep whole out)"
echo '{"transformer_blocks.*.ff.linear_in": "rowwise"}' > broken.json
expect 1 'transformer_blocks.0.ff.linear_in \(rowwise\): its input is whole on every rank' "$TESSERA" plan "$klein/transformer" --tp 2 --tp-plan broken.json
plan '^problem: transformer: tp 2: transformer_blocks.0.ff.linear_in ' "$klein/transformer" --tp-plan broken.json

name "another picture, other activations; guidance takes two passes"
plan '^for 48x32 pixels, 20 text tokens, 3 pictures of a prompt$' "$klein" -H 32 -W 48 --max-sequence-length 20 -n 3
[ ! -s err ] || fail "it said: $(cat err)"
plan 'height and width must be multiples of 16' "$klein" --height 40
grep -q '^for 1024x32 pixels' out || fail "$(head -n 1 out)"
link_model "$klein" base && ln -sf "$klein/model_index_base.json" base/model_index.json
plan 'a step: 2 passes, ' base --tp 2
plan '"step": \{"passes": 2, "collectives": \[\{"op": "allreduce", "axis": "tp", "count": 2, "bytes": 256\}' base --tp 2 --json

name "the memory of a rank"
plan ', of 2[.]00 MB: 1: [0-9.]+ MB too much, 2: [0-9.]+ MB fits, 4: ' "$klein/transformer" -H 256 -W 256 --max-sequence-length 64 --threads 1 --memory-per-rank 2MB
plan '^problem: transformer: rank 0 needs 2[.][0-9]+ MB [(]0[.]74 weights, .*, but has 2[.]00; ranks that would do: 2, 4$' "$klein/transformer" -H 256 -W 256 --max-sequence-length 64 --threads 1 --memory-per-rank 2MB
plan ', of 1[.]57 GB: 1: ' "$klein/transformer" --memory-per-rank 1.46GiB
plan '^problem: transformer: rank 0 needs [0-9.]+ kB .*, but has 0[.]50; no number of ranks' "$klein/transformer" --memory-per-rank 500
plan '"fits": false\}, .*"fits": true\}\],' "$klein/transformer" -H 256 -W 256 --max-sequence-length 64 --threads 1 --memory-per-rank 2000000 --json
for wrong in much 5XB -1GB 0 GB; do
    expect 2 "memory-per-rank takes a size" "$TESSERA" plan "$klein" --memory-per-rank "$wrong"
done

name "ranks that share a sequence: degrees that do not work beside them are no problems, and not possible"
plan 'ulysses 4 x tp 1, each rank holds and reads 738.69 kB of 738.69 kB; possible degrees: 1$' "$klein/transformer" --ulysses 4
plan '"tp_degrees": \[1, 2\], "problems": \[\]' "$klein/transformer" --ulysses 2 --json
plan '^vae: .* rank 0 alone holds' "$klein" --ring 2
plan '^text_encoder: .* rank 0 alone holds' "$klein" --ring 2 --text-encoder-tp 1

name "JSON: the keys of CLI.md"
plan '"ranks": \[\{"rank": 0, "weight_bytes": 371584, "activation_bytes": [0-9]+, "bytes_to_read": 371584\}, \{"rank": 1, ' "$klein/transformer" --tp 2 --json
[ "$(head -n 1 out)" = '{"component": "transformer", "class": "Flux2Transformer2DModel", "mesh": {"ring": 1, "ulysses": 1, "tp": 2},' ] || fail "$(head -n 1 out)"
for line in '{"name": "x_embedder.weight", "style": "replicated", "dtype": "BF16", "shape": [64, 32], "dim": null, "block_sizes": [], "local_shape": [64, 32]}' \
    '{"name": "single_transformer_blocks.1.attn.to_out.weight", "style": "packed_rowwise", "dtype": "BF16", "shape": [64, 224], "dim": 1, "block_sizes": [64, 160], "local_shape": [64, 112]}' \
    ' "height": 1024, "width": 1024, "max_sequence_length": 512, "num_images_per_prompt": 1,' \
    '"step": {"passes": 1, "collectives": [{"op": "allreduce", "axis": "tp", "count": 1, "bytes": 256}, {"op": "allgather", ' \
    ' "whole_bytes": 738688, "replicated_bytes": 4480,' \
    '"tp_degrees": [1, 2, 4], "problems": []}'; do
    grep -Fq "$line" out || fail "no $line in: $(cat out)"
done
[ "$(grep -c '"name": ' out)" -eq 49 ] || fail "$(grep -c '"name": ' out) weights"
plan '^\[\{"component": "text_encoder"' "$klein" --json
[ "$(grep -c '"component": ' out)" -eq 3 ] || fail "$(cat out)"
plan '"ranks": \[\{"rank": 3, "weight_bytes": 188032, "activation_bytes": [0-9]+, "bytes_to_read": 188032\}\]' "$klein/transformer" --as-rank 3 --of 4 --json
if command -v jq > /dev/null; then
    for words in "$klein --tp 4" "$klein/transformer" "$klein/text_encoder --tp 2"; do
        "$TESSERA" plan $words --json | jq -e . > /dev/null || fail "no JSON for $words"
    done
fi

name "from a config alone; no weight is read"
mkdir -p alone && cp "$klein/transformer/config.json" alone/
plan '"weight_bytes": 371584' alone --tp 2 --json
plan '"weight_bytes": 371584' alone/config.json --tp 2 --json
mkdir -p configs && for part in text_encoder transformer vae; do mkdir -p configs/$part; cp "$klein/$part/config.json" configs/$part/; done
cp "$klein/model_index.json" configs/
plan '^vae: AutoencoderKLFlux2, tp 1, rank 0 alone holds' configs --tp 2
cp "$klein/text_encoder/config.json" configs/vae/
expect 1 'configs/vae: the class is Qwen3ForCausalLM, but model_index.json says AutoencoderKLFlux2' "$TESSERA" plan configs
if traced trace "$TESSERA" plan "$klein" --tp 2; then
    read=$(bytes_read trace 'klein/.*[.]safetensors>') headers=$(header_bytes "$klein"/*/*.safetensors)
    [ "$read" -gt 0 ] && [ "$read" -le "$headers" ] || fail "$read bytes were read; the headers have $headers"
fi

name "what has no plan, or is not there"
expect 1 'no-model' "$TESSERA" plan no-model --tp 2
expect 1 'heads, which tp 3 does not divide; degrees that work: 1, 2, 4$' "$TESSERA" plan "$klein" --tp 3
finish
