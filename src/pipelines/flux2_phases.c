/* The forwards of a call, their meta runs, and the three phases. */
#include "pipelines/flux2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- forwards --- */

/* The transformer's prediction for the latents with the text of one pass: [rows, L, C] */
static tsr__value predict(tsr__exec *x, const tsr__flux2_call *c, tsr__value latents, const tsr__flux2_text *t) {
    const tsr_model *transformer = c->p->models[TSR__TRANSFORMER];
    tsr__value in[TSR__MAX_ARGUMENTS], out[TSR__MAX_RESULTS];
    in[0] = latents;
    in[1] = tsr__external(x, t->kept);
    in[2] = tsr__upload(x, TSR_F32, TSR__SHAPE(c->rows), c->t_rows);
    in[3] = tsr__none(); /* klein passes no guidance */
    in[4] = tsr__upload(x, TSR_I64, TSR__SHAPE(c->L, 4), c->img_ids);
    in[5] = tsr__upload(x, TSR_I64, TSR__SHAPE(t->S, 4), t->txt_ids);
    tsr__model_forward(x, transformer, in, out);
    tsr__tap(x, transformer->self, 0, out[0]);
    return out[0];
}

/* x += (sigma' - sigma) v, under guidance v = v_neg + g (v - v_neg) */
static void denoise_forward(tsr__exec *x, void *context) {
    tsr__flux2_call *c = context;
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
    tsr__flux2_call *c = context;
    const tsr_model *vae = c->p->models[TSR__VAE];
    tsr__value latents = tsr__upload(x, TSR_F32, TSR__SHAPE(1, c->L, c->C), c->picture.latents), out[TSR__MAX_RESULTS];
    tsr__value z = tsr__flux2_unpack_latents(x, vae, latents, c->h, c->w);
    memcpy(c->vae_in_shape, z.shape, sizeof c->vae_in_shape);
    tsr__download(x, z, c->picture.z);
    if (c->o->output_latents) return;
    tsr__model_forward(x, vae, &z, out);
    tsr__download(x, out[0], c->picture.image);
}

/* --- meta runs --- */

static tsr_status record_encode(tsr__flux2_call *c, tsr__flux2_text *t) {
    const tsr_model *encoder = c->p->models[TSR__TEXT_ENCODER];
    if (!t->ids) return TSR_OK;
    t->encode = (tsr__call){.model = encoder};
    t->encode.inputs[0] = (tsr_tensor){"input_ids", TSR_I64, 2, {t->rows, t->S}, t->ids};
    t->encode.inputs[1] = (tsr_tensor){"attention_mask", TSR_I64, 2, {t->rows, t->S}, t->mask};
    t->encode.outputs[0].data = t->embeds;
    return tsr__exec_record(c->exec[TSR__TEXT_ENCODER], tsr__call_forward, &t->encode, &t->graph);
}

static tsr_status keep_text(tsr__flux2_call *c, tsr__flux2_text *t) {
    return tsr__exec_keep(c->exec[TSR__TRANSFORMER], TSR_F32, TSR__SHAPE(c->rows, t->S, c->J), &t->kept);
}

tsr_status tsr__flux2_record(tsr__flux2_call *c) {
    for (int i = 0; i < TSR__N_MODELS; i++) {
        TSR__TRY(tsr__exec_create(c->engine, c->p->dtype, &c->exec[i]));
        tsr__exec_explain(c->exec[i], tsr__outputs_modules_wanted(&c->outputs));
    }
    TSR__TRY(record_encode(c, &c->prompt));
    TSR__TRY(record_encode(c, &c->negative));
    tsr__exec *x = c->exec[TSR__TRANSFORMER];
    TSR__TRY(tsr__exec_keep(x, TSR_F32, TSR__SHAPE(c->rows, c->L, c->C), &c->kept_latents));
    TSR__TRY(keep_text(c, &c->prompt));
    if (c->cfg) TSR__TRY(keep_text(c, &c->negative));
    TSR__TRY(tsr__exec_record(x, denoise_forward, c, &c->step_graph));
    return tsr__exec_record(c->exec[TSR__VAE], decode_forward, c, &c->decode_graph);
}

/* --- phases --- */

static tsr_status progress(const tsr__flux2_call *c, tsr_phase phase, tsr__role role, int64_t done, int64_t total,
                           double start) {
    tsr_progress now = {phase, c->p->models[role]->component, (uint64_t)done, (uint64_t)total, tsr__seconds() - start};
    return tsr__progress(c->engine, &now);
}

