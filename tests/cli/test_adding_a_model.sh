#!/bin/bash
# Every command of docs/adding-a-model.md prints what the page says, but for figures, which depend on the processor.
. "$(dirname "$0")/lib.sh"
page=$source_root/docs/adding-a-model.md
mkdir bin && ln -s "$TESSERA" bin/tessera
PATH=$work/bin:$PATH
masked() {
    sed -E 's/^(worst .*: ).*/\1.../; s/^(first to depart: .*\]: )[0-9]+(.*by up to ).*/\1N\2.../; s/[0-9]+ (of [0-9]+ outputs depart)/N \1/' | sort
}

# A block begins with a command; the lines that follow are what it prints.
awk '/^```console$/ { inside = 1; n++; next }
     /^```$/ { inside = 0 }
     inside && /^\$ / { print substr($0, 3) > ("command." n); next }
     inside { print > ("expected." n) }' "$page"
count=$(ls command.* | wc -l)
[ "$count" -ge 11 ] || fail "$count commands"
for file in command.*; do
    name "$(tail -c 120 "$file")"
    n=${file#command.}
    (cd "$source_root" && timeout 300 bash "$work/$file") > printed 2>&1
    diff <(masked < printed) <(masked < "expected.$n") || fail "$(cat "$file")"
done
name "every plan is on the page"
for plan in "$source_root"/examples/04_plans/*.json; do
    grep -q "examples/04_plans/$(basename "$plan")" "$page" || fail "$plan"
done
finish
