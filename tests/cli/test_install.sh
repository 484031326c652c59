#!/bin/bash
#!/usr/bin/env bash
# An installed Tessera serves a program through pkg-config and through find_package, shared and static, from a folder
# that was moved after the installation.
set -eu
cd "${TESSERA_SOURCE:?is set by ctest}"
if grep -q '^TESSERA_SANITIZE:[A-Z]*=.' "$TESSERA_BUILD/CMakeCache.txt"; then
    echo "skipped: a program that uses a library with sanitizers needs them too"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$TESSERA_BUILD" --prefix "$work/first" >"$work/log"
mv "$work/first" "$work/prefix"
cp examples/01_generate.c "$work/"
cd "$work"

draws() { # the program $1 draws with the tiny model
    rm -f out.png
    "$@" "$TESSERA_SOURCE/tests/fixtures/klein" "a cat" 32 2>log || { cat log; exit 1; }
    [ -s out.png ] || { echo "$1 left no out.png"; exit 1; }
    echo "ok: $1"
}

prefix/bin/tessera --version >/dev/null
library=$(dirname "$(find "$PWD/prefix" -name libtessera.a)")
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library
read -ra flags < <(pkg-config --cflags --libs tessera)
${CC:-cc} -std=c11 01_generate.c -o pc_shared "${flags[@]}"
draws ./pc_shared
read -ra flags < <(pkg-config --static --cflags --libs tessera | sed "s/-ltessera/-l:libtessera.a/")
${CC:-cc} -std=c11 01_generate.c -o pc_static "${flags[@]}"
unset LD_LIBRARY_PATH
draws ./pc_static

cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
find_package(tessera 0.1 REQUIRED)
foreach(kind shared static)
  add_executable(cmake_${kind} 01_generate.c)
  target_link_libraries(cmake_${kind} PRIVATE tessera::${kind})
endforeach()
CMAKE
cmake -S . -B build -DCMAKE_PREFIX_PATH="$work/prefix" >log && cmake --build build >>log || { cat log; exit 1; }
draws build/cmake_shared
draws build/cmake_static

if grep -rnE "$TESSERA_SOURCE|$TESSERA_BUILD" "$library/pkgconfig" "$library/cmake"; then
    echo "the installed package points at the source or build folder (above)"
    exit 1
fi
