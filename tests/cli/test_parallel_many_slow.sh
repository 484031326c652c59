#!/bin/bash
# label: slow
# 200 runs in a row of the small pipeline on 4 ranks, as threads and as processes.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/many.sh"
without_sanitizers
many 200
finish
