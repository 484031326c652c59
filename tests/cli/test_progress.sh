#!/bin/bash
# Case 29: signs of life, not too many, in the right place; and the end by a signal.
. "$(dirname "$0")/lib.sh"
eight=("$TESSERA" generate "$klein" "a red fox" -H 32 -W 32 --steps 8 --seed 1 --max-sequence-length 20 --dtype float32)
run "${eight[@]}" --quiet -o quiet.png
name "case 29: --quiet says nothing"
[ "$status" -eq 0 ] && [ ! -s err ] && [ ! -s out ] || fail "it said: $(cat err out)"

name "case 29: to a file: plain lines for loading and steps, with an estimate, not more than 10 a second"
start=$(date +%s)
run "${eight[@]}" -o file.png
spent=$(($(date +%s) - start + 1))
[ "$status" -eq 0 ] || fail "$(cat err)"
grep -q '^tessera: loading transformer: ' err || fail "no loading: $(cat err)"
grep -q '^tessera: denoising: step 8 of 8, ' err || fail "no steps: $(cat err)"
grep -q $'\r' err && fail "a carriage return in a file"
[ "$(wc -l < err)" -le $((10 * spent + 10)) ] || fail "$(wc -l < err) lines in $spent s"
same file.png quiet.png

name "after the first step, an estimate of the rest"
run "$TESSERA" generate "$klein" "a red fox" -H 192 -W 192 --steps 40 --seed 1 -o slow.png
grep -q 'step [0-9]* of 40, .* s a step, about [0-9]* s left' err || fail "no estimate: $(cat err)"

name "case 29: --no-progress: notes alone"
run "${eight[@]}" --no-progress -o none.png
[ "$(cat err)" = "tessera: saved none.png: 32 wide, 32 high, seed 1" ] || fail "it said: $(cat err)"

name "case 29: stderr closed, stdout and stdin too"
"${eight[@]}" -o closed.png 2>&- || fail "with stderr closed"
same closed.png quiet.png
"${eight[@]}" -o closed.png <&- >&- 2>&- || fail "with all three closed"
same closed.png quiet.png
"${eight[@]}" -o pipe.png 2>&1 >&- | true
same pipe.png quiet.png

name "case 29: a terminal gets a bar"
if command -v script > /dev/null; then
    line=$(printf '%q ' "${eight[@]}" -o tty.png)
    script -qec "$line" /dev/null < /dev/null > tty.txt 2>&1 || fail "$(cat tty.txt)"
    grep -q $'\rdenoising .*\[####################\] step 8 of 8' tty.txt || fail "no bar: $(cat tty.txt)"
    [ "$(tr -cd '\r' < tty.txt | wc -c)" -le 200 ] || fail "a storm of carriage returns"
    same tty.png quiet.png
else
    echo "(left out: no script(1))"
fi

name "SIGINT and SIGTERM: cancelled within a step, exit status 1, one message, no picture, no process"
for signal in INT TERM; do
    "$TESSERA" generate "$klein" x -H 64 -W 64 --steps 10000 --seed 1 -o result/x.png > out 2> err &
    process=$!
    for _ in $(seq 300); do grep -q 'step' err && break; sleep 0.1; done
    kill -$signal $process
    wait $process
    [ $? -eq 1 ] || fail "exit status after SIG$signal"
    [ "$(grep -c '^tessera: error: ' err)" -eq 1 ] || fail "messages: $(tail -3 err)"
    grep -q "^tessera: error: cancelled by SIG$signal$" err || fail "message: $(tail -3 err)"
    [ -z "$(ls -A result)" ] || fail "left behind: $(ls -A result)"
done
finish
