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

# The second example: threads, and processes under mpirun; the transformer is loaded before the pipeline.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=fast_unwind_on_malloc=0:${ASAN_OPTIONS-}
example=$TESSERA_BUILD/examples/02_tensor_parallel
"$example" "$model" "$prompt" threads.png 2
mpirun -n 2 --oversubscribe "$example" "$model" "$prompt" processes.png
cmp threads.png processes.png
status=0
mpirun -n 3 --oversubscribe "$example" "$model" "$prompt" never.png 2>log || status=$?
[ "$status" != 0 ] && grep -q "which tp 3 does not divide" log || { echo "3 ranks: exit $status"; cat log; exit 1; }
[ ! -e never.png ] || { echo "a picture after a refusal"; exit 1; }

# The third example: a model in memory is spread by its sequence, as threads and as processes.
example=$TESSERA_BUILD/examples/03_context_parallel
for way in ring ulysses; do
    "$example" "$model" "$prompt" $way.png $way 2
    mpirun -n 2 --oversubscribe "$example" "$model" "$prompt" processes.png $way
    cmp $way.png processes.png
done
"$TESSERA_TOOLS/tessera-compare" ring.png threads.png --tolerance 1
