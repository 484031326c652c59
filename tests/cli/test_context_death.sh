#!/bin/bash
# A rank is killed while keys and values go round a ring: all ranks end within 10 s, and the launcher names it.
. "$(dirname "$0")/lib.sh"
. "$tests/death.sh"
# 1024 image tokens of 4 heads: nearly all of a step is attention.
long=("$TESSERA" generate "$klein" x -H 512 -W 512 --steps 10000 --seed 1 --max-sequence-length 64 --dtype float32)

for layout in "--ring 4 --rotate-method alltoall" "--ring 2 --ulysses 2 --rotate-method alltoall" "--ring 4"; do
    for rank in 2 0; do
        name "rank $rank, $layout"
        start 4 $layout
        sleep 0.$((RANDOM % 10))
        began=$(date +%s)
        kill -9 "${ranks[$rank]}"
        ended "rank $rank with PID .* signal 9" 1
    done
done

name "SIGTERM to one rank: it says where it was"
start 4 --ring 4 --rotate-method alltoall
kill -TERM "${ranks[3]}"
ended '^tessera: rank 3 of 4: SIGTERM in phase transformer$' 1
finish
