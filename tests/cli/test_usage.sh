#!/bin/bash
# Wrong command lines: exit status 2 and one sentence; help; version.
. "$(dirname "$0")/lib.sh"
g=("$TESSERA" generate "$work/no-model" prompt -o result/out.png)

name "help and version"
for command in generate forward inspect tokenize plan save bench; do
    expect 0 '^example:$' "$TESSERA" $command --help
    [ -s err ] && fail "help on stderr: $(cat err)"
done
expect 0 '^example:$' "$TESSERA" --help
expect 0 '^tessera [0-9]+\.[0-9]+\.[0-9]+$' "$TESSERA" --version
grep -q 'oneDNN' out || fail "no oneDNN in: $(cat out)"
grep -q '^MPI: [A-Z]' out || fail "no MPI in: $(cat out)"

name "commands"
expect 2 'no command' "$TESSERA"
expect 2 "unknown command 'genrate'; did you mean 'generate'" "$TESSERA" genrate
expect 2 "unknown command 'x'" "$TESSERA" x

name "options: all the ways to write one lead to the model, which is not there"
for words in "-H32 -W 32" "--height=32 --width 32" "--steps 2" "--num-inference-steps=2" "--tp 1 --ring=1 --ulysses 1" "--tp 2 --mesh ring=1,tp=2 --text-encoder-tp 1" \
    "-n2 --seed 1,2" "--sigmas 1,0.5" "--quiet" "--guidance-scale 2.5" "--seed 18446744073709551615"; do
    expect 1 'no-model: no such folder' "${g[@]}" $words
done

name "unknown options, with the nearest"
expect 2 'unknown option --hieght; did you mean --height\?' "${g[@]}" --hieght 64
expect 2 'unknown option --num_inference_steps; did you mean --num-inference-steps\?' "${g[@]}" --num_inference_steps 4
expect 2 'unknown option -x' "${g[@]}" -x
expect 2 'unknown option --zzzzzzzzzzzzzz ' "${g[@]}" --zzzzzzzzzzzzzz
expect 2 'unknown option --y' "${g[@]}" "--y$(printf 'y%.0s' {1..300})"
expect 2 'unknown option --steps' "$TESSERA" inspect "$klein" --steps 4
expect 2 '--height needs a value' "${g[@]}" --height
expect 2 '--quiet takes no value' "${g[@]}" --quiet=yes

name "options that Tessera or the pipeline does not have, by name"
for option in lora device-map negative-prompt true-cfg-scale prompt-2 image strength scheduler variant; do
    expect 2 "--$option: .*(Tessera|takes no|supported)" "${g[@]}" --$option x
done

name "degrees"
for value in 0 -1 1025 two ""; do
    for option in tp ring ulysses text-encoder-tp; do
        expect 2 "--$option takes a whole number from 1 to 1024, not '$value'" "${g[@]}" --$option "$value"
    done
done
for mesh in tp tp= tp=0 tp=-1 tp=x "tp=2," fsdp=2 "tp=2 ring=1" tp=0x2; do
    expect 2 "--mesh takes axes like .*, not '$mesh'" "${g[@]}" --mesh "$mesh"
done
expect 2 "--mesh tp=2,ring=2,tp=2: 'tp=2' names an axis again" "${g[@]}" --mesh tp=2,ring=2,tp=2
expect 2 "--mesh tp=2: 'tp=2' contradicts" "${g[@]}" --tp 4 --mesh tp=2
expect 2 "--text-encoder-tp 4: there are 2 ranks; give at most so many, or more ranks .for example --tp 4" "${g[@]}" --tp 2 --text-encoder-tp 4
expect 2 "--text-encoder-tp 2: there is 1 rank; " "${g[@]}" --text-encoder-tp 2
p=("$TESSERA" plan "$klein")
expect 2 '--as-rank R and --of N belong together' "${p[@]}" --as-rank 0
expect 2 '--as-rank R and --of N belong together' "${p[@]}" --of 2
expect 2 'ranks count from 0 to 1' "${p[@]}" --as-rank 2 --of 2
expect 2 '--tp 4 and --of 2 contradict' "${p[@]}" --as-rank 0 --of 2 --tp 4

name "numbers"
for value in 0 -16 100000 6.5 x "" 99999999999999999999 1e3 0x40 " 64"; do
    expect 2 "--height takes a whole number from 1 to 65536, not '$value'" "${g[@]}" -H "$value"
    expect 2 "--width takes a whole number from 1 to 65536, not '$value'" "${g[@]}" --width "$value"
done
expect 2 '--steps takes' "${g[@]}" --steps 0
expect 2 '--num-images-per-prompt takes' "${g[@]}" -n 0
expect 2 '--threads takes' "${g[@]}" --threads 0
for value in nan inf -1 x ""; do expect 2 "--guidance-scale takes .* not '$value'" "${g[@]}" --guidance-scale "$value"; done
for value in -1 1,,2 1, ,1 18446744073709551616 1.5 x ""; do
    expect 2 "--seed takes .* not '$value'" "${g[@]}" --seed "$value"
done
for value in 1,x 1, nan inf -1 1,-0.5 0.5,1 1,0.5,0.6 ""; do expect 2 "--sigmas takes .* not '$value'" "${g[@]}" --sigmas "$value"; done
expect 2 "--seed lists 2 seeds for 1 pictures" "${g[@]}" --seed 1,2
expect 2 "--seed lists 2 seeds for 6 pictures" "${g[@]}" another -n 3 --seed 1,2

