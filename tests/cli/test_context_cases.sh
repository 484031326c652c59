#!/bin/bash
# Reports about split sequences, retold (../shared/cases.md).
. "$(dirname "$0")/lib.sh"
. "$tests/klein_case.sh"
. "$tests/context.sh"
odd=(-H 48 -W 80 --steps 2 --seed 7 --max-sequence-length 23 --dtype float32 --no-progress) # 15 and 23 tokens
three=("3 --ring 3" "3 --ring 3 --rotate-method alltoall" "3 --ulysses 3")
fifteen=("$klein" "a red fox" "${odd[@]}")
run "$TESSERA" generate "${fifteen[@]}" --dump one -o one.png
[ "$status" -eq 0 ] || fail "$(cat err)"

# in_full KIND LAYOUT: 15 image tokens in a layout that takes any number.
in_full() {
    in_context "$1" "$2" anything
    rm -rf many
    run "${launcher[@]}" "$TESSERA" generate "${fifteen[@]}" "${degrees[@]}" --dump many -o many.png
    [ "$status" -eq 0 ] || fail "$1 $2: $(cat err)"
}

name "case 9: token counts that divide over nothing: any length is taken where it was asked for"
for layout in "${contexts[@]}" "${three[@]}"; do
    in_full threads "$layout"
    same many/stages.safetensors one/stages.safetensors --except image_u8 --tolerance 2e-5
done
for layout in "2 --ulysses 2" "${three[1]}" "4 --ring 2 --ulysses 2"; do
    in_full mpirun "$layout"
    same many/stages.safetensors one/stages.safetensors --except image_u8 --tolerance 2e-5
done

name "case 9: the plain modes refuse, before the text is encoded, and say tokens, degree and option"
case_odd=("$klein" none 1 "${odd[@]:0:6}" --max-sequence-length 24 "a red fox")
for layout in "${contexts[@]}"; do too_odd 15 threads "$layout" odd; done
for layout in "2 --ring 2" "2 --ulysses 2" "4 --ring 2 --ulysses 2"; do too_odd 15 mpirun "$layout" odd; done
case_text=("$klein" none 1 -H 64 -W 64 --steps 1 --max-sequence-length 23 "a red fox")
for layout in "2 --ring 2" "4 --ulysses 4"; do too_odd 23 threads "$layout" text; done
case_1328=("$klein" none 1 -H 1328 -W 1328 --steps 1 --max-sequence-length 24 "a red fox")
too_odd 6889 threads "2 --ring 2" 1328
case_1008=("$klein" none 1 -H 1008 -W 1008 --steps 1 --max-sequence-length 24 "a red fox")
too_odd 3969 threads "4 --ulysses 4" 1008

name "case 9: 3969 tokens on 4 ranks"
large=(-H 1008 -W 1008 --steps 1 --seed 1 --max-sequence-length 24 --dtype float32 --no-progress --output-type latent)
run "$TESSERA" generate "$klein" "a red fox" "${large[@]}" -o large.safetensors
for layout in "4 --ring 4 --rotate-method alltoall" "4 --ring 2 --ulysses 2"; do
    in_context threads "$layout" anything
    run "$TESSERA" generate "$klein" "a red fox" "${large[@]}" "${degrees[@]}" -o spread.safetensors
    [ "$status" -eq 0 ] || fail "$layout: $(cat err)"
    same spread.safetensors large.safetensors --tolerance 2e-5
done

name "case 9: fewer tokens than ranks"
for kind in threads mpirun; do
    for layout in "2 --ring 2" "2 --ulysses 2"; do
        in_context $kind "$layout" anything
        expect 1 '"hidden_states" .* 1 tokens? .* 2 ranks' "${launcher[@]}" "$TESSERA" generate "$klein" "a red fox" "${tiny[@]}" -H 16 -W 16 "${degrees[@]}" -o result/x.png
    done
done

name "case 10: a rank rotates its tokens by their own positions"
guided=$source_root/tests/fixtures/flux2_guidance
inputs=$guided/forward.safetensors # ids of all four axes
run "$TESSERA" forward "$guided/transformer" --inputs "$inputs" --no-progress -o alone.safetensors
for kind in threads mpirun; do
    for layout in "2 --ring 2" "2 --ulysses 2"; do
        in_context $kind "$layout" anything
        run "${launcher[@]}" "$TESSERA" forward "$guided/transformer" --inputs "$inputs" --no-progress "${degrees[@]}" -o ids.safetensors
        [ "$status" -eq 0 ] || fail "$kind $layout: $(cat err)"
        same ids.safetensors "$inputs" --only transformer_out --tolerance 1e-4
        same ids.safetensors alone.safetensors --tolerance 2e-5
        in_full $kind "$layout"
        same many/stages.safetensors one/stages.safetensors --only transformer_out --tolerance 2e-5
    done
done

name "case 11: 15 tokens stay 15, and the picture is whole to its last patch"
for kind in threads mpirun; do
    for layout in "2 --ring 2" "2 --ulysses 2" "4 --ring 4 --rotate-method alltoall" "4 --ulysses 4" "4 --ring 2 --tp 2"; do
        in_full $kind "$layout"
        same many/stages.safetensors one/stages.safetensors --only 'latents_step_*,transformer_out,vae_out' --tolerance 2e-5
        same many.png one.png --tolerance 1
        [ "$(png_header many.png)" = "$(png_header one.png)" ] || fail "$kind $layout: $(png_header many.png)"
    done
done
finish
