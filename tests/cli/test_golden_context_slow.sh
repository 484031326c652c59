#!/bin/bash
# label: slow
# ../shared/golden with a split sequence, as processes; any lengths also where they divide.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
. "$tests/golden_context.sh"

for layout in "${contexts[@]}" "$context_8"; do
    spread threads "$layout" anything a64 base_cfg batch2
    spread mpirun "$layout" plain a64 base_cfg batch2
    spread mpirun "$layout" anything a64 base_cfg batch2 odd
    too_odd 15 mpirun "$layout" odd
done
finish