name "choices"
expect 2 "--dtype takes bfloat16\|float32\|float16, not 'int8'" "${g[@]}" --dtype int8
expect 2 "--dtype takes .*, not 'float'" "${g[@]}" --dtype float
expect 2 "--device takes cpu\|ref, not 'gpu'" "${g[@]}" --device gpu
expect 2 "--output-type takes" "${g[@]}" --output-type jpg

name "options that need others"
expect 2 '--dump-blocks needs --dump' "${g[@]}" --dump-blocks
expect 2 '--no-special needs --raw' "$TESSERA" tokenize "$klein" x --no-special
expect 2 '--raw does not pad' "$TESSERA" tokenize "$klein" x --raw --max-sequence-length 4
expect 2 'there is no prompt' "$TESSERA" tokenize "$klein"
expect 2 '--stdin reads the prompts' "$TESSERA" tokenize "$klein" x --stdin
expect 2 '--inputs FILE is missing' "$TESSERA" forward "$klein/transformer"
expect 2 '-o FILE is missing' "$TESSERA" forward "$klein/transformer" --inputs x
expect 2 '--config FILE is missing' "$TESSERA" bench step --random-weights
expect 2 '--random-weights is missing' "$TESSERA" bench step --config x
expect 2 "'image' is not in this version" "$TESSERA" bench image
expect 2 'the folder is missing' "$TESSERA" bench load
expect 2 'the folder is missing' "$TESSERA" bench load ''
for words in "load x --tokens 3" "load x --ring 2" "step --as-rank" "step --cold" "collectives --force" "collectives --config"; do
    set -- $words
    option=$(grep -o -- '--[a-z-]*' <<< "$words")
    [[ $option =~ config|as-rank ]] && set -- "$@" 1
    expect 2 "$option: bench $1 takes no such option" "$TESSERA" bench "$@"
done
expect 2 'give --tp N' "$TESSERA" bench collectives
expect 2 '--bytes takes a size .*, at least 4194304 of them' "$TESSERA" bench collectives --tp 2 --bytes 4000000
expect 2 '--quiet and --verbose contradict each other' "${g[@]}" --quiet --verbose
expect 2 "too much: 'more'" "$TESSERA" bench step more --config x --random-weights
expect 2 "unknown measurement 'stp'" "$TESSERA" bench stp

name "the output's name"
expect 2 "x.jpg: Tessera writes .png files only; use -o 'x.png'" "${g[@]}" -o x.jpg
expect 2 "x.jpg: Tessera writes .png files only; use --grid 'x.png'" "${g[@]}" --grid x.jpg
expect 2 "--grid needs pictures" "${g[@]}" --grid x.png --output-type latent
expect 2 "use -o 'a.b/x.png'" "${g[@]}" -o a.b/x
expect 2 "use -o 'x.safetensors'" "${g[@]}" --output-type latent -o x.png
expect 2 'must be a file' "${g[@]}" -o x/
for option in output grid dump prompt-file mesh tp-plan; do expect 2 "--$option takes [A-Z]+, not ''" "${g[@]}" --$option ''; done
expect 2 'the first argument is empty' "$TESSERA" generate '' prompt
expect 2 "use -o 'x.safetensors'" "$TESSERA" forward "$klein/transformer" --inputs x -o x.bin

name "prompts"
expect 2 'something is missing' "$TESSERA" generate
expect 2 'there is no prompt' "$TESSERA" generate "$klein"
printf '\n\r\n\n' > empty.txt
printf 'a\0b\n' > nul.txt
expect 2 'there is no prompt in empty.txt' "$TESSERA" generate "$klein" --prompt-file empty.txt
expect 1 'nul.txt: it holds a NUL byte' "$TESSERA" generate "$klein" --prompt-file nul.txt
expect 1 'none.txt: No such file' "$TESSERA" generate "$klein" --prompt-file none.txt
expect 2 'too much' "$TESSERA" inspect a b
printf '\nfine\na \xff cat\n' > bytes.txt
expect 1 'bytes.txt: line 3 is not UTF-8 at byte 2 \(0xff\)' "$TESSERA" generate "$klein" --prompt-file bytes.txt
expect 1 'prompt 2 is not UTF-8 at byte 2 \(0xff\)' "$TESSERA" generate "$klein" a $'a \xff'
expect 1 'the prompt is not UTF-8 at byte 2 \(0xff\)' "$TESSERA" tokenize "$klein" $'a \xff'
expect 2 'there is no prompt in standard input' "$TESSERA" generate "$klein" --prompt-file -
expect 1 'no-model: no such folder' sh -c "echo a cat | '$TESSERA' generate no-model --prompt-file -"
expect 2 'only one of the launcher' mpirun --oversubscribe -n 2 "$TESSERA" generate "$klein" --prompt-file - --tp 2

name "a prompt that begins with a dash, and one of bytes that are not UTF-8"
expect 0 'saved dash.png' "$TESSERA" generate "$klein" "${tiny[@]}" -o dash.png -- --lora
expect 1 'UTF-8' "$TESSERA" generate "$klein" "${tiny[@]}" -o result/out.png $'\xff\xfe'

name "results that cannot be written are no success"
"$TESSERA" inspect "$klein" > /dev/full 2> err
[ $? -eq 1 ] || fail "exit status of inspect > /dev/full"
grep -q '^tessera: error: standard output: No space left on device$' err || fail "message: $(cat err)"
for words in "plan $klein --tp 2" "inspect $klein --json" "tokenize $klein a" --help --version; do
    "$TESSERA" $words >&- 2> err
    [ $? -eq 1 ] || fail "exit status of $words >&-"
    [ "$(cat err)" = 'tessera: error: standard output: Bad file descriptor' ] || fail "$words >&-: $(cat err)"
done
"$TESSERA" tokenize "$klein" --stdin <&- 2> err && fail "a closed standard input is no input"
finish
