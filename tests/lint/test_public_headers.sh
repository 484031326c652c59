#!/usr/bin/env bash
# Every public header compiles alone, as C11 and as C++, gives its functions C linkage, and says something about each.
set -eu
cd "${TESSERA_SOURCE:-.}"
failed=0
flags=(-Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only)
for header in include/tessera/*.h; do
    name=tessera/$(basename "$header")
    echo "#include <$name>" | ${CC:-cc} -std=c11 "${flags[@]}" -x c - || failed=1
    echo "#include <$name>" | ${CXX:-c++} -std=c++11 "${flags[@]}" -x c++ - || failed=1
    ! grep -q ^TSR_API "$header" || grep -q 'extern "C"' "$header" || { echo "$header: no extern \"C\""; failed=1; }
    # A prototype's comment stands in its paragraph, before it or at the end of its line.
    awk -v file="$header" '
        /^[[:space:]]*$/ { commented = 0 }
        /\/\*|\*\// { commented = 1 }
        /^TSR_API/ && !commented { print file ":" NR ": no comment: " $0; bad = 1 }
        END { exit bad }' "$header" || failed=1
done
exit $failed
