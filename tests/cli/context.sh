#!/bin/bash
# Layouts that split the sequence. Sourced after lib.sh and klein_case.sh.
# Each: ranks and options. Lengths must divide over ring x ulysses unless `anything` is asked for.
contexts=(
    "2 --ring 2" "2 --ring 2 --rotate-method alltoall" "2 --ulysses 2"
    "4 --ring 4" "4 --ring 4 --rotate-method alltoall" "4 --ulysses 4"
    "4 --ring 2 --ulysses 2" "4 --ring 2 --ulysses 2 --rotate-method alltoall"
    "4 --ring 2 --tp 2" "4 --ulysses 2 --tp 2"
)
context_8="8 --ring 2 --ulysses 2 --tp 2"

# in_context KIND LAYOUT HOW: sets launcher, degrees and shared, the ranks that share a sequence. HOW: plain, or anything.
in_context() {
    local words
    read -ra words <<< "$2"
    launcher=() degrees=("${words[@]:1}") shared=${words[0]}
    [ "$1" = threads ] || launcher=(mpirun --oversubscribe -n "${words[0]}")
    case $2 in *--tp*) shared=$((shared / 2)) ;; esac
    [ "$3" = anything ] || return 0
    case $2 in *--ring*) degrees+=(--ring-anything) ;; esac
    case $2 in *--ulysses*) degrees+=(--ulysses-anything) ;; esac
}

# The words of klein_case for the case NAME, case_NAME, become $words.
case_words() {
    local -n chosen=case_$1
    words=("${chosen[@]}")
}

# alone NAME: the case on one rank; kept in one_NAME.
alone() {
    name "$1, one rank"
    case_words "$1"
    launcher=()
    klein_case "${words[@]}"
    mkdir -p "one_$1"
    mv dump case*.png "one_$1/"
}

# spread KIND LAYOUT HOW NAME...: the cases in a layout, against diffusers and against one rank.
spread() {
    local picture what
    for what in "${@:4}"; do
        name "$what, $1 $2, $3"
        case_words "$what"
        in_context "$1" "$2" "$3"
        klein_case "${words[@]}" "${degrees[@]}"
        same dump/stages.safetensors "one_$what/dump/stages.safetensors" --except image_u8 --tolerance 2e-5
        for picture in case*.png; do same "$picture" "one_$what/$picture" --tolerance 1; done
        [ "$(png_text "$picture" layout)" = "$(layout_text "$2")" ] || fail "layout: $(png_text "$picture" layout)"
    done
}

# "4 --ring 2 --rotate-method alltoall --tp 2" -> "ring 2 x tp 2"
layout_text() { sed -E 's/^[0-9]+ --//; s/ --rotate-method [a-z]+//; s/ --/ x /g' <<< "$1"; }

# too_odd TOKENS KIND LAYOUT NAME: refused for so many tokens, naming degrees and option, before the text is encoded.
too_odd() {
    local option=--ulysses-anything
    case $3 in *--ring*) option=--ring-anything ;; esac
    name "$4 is refused, $2 $3"
    case_words "$4"
    in_context "$2" "$3" plain
    expect 1 " $1 tokens do not divide over $shared ranks \(ring [0-9] x ulysses [0-9]\); [a-z]+_anything \($option\) allows that" \
        "${launcher[@]}" "$TESSERA" generate "${words[0]}" "${words[@]:3}" --dtype float32 --seed 42 "${degrees[@]}" -o result/x.png
    grep -Eq '^tessera: (loading|encoding)' err && fail "weights were loaded: $(cat err)"
}
