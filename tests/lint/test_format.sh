#!/usr/bin/env bash
# Every C file is as clang-format leaves it (`make format`).
set -eu
cd "${TESSERA_SOURCE:-.}"
if ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "skipped: clang-format 14 is not installed (other versions format differently)"
    exit 77
fi
find src cli include tests examples -name '*.[ch]' -exec clang-format --dry-run -Werror {} +
