#!/bin/bash
# Where the picture goes, and what is in it.
. "$(dirname "$0")/lib.sh"
draw plain.png "$klein"

name "case 30: outputs that cannot be written are refused before anything is loaded"
mkdir folder.png
expect 1 'missing/out.png: .*No such file or directory' "$TESSERA" generate "$klein" x "${tiny[@]}" -o missing/out.png
expect 1 'folder.png: .*Is a directory' "$TESSERA" generate "$klein" x "${tiny[@]}" -o folder.png
expect 1 '/tmp: .*Is a directory' "$TESSERA" generate "$klein" x "${tiny[@]}" -o /tmp
expect 1 'plain.png/x.png: .*Not a directory' "$TESSERA" generate "$klein" x "${tiny[@]}" -o plain.png/x.png
expect 1 'missing/x.png' "$TESSERA" generate "$work/no-model" x "${tiny[@]}" -o missing/x.png
expect 1 'out.2.png: .*Is a directory' sh -c "mkdir out.2.png; '$TESSERA' generate '$klein' x ${tiny[*]} -n 3 -o out.png"
ls out.0.png 2> /dev/null && fail "a picture of a refused batch"
rmdir out.2.png

name "case 30: a folder without permission, or a read-only mount"
mkdir readonly
if [ "$(id -u)" -ne 0 ]; then
    chmod 555 readonly
    expect 1 'readonly/out.png: .*Permission denied' "$TESSERA" generate "$klein" x "${tiny[@]}" -o readonly/out.png
elif unshare -m mount -t tmpfs -o ro none readonly 2> /dev/null; then
    expect 1 'readonly/out.png: .*Read-only file system' unshare -m sh -c \
        "mount -t tmpfs -o ro none readonly && exec '$TESSERA' generate '$klein' x ${tiny[*]} -o readonly/out.png"
else
    echo "(left out: root, and no mount allowed)"
fi

name "case 30: /dev/full fails with the system's reason, and stays a device"
expect 1 '/dev/full: .*No space left on device' "$TESSERA" generate "$klein" x "${tiny[@]}" -o /dev/full
[ -c /dev/full ] || fail "/dev/full is no device any more"
expect 0 'saved /dev/null' "$TESSERA" generate "$klein" x "${tiny[@]}" -o /dev/null
[ -c /dev/null ] || fail "/dev/null is no device any more"

name "a dump that cannot be written does not take the picture with it"
mkdir dump
ln -s /dev/full dump/stages.safetensors
expect 1 'dump/stages.safetensors: .*No space left on device' \
    "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -o kept.png --dump dump
same kept.png plain.png

name "case 30: an existing file survives a failure, and is replaced by a success"
copy_klein m
"$TESSERA_TOOLS/tessera-safetensors-edit" "$klein/vae/diffusion_pytorch_model.safetensors" \
    m/vae/diffusion_pytorch_model.safetensors drop decoder.conv_out.bias
echo precious > old.png
expect 1 'decoder.conv_out.bias' "$TESSERA" generate m x "${tiny[@]}" -o old.png
[ "$(cat old.png)" = precious ] || fail "the old file is gone"
draw old.png "$klein"
same old.png plain.png
find . -name ".tessera-*" | grep . && fail "a file written aside is left"

name "all pictures in one: as they are from 192 pixels on, smaller ones enlarged, in a square"
run "$TESSERA" generate "$klein" x "${tiny[@]}" -H 192 -W 176 --grid grid.png -o one.png
same grid.png one.png
run "$TESSERA" generate "$klein" x "${tiny[@]}" -n 5 --grid grid.png -o five.png
[ "$(png_header grid.png)" = "592 392 8 2" ] || fail "grid of five: $(png_header grid.png)"
[ -s five.4.png ] && grep -q 'saved grid.png: all 5' err || fail "$(cat err)"
expect 1 'missing/grid.png: ' "$TESSERA" generate "$klein" x "${tiny[@]}" --grid missing/grid.png -o result/x.png

name "a grid that would replace a picture of the same run, by any spelling"
mkdir here && ln -s here link && ln -s one.png one-link.png
for grid in result/x.0.png ./result/x.0.png "$work/result/../result/x.0.png"; do
    expect 2 "-o result/x.0.png and --grid $grid would write the same file" "$TESSERA" generate "$klein" a b --grid "$grid" -o result/x.png
done
expect 2 'would write the same file' "$TESSERA" generate "$klein" a --grid link/x.png -o here/x.png
expect 2 'would write the same file' "$TESSERA" generate "$klein" a --grid one-link.png -o one.png
expect 1 'no-model: no such folder' "$TESSERA" generate "$work/no-model" a --grid /dev/null -o /dev/null

