#!/bin/bash
# The end of ranks under mpirun before their work is done. Sourced after lib.sh.
export OMPI_MCA_orte_tmpdir_base=$work/session OMPI_MCA_btl_vader_backing_directory=$work/shared
ulimit -c 0
long=("$TESSERA" generate "$klein" x -H 64 -W 64 --steps 10000 --seed 1 --dtype float32)

# start RANKS OPTION...: draws for long under mpirun, and returns when it denoises. $launch: mpirun, $ranks: its children.
start() {
    mkdir -p session shared
    : > err # what the run before it said is not of this one
    mpirun --oversubscribe -n "$1" "${long[@]}" "${@:2}" -o result/x.png > out 2> err &
    launch=$!
    for _ in $(seq 600); do grep -q 'denoising: step [1-9]' err && break; sleep 0.1; done
    mapfile -t ranks < <(pgrep -P $launch)
    [ ${#ranks[@]} -eq "$1" ] || fail "$1 ranks were started, but there are ${#ranks[@]}: $(cat err)"
    began=$(date +%s)
}

# Is one of the processes more than an exit status that nobody has asked for?
running() {
    for process; do grep -qs '^State:[[:space:]]*[^ZX[:space:]]' /proc/$process/status && return; done
    return 1
}

# ended PATTERN ERRORS: they are gone in time, with a failure, a line that matches, at most so many errors of ours.
ended() {
    wait $launch
    status=$?
    while running "${ranks[@]}" && [ $(($(date +%s) - began)) -le 10 ]; do sleep 0.1; done
    [ $(($(date +%s) - began)) -le 10 ] || fail "it took $(($(date +%s) - began)) s"
    running "${ranks[@]}" && fail "left-over processes"
    [ $status -ne 0 ] || fail "exit status 0"
    grep -Eq -- "$1" err || fail "no /$1/ in: $(grep -v denoising err)"
    [ "$(grep -c '^tessera: error: ' err)" -le "$2" ] || fail "errors: $(grep '^tessera: error: ' err)"
    [ -z "$(ls -A result)" ] || { fail "left behind: $(ls -A result)"; rm -rf result; mkdir result; }
    [ -z "$(find session shared -type f -o -type s)" ] || fail "left behind: $(find session shared -type f)"
    [ -z "$(ls | grep '^core')" ] || fail "a core file"
    rm -rf session shared
}
