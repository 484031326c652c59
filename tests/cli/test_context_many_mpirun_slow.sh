#!/bin/bash
# label: slow
# 200 runs in a row of all ways to split the sequence, as processes.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
. "$tests/context_many.sh"
without_sanitizers
many_contexts mpirun 200
finish
