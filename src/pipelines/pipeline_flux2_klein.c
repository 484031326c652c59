/* Flux2KleinPipeline (diffusers): chat form of the prompt, no guidance embedding, classifier-free guidance where the
 * model is not distilled. The phases are those of all FLUX.2 pipelines (flux2.h). */
#include "base/text.h"
#include "pipelines/flux2.h"
#include "pipelines/registry.h"
#include "tokenizers/tokenizer.h"

#include <string.h>

static tsr_status klein_read_index(tsr_pipeline *p, tsr__config *index) {
    p->is_distilled = tsr__config_bool(index, "is_distilled", false);
    return index->status;
}

/* ids [S] of one prompt in the chat form of klein, cut at its end or padded on the right; mask [S] is 1 for the prompt.
 */
static tsr_status tokenize(const tsr_pipeline *p, const char *prompt, int64_t S, int64_t *ids, int64_t *mask) {
    TSR__TRY(tsr__tokenizer_check_text(p->engine, "the prompt", prompt, strlen(prompt)));
    tsr__text chat = {.engine = p->engine};
    tsr__text_format(&chat, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", prompt);
    int64_t *found = NULL, pad = tsr_tokenizer_pad_id(p->tokenizer);
    int64_t vocabulary = tsr__qwen3_vocab_size(p->models[TSR__TEXT_ENCODER]);
    size_t n = 0;
    tsr_status status =
        chat.failed ? TSR_NOMEM : tsr_tokenizer_encode(p->tokenizer, chat.data, chat.length, true, &found, &n);
    if (status == TSR_OK && pad < 0)
        status =
            tsr__fail(p->engine, TSR_FORMAT,
                      "%s/tokenizer/tokenizer_config.json: pad_token, with which prompts are filled up, must be one "
                      "of the tokens",
                      p->folder);
    for (int64_t s = 0; status == TSR_OK && s < S; s++) {
        mask[s] = s < (int64_t)n;
        ids[s] = mask[s] ? found[s] : pad;
        if (ids[s] < 0 || ids[s] >= vocabulary)
            status =
                tsr__fail(p->engine, TSR_FORMAT, "%s: the tokenizer gives id %lld, but the text encoder knows %lld ids",
                          p->folder, (long long)ids[s], (long long)vocabulary);
    }
    if (status == TSR_OK && (int64_t)n > S)
        tsr__log(p->engine, TSR_LOG_WARNING,
                 "the prompt has %zu tokens; the last %zu are cut off (max_sequence_length %lld)", n, n - (size_t)S,
                 (long long)S);
    tsr__text_free(&chat);
    tsr__free(p->engine, found);
    return status;
}

static tsr_status klein_tokenize(tsr_pipeline *p, const char *prompt, int64_t max_sequence_length, int64_t **ids,
                                 size_t *n) {
    int64_t S = 0;
    TSR__TRY(tsr__flux2_resolve_length(p, max_sequence_length, &S));
    int64_t *found = tsr__calloc(p->engine, (size_t)S, sizeof *found),
            *mask = tsr__calloc(p->engine, (size_t)S, sizeof *mask);
    tsr_status status = found && mask ? tokenize(p, prompt, S, found, mask) : TSR_NOMEM;
    tsr__free(p->engine, mask);
    if (status != TSR_OK) {
        tsr__free(p->engine, found);
        return status;
    }
    *ids = found;
    *n = (size_t)S;
    return TSR_OK;
}

/* Phase by phase: each component is gone before the next one comes. */
static tsr_status check_memory(const tsr__flux2_call *c) {
    for (int i = 0; i < TSR__N_MODELS; i++) {
        const tsr_model *model = c->p->models[i];
        size_t weights = c->p->part[i] && !c->p->borrowed[i] && !tsr__model_borrows(model) ? model->weight_bytes : 0;
        size_t activations = c->p->part[i] ? tsr__exec_activation_bytes(c->exec[i]) : 0;
        TSR__TRY(tsr__memory_check(c->engine, model->component, weights, activations, tsr__model_has_plan(model),
                                   c->p->force));
    }
    return TSR_OK;
}

static tsr_status new_images(tsr__flux2_call *c) {
    c->images = tsr__calloc(c->engine, 1, sizeof *c->images);
    if (!c->images) return TSR_NOMEM;
    *c->images = (tsr_images){.n = (size_t)c->rows,
                              .height = c->height,
                              .width = c->width,
                              .num_inference_steps = c->steps,
                              .guidance_scale = c->guidance};
    c->images->seeds = tsr__calloc(c->engine, (size_t)c->rows, sizeof *c->images->seeds);
    return c->images->seeds ? TSR_OK : TSR_NOMEM;
}

/* What a rank can find out by itself: sizes, ids, shapes. */
static tsr_status plan(tsr__flux2_call *c) {
    TSR__TRY(tsr__flux2_resolve(c));
    TSR__TRY(tsr__flux2_open_outputs(c));
    TSR__TRY(tsr__flux2_take_text(c));
    return tsr__flux2_record(c);
}

static tsr_status make_inputs(tsr__flux2_call *c) {
    TSR__TRY(tsr__flux2_schedule(c));
    TSR__TRY(new_images(c));
    return tsr__flux2_make_latents(c);
}

/* All that can be known before a weight is read. */
static tsr_status prepare(tsr__flux2_call *c) {
    TSR__TRY(tsr_status_agree(c->engine, plan(c)));
    TSR__TRY(check_memory(c));
    TSR__TRY(tsr_status_agree(c->engine, make_inputs(c)));
    TSR__TRY(tsr__flux2_share_inputs(c));
    return tsr_status_agree(c->engine, tsr__flux2_dump_start(c));
}

typedef struct phase {
    tsr__role role;
    tsr_status (*load)(tsr__flux2_call *c); /* after the weights, on the ranks that take part */
    tsr_status (*run)(tsr__flux2_call *c);  /* collective */
} phase;

static const phase phases[] = {{TSR__TEXT_ENCODER, tsr__flux2_load_encoder, tsr__flux2_encode},
                               {TSR__TRANSFORMER, tsr__flux2_load_transformer, tsr__flux2_denoise},
                               {TSR__VAE, tsr__flux2_load_vae, tsr__flux2_decode}};

/* Nothing is loaded for embeddings that were given. */
static bool is_needed(const tsr__flux2_call *c, tsr__role role) {
    return role != TSR__TEXT_ENCODER || c->prompt.graph || c->negative.graph;
}

static tsr_status load_part(tsr__flux2_call *c, const phase *ph) {
    if (!c->p->part[ph->role] || !is_needed(c, ph->role)) return TSR_OK;
    if (!c->p->borrowed[ph->role]) TSR__TRY(tsr__model_load(c->p->models[ph->role]));
    TSR__TRY(tsr__exec_reserve(c->exec[ph->role]));
    return ph->load(c);
}

/* Loads a component, runs its phase and releases it with its activations, before any rank loads the next. */
static tsr_status run_phase(tsr__flux2_call *c, const phase *ph) {
    tsr__rank_phase(c->engine, c->p->models[ph->role]->component);
    tsr_status status = tsr_status_agree(c->engine, load_part(c, ph));
    if (status == TSR_OK) status = ph->run(c);
    if (!c->p->borrowed[ph->role]) tsr__model_unload(c->p->models[ph->role]);
    tsr__exec_destroy(c->exec[ph->role]);
    c->exec[ph->role] = NULL;
    return tsr_status_agree(c->engine, status);
}

static tsr_status draw(tsr__flux2_call *c) {
    TSR__TRY(prepare(c));
    for (size_t i = 0; i < TSR__COUNT(phases); i++) TSR__TRY(run_phase(c, &phases[i]));
    TSR__TRY(tsr_status_agree(c->engine, tsr__flux2_dump_end(c)));
    if (!c->o->output_latents) {
        tsr__free(c->engine, c->images->latents.data);
        c->images->latents.data = NULL;
    }
    return TSR_OK;
}

static void free_text(tsr__flux2_call *c, tsr__flux2_text *t) {
    tsr__free(c->engine, t->ids);
    tsr__free(c->engine, t->mask);
    tsr__free(c->engine, t->txt_ids);
    tsr__free(c->engine, t->embeds);
}

static void free_call(tsr__flux2_call *c) {
    free_text(c, &c->prompt);
    free_text(c, &c->negative);
    void *const arrays[] = {c->img_ids, c->sigmas, c->timesteps, c->noise, c->latents, c->t_rows, c->vae_out};
    for (size_t i = 0; i < TSR__COUNT(arrays); i++) tsr__free(c->engine, arrays[i]);
    for (int i = 0; i < TSR__N_MODELS; i++) tsr__exec_destroy(c->exec[i]);
    tsr__dump_free(&c->dump);
}

static tsr_status klein_generate(tsr_pipeline *p, const tsr_generate_options *options, tsr_images **out) {
    tsr__flux2_call c = {.tokenize = tokenize, .engine = p->engine, .p = p, .o = options};
    tsr_status status = draw(&c);
    if (status == TSR_OK) {
        *out = c.images;
        status = tsr_status_agree(p->engine, tsr__dump_save(&c.dump)); /* last: what is drawn outlives a full disk */
    } else {
        tsr_images_free(p->engine, c.images);
    }
    free_call(&c);
    return status;
}

const tsr_pipeline_desc tsr__flux2_klein = {
    .class_name = "Flux2KleinPipeline",
    .models = {"Qwen3ForCausalLM", "Flux2Transformer2DModel", "AutoencoderKLFlux2"},
    .tokenizer = "Qwen2Tokenizer",
    .scheduler = "FlowMatchEulerDiscreteScheduler",
    .read_index = klein_read_index,
    .generate = klein_generate,
    .tokenize = klein_tokenize,
    .picture = tsr__flux2_picture,
};
