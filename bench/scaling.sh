#!/bin/bash
# Seconds of a transformer step against the bandwidth between hosts (bench/network.sh), one rank and one share of the cores a
# host; a table in Markdown on stdout. docs/scaling.md explains it. Needs root; takes a quarter of an hour on 2 cores.
#
#   bench/scaling.sh [RATE ...]     (100mbit 1gbit none)
#   ROUNDS=3        best of so many, all settings taking turns
#   STEP="..."      options of `tessera bench step`: the model and the number of tokens
#   TESSERA=...     the command (build/release/tessera)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
tessera=$(realpath "${TESSERA:-$root/build/release/tessera}")
rates=("$@")
[ $# -gt 0 ] || rates=(100mbit 1gbit none)
read -ra step <<< "${STEP:---config $root/bench/klein-4b.json --num-layers 1 --num-single-layers 2 --tokens 1024 --text-tokens 128}"
layouts=("--tp 2" "--ring 2" "--ring 2 --rotate-method alltoall" "--ulysses 2")
declare -A seconds sent

number() { sed -nE "s/.*\"$1\": ([0-9.e+-]+).*/\1/p"; }

# measure NAME COMMAND...: a step of the command; the best goes to seconds[NAME].
measure() {
    local result best
    result=$("${@:2}" "$tessera" bench step "${step[@]}" --random-weights --repeats 1 --no-progress --json ${layout[@]+"${layout[@]}"} 2> "$log") ||
        { cat "$log" >&2; exit 1; }
    best=$(number seconds <<< "$result")
    seconds[$1]=$(printf '%s\n' "$best" ${seconds[$1]+"${seconds[$1]}"} | sort -g | head -n 1)
    sent[$1]=$(number bytes_sent <<< "$result")
    echo "$1: $best s" >&2
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
core=$(taskset -c 0-1023 grep Cpus_allowed_list /proc/self/status | grep -o '[0-9]*' | head -n 1)
for _ in $(seq "${ROUNDS:-3}"); do
    layout=()
    measure one taskset -c "$core"
    for name in "${layouts[@]}"; do
        read -ra layout <<< "$name"
        for rate in "${rates[@]}"; do measure "$name, $rate" "$root/bench/network.sh" -n 2 -r "$rate" --; done
    done
done

echo "\`bench step ${step[*]#"$root"/}\`"
echo
"$tessera" --version | sed -n 2p
echo
printf '| layout | sent by a rank |'; printf ' %s |' "${rates[@]}"
printf '\n|---|---|'; printf '%s' "${rates[@]/*/---|}"
printf '\n| one rank, %.2f s |  |' "${seconds[one]}"; printf '%s' "${rates[@]/*/ |}"
for name in "${layouts[@]}"; do
    printf '\n| `%s` | %.1f MB |' "$name" "$(awk "BEGIN { print ${sent[$name, ${rates[0]}]} / 1e6 }")"
    for rate in "${rates[@]}"; do printf ' %.2f s |' "${seconds[$name, $rate]}"; done
done
echo
