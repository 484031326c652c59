#!/bin/bash
# Loads a checkpoint of 2.45 GB (random, dimensions of FLUX.2 [klein] 9B, 1 + 2 blocks) at tp 2: the plain read, Tessera
# streamed and whole, as threads and as processes, and diffusers (bench/diffusers_load.py; left out without PYTHON).
#   PYTHON=/opt/ref/bin/python bench/load.sh [FOLDER]
# FOLDER holds the checkpoint and is made where it is absent (default: a temporary one). BUILD: build/release; REPEATS: 5.
# CONFIG: bench/klein-9b.json; bench/klein-4b.json has shorter rows, DOUBLE=2 SINGLE=4 blocks of it are 2.35 GB.
# FULL=1: also rank 0 of 4 of FLUX.2-dev in its full size, a hole for weights (needs 20 GB of memory).
set -eu
source_root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$source_root/build/release} repeats=${REPEATS:-5}
tessera=$build/tessera make=$build/tools/tessera-make-checkpoint
work=$(mktemp -d "${TMPDIR:-/tmp}/tessera-load-XXXXXX")
trap 'rm -rf "$work"' EXIT
folder=${1:-$work/big}
export OMPI_MCA_rmaps_base_oversubscribe=1

if [ ! -f "$folder/config.json" ]; then
    mkdir -p "$folder"
    sed -E "s/\"num_layers\": *[0-9]+/\"num_layers\": ${DOUBLE:-1}/; s/\"num_single_layers\": *[0-9]+/\"num_single_layers\": ${SINGLE:-2}/" \
        "${CONFIG:-$source_root/bench/klein-9b.json}" > "$folder/config.json"
    "$make" "$folder" 700 "$work/inputs.safetensors" 256 64 > /dev/null
fi

# seconds FILE WAY
seconds() { sed -nE "s/.*\"$2\": \\{\"seconds\": ([0-9.e+-]+).*/\\1/p" "$1" | head -n 1; }

lscpu | grep 'Model name'
echo "--- threads"
"$tessera" bench load "$folder" --tp 2 --no-progress --repeats "$repeats"
echo "--- processes"
mpirun -n 2 "$tessera" bench load "$folder" --tp 2 --no-progress --repeats "$repeats" --json > "$work/tessera.json"
for way in streamed whole; do
    awk -v t="$(seconds "$work/tessera.json" $way)" -v p="$(seconds "$work/tessera.json" plain)" -v way=$way \
        'BEGIN { if (t) printf "%-9s %.3f s, %.3f of the plain read (%.3f s)\n", way, t, t / p, p }'
done
if [ -n "${PYTHON:-}" ]; then
    echo "--- diffusers, streaming"
    "$PYTHON" "$source_root/bench/diffusers_load.py" "$folder" --tp 2 --repeats "$repeats" | tee "$work/diffusers.json"
    awk -v t="$(seconds "$work/tessera.json" streamed)" \
        -v d="$(sed -nE 's/.*"seconds": ([0-9.e+-]+).*/\1/p' "$work/diffusers.json")" \
        'BEGIN { printf "streamed  %.3f s, %.3f of diffusers (%.3f s)\n", t, t / d, d }'
fi
if [ -n "${FULL:-}" ]; then
    echo "--- FLUX.2-dev, rank 0 of 4"
    mkdir "$work/dev"
    cp "$source_root/bench/flux2-dev.json" "$work/dev/config.json"
    "$make" "$work/dev" --sparse > /dev/null
    "$tessera" bench load "$work/dev" --as-rank 0 --of 4 --cold --repeats 1 --no-progress
fi
