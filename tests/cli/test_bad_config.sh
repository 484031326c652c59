#!/bin/bash
# Configs that leave weights out, that ask for what Tessera does not have, or that lack what it needs.
. "$(dirname "$0")/lib.sh"
demo=$source_root/demo/emoji-klein

# change FILE SED: a fresh copy of the pipeline in m/ with one JSON file edited
change() {
    copy_klein m
    sed -i "$2" "m/$1"
    cmp -s "m/$1" "$klein/$1" && fail "no edit: $2"
}

# leaves_out N FILE SED: it draws, with one warning that names the folder and N weights, the first of them WEIGHT
leaves_out() {
    change "$2" "$3"
    draw out.png m
    [ "$(grep -c 'warning' err)" -eq 1 ] || fail "$3: not one warning: $(cat err)"
    grep -Eq "warning: .*m/${2%/*}: .* without $1 of the weights \($4" err || fail "$3: $(cat err)"
}

name "weights that the model of the config has no place for"
leaves_out 16 transformer/config.json 's/"num_layers": 2/"num_layers": 1/' 'transformer_blocks.1.*, [.]{3}\)'
leaves_out 32 transformer/config.json 's/"num_layers": 2/"num_layers": 0/' transformer_blocks.0
leaves_out 64 vae/config.json 's/"layers_per_block": 2/"layers_per_block": 0/' decoder.up_blocks.0.resnets.1
leaves_out 10 vae/config.json 's/"mid_block_add_attention": true/"mid_block_add_attention": false/' decoder.mid_block.attentions.0
leaves_out 2 vae/config.json 's/"use_post_quant_conv": true/"use_post_quant_conv": false/' 'post_quant_conv.bias, post_quant_conv.weight\)'
leaves_out 11 text_encoder/config.json 's/"num_hidden_layers": 28/"num_hidden_layers": 27/' model.layers.27

name "said once, by the first rank"
change transformer/config.json 's/"num_layers": 2/"num_layers": 1/'
draw out.png m --tp 2
[ "$(grep -c 'warning' err)" -eq 1 ] || fail "$(cat err)"

name "weights that are left out on purpose: nothing is said"
copy_klein m
encoder=text_encoder/model.safetensors
edit "$klein/$encoder" 1.safetensors entry lm_head.weight F32 0,4 end end
edit 1.safetensors m/$encoder entry model.layers.3.self_attn.rotary_emb.inv_freq F32 0 end end
for folder in m "$klein" "$demo" "$klein"/{transformer,text_encoder,vae} "$source_root"/tests/fixtures/{flux2_guidance,minimax_h3}/transformer \
    "$golden"/models/{flux2-klein,flux2/transformer,flux2/vae,flux2-6heads/transformer,minimax-h3/transformer}; do
    [ -d "$folder" ] || continue # of the golden data
    expect 0 '' "$TESSERA" plan "$folder"
    [ ! -s err ] || fail "$folder: $(cat err)"
done

# unknown WORDS FILE SED
unknown() {
    change "$2" "$3"
    refuse "m/$2: $1" m
}

name "values of keys that Tessera does not have"
unknown 'patch_size is 2; .* 1 only' transformer/config.json 's/"patch_size": 1/"patch_size": 2/'
unknown 'act_fn is "relu"; .*"silu" only' vae/config.json 's/"act_fn": "silu"/"act_fn": "relu"/'
unknown 'up_block_types holds "AttnUpDecoderBlock2D"; .*"UpDecoderBlock2D" only' vae/config.json '0,/"UpDecoderBlock2D"/s//"AttnUpDecoderBlock2D"/'
unknown 'layer_types holds "sliding_attention"; .*"full_attention" only' text_encoder/config.json '0,/"full_attention"/s//"sliding_attention"/'
unknown 'hidden_act is "gelu"' text_encoder/config.json 's/"hidden_act": "silu"/"hidden_act": "gelu"/'
unknown 'use_sliding_window is true' text_encoder/config.json 's/"use_sliding_window": false/"use_sliding_window": true/'
unknown 'rope_parameters.rope_type is "yarn"' text_encoder/config.json 's/"rope_type": "default"/"rope_type": "yarn"/'
change vae/config.json 's/"act_fn": "silu"/"act_fn": "swish"/' # another name of it
draw out.png m

name "a config without a class"
unknown 'has no _class_name' model_index.json /_class_name/d
unknown 'has no _class_name' transformer/config.json /_class_name/d
unknown 'has no _class_name \(nor architectures\)' text_encoder/config.json 's/architectures/structures/'

name "a tokenizer's pad token: that of its class where the config names none, as in transformers; else it must be a token"
unknown '.*pad_token.* must be one of the tokens' tokenizer/tokenizer_config.json 's/"pad_token": .*/"pad_token": null,/'
unknown '.*pad_token.* must be one of the tokens' tokenizer/tokenizer_config.json 's/"pad_token": .*/"pad_token": 3,/'
unknown '.*"<nope>" has no id' tokenizer/tokenizer_config.json 's/"pad_token": .*/"pad_token": "<nope>",/'
draw plain.png "$klein"
echo '{}' > m/tokenizer/tokenizer_config.json
draw empty.png m
same empty.png plain.png
rm m/tokenizer/tokenizer_config.json
draw none.png m
same none.png plain.png

name "a pipe in place of a config is not waited for"
copy_klein m
rm m/transformer/config.json
mkfifo m/transformer/config.json
refuse 'm/transformer/config.json: is a pipe' m
finish
