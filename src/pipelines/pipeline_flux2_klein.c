/* Flux2KleinPipeline (diffusers). B prompts, N pictures of each, rows = B N; a picture is h x w packed tokens (L = h w)
 * of C channels; S tokens of text of J channels. Three phases, each with its component in memory: text, denoising,
 * decoding. */
#include "base/text.h"
#include "pipelines/registry.h"

#include <math.h>
#include <string.h>

enum { MAX_SIDE = 65536, MAX_ROWS = 4096, MAX_STEPS = 10000, MAX_TEXT = 40960, SIZE_AT_VAE_SCALE = 128 };

/* The text of one pass (conditional or not) and what it becomes. */
typedef struct text {
    int64_t rows, S;     /* of ids; the embeddings are repeated to the rows of the call */
    int64_t *ids, *mask; /* [rows, S]; NULL where the embeddings were given */
    int64_t *txt_ids;    /* [S, 4]: (0, 0, 0, s) */
    float *embeds;       /* [rows, S, J] */
    tsr__call encode;
    tsr__graph *graph;
    tsr__view *kept; /* [rows of the call, S, J] on the device */
} text;

typedef struct call {
    tsr_engine *engine;
    tsr_pipeline *p;
    const tsr_generate_options *o;
    int64_t B, N, rows, height, width, h, w, L, C, J;
    int steps;
    double guidance;
    bool cfg;
    text prompt, negative;
    int64_t *img_ids;          /* [L, 4]: (0, y, x, 0) */
    float *sigmas, *timesteps; /* [steps + 1], [steps] */
    float *noise, *latents;    /* [rows, C, h, w]; [rows, L, C] */
    float *t_rows, dt;         /* timestep/1000 for each row, and the sigma difference, of the step in work */
    float *vae_in, *vae_out;   /* one picture: [C/4, 2h, 2w], [3, H, W] */
    int64_t vae_in_shape[4];   /* with rows in front */
    tsr__view *kept_latents;   /* [rows, L, C] on the device */
    float *decode_latents;     /* [1, L, C]: the picture in work */
    tsr__exec *exec[TSR__N_MODELS];
    tsr__graph *step_graph, *decode_graph;
    tsr__dump dump;
    tsr_images *images;
} call;

/* --- what is asked for --- */

static tsr_status klein_read_index(tsr_pipeline *p, tsr__config *index) {
    p->is_distilled = tsr__config_bool(index, "is_distilled", false);
    return index->status;
}

static int64_t pixels_per_token(const tsr_pipeline *p) {
    return tsr__flux2_vae_scale_factor(p->models[TSR__VAE]) * tsr__flux2_vae_patch(p->models[TSR__VAE]);
}

static tsr_status resolve_side(const call *c, const char *name, int64_t given, int64_t *out) {
    int64_t unit = pixels_per_token(c->p);
    int64_t asked = given ? given : SIZE_AT_VAE_SCALE * tsr__flux2_vae_scale_factor(c->p->models[TSR__VAE]);
    if (asked < unit || asked > MAX_SIDE)
        return tsr__fail(c->engine, TSR_ARG, "%s %lld: give a multiple of %lld from %lld to %d pixels", name,
                         (long long)asked, (long long)unit, (long long)unit, MAX_SIDE);
    *out = asked / unit * unit;
    return TSR_OK;
}

static tsr_status resolve_size(call *c) {
    const tsr_generate_options *o = c->o;
    TSR__TRY(resolve_side(c, "height", o->height, &c->height));
    TSR__TRY(resolve_side(c, "width", o->width, &c->width));
    if ((o->height && c->height != o->height) || (o->width && c->width != o->width))
        tsr__log(c->engine, TSR_LOG_WARNING,
                 "height and width must be multiples of %lld: drawing %lld high and %lld wide",
                 (long long)pixels_per_token(c->p), (long long)c->height, (long long)c->width);
    c->h = c->height / pixels_per_token(c->p);
    c->w = c->width / pixels_per_token(c->p);
    c->L = c->h * c->w;
    return TSR_OK;
}

static tsr_status out_of_range(const call *c, const char *name, long long value, long long most) {
    return tsr__fail(c->engine, TSR_ARG, "%s %lld: give a number from 1 to %lld", name, value, most);
}

