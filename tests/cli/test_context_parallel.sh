#!/bin/bash
# A split sequence with the fixtures, which need no golden data: every way of splitting, as threads and as processes,
# against diffusers and one rank; what is wrong usage, and what a picture tells of its layout.
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
expected=$source_root/tests/fixtures/klein_expected
base_model "$klein"
case_a64=("$klein" "$expected/a64" 1 -H 64 -W 64 --steps 4 --guidance-scale 1 --max-sequence-length 32
    "A cat holding a sign that says hello world")
case_batch=("$klein" "$expected/batch" 4 -H 32 -W 48 --steps 2 --guidance-scale 1 --max-sequence-length 28 -n 2
    "A bowl of ripe oranges" 'The word "OPEN" on a green door, 35 mm film, in the rain at night')
case_cfg=(base "$expected/cfg" 1 -H 48 -W 80 --steps 2 --guidance-scale 4 --max-sequence-length 24
    "A red fox beside a frozen lake")

for case in a64 batch cfg; do alone $case; done
for layout in "${contexts[@]}"; do
    spread threads "$layout" plain a64
    spread threads "$layout" anything batch cfg
done
for layout in "2 --ring 2 --rotate-method alltoall" "2 --ulysses 2" "4 --ring 2 --ulysses 2"; do
    spread mpirun "$layout" anything cfg
done
spread threads "$context_8" plain a64
spread threads "3 --ulysses 3" anything a64 # 4 heads over 3 ranks
spread threads "5 --ring 5" anything cfg
too_odd 6 threads "4 --ring 4" batch

name "wrong usage: one message, exit status 2, on any rank"
# usage PATTERN OPTION...
usage() {
    expect 2 "$1" "$TESSERA" generate "$klein" x -o result/x.png "${@:2}"
    expect 2 "$1" mpirun --oversubscribe -n 2 "$TESSERA" generate "$klein" x -o result/x.png "${@:2}"
}
usage "--ring takes a whole number from 1 to 1024, not '0'" --ring 0
usage "--ulysses takes a whole number from 1 to 1024, not '-2'" --ulysses -2
usage "--rotate-method takes allgather\|alltoall, not 'x'" --ring 2 --rotate-method x
usage "--rotate-method takes allgather\|alltoall, not 'all'" --ring 2 --rotate-method all
usage "--ring-anything takes no value" --ring 2 --ring-anything=1
usage "'ring=4' contradicts a size given before" --ring 2 --mesh ring=4
usage "--mesh takes axes like ring=1,ulysses=1,tp=2" --mesh ring=2,ulysses=0

name "rules of the config: refused before anything is read"
usage '--rotate-method needs --ring N with N above 1' --tp 2 --rotate-method alltoall
usage '--rotate-method needs --ring N' --mesh ulysses=2 --rotate-method allgather
usage '--ring-anything needs --ring N' --ulysses 2 --ring-anything
usage '--ulysses-anything needs --ulysses N' --ring 2 --ulysses-anything
refuse '4 attention heads .*tp 1\), which ulysses 3 does not divide; ulysses_anything \(--ulysses-anything\)' "$klein" --ulysses 3
refuse 'attention heads? on each rank \(tp 4\), which ulysses 2 does not divide' "$klein" --ulysses 2 --tp 4

name "the product of the degrees and the launcher's ranks"
# asked PATTERN RANKS OPTION...
asked() {
    expect 1 "$1" mpirun --oversubscribe -n "$2" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -o result/x.png "${@:3}"
}
asked 'started 2 ranks, but the degrees make 4: ring 2 x ulysses 2 x tp 1; .* mpirun -n 4 tessera generate .* --ring 2 --ulysses 2$' 2 --ring 2 --ulysses 2
asked 'started 4 ranks, but the degrees make 2: ring 1 x ulysses 2 x tp 1; .* mpirun -n 2 tessera generate .* --ulysses 2$' 4 --ulysses 2
asked 'started 3 ranks, but the degrees make 8: .* mpirun -n 8 tessera generate .* --ring 2 --ulysses 2 --tp 2$' 3 --mesh ring=2,ulysses=2,tp=2

name "a mesh is the same as degrees, whatever the order of its axes"
draw one.png "$klein"
for mesh in ring=2,ulysses=1,tp=2 tp=2,ulysses=2 ulysses=2,ring=2; do
    draw mesh.png "$klein" --mesh $mesh
    same mesh.png one.png --tolerance 1
done

name "convert_to_fp32: said once that it changes nothing"
for kind in threads mpirun; do
    in_context $kind "2 --ring 2" plain
    run "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" "${degrees[@]}" --no-convert-to-fp32 -o told.png
    [ "$status" -eq 0 ] && [ "$(grep -c 'warning: convert_to_fp32=false changes nothing' err)" -eq 1 ] || fail "$kind: $(cat err)"
    same told.png one.png --tolerance 1
done

name "a transformer by itself"
a64=$expected/a64.safetensors
for kind in threads mpirun; do
    in_context $kind "4 --ring 2 --tp 2" plain
    expect 0 'saved out.safetensors' "${launcher[@]}" "$TESSERA" forward "$klein/transformer" --inputs "$a64" "${degrees[@]}" -o out.safetensors
    same out.safetensors "$a64" --only transformer_out --tolerance 1e-4
done
expect 1 'AutoencoderKLFlux2 has no context-parallel plan; classes that have one: .*Flux2Transformer2DModel' \
    "$TESSERA" forward "$klein/vae" --inputs "$a64" --ring 2 -o result/x.safetensors
finish
