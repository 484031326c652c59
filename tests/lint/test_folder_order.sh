#!/usr/bin/env bash
# A folder includes only folders above it in the list below, the command only public headers and its own, and each
# third-party header only the folder that wraps it.
set -eu
cd "${TESSERA_SOURCE:-.}"
order="base io device comm exec nn parallel models schedulers tokenizers pipelines"
failed=0
complain() { echo "$1"; failed=1; }

rank() { # the place of folder $1 in the order; empty for another name
    local i=0 folder
    for folder in $order; do
        [ "$folder" = "$1" ] && echo $i
        i=$((i + 1))
    done
}

includes() { # "file header" of every include in the form $2 ('"' or '<') below $1
    grep -rHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*$2" --include='*.[ch]' "$1" |
        sed -E "s/^([^:]*):[^\"<]*[\"<]([^\">]*)[\">].*/\1 \2/"
}

while read -r file header; do
    from=$(echo "$file" | cut -d/ -f2)
    to=${header%%/*}
    [ -f "src/$header" ] || complain "$file: \"$header\" is not a path below src/"
    [ -n "$(rank "$from")" ] || complain "$file: folder src/$from is not in the order"
    if [ -n "$(rank "$from")" ] && [ -n "$(rank "$to")" ] && [ "$(rank "$to")" -gt "$(rank "$from")" ]; then
        complain "$file: $from may not include $to, which comes after it"
    fi
done < <(includes src '"')

while read -r file header; do
    [ -f "cli/$header" ] || complain "$file: the command may not include \"$header\": only its own files"
done < <(includes cli '"')

# header, the folders or files that may include it (an extended regular expression)
while read -r header owner; do
    while read -r file _; do
        [[ $file =~ ^($owner) ]] || complain "$file: <$header> belongs to $owner alone"
    done < <({ includes src '<'; includes cli '<'; includes include '<'; } | grep " $header" || true)
done <<'TABLE'
oneapi/ src/device/cpu/
dnnl src/device/cpu/
omp.h src/device/
mpi.h src/comm/mpi/
jansson.h src/io/|src/tokenizers/
spng.h src/io/png.c
pcre2.h src/tokenizers/
utf8proc.h src/tokenizers/
cmocka.h tests/
TABLE

while read -r file header; do
    case $header in tessera/*) ;; *) complain "$file: a public header may not include \"$header\"" ;; esac
done < <(includes include '"')
exit $failed
