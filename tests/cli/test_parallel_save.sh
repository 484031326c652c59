#!/bin/bash
# tessera save: a split model back as a diffusers folder; killed or failing in the middle, the old folder is whole.
# Every save waits for the disk many times, so the test uses one in memory where there is.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/lib.sh"
shards=(--max-shard-size 100KB --no-progress)
save=("$TESSERA" save)

digest() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }
# alone FOLDER: nothing but it is left of its saves.
alone() { ! ls -d "$1".tmp-* 2> /dev/null || { fail "left behind beside $1"; rm -rf "$1".tmp-*; }; }
# rest FOLDER: its files that are no weights, with their digests.
rest() { (cd "$1" && find . -type f ! -name '*.safetensors' ! -name '*.safetensors.index.json' -print0 | sort -z | xargs -0 sha256sum); }

# pictures MODEL: what it draws on 1 and 4 ranks is what MODEL's original draws on one.
pictures() {
    draw one.png "$2"
    draw tp1.png "$1"
    draw tp4.png "$1" --tp 4
    same tp1.png one.png
    same tp4.png one.png --tolerance 1
}

name "a pipeline on one rank, on threads and on processes: the same folder"
expect 0 '^tessera: saved one$' "${save[@]}" "$klein" -o one "${shards[@]}"
for layout in "threads 2" "threads 4" "mpirun 2" "mpirun 4"; do
    in_layout $layout
    expect 0 '^tessera: saved many/$' "${launcher[@]}" "${save[@]}" "$klein/" -o many/ "${degrees[@]}" "${shards[@]}"
    diff -r one many > differences || fail "$layout: $(head -n 5 differences)"
    alone many
done
expect 0 '' "${save[@]}" "$klein" -o many --tp 4 --text-encoder-tp 1 "${shards[@]}"
diff -r one many > differences || fail "text encoder on one rank: $(head -n 5 differences)"

name "files of at most the size asked for, as diffusers and transformers name them; the rest byte for byte"
for file in many/*/*.safetensors; do
    [ $(($(stat -c %s "$file") - $(header_bytes "$file"))) -le 100000 ] || fail "$(ls -l "$file")"
done
[ "$(ls many/transformer/diffusion_pytorch_model-0000?-of-00008.safetensors | wc -l)" -eq 8 ] || fail "$(ls many/transformer)"
[ "$(ls many/text_encoder/model-0000?-of-00004.safetensors | wc -l)" -eq 4 ] || fail "$(ls many/text_encoder)"
[ -e many/vae/diffusion_pytorch_model.safetensors ] && [ ! -e many/vae/diffusion_pytorch_model.safetensors.index.json ] || fail "$(ls many/vae)"
diff <(rest "$klein") <(rest many) > differences || fail "$(cat differences)"
grep -Fq '"total_size": 738688' many/transformer/*.index.json || fail "$(head -n 4 many/transformer/*.index.json)"

name "saved at tp 2, the picture at tp 1 and 4 is that of the original"
expect 0 '' "${save[@]}" "$klein" -o two --tp 2 "${shards[@]}"
pictures two "$klein"
if [ -d "$golden/models/flux2-klein" ]; then
    expect 0 '' "${save[@]}" "$golden/models/flux2-klein" -o golden --tp 2 "${shards[@]}"
    pictures golden "$golden/models/flux2-klein"
fi

name "components by themselves; 5 GB by default: one file, and over it several again"
for component in transformer text_encoder; do
    expect 0 "^tessera: saved $component\$" "${save[@]}" "$klein/$component" -o $component --tp 2 --no-progress
    [ "$(ls $component/*.safetensors | wc -l)" -eq 1 ] && [ -z "$(ls $component/*.index.json 2> /dev/null)" ] || fail "$(ls $component)"
    expect 0 '' "${save[@]}" "$klein/$component" -o $component --tp 4 "${shards[@]}"
    diff -r one/$component $component > differences || fail "$component: $(head -n 5 differences)"
    alone $component
done
expect 0 '' "${save[@]}" "$klein/vae" -o vae --no-progress
cmp "$klein/vae/diffusion_pytorch_model.safetensors" vae/diffusion_pytorch_model.safetensors || fail "another VAE"

name "a Hub snapshot of links; a folder that a link leads to"
cp -rs "$klein" links
expect 0 '' "${save[@]}" links -o from_links --tp 2 "${shards[@]}"
diff -r one from_links > differences || fail "$(head -n 5 differences)"
[ -z "$(find from_links -type l)" ] || fail "links: $(find from_links -type l)"
ln -s from_links alias
expect 0 '' "${save[@]}" "$klein" -o alias --quiet
[ -L alias ] && [ "$(ls from_links/transformer/*.safetensors | wc -l)" -eq 1 ] || fail "$(ls -l alias from_links/transformer)"

name "refused, with nothing written and one message"
digest one > before
echo mine > one/vae/notes.txt
for kind in threads mpirun; do
    in_layout $kind 2
    expect 1 'one: holds "vae/notes.txt", which is not of a saved model' "${launcher[@]}" "${save[@]}" "$klein" -o one "${degrees[@]}"
    expect 1 'missing/x: .*No such file or directory' "${launcher[@]}" "${save[@]}" "$klein" -o missing/x "${degrees[@]}"
done
rm one/vae/notes.txt
expect 1 'is, holds or lies in the folder that is being saved' "${save[@]}" two -o two/new
expect 1 'is, holds or lies in the folder that is being saved' "${save[@]}" two -o two
expect 1 'is, holds or lies in the folder that is being saved' "${save[@]}" two/vae -o two
expect 1 'one: holds "(.*/)?[a-z_0-9.-]+", which is not of a saved model' "${save[@]}" "$klein/vae" -o one --quiet
expect 1 'no-model: no such folder' "${save[@]}" no-model -o result/x
expect 1 'err: is there and is no folder' "${save[@]}" "$klein" -o err
expect 1 'heads, which tp 3 does not divide' "${save[@]}" "$klein" -o result/x --tp 3
for size in 0 -1 5XB GB 5.5.5GB 1e5 0x10 "" 99999999TB; do
    expect 2 '--max-shard-size takes a size like 5GB' "${save[@]}" "$klein" -o result/x --max-shard-size "$size"
done
for size in 100KB 0.1mb 100000 "0.0001 GB"; do expect 0 '' "${save[@]}" "$klein/vae" -o vae --quiet --max-shard-size "$size"; done
expect 2 '-o DIR is missing' "${save[@]}" "$klein"
[ "$(digest one)" = "$(cat before)" ] || fail "the old folder is another"
alone one
finish
