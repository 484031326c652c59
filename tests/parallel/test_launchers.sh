#!/usr/bin/env bash
# Launches under mpirun end as they should: agreed failures quietly, others by ending all ranks, foreign launchers by
# name.
set -u
ranks=$TESSERA_TOOLS/tessera-ranks
failed=0
expect() { # NAME WANTED_STATUS(0|fail) WORDS COMMAND...
    local name=$1 wanted=$2 words=$3 begin=$SECONDS out status
    shift 3
    out=$(timeout 60 "$@" 2>&1)
    status=$?
    case $status in 0) status=ok ;; 124) status="no end" ;; *) status=fail ;; esac
    if [ "$status" != "$wanted" ] || ! grep -qF -- "$words" <<<"$out" || [ $((SECONDS - begin)) -gt $most ]; then
        echo "FAILED: $name ($status after $((SECONDS - begin)) s of $most, wanted $wanted with \"$words\"):"
        echo "$out"
        failed=1
    fi
    last=$out
}
start=(mpirun --oversubscribe)

most=60 # seconds
expect "three ranks" ok "" "${start[@]}" -n 3 "$ranks" ok
most=$((10 + SECONDS)) # beside what a start takes: 5 seconds and more where no name server answers
expect "the number that is there" ok "" "${start[@]}" -n 3 "$ranks" --ranks 3 ok
expect "another number" fail "ARG: 2 ranks are asked for, but mpirun of Open MPI started 3" "${start[@]}" -n 3 "$ranks" --ranks 2 ok
expect "threads below mpirun -n 1" fail "2 ranks are asked for, but mpirun of Open MPI started 1" "${start[@]}" -n 1 "$ranks" --ranks 2 ok
expect "an agreed failure" fail "FORMAT: all ranks fail" "${start[@]}" -n 3 "$ranks" agreed
grep -q MPI_ABORT <<<"$last" && { echo "FAILED: an agreed failure aborts: $last"; failed=1; }
expect "an agreed failure, and a rank that takes its time" fail "IO: rank 1: the disk is full" "${start[@]}" -n 3 "$ranks" slow
grep -qE "MPI_ABORT|ended with it" <<<"$last" && { echo "FAILED: a slow end aborts: $last"; failed=1; }
expect "one rank fails" fail "rank 1 of 3 failed in phase test, and the other ranks are ended with it: one rank fails" \
    "${start[@]}" -n 3 "$ranks" alone
expect "one rank is killed" fail "signal 9" "${start[@]}" -n 3 "$ranks" killed
expect "one rank exits" fail "non-zero" "${start[@]}" -n 3 "$ranks" early
expect "unknown device" fail 'cannot make an engine on device "abacus"' "${start[@]}" -n 2 "$ranks" --device abacus ok
expect "MPI is the host's own" ok "" "${start[@]}" -n 2 --bind-to none "$TESSERA_TOOLS/tessera-mpi-host"

expect "another MPI's launcher" fail "started by mpiexec of MPICH or one of its kin (PMI_SIZE=4), but Tessera was built with Open MPI" \
    env PMI_SIZE=4 PMI_RANK=0 "$ranks" ok
expect "srun without an MPI" fail "started by srun (SLURM_STEP_NUM_TASKS=2)" env SLURM_STEP_NUM_TASKS=2 "$ranks" ok
expect "a batch script" ok "" env SLURM_NTASKS=4 SLURM_JOB_ID=1 "$ranks" --ranks 2 ok
expect "threads: one rank fails" fail "IO: rank 1: one rank fails" "$ranks" --ranks 3 alone
exit $failed