static int64_t n_encodings(const tsr__flux2_call *c) { return (c->prompt.graph != NULL) + (c->negative.graph != NULL); }

tsr_status tsr__flux2_load_encoder(tsr__flux2_call *c) {
    return n_encodings(c) ? progress(c, TSR_PHASE_ENCODE, TSR__TEXT_ENCODER, 0, n_encodings(c), tsr__seconds())
                          : TSR_OK;
}

/* Both passes in any case: the ranks that share the encoder meet in each. */
static tsr_status encode_here(tsr__flux2_call *c) {
    tsr__exec *x = c->exec[TSR__TEXT_ENCODER];
    double start = tsr__seconds();
    tsr_status first = TSR_OK, second = TSR_OK;
    tsr__outputs_watch(&c->outputs, x, c->p->models[TSR__TEXT_ENCODER]);
    if (c->prompt.graph) first = tsr__exec_run(x, c->prompt.graph, &c->prompt.encode);
    tsr__outputs_watch(&c->outputs, x, NULL);
    if (c->negative.graph) second = tsr__exec_run(x, c->negative.graph, &c->negative.encode);
    if (first != TSR_OK || second != TSR_OK) return first != TSR_OK ? first : second;
    return progress(c, TSR_PHASE_ENCODE, TSR__TEXT_ENCODER, n_encodings(c), n_encodings(c), start);
}

static tsr_status share_embeds(tsr__flux2_call *c, const tsr__flux2_text *t) {
    if (!t->graph) return TSR_OK;
    return tsr__broadcast(tsr__world(c->engine), t->embeds, (size_t)(t->rows * t->S * c->J) * sizeof *t->embeds, 0);
}

tsr_status tsr__flux2_encode(tsr__flux2_call *c) {
    bool here = c->p->part[TSR__TEXT_ENCODER] && n_encodings(c);
    TSR__TRY(tsr_status_agree(c->engine, here ? encode_here(c) : TSR_OK));
    TSR__TRY(share_embeds(c, &c->prompt));
    return share_embeds(c, &c->negative);
}

/* Embeddings to the device, each row as often as the call has rows of it. */
static tsr_status store_text(tsr__flux2_call *c, const tsr__flux2_text *t) {
    int64_t each = t->S * c->J;
    float *repeated = tsr__calloc(c->engine, (size_t)c->rows, (size_t)each * sizeof *repeated);
    if (!repeated) return TSR_NOMEM;
    for (int64_t r = 0; r < c->rows; r++)
        memcpy(repeated + r * each, t->embeds + (t->rows == 1 ? 0 : r / c->N) * each, (size_t)each * sizeof *repeated);
    tsr_status status = tsr__exec_store(c->exec[TSR__TRANSFORMER], t->kept, repeated);
    bool negative = t == &c->negative;
    for (int i = 0; i < 2; i++) {
        static const char *const names[2][2] = {{"prompt_embeds", "transformer_in.encoder_hidden_states"},
                                                {"neg_prompt_embeds", "neg_transformer_in.encoder_hidden_states"}};
        tsr__outputs_stage(&c->outputs, names[negative][i], TSR_F32, TSR__SHAPE(c->rows, t->S, c->J), repeated);
    }
    tsr__free(c->engine, repeated);
    return status == TSR_OK ? c->outputs.status : status;
}

void tsr__flux2_set_step(tsr__flux2_call *c, int i) {
    c->dt = c->sigmas[i + 1] - c->sigmas[i];
    for (int64_t r = 0; r < c->rows; r++) c->t_rows[r] = c->timesteps[i] / 1000.0f;
}

static tsr_status denoise_step(tsr__flux2_call *c, int i) {
    tsr__exec *x = c->exec[TSR__TRANSFORMER];
    tsr__flux2_set_step(c, i);
    tsr__outputs_watch(&c->outputs, x, i == 0 ? c->p->models[TSR__TRANSFORMER] : NULL);
    TSR__TRY(tsr__exec_run(x, c->step_graph, c));
    if (!tsr__outputs_told(&c->outputs)) return TSR_OK;
    char name[64];
    snprintf(name, sizeof name, "latents_step_%d", i);
    TSR__TRY(tsr__exec_load(x, c->kept_latents, c->latents));
    tsr__outputs_stage(&c->outputs, name, TSR_F32, TSR__SHAPE(c->rows, c->L, c->C), c->latents);
    return c->outputs.status;
}

