#!/bin/bash
# Folders and JSON files that are broken, hostile, or of a kind that Tessera does not have.
. "$(dirname "$0")/lib.sh"

# change FILE SED: a fresh copy of the pipeline in m/ with one JSON file edited
change() {
    copy_klein m
    sed -i "$2" "m/$1"
}

name "what is no pipeline folder"
refuse "$work/none: no such folder" "$work/none"
refuse 'some-org/some-model: .*hf download some-org/some-model' some-org/some-model
for part in vae transformer tokenizer; do
    refuse "$part: this is the folder of a (component|tokenizer); give that of a pipeline, which holds model_index.json" "$klein/$part"
    expect 1 "$part: this is the folder of a .*; give that of a pipeline" "$TESSERA" tokenize "$klein/$part" x
done
expect 1 'klein: this is the folder of a pipeline; give that of a tokenizer' "$TESSERA" tokenize "$klein" x --raw
for command in "forward $klein --inputs x -o result/x.safetensors" "bench load $klein" "verify $klein --inputs x --tp 2"; do
    expect 1 'klein: this is the folder of a pipeline; give that of a component, which holds config.json' "$TESSERA" $command
done
mkdir empty && refuse 'empty/model_index.json: ' empty
refuse 'not a folder' "$klein/model_index.json"

name "broken JSON"
for file in model_index.json transformer/config.json text_encoder/config.json vae/config.json \
    scheduler/scheduler_config.json tokenizer/tokenizer.json \
    transformer/diffusion_pytorch_model.safetensors.index.json; do
    copy_klein m
    head -c 40 "$klein/$file" > "m/$file"
    refuse "m/$file" m
    : > "m/$file"
    refuse "m/$file" m
done

name "deep nesting"
for file in model_index.json transformer/config.json tokenizer/tokenizer.json; do
    copy_klein m
    printf '[%.0s' {1..200000} > "m/$file"
    refuse "m/$file" m
done

name "a key twice"
change transformer/config.json '1s/{/{"num_layers": 3,/'
refuse 'transformer/config.json.*(num_layers|duplicate)' m

name "an integer that no machine holds is accepted, unless it is needed"
change transformer/config.json '1s/{/{"something_else": 1000000000000000019884624838656,/'
draw huge.png m
change transformer/config.json 's/"num_layers": 2/"num_layers": 1000000000000000019884624838656/'
refuse 'num_layers' m

name "unknown classes"
change model_index.json 's/Flux2KleinPipeline/StableDiffusionPipeline/'
refuse 'StableDiffusionPipeline.*Flux2KleinPipeline' m
change model_index.json 's/AutoencoderKLFlux2/AutoencoderKL/'
refuse '"vae" is a AutoencoderKL' m
change transformer/config.json 's/Flux2Transformer2DModel/UNet2DConditionModel/'
refuse 'UNet2DConditionModel' m
change model_index.json 's/FlowMatchEulerDiscreteScheduler/DDIMScheduler/'
refuse '"scheduler" is a DDIMScheduler' m
change model_index.json 's/Qwen2Tokenizer/T5Tokenizer/'
refuse '"tokenizer" is a T5Tokenizer' m

name "counts and sizes that overflow, ask for terabytes, or make no sense"
for edit in 's/"num_layers": 2/"num_layers": 1000000000/' 's/"num_layers": 2/"num_layers": -1/' \
    's/"attention_head_dim": 16/"attention_head_dim": 4611686018427387904/' \
    's/"num_attention_heads": 4/"num_attention_heads": 0/' \
    's/"num_attention_heads": 4/"num_attention_heads": "4"/' \
    's/"num_attention_heads": 4/"num_attention_heads": 2147483647/' \
    's/"in_channels": 32/"in_channels": -32/' 's/"mlp_ratio": 2.5/"mlp_ratio": 1e300/' \
    's/"joint_attention_dim": 72/"joint_attention_dim": 9223372036854775807/'; do
    change transformer/config.json "$edit"
    cmp -s m/transformer/config.json "$klein/transformer/config.json" && fail "no edit: $edit"
    refuse 'transformer' m
