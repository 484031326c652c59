#!/bin/bash
# Runs in a row: the quick form of test_context_many_threads_slow.sh and test_context_many_mpirun_slow.sh.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
. "$tests/context_many.sh"
many_contexts threads 20
many_contexts mpirun 10
finish
