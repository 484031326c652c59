#!/bin/bash
# Token ids, as the pipeline makes them and of the text alone.
. "$(dirname "$0")/lib.sh"

name "as the pipeline makes them: template, padding, truncation"
run "$TESSERA" tokenize "$klein" "A cat" --max-sequence-length 20
[ "$(tr -cd , < out | wc -c)" -eq 19 ] || fail "not 20 ids: $(cat out)"
grep -Eq '^\[661, .*, 660, 660\]$' out || fail "no padding: $(cat out)"
[ "$(wc -l < out)" -eq 1 ] || fail "not one line"
run "$TESSERA" tokenize "$klein" "A cat" --max-sequence-length 4
grep -Eq '^\[661(, [0-9]+){3}\]$' out || fail "not 4 ids: $(cat out)"
run "$TESSERA" tokenize "$klein" "A cat"
[ "$(tr -cd , < out | wc -c)" -eq 511 ] || fail "not 512 ids"

name "the text alone, by argument and by line"
run "$TESSERA" tokenize "$klein/tokenizer" "A cat" --raw
cp out argument
printf '"A cat"\n "\\u0041 c\\u0061t"  \n"\\u0041 cat"' > lines
"$TESSERA" tokenize "$klein/tokenizer" --raw --stdin < lines > out 2> err || fail "$(cat err)"
cat argument argument argument | cmp -s - out || fail "by line: $(cat out)"
run "$TESSERA" tokenize "$klein/tokenizer" "" --raw
[ "$(cat out)" = "[]" ] || fail "nothing: $(cat out)"
printf '"A cat"\n' | "$TESSERA" tokenize "$klein" --stdin --max-sequence-length 20 > lines.out 2> err
"$TESSERA" tokenize "$klein" "A cat" --max-sequence-length 20 | cmp -s - lines.out || fail "pipeline by line"

name "every escape of JSON"
printf '%s\n' '"\ud83d\ude00\u00e9 \\ \/ \" \b\f\n\r\t"' > escaped
printf '"\xf0\x9f\x98\x80\xc3\xa9 \\\\ / \\" \\u0008\\u000C\\u000a\\u000D\\u0009"\n' > plain
"$TESSERA" tokenize "$klein/tokenizer" --raw --stdin < escaped > a
"$TESSERA" tokenize "$klein/tokenizer" --raw --stdin < plain > b
[ -s a ] && cmp -s a b || fail "$(cat a b)"
printf '"a\\u0000b"\n' | "$TESSERA" tokenize "$klein/tokenizer" --raw --stdin > a || fail "a NUL character"

name "lines that are no JSON string, by number"
bad() {
    printf '"fine"\n%b\n' "$1" | "$TESSERA" tokenize "$klein/tokenizer" --raw --stdin > out 2> err
    [ $? -eq 1 ] || fail "accepted: $1"
    [ "$(wc -l < out)" -eq 1 ] || fail "not one result before: $1"
    grep -Eq "^tessera: error: standard input, line 2: $2" err || fail "$1: $(cat err)"
}
bad '"\\ud83d"' 'half of a surrogate pair'
bad '"\\ude00"' 'half of a surrogate pair'
bad '"\\ud83d\\u0041"' 'half of a surrogate pair'
bad '"\\u12g4"' '.*four hexadecimal digits'
bad '"\\x"' 'an unknown escape'
bad '"open' ''
bad 'A cat' 'not a JSON string'
bad '["A cat"]' 'not a JSON string'
bad '"a" "b"' 'something follows'
bad '' 'not a JSON string'
bad '"\x01"' 'a control character'
bad '"\xff"' '.*UTF-8'

name "whoever stops reading ends it"
yes '"A cat"' | timeout 60 "$TESSERA" tokenize "$klein/tokenizer" --raw --stdin 2> err | head -n 1 > out
[ "${PIPESTATUS[1]}" -eq 1 ] && grep -q '^tessera: error: standard output: Broken pipe$' err || fail "$(cat err)"

name "special tokens"
run "$TESSERA" tokenize "$klein/tokenizer" "<|im_start|>" --raw
[ "$(cat out)" = "[661]" ] || fail "$(cat out)"
run "$TESSERA" tokenize "$klein/tokenizer" "A cat" --raw --no-special
cmp -s out argument || fail "Qwen2 adds none: $(cat out)"

name "golden: both layouts of the tokenizer"
if [ -d "$golden/tokenizers_other_layouts" ]; then
    for text in "A cat" "don't   stop" "12345 {cat}" "Žluťoučký kůň"; do
        "$TESSERA" tokenize "$golden/models/flux2-klein/tokenizer" "$text" --raw > a
        "$TESSERA" tokenize "$golden/tokenizers_other_layouts/flux2_klein_qwen2" "$text" --raw > b
        [ -s a ] && cmp -s a b || fail "$text: $(cat a b)"
    done
else
    echo "(left out: $golden is absent)"
fi
finish
