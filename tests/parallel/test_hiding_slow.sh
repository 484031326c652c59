#!/bin/bash
# label: slow
# How much of an exchange over 1 Gbit/s goes on behind work, between two hosts that bench/network.sh imitates. 32 MB take
# 268 ms there. A run in which they took much longer, or more than all was hidden, was disturbed by others on the machine.
. "$(dirname "$0")/../cli/lib.sh"
without_sanitizers

name "at least 0.6, in one of five runs"
for _ in 1 2 3 4 5; do
    run "$source_root/bench/network.sh" -n 2 -r 1gbit -- "$TESSERA" bench collectives --tp 2 --json --no-progress
    [ "$status" -ne 77 ] || { cat err; exit 77; }
    [ "$status" -eq 0 ] || fail "status $status: $(tail -n 20 err)"
    figures=$(sed -nE 's/.*"exchange_seconds": ([-0-9.e]+).*"hidden": ([-0-9.e]+).*/\1 \2/p' out)
    echo "exchange and hidden: $figures"
    enough=$(awk '{ print ($1 > 0.26 && $1 < 0.35 && $2 >= 0.6 && $2 <= 1) }' <<< "$figures")
    [ "$enough" != 1 ] || finish
done
fail "exchange and hidden: $figures"
finish
