#!/bin/bash
# Runs in a row: the quick form of test_parallel_many_slow.sh.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/many.sh"
many 20
finish
