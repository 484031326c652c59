#!/bin/bash
# Case 25: the end of several ranks, as it should be and not: all gone within 10 s, nothing left behind.
. "$(dirname "$0")/lib.sh"
. "$tests/death.sh"

name "a normal end on 4 ranks: exit status 0, no noise"
mkdir -p session shared
run mpirun --oversubscribe -n 4 "$TESSERA" generate "$klein" x --tp 4 "${tiny[@]}" -o four.png
[ "$status" -eq 0 ] && [ "$(cat err)" = "tessera: saved four.png: 32 wide, 32 high, seed 1" ] || fail "status $status: $(cat err)"
[ -z "$(find session shared -type f)" ] || fail "left behind: $(find session shared -type f)"

name "a rank is killed: the launcher names it"
start 4 --tp 4
kill -9 "${ranks[2]}"
ended 'rank 2 with PID .* signal 9' 1

name "the first rank is killed"
start 2 --tp 2
kill -9 "${ranks[0]}"
ended 'rank 0 with PID .* signal 9' 1

name "SIGTERM to one rank that makes no reports: it says where it was"
start 2 --tp 2
kill -TERM "${ranks[1]}"
ended '^tessera: rank 1 of 2: SIGTERM in phase transformer$' 1

name "SIGTERM to the first rank: cancelled on all, agreed"
start 2 --tp 2
kill -TERM "${ranks[0]}"
ended '^tessera: error: cancelled by SIGTERM in phase transformer on rank 0 of 2$' 1
grep -q '^tessera: rank 0 of 2: SIGTERM in phase transformer$' err || fail "$(cat err)"

for signal in TERM INT; do
    name "SIG$signal to the launcher: every rank says where it was"
    start 2 --tp 2
    kill -$signal $launch
    ended '^tessera: rank 0 of 2: SIGTERM in phase transformer$' 1
    grep -q '^tessera: rank 1 of 2: SIGTERM in phase transformer$' err || fail "rank 1 said nothing: $(grep -v denoising err)"
done

name "ranks that are threads: cancelled within a step, one message"
for signal in TERM INT; do
    : > err
    "${long[@]}" --tp 4 -o result/x.png > out 2> err &
    launch=$! ranks=($!)
    for _ in $(seq 600); do grep -q 'denoising: step [1-9]' err && break; sleep 0.1; done
    began=$(date +%s)
    mkdir -p session shared
    kill -$signal $launch
    ended "^tessera: error: cancelled by SIG$signal in phase transformer on rank 0 of 4\$" 1
    [ $status -eq 1 ] || fail "exit status $status"
done
finish
