#!/bin/bash
# label: slow
# `tessera verify` where rank 0 cannot hold the whole model for the reference: 0.3 GB of random weights, in processes
# with 0.375 GB of address space each.
. "$(dirname "$0")/lib.sh"
without_sanitizers
skip() { echo "skipped: $1"; exit 77; }
[ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -gt 1000000 ] || skip "less than 1 GB is free in $work"
[ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 2000000 ] || skip "less than 2 GB of memory are free"

name "the message says what to do, and comes once"
mkdir big
sed -E 's/("num_attention_heads": *)[0-9]+/\112/; s/("num_layers": *)[0-9]+/\11/; s/("num_single_layers": *)[0-9]+/\11/' \
    "$source_root/bench/klein-4b.json" > big/config.json
all=$("$TESSERA_TOOLS/tessera-make-checkpoint" big 700 inputs.safetensors 16 8) || fail "no checkpoint"
[ "$all" -ge 290000000 ] || fail "$all bytes of weights"
expect 1 'one rank, as the reference: .*memory.*; or compare with a dump of another run: --against DUMP$' \
    mpirun --oversubscribe -n 2 bash -c 'ulimit -v 375000; exec "$@"' - \
    "$TESSERA" verify big --inputs inputs.safetensors --tp 2 --threads 1 --quiet

name "with enough of it both runs are made, and agree"
expect 0 '^[0-9]+ outputs at tp 2 against one rank' "$TESSERA" verify big --inputs inputs.safetensors --tp 2 --quiet
finish
