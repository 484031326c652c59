#!/bin/bash
# ../shared/golden with a split sequence: the klein cases as threads, some as processes (all that remains:
# test_golden_context_slow.sh).
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
. "$tests/golden_context.sh"

for layout in "${contexts[@]}" "$context_8"; do
    spread threads "$layout" plain a64 base_cfg batch2
    spread threads "$layout" anything odd
    too_odd 15 threads "$layout" odd
done
for layout in "${contexts[@]}"; do spread mpirun "$layout" anything odd; done
spread mpirun "$context_8" plain a64
too_odd 15 mpirun "4 --ring 2 --ulysses 2" odd
finish
