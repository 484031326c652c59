#!/bin/bash
# What lies in a file or folder.
. "$(dirname "$0")/lib.sh"
inspect() { expect 0 "$1" "$TESSERA" inspect "${@:2}"; }

name "a file"
inspect '^decoder.conv_out.bias +BF16 +\[3\] +6 +diffusion_pytorch_model.safetensors$' "$klein/vae/diffusion_pytorch_model.safetensors"
grep -q '249 tensors' out || fail "$(head -1 out)"

name "a component: config and tensors, over all shards"
inspect 'Flux2Transformer2DModel, 49 tensors, 369344 parameters, 738.69 kB, tensor parallel: degrees 1, 2, 4$' "$klein/transformer"
grep -q '"joint_attention_dim": 72' out || fail "no config"
grep -q '00003-of-00003.safetensors$' out || fail "no shard 3"

name "a pipeline, a tokenizer, a config alone"
inspect '^text_encoder +Qwen3ForCausalLM, 310 tensors' "$klein"
grep -Eq '^tokenizer +Qwen2Tokenizer, 686 tokens, padding 660$' out || fail "$(cat out)"
grep -Eq '^scheduler +FlowMatchEulerDiscreteScheduler, no weights$' out || fail "$(cat out)"
inspect 'Qwen2Tokenizer, 686 tokens' "$klein/tokenizer"
inspect 'FlowMatchEulerDiscreteScheduler, no weights' "$klein/scheduler"

name "a class without a plan says nothing of degrees"
inspect 'AutoencoderKLFlux2, 249 tensors, [0-9]+ parameters, [0-9.]+ kB$' "$klein/vae"

name "JSON"
inspect '"class": "Flux2Transformer2DModel", "config": \{' "$klein/transformer" --json
grep -q '"tp_degrees": \[1, 2, 4\]' out || fail "no degrees"
inspect '"components": \[\{"name": "scheduler", ' "$klein" --json
inspect '\{"name": "decoder.conv_out.bias", "dtype": "BF16", "shape": \[3\], "bytes": 6, "file": "' "$klein/vae" --json
inspect '"vocab_size": 686, "pad_id": 660' "$klein/tokenizer" --json
odd="$work/a \"b\" \\ Ž"$'\n'
cp -r "$klein/vae" "$odd"
inspect '"path": ".*a \\"b\\" \\\\ Ž\\u000a"' "$odd" --json
if command -v jq > /dev/null; then
    for path in "$klein" "$klein/transformer" "$klein/tokenizer" "$klein/scheduler" "$odd"; do
        "$TESSERA" inspect "$path" --json | jq -e . > /dev/null || fail "no JSON for $path"
    done
fi

name "what cannot be inspected"
expect 1 "$work/none" "$TESSERA" inspect "$work/none"
mkdir empty broken
expect 1 'empty' "$TESSERA" inspect empty
printf '{"a": ' > broken/config.json
expect 1 'broken/config.json: this is no JSON object' "$TESSERA" inspect broken
expect 1 'model_index.json: is not a safetensors file, but JSON' "$TESSERA" inspect "$klein/model_index.json"
printf '\x89PNG\r\n\x1a\n............' > demo.png

expect 1 'demo.png: is a PNG picture' "$TESSERA" inspect "$work/demo.png"

name "a broken component does not hide the others"
copy_klein m
: > m/vae/diffusion_pytorch_model.safetensors
inspect '^vae +cannot be opened: ' m
grep -q '^transformer ' out || fail "the transformer is hidden"
inspect '"name": "vae", "path": "m/vae", "problem": "' m --json
finish
