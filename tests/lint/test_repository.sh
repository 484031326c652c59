#!/usr/bin/env bash
# The tree as a whole: no large files but fixtures and the demo's model, no marks of unfinished work, no dead links, shell
# scripts that parse.
set -eu
cd "${TESSERA_SOURCE:-.}"
failed=0
complain() { echo "$1"; failed=1; }

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard)
else
    mapfile -t files < <(find . -type f -not -path './build/*' -not -path './demo/out/*' | sed 's,^\./,,')
fi
for file in "${files[@]}"; do
    [ -f "$file" ] || continue # deleted, not committed yet
    case $file in
    tests/fixtures/* | demo/emoji-klein/*) continue ;;
    *.sh | .ci/run) bash -n "$file" || failed=1 ;;
    esac
    [ "$(stat -c %s "$file")" -le 1000000 ] || complain "$file: larger than 1 MB"
    if grep -InHE '\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b' "$file"; then complain "$file: a mark of unfinished work"; fi
    case $file in
    *.md)
        while read -r link; do
            case $link in http*://* | '#'* | mailto:*) continue ;; esac
            [ -e "$(dirname "$file")/${link%%#*}" ] || complain "$file: dead link $link"
        done < <(grep -oE '\]\([^) ]+\)' "$file" | sed -E 's/^\]\((.*)\)$/\1/' || true)
        ;;
    esac
done
exit $failed
