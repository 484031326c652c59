#!/bin/bash
# Several hosts on one machine: network namespaces that a switch connects, each with a host name of its own, Open MPI over
# TCP between them. Runs a command on them, one rank a host, and says on stderr what each interface sent and received.
#
#   bench/network.sh [-n HOSTS] [-p RANKS_A_HOST] [-r RATE] [-o MPIRUN_OPTION]... -- COMMAND...
#       -n  2       -p  1       -r  100mbit, 1gbit, ... as tc writes it, both ways on each host's link; none: no limit
#
# The hosts divide the machine's cores; more hosts than cores share them, which no real network does. Packets keep the
# offloads that network cards have. Exit status: the command's; 77 (and nothing was done) where namespaces are not
# permitted. All is removed at the end, also after a signal. Needs root, iproute2, util-linux.
set -u
hosts=2 ranks=1 rate=none options=()
usage() { sed -n '2,/^set/s/^# \?//p' "$0" >&2; exit 2; }
while getopts n:p:r:o: option; do
    case $option in
        n) hosts=$OPTARG ;;
        p) ranks=$OPTARG ;;
        r) rate=$OPTARG ;;
        o) options+=("$OPTARG") ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

name=tessera-$$
folder=$(mktemp -d "${TMPDIR:-/tmp}/$name-XXXXXX")
address() { echo "10.77.0.$(($1 + 1))"; }
launch=

cleanup() {
    trap '' INT TERM HUP
    [ -z "$launch" ] || { kill -TERM "$launch" && wait "$launch"; } 2> /dev/null
    for space in $(ip netns list | awk -v name="$name-" 'index($1, name) == 1 { print $1 }'); do
        while ip netns pids "$space" | xargs -r kill -KILL && [ -n "$(ip netns pids "$space")" ]; do sleep 0.05; done
        ip netns delete "$space"
    done
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

skip() { echo "skipped: $1" >&2; exit 77; }
command -v ip tc unshare taskset > /dev/null || skip "ip, tc (iproute2), unshare or taskset is missing"
ip netns add $name-switch 2> /dev/null || skip "network namespaces are not permitted here"

# limit SPACE INTERFACE: what leaves by this interface. The bucket holds a few packets of the largest size.
limit() {
    [ "$rate" = none ] || tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 50ms
}

connect() { # host $1 to the switch
    local space=$name-$(address "$1")
    ip netns add "$space" &&
        ip -n "$space" link set lo up &&
        ip -n "$space" link add eth0 type veth peer name "port$1" netns $name-switch &&
        ip -n "$space" address add "$(address "$1")/24" dev eth0 &&
        ip -n $name-switch link set "port$1" master switch up &&
        ip -n "$space" link set eth0 up &&
        limit "$space" eth0 && limit $name-switch "port$1"
}
ip -n $name-switch link add switch up type bridge || skip "no bridge can be made here"
for host in $(seq 0 $((hosts - 1))); do
    connect "$host" || skip "host $host cannot be connected (veth and tbf are needed)"
    echo "$(address "$host") slots=$ranks" >> "$folder/hosts"
done

# What a host is: its namespace, its name, its cores. Also serves as ssh: HOST COMMAND WORD...
cat > "$folder/on" << END
#!/bin/bash
host=\$((\${1##*.} - 1))
cores=(\$(taskset -c 0-1023 grep Cpus_allowed_list /proc/self/status | cut -f 2 | tr ',' '\n' |
    while IFS=- read -r first last; do seq "\$first" "\${last:-\$first}"; done))
own=()
for i in "\${!cores[@]}"; do
    [ $hosts -ge \${#cores[@]} ] || [ \$((i % $hosts)) -ne \$host ] || own+=("\${cores[i]}")
done
[ \${#own[@]} -gt 0 ] || own=("\${cores[host % \${#cores[@]}]}")
exec ip netns exec "$name-\$1" unshare --uts taskset -c "\$(IFS=,; echo "\${own[*]}")" \\
    sh -c 'hostname "\$1"; shift; eval "\$@"' - "host\$host" "\${@:2}"
END
chmod +x "$folder/on"

counter() { ip netns exec "$name-$(address "$1")" cat "/sys/class/net/eth0/statistics/$2"; }
mapfile -t before < <(for host in $(seq 0 $((hosts - 1))); do counter "$host" tx_bytes; counter "$host" rx_bytes; done)

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=$folder/on
export OMPI_MCA_orte_tmpdir_base=$folder OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_plm_rsh_no_tree_spawn=1
[ $((hosts * ranks)) -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
"$folder/on" "$(address 0)" exec mpirun --hostfile "$folder/hosts" -n $((hosts * ranks)) --map-by node --bind-to none \
    "$(printf '%q ' ${options[@]+"${options[@]}"} "$@")" &
launch=$!
wait $launch
status=$?
launch=
for host in $(seq 0 $((hosts - 1))); do
    echo "host $host sent $(($(counter "$host" tx_bytes) - before[2 * host])) bytes," \
        "received $(($(counter "$host" rx_bytes) - before[2 * host + 1]))" >&2
done
exit $status
