#!/usr/bin/env bash
# The libraries as built: no mutable data in any object of the static one (.data, .bss and their thread-local kin are
# empty; .data.rel.ro is constant once loaded), and the shared one exports the functions of the public headers, no other.
# Sanitizers add data and symbols of their own, so their builds are left out.
set -eu
build=${TESSERA_BUILD:?is set by ctest}
if grep -q '^TESSERA_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a build with sanitizers"
    exit 77
fi
failed=0
size -A "$build/libtessera.a" | awk '
    /\(ex / { object = $1; objects++ }
    $1 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 {
        print object ": " $2 " bytes of mutable data in " $1
        bad = 1
    }
    END { exit bad || !objects }' || failed=1
if nm -A "$build/libtessera.a" 2>/dev/null | grep ' C '; then
    echo "common symbols (above) are mutable data"
    failed=1
fi

declared=$(grep -hv "^#" "${TESSERA_SOURCE:-.}"/include/tessera/*.h | tr '\n' ' ' | grep -oE 'TSR_API [^(;]*' |
    sed -E 's/.*[ *](tsr_[a-z0-9_]+)$/\1/' | sort)
exported=$(nm -D --defined-only "$build/libtessera.so" | awk '{ print $3 }' | sort)
if ! diff <(echo "$declared") <(echo "$exported"); then
    echo "declared in include/tessera (<) and exported by libtessera.so (>) differ"
    failed=1
fi
exit $failed