static tsr_status resolve_counts(call *c) {
    const tsr_generate_options *o = c->o;
    if ((o->n_prompts > 0) == (o->prompt_embeds != NULL))
        return tsr__fail(c->engine, TSR_ARG, "give either a prompt or prompt_embeds");
    c->B = o->prompt_embeds ? o->prompt_embeds->shape[0] : (int64_t)o->n_prompts;
    c->N = o->num_images_per_prompt ? o->num_images_per_prompt : 1;
    if (c->B < 1 || c->B > MAX_ROWS) return out_of_range(c, "number of prompts", c->B, MAX_ROWS);
    if (c->N < 1 || c->N > MAX_ROWS / c->B) return out_of_range(c, "num_images_per_prompt", c->N, MAX_ROWS / c->B);
    c->rows = c->B * c->N;
    if (o->n_seeds > 1 && (int64_t)o->n_seeds != c->rows)
        return tsr__fail(c->engine, TSR_ARG, "%zu seeds for %lld pictures: give one for all or one for each",
                         o->n_seeds, (long long)c->rows);
    return TSR_OK;
}

static tsr_status resolve_schedule(call *c) {
    const tsr_generate_options *o = c->o;
    int asked = o->num_inference_steps ? o->num_inference_steps : o->n_sigmas ? (int)o->n_sigmas : 0;
    if (o->n_sigmas > MAX_STEPS || asked < 0 || asked > MAX_STEPS)
        return out_of_range(c, "num_inference_steps", o->num_inference_steps, MAX_STEPS);
    int for_mu = asked                ? asked
                 : c->p->is_distilled ? 4
                                      : 50; /* diffusers: mu of the steps asked for, even with sigmas */
    c->steps = o->n_sigmas ? (int)o->n_sigmas : for_mu;
    c->sigmas = tsr__calloc(c->engine, (size_t)c->steps + 1, sizeof *c->sigmas);
    c->timesteps = tsr__calloc(c->engine, (size_t)c->steps, sizeof *c->timesteps);
    double *linear = tsr__calloc(c->engine, (size_t)c->steps, sizeof *linear);
    tsr_status status = c->sigmas && c->timesteps && linear ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) {
        tsr__linspace(1.0, 1.0 / c->steps, c->steps, linear);
        status =
            tsr__flow_match_euler_set_timesteps(c->engine, &c->p->scheduler, c->steps, o->n_sigmas ? o->sigmas : linear,
                                                tsr__flux2_empirical_mu(c->L, for_mu), c->sigmas, c->timesteps);
    }
    tsr__free(c->engine, linear);
    return status;
}

static tsr_status resolve_guidance(call *c) {
    double given = c->o->guidance_scale;
    if (isnan(given) || isinf(given)) return tsr__fail(c->engine, TSR_ARG, "guidance_scale must be a finite number");
    c->guidance = given >= 0.0 ? given : c->p->is_distilled ? 1.0 : 4.0;
    c->cfg = c->guidance > 1.0 && !c->p->is_distilled;
    if (c->guidance > 1.0 && c->p->is_distilled)
        tsr__log(c->engine, TSR_LOG_WARNING, "guidance_scale %g is ignored: this model is distilled", c->guidance);
    return TSR_OK;
}

/* The parts must fit each other, whatever the files say. */
static tsr_status check_components(call *c) {
    const tsr_model *encoder = c->p->models[TSR__TEXT_ENCODER], *vae = c->p->models[TSR__VAE];
    int64_t patch = tsr__flux2_vae_patch(vae), packed = tsr__flux2_vae_latent_channels(vae) * patch * patch;
    c->C = tsr__flux2_in_channels(c->p->models[TSR__TRANSFORMER]);
    c->J = tsr__flux2_joint_attention_dim(c->p->models[TSR__TRANSFORMER]);
    if (packed == c->C && tsr__qwen3_embedding_dim(encoder) == c->J) return TSR_OK;
    return tsr__fail(c->engine, TSR_SHAPE,
                     "%s: the transformer takes %lld latent and %lld text channels, but the VAE has %lld and the text "
                     "encoder %lld",
                     c->p->folder, (long long)c->C, (long long)c->J, (long long)packed,
                     (long long)tsr__qwen3_embedding_dim(encoder));
}

/* --- text --- */

