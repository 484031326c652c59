#!/bin/bash
# Weights that are odd but good, and weights that are bad.
. "$(dirname "$0")/lib.sh"
copy_klein m
draw plain.png "$klein"
shard=m/transformer/diffusion_pytorch_model-00002-of-00003.safetensors
index=m/transformer/diffusion_pytorch_model.safetensors.index.json
good=$klein/${shard#m/}
vae=m/vae/diffusion_pytorch_model.safetensors
good_vae=$klein/${vae#m/}
size=$(stat -c %s "$good")

# With one file of m/ replaced by what is there now, then put right again.
restore() { cp "$good" "$shard"; cp "$klein/${index#m/}" "$index"; cp "$good_vae" "$vae"; chmod u+w "$shard" "$index" "$vae"; }

name "case 1: a header of any length, tensors at any byte"
for n in 0 1 2 3 4 5 6 7; do
    edit "$good" "$shard" pad $n
    draw padded.png m
    same padded.png plain.png
done
restore

name "case 2: tensors of size zero, a tensor of no dimension, names that nobody uses"
edit "$good_vae" 1.safetensors entry scaled_fp8 F8_E4M3 0 end end
edit 1.safetensors 2.safetensors entry empty F32 0,4 @decoder.conv_in.bias+0 @decoder.conv_in.bias+0
edit 2.safetensors 3.safetensors entry scalar F32 - end end+4
edit 3.safetensors "$vae" append 4
draw zero.png m
same zero.png plain.png
edit "$good_vae" "$vae" entry control F32 1 0 0
refuse 'control' m
edit "$good_vae" "$vae" entry inside F32 0,4 @decoder.conv_in.bias+2 @decoder.conv_in.bias+2
refuse 'inside' m
restore

name "case 3: a shard that is not there, a tensor that the index does not name"
rm "$shard"
refuse "$index: .*00002-of-00003.safetensors" m
restore
key=$(grep -o '"[^"]*": "diffusion_pytorch_model-00002' "$index" | sed -n '2s/": .*//p' | tr -d '"')
grep -v "\"$key\":" "$klein/${index#m/}" > "$index"
refuse "$key" m
restore
sed 's/"weight_map": {/&"no.such.weight": "diffusion_pytorch_model-00002-of-00003.safetensors",/' "$klein/${index#m/}" > "$index"
refuse 'no.such.weight' m
restore

name "case 4: too long, too short, cut in the header, three bytes, nothing: which file, what size it should have"
edit "$good" "$shard" append 2
refuse "$shard.*$size.*$((size + 2))|$shard.*$((size + 2)).*$size" m
cp err too_long
edit "$good" "$shard" truncate 6
refuse "$shard.*$size.*$((size - 6))|$shard.*$((size - 6)).*$size" m
[ "$(tr -d 0-9 < err)" = "$(tr -d 0-9 < too_long)" ] && fail "too long and too short read alike: $(cat err)"
for n in 100 8 3 0; do
    edit "$good" "$shard" keep $n
    refuse "$shard" m
done
restore

name "case 27: a Git LFS pointer; an HTML page; a pickle; a folder with .bin alone"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 251968\n' 0 > "$shard"
refuse "$shard.*Git LFS pointer" m
printf '<!DOCTYPE html>\n<html><head><title>404</title></head></html>\n' > "$shard"
refuse "$shard.*HTML" m
printf 'PK\003\004\000\000archive/data.pkl and the rest of it' > "$shard"
refuse "$shard.*(pickle|zip|PyTorch)" m
restore
rm "$vae"
printf 'PK\003\004' > m/vae/diffusion_pytorch_model.bin
refuse 'm/vae.*\.bin' m
rm m/vae/diffusion_pytorch_model.bin
restore

name "a weight that is missing is never left random"
edit "$good_vae" "$vae" drop decoder.conv_out.bias
refuse 'decoder.conv_out.bias' m
edit "$good_vae" "$vae" drop bn.running_mean
refuse 'bn.running_mean' m
restore

name "a weight of another shape, of an unknown dtype, and of a dtype that is no weight's; a name twice"
edit "$good_vae" "$vae" reshape decoder.mid_block.attentions.0.to_q.weight 8,32
refuse 'decoder.mid_block.attentions.0.to_q.weight.*(8, 32|8 x 32|\[8,32\])' m
edit "$good_vae" "$vae" dtype decoder.conv_out.bias B16
refuse 'B16' m
edit "$good_vae" "$vae" dtype decoder.conv_out.bias U16
refuse 'decoder.conv_out.bias' m
edit "$good_vae" "$vae" rename decoder.conv_out.weight decoder.conv_in.weight
refuse "$vae: .*duplicate" m
restore

name "put right again, it draws"
draw again.png m
same again.png plain.png
finish
