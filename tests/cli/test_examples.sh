#!/bin/bash
#!/usr/bin/env bash
# Every example runs; the first one draws what the command draws.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
model=${TESSERA_SOURCE:?is set by ctest}/tests/fixtures/klein
prompt="A cat holding a sign that says hello world"

"$TESSERA_BUILD/examples/01_generate" "$model" "$prompt" 64 2>log || { cat log; exit 1; }
[ "$(grep -c '^step' log)" -ge 4 ] || { echo "the progress callback was called too rarely:"; cat log; exit 1; }
[ "$(od -An -tu1 -j16 -N8 out.png | tr -s ' ')" = " 0 0 0 64 0 0 0 64" ] || { echo "out.png is not 64x64"; exit 1; }

# One encoder wrote both files, so that equal pixels are equal bytes.
"$TESSERA" generate "$model" "$prompt" --height 64 --width 64 --seed 42 -o command.png --no-metadata --quiet
cmp out.png command.png

status=0
"$TESSERA_BUILD/examples/01_generate" "$work/nowhere" "$prompt" 2>log || status=$?
[ "$status" = 1 ] && grep -q nowhere log || { echo "a missing folder: exit $status"; cat log; exit 1; }
