#!/usr/bin/env bash
# Ranks get the cores they should: Open MPI's default binding is undone, a binding that the user chose is kept, ranks
# of one host have cores of their own, as processes and as threads.
set -eu
ranks=$TESSERA_TOOLS/tessera-ranks
failed=0
# The kernel cuts the wish for all cores down to those that are allowed, "0-3,8" or the like.
list=$(taskset -c 0-1023 grep Cpus_allowed_list /proc/self/status | cut -f 2)
mapfile -t allowed < <(tr ',' '\n' <<<"$list" | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
n=${#allowed[@]}
all=$(IFS=,; echo "${allowed[*]}")
complain() { echo "FAILED: $1"; echo "$2"; failed=1; }
[ -n "$all" ] || { echo "no cores found"; exit 1; }
device=cpu
grep -q '^TESSERA_CPU_DEVICE:BOOL=OFF' "${TESSERA_BUILD:-build}/CMakeCache.txt" 2>/dev/null && device=ref

line() { # what rank $1 said in $2
    grep "^rank $1 of" <<<"$2"
}
cores() { line "$1" "$2" | sed -E 's/.*cores ([0-9,]*) threads.*/\1/'; }
disjoint() { # no core is in two of the lists given
    [ -z "$(tr ',' '\n' <<<"$(printf '%s\n' "$@")" | sort | uniq -d)" ]
}

out=$(mpirun -n 1 "$ranks" --device $device cores)
[ "$(cores 0 "$out")" = "$all" ] || complain "mpirun -n 1 has all cores ($all)" "$out"
[ $device = ref ] || grep -q " threads $n$" <<<"$out" || complain "mpirun -n 1 computes on $n threads" "$out"

out=$(mpirun -n 1 --bind-to core "$ranks" --device $device cores)
[ "$(cores 0 "$out")" != "$all" ] || [ "$n" = 1 ] || complain "--bind-to core is respected" "$out"
out=$(mpirun -n 1 --cpu-set "${allowed[0]}" "$ranks" --device $device cores)
[ "$(cores 0 "$out")" = "${allowed[0]}" ] || complain "--cpu-set is respected" "$out"
out=$(mpirun -n 1 --bind-to none taskset -c "${allowed[0]}" "$ranks" --device $device cores)
[ "$(cores 0 "$out")" = "${allowed[0]}" ] || complain "a mask set inside is respected" "$out"
out=$(taskset -c "${allowed[0]}" "$ranks" --ranks 1 cores)
[ "$(cores 0 "$out")" = "${allowed[0]}" ] || complain "taskset is respected" "$out"

# OpenMP's own binding, too: it would have bound every rank to the first core.
for bind in false true; do
    export OMP_PROC_BIND=$bind
    for start in "mpirun -n 2 --oversubscribe" "mpirun -n 2 --bind-to none --oversubscribe" "threads"; do
        if [ "$start" = threads ]; then out=$("$ranks" --ranks 2 --device $device cores); else
            out=$($start "$ranks" --device $device cores); fi
        what="$start, OMP_PROC_BIND=$bind"
        [ "$n" -lt 2 ] || disjoint "$(cores 0 "$out")" "$(cores 1 "$out")" || complain "$what: two ranks share no core" "$out"
        [ "$n" -lt 2 ] || [ $device = ref ] || [ "$(grep -c " threads $((n / 2))$" <<<"$out")" = 2 ] ||
            complain "$what: two ranks have $((n / 2)) threads each" "$out"
    done
    out=$("$ranks" --ranks 1 --device $device cores)
    [ $device = ref ] || grep -q " threads $n$" <<<"$out" || complain "OMP_PROC_BIND=$bind: one rank computes on $n threads" "$out"
done
unset OMP_PROC_BIND

# More ranks than cores: one thread each, on all cores.
out=$("$ranks" --ranks $((n + 1)) --device $device cores)
[ "$(cores 0 "$out")" = "$all" ] || complain "more ranks than cores are not bound" "$out"
[ $device = ref ] || [ "$(grep -c " threads 1$" <<<"$out")" = $((n + 1)) ] || complain "one thread each" "$out"
exit $failed
