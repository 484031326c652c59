#!/bin/bash
# One component on saved tensors.
. "$(dirname "$0")/lib.sh"
fixtures=$source_root/tests/fixtures
guided=$fixtures/flux2_guidance
inputs=$guided/forward.safetensors

name "a transformer with guidance, against diffusers; what is no argument is named in one line"
expect 0 'saved out.safetensors' "$TESSERA" forward "$guided/transformer" --inputs "$inputs" --no-progress -o out.safetensors
same out.safetensors "$inputs" --only transformer_out --tolerance 1e-4
[ "$(grep -c ignored err)" -eq 1 ] && grep -q 'transformer_out$' err || fail "ignored: $(cat err)"
expect 0 'saved ref.safetensors' "$TESSERA" forward "$guided/transformer" --inputs "$inputs" --device ref --no-progress -o ref.safetensors
same ref.safetensors "$inputs" --only transformer_out --tolerance 1e-4

name "the first call of a pipeline's transformer"
a64=$fixtures/klein_expected/a64.safetensors
expect 0 '' "$TESSERA" forward "$klein/transformer/" --inputs "$a64" -o a64.safetensors --quiet --threads 1
same a64.safetensors "$a64" --only transformer_out --tolerance 1e-4
[ -s err ] && fail "--quiet: $(cat err)"

grep -q . out && fail "stdout: $(cat out)"

name "golden: flux2-6heads"
if [ -d "$golden/models/flux2-6heads" ]; then
    expected=$golden/expected/flux2-6heads.safetensors
    expect 0 'saved' "$TESSERA" forward "$golden/models/flux2-6heads/transformer" --inputs "$expected" -o heads.safetensors
    same heads.safetensors "$expected" --only transformer_out --tolerance 1e-4
else
    echo "(left out: $golden is absent)"
fi

name "inputs that are missing, of a wrong shape, not there; a folder that is no component; outputs"
f() { expect 1 "$1" "$TESSERA" forward "$guided/transformer" --inputs "$2" -o "${3:-result/x.safetensors}" --no-progress; }
edit "$inputs" less.safetensors drop transformer_in.timestep
f 'timestep' less.safetensors
edit "$inputs" other.safetensors reshape transformer_in.hidden_states 2,6,32
f 'hidden_states|x_embedder' other.safetensors
edit "$inputs" twice.safetensors rename transformer_in.guidance in.timestep
f "'timestep' is there twice" twice.safetensors
f 'none.safetensors' none.safetensors
f 'missing/x.safetensors: .*No such file' "$inputs" missing/x.safetensors
cp "$inputs" in.safetensors && ln -s in.safetensors link.safetensors && ln in.safetensors hard.safetensors
for output in in.safetensors ./in.safetensors link.safetensors hard.safetensors; do
    expect 2 "-o $output is the file of --inputs" "$TESSERA" forward "$guided/transformer" --inputs in.safetensors -o $output
done
cmp -s "$inputs" in.safetensors || fail "the inputs are lost"
expect 1 'config.json' "$TESSERA" forward "$klein/tokenizer" --inputs "$inputs" -o result/x.safetensors
expect 1 'scheduler|FlowMatch' "$TESSERA" forward "$klein/scheduler" --inputs "$inputs" -o result/x.safetensors
finish
