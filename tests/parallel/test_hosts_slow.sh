#!/bin/bash
# label: slow
# Several hosts, imitated by network namespaces (bench/network.sh), Open MPI over TCP between them.
. "$(dirname "$0")/../cli/lib.sh"
network=$source_root/bench/network.sh
"$network" -n 1 -- true > probe 2>&1
case $? in
    0) ;;
    77) cat probe; exit 77 ;;
    *) fail "no network: $(cat probe)"; finish ;;
esac
gigabit=("$network" -r 1gbit)
spaces() { ip netns list | grep -o "^tessera-$1-[^ ]*"; }

name "the same picture over 1 Gbit/s as on one rank"
picture=(generate "$klein" "a red fox" -H 64 -W 64 --steps 2 --seed 1 --max-sequence-length 32 --dtype float32 --no-progress)
run "$TESSERA" "${picture[@]}" -o one.png
[ "$status" -eq 0 ] || fail "one rank: $(cat err)"
while read -r hosts ranks layout; do
    name "$hosts hosts with $ranks rank(s) each: $layout"
    rm -f out.png
    # shellcheck disable=SC2086 -- the layout is several words
    run "${gigabit[@]}" -n "$hosts" -p "$ranks" -- "$TESSERA" "${picture[@]}" -o out.png $layout
    [ "$status" -eq 0 ] || fail "status $status: $(tail -n 20 err)"
    same out.png one.png --tolerance 1
    [ "$(grep -c '^host [0-9] sent [1-9][0-9]* bytes' err)" -eq "$hosts" ] || fail "not all hosts sent something: $(cat err)"
done << 'END'
2 1 --tp 2
2 1 --ring 2
2 1 --ring 2 --rotate-method alltoall
2 1 --ulysses 2
4 1 --tp 4
4 1 --ring 2 --tp 2
4 1 --ring 2 --ulysses 2
2 2 --ring 2 --tp 2
END

name "what the ranks say they sent is what the interfaces counted, within 10 %"
sed -E '/axes_dims_rope/,/\]/d; s/("num_attention_heads": )[0-9]+/\18/; s/("attention_head_dim": )[0-9]+/\164/' \
    "$klein/transformer/config.json" | sed 's/^{/{"axes_dims_rope": [16, 16, 16, 16],/' > config.json
step=(bench step --config config.json --random-weights --tokens 1024 --text-tokens 128 --repeats 2 --no-progress --verbose)
while read -r layout; do
    # shellcheck disable=SC2086
    run "$network" -n 2 -- "$TESSERA" "${step[@]}" $layout
    [ "$status" -eq 0 ] || fail "$layout: status $status: $(tail -n 20 err)"
    for rank in 0 1; do
        counted=$(sed -nE "s/^tessera: rank $rank of 2 sent ([0-9]+) bytes.*/\1/p" err)
        sent=$(sed -nE "s/^host $rank sent ([0-9]+) bytes.*/\1/p" err)
        echo "$layout, rank $rank: counted $counted, sent $sent"
        [ "${counted:-0}" -gt 10000000 ] && [ $((sent * 10)) -ge $((counted * 10)) ] && [ $((sent * 10)) -le $((counted * 11)) ] ||
            fail "$layout: rank $rank counted $counted bytes, its interface $sent"
    done
done << 'END'
--tp 2
--ring 2
--ring 2 --rotate-method alltoall
--ulysses 2
END

# start HOSTS LAYOUT...: draws for long, and returns when it denoises. $launch: the network.
start() {
    "${gigabit[@]}" -n "$1" -- "$TESSERA" generate "$klein" x -H 64 -W 64 --steps 10000 --seed 1 --dtype float32 \
        "${@:2}" -o result/x.png > out 2> err &
    launch=$!
    for _ in $(seq 600); do grep -q 'denoising: step [1-9]' err && break; sleep 0.1; done
    grep -q 'denoising: step [1-9]' err || fail "it does not begin: $(cat err)"
}

# The process of the rank on host $1.
rank_on() {
    for process in $(ip netns pids "tessera-$launch-10.77.0.$(($1 + 1))"); do
        [ "$(cat /proc/$process/comm)" != tessera ] || echo "$process"
    done
}

# ended: all of it is gone, within 10 s, with a failure, and no picture.
ended() {
    local began=$SECONDS
    wait $launch
    status=$?
    [ $((SECONDS - began)) -le 10 ] || fail "it took $((SECONDS - began)) s"
    [ $status -ne 0 ] || fail "exit status 0"
    [ -z "$(spaces $launch)" ] || fail "left behind: $(spaces $launch)"
    [ -z "$(ls -A result)" ] || { fail "left behind: $(ls -A result)"; rm -rf result; mkdir result; }
}

for killed in 0 1; do
    name "the rank on host $killed is killed: the launcher names it, the others say where they were"
    start 2 --ring 2 --rotate-method alltoall
    victim=$(rank_on $killed)
    kill -9 "$victim"
    ended
    ! kill -0 "$victim" 2> /dev/null || fail "still there"
    grep -Eq "rank $killed with PID .* signal 9" err || fail "the launcher does not name rank $killed: $(grep -v denoising err)"
    grep -Eq "rank $((1 - killed)) of 2.*phase transformer" err || fail "the other rank says nothing: $(grep -v denoising err)"
done

name "one of four"
start 4 --ring 2 --tp 2
kill -9 "$(rank_on 2)"
ended
grep -Eq 'rank 2 with PID .* signal 9' err || fail "the launcher does not name rank 2: $(grep -v denoising err)"
for rank in 0 1 3; do
    grep -Eq "rank $rank of 4.*phase transformer" err || fail "rank $rank says nothing: $(grep -v denoising err)"
done

name "the network itself is interrupted: nothing is left behind"
start 2 --tp 2
kill -TERM $launch
ended
[ $status -eq 143 ] || fail "exit status $status"
finish
