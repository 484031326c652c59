#!/bin/bash
# label: slow
# A checkpoint of more than 2 GB (random, dimensions of klein 4B, fewer blocks) on two ranks: each reads its slices and
# no more, and holds them and the activations and no more.
. "$(dirname "$0")/lib.sh"
without_sanitizers
skip() { echo "skipped: $1"; exit 77; }
[ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -gt 4000000 ] || skip "less than 4 GB are free in $work"
[ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 5000000 ] || skip "less than 5 GB of memory are free"
export OMPI_MCA_rmaps_base_oversubscribe=1

name "the checkpoint"
mkdir big
sed -E 's/"num_layers": *[0-9]+/"num_layers": 2/; s/"num_single_layers": *[0-9]+/"num_single_layers": 4/' \
    "$source_root/bench/klein-4b.json" > big/config.json
all=$("$TESSERA_TOOLS/tessera-make-checkpoint" big 700 inputs.safetensors 256 64) || fail "no checkpoint"
[ "$all" -ge 2000000000 ] && [ "$(ls big/*.safetensors | wc -l)" -ge 3 ] || fail "$all bytes: $(ls -l big)"
run "$TESSERA" plan big --tp 2 --json
part=$(sed -nE 's/.*"rank": 0, "weight_bytes": ([0-9]+).*/\1/p' out)
forward=("$TESSERA" forward big --inputs inputs.safetensors --tp 2 --no-progress)
echo "$all bytes of weights, $part of each rank"

name "bytes that each rank reads of the shards, seen from outside: at most 1.01 of its part"
if command -v strace > /dev/null; then
    mkdir trace.0 trace.1
    run mpirun -n 2 bash -c 'exec strace -ff -y -s 0 -e trace=read,readv,pread64,preadv,mmap \
        -o trace.$OMPI_COMM_WORLD_RANK/log "$@"' - "${forward[@]}" -o traced.safetensors
    [ "$status" -eq 0 ] || fail "$(cat err)"
    for rank in 0 1; do
        read=$(bytes_read trace.$rank 'big/.*[.]safetensors>')
        echo "rank $rank: $read bytes, $(awk "BEGIN { print $read / $part }") of its part"
        [ "$read" -ge "$part" ] && [ $((read * 100)) -le $((part * 101)) ] || fail "rank $rank read $read bytes, its part has $part"
    done
else
    echo "(left out: no strace)"
fi

name "peak resident memory of each rank: at most its part, the activations and 64 MB"
if [ -x /usr/bin/time ]; then
    run mpirun -n 2 bash -c 'exec /usr/bin/time -f %M -o resident.$OMPI_COMM_WORLD_RANK "$@"' - "${forward[@]}" --verbose -o timed.safetensors
    [ "$status" -eq 0 ] || fail "$(cat err)"
    activations=$(sed -nE 's/.* 0[.]0 MB of weights and ([0-9]+)([.][0-9]*)? MB of activations.*/\1/p' err | tail -n 1)
    [ -n "$activations" ] || fail "no activations in: $(cat err)"
    for rank in 0 1; do
        over=$(($(cat resident.$rank) * 1024 - part - activations * 1000000 / 2))
        echo "rank $rank: $(cat resident.$rank) kB resident, $((over / 1000000)) MB above its part and $((activations / 2)) MB of activations"
        [ $over -le 64000000 ] || fail "rank $rank: $over bytes above its part and activations"
    done
    same timed.safetensors traced.safetensors
else
    echo "(left out: no /usr/bin/time)"
fi

name "one rank computes the same"
run "$TESSERA" forward big --inputs inputs.safetensors --no-progress -o one.safetensors
[ "$status" -eq 0 ] || fail "$(cat err)"
same timed.safetensors one.safetensors --tolerance 2e-5
tail -n 1 compared

name "bench load: at most 64 MB beyond the part, whole beside it"
run mpirun -n 2 "$TESSERA" bench load big --tp 2 --no-progress --json
[ "$status" -eq 0 ] || fail "$(cat err)"
for rank in 0 1; do
    one=$(grep -o "{\"rank\": $rank,.*" out | sed 's/}}.*//; s/.*"streamed": //; s/, "whole".*//')
    resident=$(echo "$one" | sed -E 's/.*"peak_resident_bytes": ([0-9]+).*/\1/')
    echo "rank $rank: $one"
    [ $((resident - part)) -le 64000000 ] || fail "rank $rank: $((resident - part)) bytes above its part"
done

name "FLUX.2-dev in full size, a hole for weights: one rank's part alone; everything only where it fits"
mkdir dev
cp "$source_root/bench/flux2-dev.json" dev/config.json
all=$("$TESSERA_TOOLS/tessera-make-checkpoint" dev --sparse) || fail "no sparse checkpoint"
[ "$all" -gt 64000000000 ] && [ "$(du -k dev | cut -f 1)" -lt 10000 ] || fail "$all bytes in $(du -k dev)"
run "$TESSERA" bench load dev --as-rank 0 --of 48 --cold --repeats 1 --no-progress
[ "$status" -eq 0 ] && grep -Eq '^ +0  streamed ' out || fail "$(cat out err)"
cat out
if [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -lt 60000000 ]; then
    [ "$(grep -c 'whole is left out: .*needs .* MB available' err)" -eq 1 ] && ! grep -q '^ *0  whole' out || fail "$(cat out err)"
fi
finish