tsr_status tsr__flux2_load_transformer(tsr__flux2_call *c) {
    TSR__TRY(tsr__exec_store(c->exec[TSR__TRANSFORMER], c->kept_latents, c->latents));
    TSR__TRY(store_text(c, &c->prompt));
    if (c->cfg) TSR__TRY(store_text(c, &c->negative));
    return progress(c, TSR_PHASE_DENOISE, TSR__TRANSFORMER, 0, c->steps, tsr__seconds());
}

/* diffusers draws black from what is not finite, and numpy warns. */
static void warn_unless_finite(const tsr__flux2_call *c) {
    int64_t n = c->rows * c->L * c->C, broken = 0;
    for (int64_t i = 0; i < n; i++) broken += !isfinite(c->latents[i]);
    if (broken && c->engine->rank == 0)
        tsr__log(c->engine, TSR_LOG_WARNING,
                 "%lld of %lld latents are not finite (NaN): the picture shows nothing; download the weights again",
                 (long long)broken, (long long)n);
}

tsr_status tsr__flux2_denoise(tsr__flux2_call *c) {
    double start = tsr__seconds();
    for (int i = 0; i < c->steps; i++) {
        tsr_status status = denoise_step(c, i);
        if (status == TSR_OK) status = progress(c, TSR_PHASE_DENOISE, TSR__TRANSFORMER, i + 1, c->steps, start);
        TSR__TRY(tsr_status_agree(c->engine, status));
    }
    TSR__TRY(tsr__exec_load(c->exec[TSR__TRANSFORMER], c->kept_latents, c->latents));
    warn_unless_finite(c);
    return TSR_OK;
}

/* Room for all pictures, or all latents, and for one picture in float32. */
static tsr_status make_outputs(tsr__flux2_call *c) {
    const int64_t *z = c->vae_in_shape;
    size_t per_z = (size_t)(z[1] * z[2] * z[3]), per_image = (size_t)(3 * c->height * c->width), rows = (size_t)c->rows;
    c->images->latents = (tsr_tensor){"latents", TSR_F32, 4, {c->rows, z[1], z[2], z[3]}, NULL};
    c->images->latents.data = tsr__calloc(c->engine, rows, per_z * sizeof(float));
    c->vae_out = tsr__calloc(c->engine, tsr__outputs_told(&c->outputs) ? rows : 1, per_image * sizeof(float));
    if (!c->o->output_latents) c->images->pixels = tsr__calloc(c->engine, rows, per_image);
    bool all = c->images->latents.data && c->vae_out && (c->o->output_latents || c->images->pixels);
    return all ? TSR_OK : TSR_NOMEM;
}

static tsr_status decode_row(tsr__flux2_call *c, int64_t row) {
    size_t per_z = tsr_tensor_bytes(&c->images->latents) / sizeof(float) / (size_t)c->rows;
    int64_t per_image = 3 * c->height * c->width;
    c->picture.latents = c->latents + row * c->L * c->C;
    c->picture.z = (float *)c->images->latents.data + (size_t)row * per_z;
    c->picture.image = c->vae_out + (tsr__outputs_told(&c->outputs) ? row * per_image : 0);
    TSR__TRY(tsr__exec_run(c->exec[TSR__VAE], c->decode_graph, c));
    if (c->images->pixels)
        tsr__pixels_from_image(c->picture.image, c->height, c->width, c->images->pixels + row * per_image);
    return TSR_OK;
}

tsr_status tsr__flux2_load_vae(tsr__flux2_call *c) { return make_outputs(c); }

/* One picture at a time, so that the activations are those of one. */
static tsr_status decode_here(tsr__flux2_call *c) {
    double start = tsr__seconds();
    for (int64_t i = 0; i < c->rows; i++) {
        tsr__outputs_watch(&c->outputs, c->exec[TSR__VAE], i == 0 && c->rows == 1 ? c->p->models[TSR__VAE] : NULL);
        TSR__TRY(progress(c, TSR_PHASE_DECODE, TSR__VAE, i, c->rows, start));
        TSR__TRY(decode_row(c, i));
    }
    return progress(c, TSR_PHASE_DECODE, TSR__VAE, c->rows, c->rows, start);
}

tsr_status tsr__flux2_decode(tsr__flux2_call *c) {
    return tsr_status_agree(c->engine, c->p->part[TSR__VAE] ? decode_here(c) : TSR_OK);
}
