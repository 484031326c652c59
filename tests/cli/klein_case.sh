#!/bin/bash
# Draws one case of a pipeline and compares every stage with what diffusers computed. Sourced after lib.sh.
ids=input_ids,attention_mask,neg_input_ids,neg_attention_mask,latents_initial
stages='prompt_embeds,neg_prompt_embeds,latents_step_*,vae_in,vae_out,transformer_out,neg_transformer_out'

# klein_case MODEL EXPECTED PICTURES OPTION... PROMPT...: EXPECTED without .safetensors; pictures from EXPECTED.png,
# EXPECTED.<i>.png, or image_u8 where there are none. Started by the words in `launcher`.
launcher=()
klein_case() {
    local model=$1 expected=$2 pictures=$3 i file got
    shift 3
    rm -rf dump case*.png
    run "${launcher[@]}" "$TESSERA" generate "$model" "$@" --seed 42 --dtype float32 --dump dump -o case.png
    [ "$status" -eq 0 ] || { fail "$(head -c 600 err)"; return; }
    same dump/stages.safetensors "$expected.safetensors" --only $ids --exact $ids
    same dump/stages.safetensors "$expected.safetensors" --only sigmas,timesteps --relative 1e-6
    same dump/stages.safetensors "$expected.safetensors" --only "$stages" --tolerance 1e-4
    tail -n 1 compared
    for i in $(seq 0 $((pictures - 1))); do
        got=case.$i.png file=$expected.$i.png
        [ "$pictures" -eq 1 ] && got=case.png file=$expected.png
        if [ -f "$file" ]; then
            same $got "$file" --tolerance 1
        else
            same $got "$expected.safetensors" --row "$i" --tolerance 1
        fi
    done
}

# A pipeline whose model_index.json is the one of the undistilled model.
base_model() {
    link_model "$1" base
    ln -sfn "$1/model_index_base.json" base/model_index.json
}