name "case 30: nothing on stdout"
run "$TESSERA" generate "$klein" x "${tiny[@]}" -o result/x.png
[ -s out ] && fail "stdout: $(cat out)"
rm -f result/x.png

name "case 23: float to byte, clamped and rounded half to even; RGB; 8 bits; nothing that changes colours"
colour() { # bias, expected
    "$TESSERA_TOOLS/tessera-safetensors-edit" "$klein/vae/diffusion_pytorch_model.safetensors" step.safetensors \
        set decoder.conv_out.weight 0
    "$TESSERA_TOOLS/tessera-safetensors-edit" step.safetensors m/vae/diffusion_pytorch_model.safetensors \
        set decoder.conv_out.bias $1
    draw colour.png m
    same colour.png --colour "$2"
}
colour "-1.2 -1 -0.999" 0,0,0
colour "0 0.0039 0.5" 128,128,191
colour "0.9999 1.3 -1" 255,255,0
colour "-1 0.5 1" 0,191,255
[ "$(png_header colour.png)" = "32 32 8 2" ] || fail "header $(png_header colour.png)"
grep -aEq 'gAMA|cHRM|sRGB|iCCP|tRNS' colour.png && fail "a chunk that changes the look"

name "case 28: blanks and other letters in paths"
far="$work/my models/klein 4B (v2) Ž'ü \"q\" %s"
mkdir -p "$far"
cp -r "$klein" "$far/model"
draw "$far/out %d.png" "$far/model/"
same "$far/out %d.png" plain.png
(cd "$far" && "$TESSERA" generate model "a red fox" "${tiny[@]}" -o "Ž.png" 2> /dev/null) || fail "relative path"
same "$far/Ž.png" plain.png
deep=$(printf 'd%.0s' {1..120})
mkdir -p "$deep/$deep/$deep"
cp -r "$klein" "$deep/$deep/$deep/model"
draw "$deep/$deep/$deep/out.png" "$deep/$deep/$deep/model"
same "$deep/$deep/$deep/out.png" plain.png
refuse "$deep/$deep/$deep/nothing: no such folder" "$deep/$deep/$deep/nothing"
expect 1 '^tessera: error: ~/x.png: ' "$TESSERA" generate "$klein" x "${tiny[@]}" -o '~/x.png'
mkdir '~'
draw '~/x.png' "$klein"
same '~/x.png' plain.png

name "a Hub name, in a cache of links to files"
mkdir -p hf/hub/models--some-org--klein/refs hf/hub/models--some-org--klein/snapshots
printf abc123 > hf/hub/models--some-org--klein/refs/main
cp -rs "$klein" hf/hub/models--some-org--klein/snapshots/abc123
expect 0 'saved hub.png' env -u HF_HUB_CACHE -u HUGGINGFACE_HUB_CACHE HF_HOME="$work/hf" \
    "$TESSERA" generate some-org/klein "a red fox" "${tiny[@]}" -o hub.png
same hub.png plain.png
expect 0 "^hf/hub/.*/abc123: Flux2KleinPipeline$" env -u HF_HUB_CACHE -u HUGGINGFACE_HUB_CACHE HF_HOME=hf "$TESSERA" inspect some-org/klein

name "case 28: a prompt is no format"
prompt='%s %d %n {} \ "quoted" '\''too'\'''
run "$TESSERA" generate "$klein" "$prompt" "${tiny[@]}" -o format.png
[ "$status" -eq 0 ] || fail "$(cat err)"
[ "$(png_text format.png prompt)" = "$prompt" ] || fail "prompt in the file: $(png_text format.png prompt)"

name "metadata, and none"
[ "$(png_text plain.png seed)" = 1 ] || fail "seed: $(png_text plain.png seed)"
[ "$(png_text plain.png steps)" = 1 ] || fail "steps: $(png_text plain.png steps)"
[ "$(png_text plain.png size)" = 32x32 ] || fail "size: $(png_text plain.png size)"
[ "$(png_text plain.png guidance)" = 1 ] || fail "guidance: $(png_text plain.png guidance)"
[ "$(png_text plain.png model)" = "$klein" ] || fail "model: $(png_text plain.png model)"
[ "$(png_text plain.png layout)" = "1 rank" ] || fail "layout: $(png_text plain.png layout)"
draw bare.png "$klein" --no-metadata
grep -aq tEXt bare.png && fail "text in spite of --no-metadata"
same bare.png plain.png

name "latents"
expect 0 'saved l.safetensors' "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" --output-type latent -o l.safetensors \
    --dump d
same d/stages.safetensors l.safetensors --pair vae_in=latents
finish
