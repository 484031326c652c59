#!/bin/bash
# Case 21: sizes that are not multiples of 16 are announced; what is announced is drawn; width and height keep their places.
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

name "case 21: sizes that are wrong usage"
for value in 0 -16 100000; do
    expect 2 "--height" "$TESSERA" generate "$klein" x "${tiny[@]}" -H $value -o result/out.png
    expect 2 "--width" "$TESSERA" generate "$klein" x "${tiny[@]}" -W $value -o result/out.png
done
finish
