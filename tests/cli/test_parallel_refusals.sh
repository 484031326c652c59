#!/bin/bash
# Degrees that cannot be: one message from one rank, nothing read, nothing left behind.
. "$(dirname "$0")/lib.sh"
# asked PATTERN RANKS OPTION...: a drawing under mpirun that must be refused.
asked() {
    expect 1 "$1" mpirun --oversubscribe -n "$2" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -o result/out.png "${@:3}"
}

name "case 24: ranks and degrees disagree: world size, each degree, the product, an example"
asked 'started 4 ranks, but the degrees make 2: ring 1 x ulysses 1 x tp 2; for example: mpirun -n 2 tessera generate .* --tp 2$' 4 --tp 2
asked 'started 2 ranks, but the degrees make 4: .* tp 4; for example: mpirun -n 4 tessera generate .* --tp 4$' 2 --tp 4
asked 'started 1 rank, but the degrees make 2' 1 --tp 2
asked 'started 2 ranks, but the degrees make 1: .* for example: mpirun -n 2 tessera generate .* --tp 2$' 2
expect 1 'started 2 ranks, but .* mpirun -n 4 tessera forward' mpirun -n 2 "$TESSERA" forward "$klein/transformer" --inputs x -o result/x.safetensors --mesh tp=4

name "case 24: without a launcher the ranks are threads"
draw threads.png "$klein" --tp 2
draw one.png "$klein"
same threads.png one.png --tolerance 1
draw mesh.png "$klein" --mesh ring=1,ulysses=1,tp=2 --text-encoder-tp 1
same mesh.png one.png --tolerance 1

name "case 24: wrong usage under mpirun: one message"
for words in "--tp 0" "--tp -1" "--tp x" "--ring 0" "--mesh tp=2,tp=3" "--no-such-option"; do
    run mpirun -n 2 "$TESSERA" generate "$klein" "a red fox" $words -o result/out.png
    [ "$status" -eq 2 ] || fail "exit status $status: $words"
    [ "$(grep -c '^tessera: error: ' err)" -eq 1 ] || fail "messages: $(cat err)"
done

