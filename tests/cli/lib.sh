#!/bin/bash
# What the tests of the command share. A test sources this file, names its cases, and ends with `finish`.
#   TESSERA         the command (absolute)              TESSERA_TOOLS   folder of tessera-compare, tessera-safetensors-edit
#   TESSERA_SOURCE  root of the repository   TESSERA_GOLDEN  ../shared/golden (need_golden skips without it)
set -u
: "${TESSERA:?the command to be tested}" "${TESSERA_TOOLS:?folder of the test tools}"
tests=$(cd "$(dirname "$0")" && pwd)
source_root=${TESSERA_SOURCE:-$(cd "$tests/../.." && pwd)}
golden=${TESSERA_GOLDEN:-$source_root/../shared/golden}
klein=$source_root/tests/fixtures/klein
work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-cli-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir result # where commands that are to fail are told to write; it must stay empty
failures=0
case_name="(no case)"
# The smallest drawing that is quick: 20 text tokens, 2x2 latent tokens, one step.
tiny=(-H 32 -W 32 --steps 1 --seed 1 --max-sequence-length 20 --dtype float32 --no-progress)

name() { case_name=$1; echo "--- $1"; }

fail() {
    echo "FAILED: $case_name: $1"
    failures=$((failures + 1))
}

finish() {
    [ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
    exit 0
}

need_golden() {
    [ -d "$golden/models/flux2-klein" ] && return
    echo "skipped: $golden is absent"
    exit 77
}

# Sanitizers make memory and time their own.
without_sanitizers() {
    ldd "$TESSERA" | grep -Eq 'lib[at]san' || return 0
    echo "skipped: a build with sanitizers"
    exit 77
}

# Runs a command; its exit status, output and messages are left in $status, out and err.
run() {
    timeout -k 5 300 "$@" > out 2> err < /dev/null
    status=$?
    grep -E 'Sanitizer|runtime error:|Assertion' err && fail "a fault in memory or arithmetic: $*"
}

# expect STATUS PATTERN COMMAND...: that exit status. 0: PATTERN (extended regular expression) is somewhere in what it
# says. Else: exactly one error on stderr, matching PATTERN, nothing on stdout, and nothing left in result/.
expect() {
    local wanted=$1 pattern=$2 errors
    shift 2
    run "$@"
    [ "$status" -eq "$wanted" ] || fail "exit status $status instead of $wanted: $* : $(head -c 600 err)"
    errors=$(grep -c '^tessera: error: ' err)
    if [ "$wanted" -eq 0 ]; then
        [ "$errors" -eq 0 ] || fail "an error with exit status 0: $(cat err)"
        [ -z "$pattern" ] || cat out err | grep -aEq -- "$pattern" || fail "no /$pattern/ from $* : $(head -c 600 out) $(head -c 600 err)"
        return
    fi
    [ "$errors" -eq 1 ] || fail "$errors errors instead of one: $* : $(cat err)"
    grep '^tessera: error: ' err | grep -aEq -- "$pattern" || fail "no /$pattern/ in: $(cat err)"
    [ -z "$(ls -A result)" ] || { fail "left behind by $* : $(ls -A result)"; rm -rf result; mkdir result; }
}

# draw FILE MODEL [OPTION ...]: must work.
draw() {
    local file=$1
    shift
    run "$TESSERA" generate "$@" "a red fox" "${tiny[@]}" -o "$file"
    [ "$status" -eq 0 ] && [ -s "$file" ] || fail "cannot draw $file: $(head -c 600 err)"
}

# refuse PATTERN MODEL [OPTION ...]: drawing must fail, with exit status 1.
refuse() {
    local pattern=$1
    shift
    expect 1 "$pattern" "$TESSERA" generate "$@" "a red fox" "${tiny[@]}" -o result/out.png
}

compare() { "$TESSERA_TOOLS/tessera-compare" "$@" > compared 2>&1; }
same() { compare "$@" || fail "not the same: $* : $(tail -n 8 compared)"; }
differ() { ! compare "$@" || fail "the same: $*"; }
edit() { "$TESSERA_TOOLS/tessera-safetensors-edit" "$@" || fail "cannot edit: $*"; }

# Layouts as words in front of the command and options behind it: `in_layout threads 2` sets launcher and degrees.
in_layout() {
    launcher=() degrees=(--tp "$2")
    [ "$1" = threads ] || launcher=(mpirun --oversubscribe -n "$2")
}

# traced FOLDER COMMAND...: runs the command, and leaves what each of its threads reads in FOLDER. Skips what follows
# where there is no strace (then it returns 1).
traced() {
    command -v strace > /dev/null || { echo "(left out: no strace)"; return 1; }
    mkdir -p "$1"
    ASAN_OPTIONS=detect_leaks=0 run strace -ff -y -s 0 -e trace=read,readv,pread64,preadv,mmap -o "$1/log" "${@:2}"
}

# bytes_read FOLDER PATTERN: how many bytes they took from files whose path matches; a mapping counts with its length.
bytes_read() {
    cat "$1"/log.* | awk -v pattern="$2" '
        $0 !~ pattern || / = -1 / { next }
        /^mmap\(/ { split($0, argument, ", "); sum += argument[2]; next }
        { sum += $NF }
        END { printf "%d\n", sum }'
}

# Bytes of the headers of safetensors files.
header_bytes() {
    for file; do od -An -tu8 -N8 "$file"; done | awk '{ sum += 8 + $1 } END { print sum }'
}

# A copy of the tiny pipeline that may be changed.
copy_klein() {
    rm -rf "$1"
    cp -rL "$klein" "$1"
    chmod -R u+w "$1"
}

# Links to all of a pipeline but FILE ..., which the test then makes.
link_model() {
    local from=$1 to=$2 file
    mkdir -p "$to"
    for file in "$from"/*; do ln -sfn "$file" "$to/$(basename "$file")"; done
}

# "width height depth colour-type" from the header of a PNG file.
png_header() { od -An -tu1 -j16 -N10 "$1" | awk '{print $3 * 256 + $4, $7 * 256 + $8, $9, $10}'; }

# The value of an uncompressed text chunk: png_text FILE KEY.
png_text() {
    local at length
    at=$(LC_ALL=C grep -abo "tEXt$2" "$1" | head -n 1 | cut -d: -f1)
    [ -n "$at" ] || return
    length=$(od -An -tu1 -j $((at - 4)) -N 4 "$1" | awk '{print (($1 * 256 + $2) * 256 + $3) * 256 + $4}')
    tail -c +$((at + 4 + ${#2} + 2)) "$1" | head -c $((length - ${#2} - 1))
}