/* ids [S] of one prompt in the chat form of klein, cut at its end or padded on the right; mask [S] is 1 for the prompt.
 */
static tsr_status tokenize(const tsr_pipeline *p, const char *prompt, int64_t S, int64_t *ids, int64_t *mask) {
    tsr__text chat = {.engine = p->engine};
    tsr__text_format(&chat, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", prompt);
    int64_t *found = NULL, pad = tsr_tokenizer_pad_id(p->tokenizer);
    int64_t vocabulary = tsr__qwen3_vocab_size(p->models[TSR__TEXT_ENCODER]);
    size_t n = 0;
    tsr_status status =
        chat.failed ? TSR_NOMEM : tsr_tokenizer_encode(p->tokenizer, chat.data, chat.length, true, &found, &n);
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

static tsr_status resolve_length(tsr_engine *engine, int64_t given, int64_t *out) {
    int64_t S = given ? given : 512;
    if (S < 1 || S > MAX_TEXT)
        return tsr__fail(engine, TSR_ARG, "max_sequence_length %lld: give a number from 1 to %d", (long long)S,
                         MAX_TEXT);
    *out = S;
    return TSR_OK;
}

static tsr_status klein_tokenize(tsr_pipeline *p, const char *prompt, int64_t max_sequence_length, int64_t **ids,
                                 size_t *n) {
    int64_t S = 0;
    TSR__TRY(resolve_length(p->engine, max_sequence_length, &S));
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

static tsr_status make_text_ids(call *c, text *t) {
    t->txt_ids = tsr__calloc(c->engine, (size_t)(4 * t->S), sizeof *t->txt_ids);
    t->embeds = tsr__calloc(c->engine, (size_t)(t->rows * t->S), (size_t)c->J * sizeof *t->embeds);
    if (!t->txt_ids || !t->embeds) return TSR_NOMEM;
    for (int64_t s = 0; s < t->S; s++) t->txt_ids[4 * s + 3] = s;
    return TSR_OK;
}

static tsr_status take_prompts(call *c, text *t, const char *const *prompts, int64_t n) {
    TSR__TRY(resolve_length(c->engine, c->o->max_sequence_length, &t->S));
    t->rows = n;
    t->ids = tsr__calloc(c->engine, (size_t)(n * t->S), sizeof *t->ids);
    t->mask = tsr__calloc(c->engine, (size_t)(n * t->S), sizeof *t->mask);
    if (!t->ids || !t->mask) return TSR_NOMEM;
    for (int64_t b = 0; b < n; b++) TSR__TRY(tokenize(c->p, prompts[b], t->S, t->ids + b * t->S, t->mask + b * t->S));
    return make_text_ids(c, t);
}

static tsr_status take_embeds(call *c, text *t, const tsr_tensor *given, const char *name) {
    bool fits = given->ndim == 3 && given->shape[2] == c->J && given->shape[1] >= 1 && given->shape[1] <= MAX_TEXT &&
                (given->shape[0] == c->B || given->shape[0] == 1);
    if (!fits)
        return tsr__fail(c->engine, TSR_SHAPE, "%s must have shape [%lld, tokens, %lld]", name, (long long)c->B,
                         (long long)c->J);
    t->rows = given->shape[0];
    t->S = given->shape[1];
    TSR__TRY(make_text_ids(c, t));
    size_t n = (size_t)tsr_tensor_elements(given);
    if (tsr_convert_to_f32(given->dtype, given->data, t->embeds, n)) return TSR_OK;
    return tsr__fail(c->engine, TSR_ARG, "%s: dtype %s cannot be converted", name, tsr_dtype_name(given->dtype));
}

static tsr_status take_text(call *c) {
    static const char *const empty[] = {""};
    const tsr_generate_options *o = c->o;
    if (o->prompt_embeds)
        TSR__TRY(take_embeds(c, &c->prompt, o->prompt_embeds, "prompt_embeds"));
    else
        TSR__TRY(take_prompts(c, &c->prompt, o->prompts, c->B));
    if (!c->cfg) return TSR_OK;
    if (o->negative_prompt_embeds)
        return take_embeds(c, &c->negative, o->negative_prompt_embeds, "negative_prompt_embeds");
    return take_prompts(c, &c->negative, empty, 1);
}

/* --- forwards --- */

/* The transformer's prediction for the latents with the text of one pass: [rows, L, C] */
static tsr__value predict(tsr__exec *x, const call *c, tsr__value latents, const text *t) {
    const tsr_model *transformer = c->p->models[TSR__TRANSFORMER];
    tsr__value in[TSR__MAX_ARGUMENTS], out[TSR__MAX_RESULTS];
    in[0] = latents;
    in[1] = tsr__external(x, t->kept);
    in[2] = tsr__upload(x, TSR_F32, TSR__SHAPE(c->rows), c->t_rows);
    in[3] = tsr__none(); /* klein passes no guidance */
    in[4] = tsr__upload(x, TSR_I64, TSR__SHAPE(c->L, 4), c->img_ids);
    in[5] = tsr__upload(x, TSR_I64, TSR__SHAPE(t->S, 4), t->txt_ids);
    transformer->desc->forward(x, transformer->self, in, out);
    return tsr__tapped(x, transformer->self, out[0]);
}

/* x += (sigma' - sigma) v, under guidance v = v_neg + g (v - v_neg) */
static void denoise_forward(tsr__exec *x, void *context) {
    call *c = context;
    tsr__value latents = tsr__external(x, c->kept_latents);
    tsr__value v = predict(x, c, latents, &c->prompt);
    if (c->cfg) {
        tsr__value negative = predict(x, c, latents, &c->negative);
        v = tsr__axpy(x, negative, (float)c->guidance, tsr__sub_values(x, v, negative));
    }
    tsr__assign(x, c->kept_latents, tsr__axpy(x, latents, c->dt, v));
}

/* One picture: packed latents -> z -> pixels */
static void decode_forward(tsr__exec *x, void *context) {
    call *c = context;
    const tsr_model *vae = c->p->models[TSR__VAE];
    tsr__value latents = tsr__upload(x, TSR_F32, TSR__SHAPE(1, c->L, c->C), c->decode_latents), out[TSR__MAX_RESULTS];
    tsr__value z = tsr__flux2_unpack_latents(x, vae, latents, c->h, c->w);
    memcpy(c->vae_in_shape, z.shape, sizeof c->vae_in_shape);
    tsr__download(x, z, c->vae_in);
    if (c->o->output_latents) return;
    vae->desc->forward(x, vae->self, &z, out);
    tsr__download(x, out[0], c->vae_out);
}

/* --- meta runs --- */

static tsr_status record_encode(call *c, text *t) {
    const tsr_model *encoder = c->p->models[TSR__TEXT_ENCODER];
    if (!t->ids) return TSR_OK;
    t->encode = (tsr__call){.model = encoder};
    t->encode.inputs[0] = (tsr_tensor){"input_ids", TSR_I64, 2, {t->rows, t->S}, t->ids};
    t->encode.inputs[1] = (tsr_tensor){"attention_mask", TSR_I64, 2, {t->rows, t->S}, t->mask};
    t->encode.outputs[0].data = t->embeds;
    return tsr__exec_record(c->exec[TSR__TEXT_ENCODER], tsr__call_forward, &t->encode, &t->graph);
}

static tsr_status keep_text(call *c, text *t) {
    return tsr__exec_keep(c->exec[TSR__TRANSFORMER], TSR_F32, TSR__SHAPE(c->rows, t->S, c->J), &t->kept);
}

static tsr_status record(call *c) {
    for (int i = 0; i < TSR__N_MODELS; i++) TSR__TRY(tsr__exec_create(c->engine, c->p->dtype, &c->exec[i]));
    TSR__TRY(record_encode(c, &c->prompt));
    TSR__TRY(record_encode(c, &c->negative));
    tsr__exec *x = c->exec[TSR__TRANSFORMER];
    TSR__TRY(tsr__exec_keep(x, TSR_F32, TSR__SHAPE(c->rows, c->L, c->C), &c->kept_latents));
    TSR__TRY(keep_text(c, &c->prompt));
    if (c->cfg) TSR__TRY(keep_text(c, &c->negative));
    TSR__TRY(tsr__exec_record(x, denoise_forward, c, &c->step_graph));
    return tsr__exec_record(c->exec[TSR__VAE], decode_forward, c, &c->decode_graph);
}

static tsr_status check_memory(const call *c) {
    size_t most = 0;
    int worst = 0;
    for (int i = 0; i < TSR__N_MODELS; i++) {
        size_t need = c->p->models[i]->weight_bytes + tsr__exec_activation_bytes(c->exec[i]);
        if (need > most) most = need, worst = i;
    }
    return tsr__memory_check(c->engine, c->p->models[worst]->component, c->p->models[worst]->weight_bytes,
                             tsr__exec_activation_bytes(c->exec[worst]), c->p->force);
}

/* --- latents --- */

static tsr_status make_img_ids(call *c) {
    c->img_ids = tsr__calloc(c->engine, (size_t)(4 * c->L), sizeof *c->img_ids);
    if (!c->img_ids) return TSR_NOMEM;
    for (int64_t i = 0; i < c->L; i++) {
        c->img_ids[4 * i + 1] = i / c->w;
        c->img_ids[4 * i + 2] = i % c->w;
    }
    return TSR_OK;
}

static tsr_status take_latents(call *c, const tsr_tensor *given) {
    const int64_t wanted[4] = {c->rows, c->C, c->h, c->w};
    size_t n = (size_t)(c->rows * c->C * c->L);
    if (given->ndim != 4 || memcmp(given->shape, wanted, sizeof wanted) != 0)
        return tsr__fail(c->engine, TSR_SHAPE, "latents must have shape [%lld, %lld, %lld, %lld]", (long long)wanted[0],
                         (long long)wanted[1], (long long)wanted[2], (long long)wanted[3]);
    if (!tsr_convert_to_f32(given->dtype, given->data, c->noise, n))
        return tsr__fail(c->engine, TSR_ARG, "latents: dtype %s cannot be converted", tsr_dtype_name(given->dtype));
    if (c->p->dtype != TSR_F32) { /* diffusers casts them to the dtype of the pipeline */
        (void)tsr_convert_from_f32(c->p->dtype, c->noise, c->latents, n);
        (void)tsr_convert_to_f32(c->p->dtype, c->latents, c->noise, n);
    }
    return TSR_OK;
}

static tsr_status make_seeds(call *c, uint64_t *seeds) {
    uint64_t one = 0;
    if (!c->o->n_seeds) TSR__TRY(tsr__random_seed(c->engine, &one));
    for (int64_t i = 0; i < c->rows; i++)
        seeds[i] = c->o->n_seeds > 1 ? c->o->seeds[i] : c->o->n_seeds ? c->o->seeds[0] : one;
    return TSR_OK;
}

/* [C, h w] -> [h w, C] for each row */
static void pack(const call *c) {
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t ch = 0; ch < c->C; ch++)
            for (int64_t i = 0; i < c->L; i++)
                c->latents[(r * c->L + i) * c->C + ch] = c->noise[(r * c->C + ch) * c->L + i];
}

static tsr_status make_latents(call *c) {
    size_t n = (size_t)(c->rows * c->C) * (size_t)c->L;
    c->noise = tsr__calloc(c->engine, n, sizeof *c->noise);
    c->latents = tsr__calloc(c->engine, n, sizeof *c->latents);
    c->t_rows = tsr__calloc(c->engine, (size_t)c->rows, sizeof *c->t_rows);
    if (!c->noise || !c->latents || !c->t_rows) return TSR_NOMEM;
    TSR__TRY(make_seeds(c, c->images->seeds));
    if (c->o->latents)
        TSR__TRY(take_latents(c, c->o->latents));
    else
        TSR__TRY(tsr__draw_noise(c->engine, c->p->dtype, c->images->seeds, c->o->n_seeds > 1 ? c->o->n_seeds : 1,
                                 c->rows, c->C * c->L, c->noise));
    pack(c);
    return TSR_OK;
}

/* --- phases --- */

static tsr_status progress(const call *c, tsr_phase phase, tsr__role role, int64_t done, int64_t total, double start) {
    tsr_progress now = {phase, c->p->models[role]->component, (uint64_t)done, (uint64_t)total, tsr__seconds() - start};
    return tsr__progress(c->engine, &now);
}

static tsr_status encode_one(call *c, text *t, int64_t done, int64_t total, double start) {
    if (!t->graph) return TSR_OK;
    TSR__TRY(tsr__exec_run(c->exec[TSR__TEXT_ENCODER], t->graph, &t->encode));
    return progress(c, TSR_PHASE_ENCODE, TSR__TEXT_ENCODER, done, total, start);
}

static tsr_status encode(call *c) {
    tsr__exec *x = c->exec[TSR__TEXT_ENCODER];
    int64_t total = (c->prompt.graph != NULL) + (c->negative.graph != NULL);
    if (!total) return TSR_OK;
    TSR__TRY(tsr__model_load(c->p->models[TSR__TEXT_ENCODER]));
    TSR__TRY(tsr__exec_reserve(x));
    double start = tsr__seconds();
    TSR__TRY(progress(c, TSR_PHASE_ENCODE, TSR__TEXT_ENCODER, 0, total, start));
    tsr__dump_tap(&c->dump, x, c->p->models[TSR__TEXT_ENCODER]);
    TSR__TRY(encode_one(c, &c->prompt, 1, total, start));
    tsr__dump_tap(&c->dump, x, NULL);
    return encode_one(c, &c->negative, total, total, start);
}

/* Embeddings to the device, each row as often as the call has rows of it. */
static tsr_status store_text(call *c, const text *t) {
    int64_t each = t->S * c->J;
    float *repeated = tsr__calloc(c->engine, (size_t)c->rows, (size_t)each * sizeof *repeated);
    if (!repeated) return TSR_NOMEM;
    for (int64_t r = 0; r < c->rows; r++)
        memcpy(repeated + r * each, t->embeds + (t->rows == 1 ? 0 : r / c->N) * each, (size_t)each * sizeof *repeated);
    tsr_status status = tsr__exec_store(c->exec[TSR__TRANSFORMER], t->kept, repeated);
    tsr__dump_add(&c->dump, t == &c->prompt ? "prompt_embeds" : "neg_prompt_embeds", TSR_F32,
                  TSR__SHAPE(c->rows, t->S, c->J), repeated);
    tsr__free(c->engine, repeated);
    return status;
}

static tsr_status denoise_step(call *c, int i) {
    tsr__exec *x = c->exec[TSR__TRANSFORMER];
    c->dt = c->sigmas[i + 1] - c->sigmas[i];
    for (int64_t r = 0; r < c->rows; r++) c->t_rows[r] = c->timesteps[i] / 1000.0f;
    tsr__dump_tap(&c->dump, x, i == 0 ? c->p->models[TSR__TRANSFORMER] : NULL);
    TSR__TRY(tsr__exec_run(x, c->step_graph, c));
    if (!c->dump.path) return TSR_OK;
    char name[64];
    snprintf(name, sizeof name, "latents_step_%d", i);
    TSR__TRY(tsr__exec_load(x, c->kept_latents, c->latents));
    tsr__dump_add(&c->dump, name, TSR_F32, TSR__SHAPE(c->rows, c->L, c->C), c->latents);
    return TSR_OK;
}

static tsr_status denoise(call *c) {
    tsr__exec *x = c->exec[TSR__TRANSFORMER];
    TSR__TRY(tsr__model_load(c->p->models[TSR__TRANSFORMER]));
    TSR__TRY(tsr__exec_reserve(x));
    TSR__TRY(tsr__exec_store(x, c->kept_latents, c->latents));
    TSR__TRY(store_text(c, &c->prompt));
    if (c->cfg) TSR__TRY(store_text(c, &c->negative));
    double start = tsr__seconds();
    TSR__TRY(progress(c, TSR_PHASE_DENOISE, TSR__TRANSFORMER, 0, c->steps, start));
    for (int i = 0; i < c->steps; i++) {
        TSR__TRY(denoise_step(c, i));
        TSR__TRY(progress(c, TSR_PHASE_DENOISE, TSR__TRANSFORMER, i + 1, c->steps, start));
    }
    return tsr__exec_load(x, c->kept_latents, c->latents);
}

/* Room for all pictures, or all latents, and for one picture in float32. */
static tsr_status make_outputs(call *c) {
    const int64_t *z = c->vae_in_shape;
    size_t per_z = (size_t)(z[1] * z[2] * z[3]), per_image = (size_t)(3 * c->height * c->width), rows = (size_t)c->rows;
    c->images->latents = (tsr_tensor){"latents", TSR_F32, 4, {c->rows, z[1], z[2], z[3]}, NULL};
    c->images->latents.data = tsr__calloc(c->engine, rows, per_z * sizeof(float));
    c->vae_out = tsr__calloc(c->engine, c->dump.path ? rows : 1, per_image * sizeof(float));
    if (!c->o->output_latents) c->images->pixels = tsr__calloc(c->engine, rows, per_image);
    bool all = c->images->latents.data && c->vae_out && (c->o->output_latents || c->images->pixels);
    return all ? TSR_OK : TSR_NOMEM;
}

static tsr_status decode_row(call *c, int64_t row, float *vae_out) {
    size_t per_z = tsr_tensor_bytes(&c->images->latents) / sizeof(float) / (size_t)c->rows;
    c->decode_latents = c->latents + row * c->L * c->C;
    c->vae_in = (float *)c->images->latents.data + (size_t)row * per_z;
    float *all = c->vae_out;
    c->vae_out = vae_out;
    tsr_status status = tsr__exec_run(c->exec[TSR__VAE], c->decode_graph, c);
    c->vae_out = all;
    if (status == TSR_OK && c->images->pixels)
        tsr__pixels_from_image(vae_out, c->height, c->width, c->images->pixels + row * 3 * c->height * c->width);
    return status;
}

/* One picture at a time, so that the activations are those of one. */
static tsr_status decode(call *c) {
    tsr__exec *x = c->exec[TSR__VAE];
    TSR__TRY(make_outputs(c));
    TSR__TRY(tsr__model_load(c->p->models[TSR__VAE]));
    TSR__TRY(tsr__exec_reserve(x));
    double start = tsr__seconds();
    for (int64_t i = 0; i < c->rows; i++) {
        tsr__dump_tap(&c->dump, x, i == 0 && c->rows == 1 ? c->p->models[TSR__VAE] : NULL);
        TSR__TRY(progress(c, TSR_PHASE_DECODE, TSR__VAE, i, c->rows, start));
        TSR__TRY(decode_row(c, i, c->vae_out + (c->dump.path ? i * 3 * c->height * c->width : 0)));
    }
    return progress(c, TSR_PHASE_DECODE, TSR__VAE, c->rows, c->rows, start);
}

/* --- the dump --- */

/* A table of rows that are all the same, as diffusers passes ids: [rows, n, 4] */
static void dump_ids(call *c, const char *name, const int64_t *ids, int64_t n) {
    int64_t *repeated = c->dump.path ? tsr__calloc(c->engine, (size_t)(c->rows * n * 4), sizeof *ids) : NULL;
    if (!repeated) return;
    for (int64_t r = 0; r < c->rows; r++) memcpy(repeated + r * n * 4, ids, (size_t)(n * 4) * sizeof *ids);
    tsr__dump_add(&c->dump, name, TSR_I64, TSR__SHAPE(c->rows, n, 4), repeated);
    tsr__free(c->engine, repeated);
}

static void dump_text(call *c, const text *t, const char *ids, const char *mask, const char *txt_ids) {
    if (t->ids) {
        tsr__dump_add(&c->dump, ids, TSR_I64, TSR__SHAPE(t->rows, t->S), t->ids);
        tsr__dump_add(&c->dump, mask, TSR_I64, TSR__SHAPE(t->rows, t->S), t->mask);
    }
    if (t->txt_ids) dump_ids(c, txt_ids, t->txt_ids, t->S);
}

static tsr_status dump_start(call *c) {
    dump_text(c, &c->prompt, "input_ids", "attention_mask", "text_ids");
    dump_text(c, &c->negative, "neg_input_ids", "neg_attention_mask", "neg_text_ids");
    dump_ids(c, "img_ids", c->img_ids, c->L);
    tsr__dump_add(&c->dump, "sigmas", TSR_F32, TSR__SHAPE(c->steps + 1), c->sigmas);
    tsr__dump_add(&c->dump, "timesteps", TSR_F32, TSR__SHAPE(c->steps), c->timesteps);
    size_t n = (size_t)(c->rows * c->L * c->C);
    void *typed = c->dump.path ? tsr__calloc(c->engine, n, sizeof(float)) : NULL;
    if (!typed) return c->dump.path ? TSR_NOMEM : TSR_OK;
    (void)tsr_convert_from_f32(c->p->dtype, c->latents, typed, n);
    tsr__dump_add(&c->dump, "latents_initial", c->p->dtype, TSR__SHAPE(c->rows, c->L, c->C), typed);
    tsr__free(c->engine, typed);
    return c->dump.status;
}

static tsr_status dump_end(call *c) {
    const int64_t *z = c->vae_in_shape;
    tsr__dump_add(&c->dump, "vae_in", TSR_F32, TSR__SHAPE(c->rows, z[1], z[2], z[3]), c->images->latents.data);
    if (!c->o->output_latents) {
        tsr__dump_add(&c->dump, "vae_out", TSR_F32, TSR__SHAPE(c->rows, 3, c->height, c->width), c->vae_out);
        tsr__dump_add(&c->dump, "image_u8", TSR_U8, TSR__SHAPE(c->rows, c->height, c->width, 3), c->images->pixels);
    }
    return tsr__dump_save(&c->dump);
}

/* --- the whole call --- */

static tsr_status new_images(call *c) {
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

/* All that can be known before a weight is read. */
static tsr_status prepare(call *c) {
    TSR__TRY(check_components(c));
    TSR__TRY(resolve_counts(c));
    TSR__TRY(resolve_size(c));
    TSR__TRY(resolve_guidance(c));
    TSR__TRY(resolve_schedule(c));
    TSR__TRY(tsr__dump_open(c->engine, c->o->dump, c->o->dump_blocks, &c->dump));
    TSR__TRY(take_text(c));
    TSR__TRY(record(c));
    TSR__TRY(check_memory(c));
    TSR__TRY(new_images(c));
    TSR__TRY(make_img_ids(c));
    TSR__TRY(make_latents(c));
    return dump_start(c);
}

/* Runs a phase and releases its component and its activations. */
static tsr_status phase(call *c, tsr__role role, tsr_status (*run)(call *)) {
    tsr_status status = run(c);
    tsr__model_unload(c->p->models[role]);
    tsr__exec_destroy(c->exec[role]);
    c->exec[role] = NULL;
    return status;
}

static tsr_status draw(call *c) {
    TSR__TRY(prepare(c));
    TSR__TRY(phase(c, TSR__TEXT_ENCODER, encode));
    TSR__TRY(phase(c, TSR__TRANSFORMER, denoise));
    TSR__TRY(phase(c, TSR__VAE, decode));
    TSR__TRY(dump_end(c));
    if (!c->o->output_latents) {
        tsr__free(c->engine, c->images->latents.data);
        c->images->latents.data = NULL;
    }
    return TSR_OK;
}

static void free_text(call *c, text *t) {
    tsr__free(c->engine, t->ids);
    tsr__free(c->engine, t->mask);
    tsr__free(c->engine, t->txt_ids);
    tsr__free(c->engine, t->embeds);
}

static void free_call(call *c) {
    free_text(c, &c->prompt);
    free_text(c, &c->negative);
    void *const arrays[] = {c->img_ids, c->sigmas, c->timesteps, c->noise, c->latents, c->t_rows, c->vae_out};
    for (size_t i = 0; i < TSR__COUNT(arrays); i++) tsr__free(c->engine, arrays[i]);
    for (int i = 0; i < TSR__N_MODELS; i++) tsr__exec_destroy(c->exec[i]);
    tsr__dump_free(&c->dump);
}

static tsr_status klein_generate(tsr_pipeline *p, const tsr_generate_options *options, tsr_images **out) {
    call c = {.engine = p->engine, .p = p, .o = options};
    tsr_status status = draw(&c);
    free_call(&c);
    if (status != TSR_OK) {
        tsr_images_free(p->engine, c.images);
        return status;
    }
    *out = c.images;
    return TSR_OK;
}

const tsr_pipeline_desc tsr__flux2_klein = {
    .class_name = "Flux2KleinPipeline",
    .models = {"Qwen3ForCausalLM", "Flux2Transformer2DModel", "AutoencoderKLFlux2"},
    .tokenizer = "Qwen2Tokenizer",
    .scheduler = "FlowMatchEulerDiscreteScheduler",
    .read_index = klein_read_index,
    .generate = klein_generate,
    .tokenize = klein_tokenize,
};
