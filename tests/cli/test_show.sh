#!/bin/bash
# The preview on a terminal, and none where it would do harm.
. "$(dirname "$0")/lib.sh"
graphics=$'\e[]_P]' # what begins a picture: APC, DCS or OSC
generate=("$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -o out.png)

# on_terminal 'VARIABLE=VALUE ...' [OPTION of tessera-terminal ...] -- COMMAND ...: in `tty` what COMMAND prints on a
# terminal of which the environment says that alone.
on_terminal() {
    local variables=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    run env -u TERM_PROGRAM -u LC_TERMINAL -u KITTY_WINDOW_ID -u TMUX -u STY TERM=xterm $variables \
        "$TESSERA_TOOLS/tessera-terminal" "${options[@]}" "${@:2}"
    mv out tty
    [ "$status" -eq 0 ] || fail "exit status $status of ${*:2}: $(cat -v err tty | tail -5)"
}

shows() { LC_ALL=C grep -aq "$graphics" tty; }
shows_nothing() { ! shows || fail "$1: a picture: $(cat -v tty | head -c 300)"; }

# The PNG of each protocol, from `tty`. Kitty's comes in chunks of at most 4096 letters.
kitty_png() {
    LC_ALL=C grep -aoz $'\e_G[^\e]*\e\\\\' tty | tr '\0' '\n' | sed $'s/^\e_G[^;]*;//; s/\e\\\\$//' | tr -d '\n' | base64 -d > "$1" ||
        fail "no base64"
    LC_ALL=C grep -aqE $'^\e_Ga=T,f=100,q=2,m=[01];' tty || fail "how it begins: $(cat -v tty | head -c 200)"
    LC_ALL=C grep -aqE $';[^;\e]{4097}' tty && fail "a chunk that is too long"
}
iterm2_png() {
    local size
    LC_ALL=C sed -n $'s/^\e]1337;File=inline=1;[^:]*:\\(.*\\)\a\r*$/\\1/p' tty | base64 -d > "$1" || fail "no base64"
    size=$(LC_ALL=C sed -n $'s/^\e]1337;File=.*;size=\\([0-9]*\\);.*/\\1/p' tty)
    [ "$size" = "$(stat -c %s "$1")" ] || fail "size=$size, $(stat -c %s "$1") bytes"
}

name "in a pipe: nothing, whatever the environment says"
run env TERM=xterm-kitty KITTY_WINDOW_ID=1 "${generate[@]}"
[ "$(cat err)" = "tessera: saved out.png: 32 wide, 32 high, seed 1" ] || fail "it said: $(cat -v err)"
[ ! -s out ] || fail "stdout: $(cat out)"
run env TERM=xterm-kitty "${generate[@]}" --show
[ "$status" -eq 0 ] || fail "exit status $status with --show"
[ "$(grep -c '^tessera: warning: --show: ' err)" -eq 1 ] && [ "$(wc -l < err)" -eq 2 ] || fail "no warning: $(cat err)"

name "kitty: the picture itself where it has the preview's size; otherwise enlarged by a whole factor, or averaged"
on_terminal TERM=xterm-kitty -- "${generate[@]}" -H 256 -W 256
kitty_png kitty.png
same kitty.png out.png
on_terminal TERM=xterm-ghostty -- "${generate[@]}"
kitty_png kitty.png
[ "$(png_header kitty.png)" = "256 256 8 2" ] || fail "header $(png_header kitty.png)"
on_terminal KITTY_WINDOW_ID=1 -- "${generate[@]}" -H 512 -W 384
kitty_png kitty.png
[ "$(png_header kitty.png)" = "192 256 8 2" ] || fail "header $(png_header kitty.png)"
on_terminal TERM_PROGRAM=ghostty -- "${generate[@]}" -n 3
kitty_png kitty.png
[ "$(png_header kitty.png)" = "392 392 8 2" ] || fail "header of three $(png_header kitty.png)"

name "it comes after the message, on a line of its own, and stdout is empty"
on_terminal TERM=xterm-kitty -- sh -c "\"\$@\" > stdout" sh "${generate[@]}"
head -n 1 tty | grep -q '^tessera: saved out.png: ' || fail "first: $(cat -v tty | head -c 200)"
tail -c 4 tty | cmp - <(printf '\e\\\r\n') || fail "its end: $(tail -c 20 tty | cat -v)"
[ ! -s stdout ] || fail "stdout has something"

name "iTerm2, and WezTerm"
for variables in TERM_PROGRAM=iTerm.app LC_TERMINAL=iTerm2 TERM_PROGRAM=WezTerm; do
    on_terminal $variables -- "${generate[@]}" -H 256 -W 128
    iterm2_png iterm2.png
    same iterm2.png out.png
    grep -aq 'width=128px;height=256px' tty || fail "no size"
done

name "sixel, of a terminal that says so"
on_terminal TERM=xterm --answer $'\e[?62;4c' -- "${generate[@]}" -H 256 -W 256
"$TESSERA_TOOLS/tessera-sixel" tty sixel.png 2> err || fail "$(cat err)"
same sixel.png out.png --tolerance 50
differ sixel.png out.png
copy_klein m
vae=vae/diffusion_pytorch_model.safetensors
edit "$klein/$vae" step.safetensors set decoder.conv_out.weight 0
edit step.safetensors "m/$vae" set decoder.conv_out.bias 1 -0.6 0.2
on_terminal TERM=xterm --answer $'\e[?62;4c' -- "$TESSERA" generate m x "${tiny[@]}" -H 512 -W 256 --show -o flat.png
"$TESSERA_TOOLS/tessera-sixel" tty sixel.png 2> err || fail "$(cat err)"
same sixel.png --colour 255,51,153
[ "$(png_header sixel.png)" = "128 256 8 2" ] || fail "size $(png_header sixel.png)"
grep -aq warning tty && fail "a warning"

name "a terminal that has no graphics, or does not answer: no picture, no hang, its mode as before"
on_terminal TERM=xterm --answer $'\e[?64;1;9;15c' -- "${generate[@]}"
shows_nothing "no attribute 4"
for answer in "" $'\e[?62;'; do
    on_terminal TERM=xterm --answer "$answer" -- "${generate[@]}"
    shows_nothing "no answer"
    LC_ALL=C grep -aq $'\e\\[c' tty || fail "not asked"
    on_terminal TERM=xterm --answer "$answer" -- "${generate[@]}" --show
    shows_nothing "no answer"
    [ "$(grep -ac "tessera: warning: --show: " tty)" -eq 1 ] || fail "no warning: $(cat -v tty)"
done
start=$(date +%s)
"$TESSERA_TOOLS/tessera-terminal" env -u TERM_PROGRAM TERM=xterm "${generate[@]}" > /dev/null || fail "exit status"
[ $(($(date +%s) - start)) -le 10 ] || fail "it took $(($(date +%s) - start)) s"
on_terminal TERM=dumb --answer $'\e[?62;4c' -- "${generate[@]}"
LC_ALL=C grep -aq $'\e' tty && fail "an escape sequence on a dumb terminal"

name "in tmux and screen only what they themselves can"
for variables in "TMUX=/tmp/tmux,1,0 KITTY_WINDOW_ID=1" "STY=1.tty LC_TERMINAL=iTerm2" "TERM=screen-256color KITTY_WINDOW_ID=1"; do
    on_terminal "$variables" --answer $'\e[?1;2c' -- "${generate[@]}"
    shows_nothing "$variables"
done
on_terminal "TERM=tmux-256color KITTY_WINDOW_ID=1" --answer $'\e[?1;2;4c' -- "${generate[@]}"
"$TESSERA_TOOLS/tessera-sixel" tty sixel.png 2> err || fail "$(cat err)"

name "what was typed meanwhile is left to the shell"
on_terminal TERM=xterm --answer $'\e[?62;4c' --typed $'ls -l\n' -- \
    sh -c '"$@"; read -r line; echo "then: $line."' sh "${generate[@]}"
grep -aq '^then: ls -l\.' tty || fail "it is gone: $(cat -v tty | tail -n 2)"

name "a job in the background neither draws nor is stopped"
for variables in TERM=xterm TERM=xterm-kitty; do
    on_terminal $variables --answer $'\e[?62;4c' -- bash -c 'set -m; "$@" & wait $!' bash "${generate[@]}"
    shows_nothing "in the background"
done

name "stderr is what counts"
on_terminal TERM=xterm-kitty -- sh -c '"$@" 2> stderr' sh "${generate[@]}"
shows_nothing "stderr in a file"
LC_ALL=C grep -aq "$graphics" stderr && fail "a picture in a file"

name "--quiet, --no-show: none; --quiet also with --show"
for options in --quiet "--quiet --show" --no-show; do
    on_terminal TERM=xterm-kitty -- "${generate[@]}" $options
    shows_nothing "$options"
    on_terminal TERM=xterm -- "${generate[@]}" $options
    LC_ALL=C grep -aq $'\e' tty && fail "$options: the terminal was asked"
done
run "${generate[@]}" --quiet --show
[ ! -s err ] || fail "it said: $(cat err)"
expect 2 '--show and --no-show contradict' "${generate[@]}" --show --no-show
expect 2 '--show needs pictures' "$TESSERA" generate "$klein" x "${tiny[@]}" --output-type latent --show -o l.safetensors
on_terminal TERM=xterm-kitty -- "$TESSERA" generate "$klein" x "${tiny[@]}" --output-type latent -o l.safetensors
shows_nothing "latents"

name "several ranks: one preview"
on_terminal TERM=xterm-kitty -- "${generate[@]}" --tp 2
[ "$(LC_ALL=C grep -ao 'a=T' tty | wc -l)" -eq 1 ] || fail "not one preview"
kitty_png kitty.png
on_terminal TERM=xterm-kitty -- mpirun --oversubscribe -n 2 "${generate[@]}" --tp 2
shows_nothing "under mpirun, whose ranks write into pipes"

name "a bar before it"
on_terminal TERM=xterm-kitty -- "$TESSERA" generate "$klein" x -H 32 -W 32 --steps 2 --seed 1 -o out.png
grep -aq '\[####################\] step 2 of 2' tty || fail "no bar"
kitty_png kitty.png
finish
