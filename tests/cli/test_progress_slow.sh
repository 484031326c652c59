#!/bin/bash
# label: slow
# Case 29: a step that takes long still gives a sign of life at least every 10 s.
. "$(dirname "$0")/lib.sh"

name "case 29: no silence of more than 10 s, whatever a step takes"
timeout -s TERM -k 60 40 "$TESSERA" generate "$klein" x -H 640 -W 640 --steps 1 --seed 1 --device ref --threads 1 -o slow.png 2>&1 |
    while read -r line; do echo "$(date +%s.%N) $line"; done > lines
awk 'NR > 1 && $1 - last > 10.5 { print "silent for " $1 - last " s before: " $0; bad = 1 } { last = $1 } END { exit bad }' lines ||
    fail "$(cat lines)"
[ "$(wc -l < lines)" -ge 4 ] || fail "only $(cat lines)"

name "a signal in a long step is acknowledged, and a second one ends at once"
"$TESSERA" generate "$klein" x -H 1024 -W 1024 --steps 1 --seed 1 --device ref --threads 1 -o result/x.png > out 2> err &
process=$!
for _ in $(seq 300); do grep -q 'loading transformer' err && break; sleep 0.1; done
sleep 1
kill -TERM $process
for _ in $(seq 50); do grep -q 'a second signal ends at once' err && break; sleep 0.1; done
kill -TERM $process
wait $process
[ $? -eq 143 ] || fail "exit status"
[ "$(grep -c 'a second signal ends at once' err)" -eq 1 ] || fail "$(cat err)"
[ -z "$(ls -A result)" ] || fail "left behind: $(ls -A result)"
finish
