#!/bin/bash
# Case 21: sizes that are not multiples of 16 are announced; what is announced is drawn; width and height keep their places.
# What a folder says of its own size and its prompts' length holds where nothing else is asked for.
. "$(dirname "$0")/lib.sh"

size() { # height width, drawn height, drawn width
    name "case 21: $1 high, $2 wide"
    run "$TESSERA" generate "$klein" x "${tiny[@]}" -H "$1" -W "$2" -o size.png
    [ "$status" -eq 0 ] || fail "$(cat err)"
    [ "$(png_header size.png)" = "$4 $3 8 2" ] || fail "drawn: $(png_header size.png)"
    grep -q "saved size.png: $4 wide, $3 high" err || fail "announced: $(cat err)"
    if [ "$1,$2" = "$3,$4" ]; then
        grep -q warning err && fail "a warning without reason: $(cat err)"
    else
        grep -q "warning: .*$3 high.* $4 wide" err || fail "no warning that names the size: $(cat err)"
    fi
    rm -f size.png
}
size 16 16 16 16
size 64 32 64 32
size 32 64 32 64
size 72 40 64 32
size 56 56 48 48
size 17 31 16 16

name "case 21: sizes of no token"
expect 1 'height 8.*16' "$TESSERA" generate "$klein" x "${tiny[@]}" -H 8 -W 8 -o result/out.png
expect 1 'width 15.*16' "$TESSERA" generate "$klein" x "${tiny[@]}" -H 16 -W 15 -o result/out.png

name "the largest size"
expect 1 'memory' "$TESSERA" generate "$klein" x "${tiny[@]}" -H 65536 -W 65536 -o result/out.png

name "a large size is planned at once"
expect 0 '^for 46336x46336 pixels' timeout 15 "$TESSERA" plan "$klein" -H 46336 -W 46336

name "case 21: sizes that are wrong usage"
for value in 0 -16 100000; do
    expect 2 "--height" "$TESSERA" generate "$klein" x "${tiny[@]}" -H $value -o result/out.png
    expect 2 "--width" "$TESSERA" generate "$klein" x "${tiny[@]}" -W $value -o result/out.png
done

# Of the tiny pipeline, with another sample_size of the VAE and another model_max_length of the tokenizer.
own() { # sample_size, model_max_length
    copy_klein own
    sed -i "s/\"sample_size\": 1024/\"sample_size\": $1/" own/vae/config.json
    sed -i "s/\"model_max_length\": 131072/\"model_max_length\": $2/" own/tokenizer/tokenizer_config.json
}
tokens() { "$TESSERA" tokenize "$@" a | tr -cd ',\n' | awk '{ print length + 1 }'; }

name "a folder's own size and length"
own 48 24
run "$TESSERA" generate own "a red fox" --steps 1 --seed 1 --no-progress -o own.png
[ "$(png_header own.png)" = "48 48 8 2" ] || fail "drawn: $(png_header own.png) $(cat err)"
run "$TESSERA" plan own
grep -q '^for 48x48 pixels, 24 text tokens' out || fail "planned: $(head -n 1 out)"
[ "$(tokens own)" = 24 ] || fail "$(tokens own) tokens"
[ "$(tokens own --max-sequence-length 30)" = 30 ] || fail "$(tokens own --max-sequence-length 30) tokens, asked for 30"

name "the size and length of released folders"
own 1024 131072
run "$TESSERA" plan own
grep -q '^for 1024x1024 pixels, 512 text tokens' out || fail "planned: $(head -n 1 out)"
sed -i '/"sample_size"/d' own/vae/config.json
run "$TESSERA" plan own
grep -q '^for 1024x1024 pixels, 512 text tokens' out || fail "without sample_size: $(head -n 1 out)"

name "a size that is none"
own 0 24
expect 1 'vae/config.json: sample_size' "$TESSERA" generate own x --steps 1 -o result/out.png
finish