done
change transformer/config.json '/axes_dims_rope/ { n; s/4/5/; n; s/4/3/ }'
refuse 'transformer/config.json: axes_dims_rope .*even.* 16, 2 of them odd' m
for edit in 's/"vocab_size": 704/"vocab_size": 9000000000000000000/' 's/"hidden_size": 24/"hidden_size": 0/' \
    's/"num_key_value_heads": 2/"num_key_value_heads": 3/'; do
    change text_encoder/config.json "$edit"
    cmp -s m/text_encoder/config.json "$klein/text_encoder/config.json" && fail "no edit: $edit"
    refuse 'text_encoder' m
done
for edit in 's/"latent_channels": 8/"latent_channels": 8000000000/' 's/"norm_num_groups": 4/"norm_num_groups": 0/' \
    's/"norm_num_groups": 4/"norm_num_groups": 3/'; do
    change vae/config.json "$edit"
    cmp -s m/vae/config.json "$klein/vae/config.json" && fail "no edit: $edit"
    refuse 'vae' m
done

name "more memory than there is: both numbers, before a byte is read"
cat > huge.json << 'END'
{"_class_name": "Flux2Transformer2DModel", "attention_head_dim": 128, "axes_dims_rope": [32, 32, 32, 32], "eps": 1e-06,
 "guidance_embeds": false, "in_channels": 128, "joint_attention_dim": 7680, "mlp_ratio": 3.0, "num_attention_heads": 64,
 "num_layers": 900, "num_single_layers": 24, "patch_size": 1, "rope_theta": 2000, "timestep_guidance_channels": 256}
END
expect 1 'Flux2Transformer2DModel.*[0-9.]+ [MGT]i?B.*[0-9.]+ [MGT]i?B.*--force' \
    "$TESSERA" bench step --config huge.json --random-weights --no-progress --threads 1

expect 1 '[0-9.]+ [MGT]i?B.*[0-9.]+ [MGT]i?B' \
    "$TESSERA" generate "$klein" x "${tiny[@]}" -H 8192 -W 8192 -n 4000 -o result/out.png

name "what no number of ranks would help is not advised: the VAE is whole, on rank 0"
expect 1 '^tessera: error: transformer needs .*; draw smaller, split it over more ranks, or go on with --force$' "$TESSERA" generate "$klein" x "${tiny[@]}" -H 65536 -W 65536 -o result/out.png
side=$(sed -nE 's/.* transformer needs ([0-9.]+) MB .* has ([0-9.]+) MB .*/\1 \2/p' err | awk '{ print int(65536 * sqrt(0.6 * $2 / $1)) }') # there the transformer fits, but not the VAE
expect 1 '^tessera: error: vae needs .* available; draw smaller, or go on with --force$' "$TESSERA" generate "$klein" x "${tiny[@]}" -H "$side" -W "$side" -o result/out.png

name "a tokenizer of another kind"
copy_klein m
printf '%s' '{"version": "1.0", "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},' \
    '"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a"}}' > m/tokenizer/tokenizer.json
refuse 'm/tokenizer/tokenizer.json.*(WordPiece|Bert)' m
expect 1 'm/tokenizer/tokenizer.json.*(WordPiece|Bert)' "$TESSERA" tokenize m/tokenizer x --raw

name "case 27: a Git LFS pointer instead of the tokenizer, and an HTML page"
copy_klein m
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 11422654\n' 0 > m/tokenizer/tokenizer.json
refuse 'm/tokenizer/tokenizer.json.*Git LFS pointer' m
printf '<!DOCTYPE html><html><body>Not found</body></html>' > m/tokenizer/tokenizer.json
refuse 'm/tokenizer/tokenizer.json.*HTML' m

name "a missing component"
copy_klein m
rm -r m/vae
refuse 'm/vae' m
finish
