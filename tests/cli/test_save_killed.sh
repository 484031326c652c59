#!/bin/bash
# tessera save that fails or is killed in the middle: the old folder is whole.
# Every save waits for the disk many times, so the test uses one in memory where there is.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
. "$(dirname "$0")/lib.sh"
save=("$TESSERA" save --quiet)

digest() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }
# alone FOLDER: nothing of its saves is left beside it.
alone() { ! ls -d "$1".tmp-* 2> /dev/null || { fail "left behind beside $1"; rm -rf "$1".tmp-*; }; }
# with_fault CALL=FAULT: sets `faulty`, words in front of a command that make system calls fail (strace's -e inject).
with_fault() { faulty=(env ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o trace -e "trace=${1%%:*}" -e "inject=$1"); }

expect 0 '' "${save[@]}" "$klein" -o old --max-shard-size 100KB
expect 0 '' "${save[@]}" "$klein" -o new
old=$(digest old) new=$(digest new)
cp -r old it

name "a disk that is read-only or too small: with both numbers"
mkdir disk
if unshare -m mount -t tmpfs none disk 2> /dev/null; then
    expect 1 'disk/x: .*Read-only file system' unshare -m sh -c \
        "mount -t tmpfs -o ro none disk && exec '$TESSERA' save --quiet '$klein' -o disk/x"
    expect 1 'disk/x: 1[.]3 MB will be written, but its disk has 1[.]0 MB free' unshare -m sh -c \
        "mount -t tmpfs -o size=1000k none disk && exec '$TESSERA' save --quiet '$klein' -o disk/x"
else
    echo "(left out: no mount allowed)"
fi
expect 1 'cannot be written: File too large' sh -c "ulimit -f 150; exec '$TESSERA' save --quiet '$klein' -o result/x"

# killed: after a kill -9 the folder is the old one, or (killed while the old one was removed) the new one.
survived=0
killed() {
    local found
    found=$(digest it)
    [ "$found" = "$old" ] || [ "$found" = "$new" ] || fail "neither old nor new: $(find it)"
    [ "$found" != "$old" ] || survived=$((survived + 1))
    rm -rf it it.tmp-*
    cp -r old it
}

if command -v strace > /dev/null; then
    name "a write that fails in the middle"
    for fault in pwrite64:error=ENOSPC:when=60 fsync:error=EIO:when=3 renameat2:error=EIO; do
        with_fault $fault
        expect 1 '(No space left on device|Input/output error)$' "${faulty[@]}" "${save[@]}" "$klein" -o it --tp 2
        [ "$(digest it)" = "$old" ] || fail "$fault: the old folder is another"
        alone it
    done

    name "a system that cannot exchange folders"
    with_fault renameat2:error=EINVAL
    expect 0 '' "${faulty[@]}" "${save[@]}" "$klein" -o it
    [ "$(digest it)" = "$new" ] || fail "not the new one: $(find it)"
    alone it
    rm -rf it && cp -r old it

    name "killed at every kind of step"
    for call in pwrite64:when=3 pwrite64:when=200 fsync:when=3 renameat2:when=1 unlink:when=1 unlink:when=7 rmdir:when=2; do
        with_fault "${call%%:*}:signal=KILL:${call#*:}"
        run "${faulty[@]}" "${save[@]}" "$klein" -o it --tp 2 2> /dev/null
        [ $status -ge 128 ] || fail "$call: exit status $status"
        killed
    done
    [ $survived -ge 3 ] || fail "killed before the end $survived times only"
else
    echo "(left out: no strace)"
fi

name "killed at any time"
survived=0
for delay in 0.{00..32..2}; do
    "${save[@]}" "$klein" -o it --tp 2 &
    sleep $delay
    kill -9 $! 2> /dev/null
    wait $! 2> /dev/null
    killed
done
echo "$survived of 17 times the old folder was still there"
expect 0 '' "${save[@]}" "$klein" -o it --tp 2
[ "$(digest it)" = "$new" ] || fail "a save after all this"
alone it
finish