name "case 8: heads that do not divide, before a weight is read"
refuse '4 attention heads, which tp 3 does not divide; degrees that work: 1, 2, 4$' "$klein" --tp 3
refuse '4 attention heads, which tp 5 does not divide' "$klein" --tp 5
asked '4 attention heads, which tp 3 does not divide; degrees that work: 1, 2, 4$' 3 --tp 3
if traced trace "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" --tp 3 -o result/out.png; then
    read=$(bytes_read trace 'klein/.*[.]safetensors>') headers=$(header_bytes "$klein"/*/*.safetensors)
    [ "$read" -gt 0 ] && [ "$read" -le $((3 * headers)) ] || fail "$read bytes were read; the headers have $headers"
fi

name "case 8: heads that divide, but an MLP width that does not"
copy_klein odd
sed -i 's/"mlp_ratio": [0-9.]*/"mlp_ratio": 2.515625/' odd/transformer/config.json # 161 instead of 160
grep -q 2.515625 odd/transformer/config.json || fail "no mlp_ratio: $(cat odd/transformer/config.json)"
mkdir config && cp odd/transformer/config.json config/
expect 1 'packed_colwise.* has a block of 161, which tp 2 does not divide; degrees that work: 1$' "$TESSERA" plan config --tp 2

name "case 24: a text encoder has its own degree"
asked 'Qwen3ForCausalLM .*tp 3 .*: 1, 2, 4$' 4 --tp 4 --text-encoder-tp 3

name "what diffusers loads and Tessera does not: named by the folder that asks for it, no weight read"
copy_klein asks
# asks_for FOLDER FILE WORDS: refused, on one rank and on two, and only headers were read.
asks_for() {
    echo '{}' > "$1/$2"
    refuse "$3" asks --tp 2
    expect 1 "$3" mpirun --oversubscribe -n 2 "$TESSERA" generate asks "a red fox" "${tiny[@]}" -o result/out.png --tp 2
    if traced trace "$TESSERA" generate asks "a red fox" "${tiny[@]}" --tp 2 -o result/out.png; then
        [ "$(bytes_read trace 'asks/.*[.]safetensors>')" -le $((2 * $(header_bytes asks/*/*.safetensors))) ] || fail "weights were read"
    fi
    rm "$1/$2"
}
asks_for asks/transformer adapter_config.json 'LoRA adapters.*adapter_config.json'
asks_for asks/text_encoder adapter_config.json 'LoRA adapters'
mv asks/model_index.json index
asks_for asks pytorch_lora_weights.safetensors 'LoRA adapters.*pytorch_lora_weights'
asks_for asks model.flashpack 'flashpack'
mv index asks/model_index.json
sed -i 's/{/{"quantization_config": {"quant_method": "bitsandbytes"},/' asks/transformer/config.json
refuse 'quantization_config' asks --tp 2
for shard in asks/vae/*.safetensors; do mv "$shard" "${shard%.safetensors}.bin"; done
cp "$klein/transformer/config.json" asks/transformer/
refuse 'pickle' asks --tp 2
for option in --device-map=auto --offload --low-cpu-mem-usage=false --lora=x --flashpack --quantization=int8; do
    expect 2 "${option%%=*}: " "$TESSERA" generate "$klein" "a red fox" $option --tp 2
done

name "plans of the caller's own: broken ones are refused, with the file and what is wrong"
# plan TEXT WORDS
plan() {
    echo "$1" > plan.json
    refuse "$2" "$klein" --tp 2 --tp-plan plan.json
}
plan '{"transformer_blocks.*.attn.to_q": "colwize"}' 'plan.json: "transformer_blocks.*.attn.to_q" has the unknown style "colwize"'
plan '{"transformer_blocks.*.ff.linear_in": "packed_colwise"}' 'plan.json: .*needs a list of blocks'
plan '{"transformer_blocks.*.attn.to_q": {"colwise": [1]}}' 'plan.json: .*only packed styles have blocks'
plan '{"transformer_blocks.*.ff.linear_in": {"packed_colwise": [1, -1]}}' 'plan.json: block 1 of'
plan '{"transformer_blocks.*.attn.to_x": "colwise"}' 'matches no module'
plan '{"*.*.attn.to_q": "colwise"}' 'one "\*" only'
plan '{}' 'plan.json: .*has none'
plan '[]' 'plan.json: '
refuse 'no-plan.json: ' "$klein" --tp 2 --tp-plan no-plan.json

name "a class without a plan, by itself"
expect 1 'AutoencoderKLFlux2 has no tensor-parallel plan; classes that have one: .*Flux2Transformer2DModel' "$TESSERA" plan "$klein/vae" --tp 2

name "what one rank alone meets is told once, and ends all"
expect 1 'missing/out.png: ' mpirun -n 2 "$TESSERA" generate "$klein" "a red fox" --tp 2 "${tiny[@]}" -o missing/out.png
expect 1 'missing/out.png: ' "$TESSERA" generate "$klein" "a red fox" --tp 2 "${tiny[@]}" -o missing/out.png
expect 1 'no-model: no such folder' mpirun -n 2 "$TESSERA" generate no-model "a red fox" --tp 2 -o result/out.png
edit "$source_root/tests/fixtures/flux2_guidance/forward.safetensors" twice.safetensors rename transformer_in.guidance in.timestep
copy_klein broken
truncate -s 1000 broken/transformer/diffusion_pytorch_model-00002-of-*.safetensors
for kind in threads mpirun; do
    in_layout $kind 2
    expect 1 'diffusion_pytorch_model-00002' "${launcher[@]}" "$TESSERA" generate broken "a red fox" --tp 2 "${tiny[@]}" -o result/out.png
    expect 1 "'timestep' is there twice" "${launcher[@]}" "$TESSERA" forward "$klein/transformer" --tp 2 --inputs twice.safetensors -o result/x.safetensors
done

name "commands that need no ranks are done by one of them"
for words in --version "inspect $klein" "plan $klein --threads 1" "generate --help" "tokenize $klein fox"; do
    run mpirun -n 2 "$TESSERA" $words
    mv out two
    run "$TESSERA" $words
    [ "$status" -eq 0 ] && cmp <(sort two | grep -v '^cpu:') <(sort out | grep -v '^cpu:') || fail "$words"
done
finish
