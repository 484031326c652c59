#!/usr/bin/env bash
# shellcheck disable=SC2086 # lists of files without blanks
# Files of at most 800 lines, functions of at most 100, at most 7 parameters.
set -eu -o pipefail
cd "${TESSERA_SOURCE:-.}"
files=$(find src cli include tests examples -name '*.[ch]')
failed=0
wc -l $files | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines, at most 800"; bad = 1 } END { exit bad }' || failed=1
if ! ctags --version 2>/dev/null | grep -q Universal; then
    echo "skipped: function sizes, universal-ctags is not installed"
    [ $failed = 0 ] && exit 77
    exit 1
fi
# name, file, first line, last line, signature: of functions (f) and prototypes (p)
ctags -x --languages=C --langmap=C:.c.h --kinds-C=fp --_xformat=$'%N\t%F\t%n\t%{end}\t%S' $files |
    awk -F'\t' '
        function parameters(signature,  depth, count, i, c) { # commas that are not inside inner parentheses
            count = 1
            for (i = 1; i <= length(signature); i++) {
                c = substr(signature, i, 1)
                if (c == "(") depth++
                if (c == ")") depth--
                if (c == "," && depth == 1) count++
            }
            return count
        }
        $4 && $4 - $3 + 1 > 100 { print $2 ":" $3 ": " $1 " has " $4 - $3 + 1 " lines, at most 100"; bad = 1 }
        parameters($5) > 7 { print $2 ":" $3 ": " $1 " has " parameters($5) " parameters, at most 7"; bad = 1 }
        END { if (NR < 50) { print "ctags found only " NR " functions"; bad = 1 } exit bad }' || failed=1
exit $failed
