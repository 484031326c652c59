/* The stages of a call, named as in the reference data, for a dump and for hooks. */
#include "pipelines/flux2.h"

#include <string.h>

/* A table of rows that are all the same, as diffusers passes ids: [rows, n, 4] */
static void dump_ids(tsr__flux2_call *c, const char *name, const int64_t *ids, int64_t n) {
    if (!tsr__outputs_told(&c->outputs)) return;
    int64_t *repeated = tsr__calloc(c->engine, (size_t)(c->rows * n * 4), sizeof *ids);
    if (!repeated) {
        c->outputs.status = TSR_NOMEM;
        return;
    }
    for (int64_t r = 0; r < c->rows; r++) memcpy(repeated + r * n * 4, ids, (size_t)(n * 4) * sizeof *ids);
    tsr__outputs_stage(&c->outputs, name, TSR_I64, TSR__SHAPE(c->rows, n, 4), repeated);
    tsr__free(c->engine, repeated);
}

/* Names of the stages of a pass. */
typedef struct stage_names {
    const char *ids, *mask, *text_ids, *hidden, *timestep, *img, *txt;
} stage_names;
#define STAGE_NAMES(neg)                                                                                               \
    {                                                                                                                  \
        neg "input_ids", neg "attention_mask", neg "text_ids", neg "transformer_in.hidden_states",                     \
            neg "transformer_in.timestep", neg "transformer_in.img_ids", neg "transformer_in.txt_ids"                  \
    }
static const stage_names conditional = STAGE_NAMES(""), unconditional = STAGE_NAMES("neg_");

static void dump_text(tsr__flux2_call *c, const tsr__flux2_text *t, const stage_names *names) {
    if (!t->txt_ids) return; /* no such pass */
    if (t->ids) {
        tsr__outputs_stage(&c->outputs, names->ids, TSR_I64, TSR__SHAPE(t->rows, t->S), t->ids);
        tsr__outputs_stage(&c->outputs, names->mask, TSR_I64, TSR__SHAPE(t->rows, t->S), t->mask);
    }
    dump_ids(c, names->text_ids, t->txt_ids, t->S);
    dump_ids(c, names->txt, t->txt_ids, t->S);
    dump_ids(c, names->img, c->img_ids, c->L);
    tsr__outputs_stage(&c->outputs, names->timestep, TSR_F32, TSR__SHAPE(c->rows), c->t_rows);
    tsr__outputs_stage(&c->outputs, names->hidden, TSR_F32, TSR__SHAPE(c->rows, c->L, c->C), c->latents);
}

tsr_status tsr__flux2_open_outputs(tsr__flux2_call *c) {
    const tsr_generate_options *o = c->o;
    c->outputs.engine = c->engine;
    if (o->dump && c->engine->rank == 0) TSR__TRY(tsr__dump_open(c->engine, o->dump, &c->dump));
    if (o->dump) tsr__outputs_add(&c->outputs, tsr__dump_take, &c->dump, o->dump_blocks);
    if (o->hook) tsr__outputs_add(&c->outputs, o->hook, o->hook_user, o->hook_modules);
    return TSR_OK;
}

tsr_status tsr__flux2_dump_start(tsr__flux2_call *c) {
    tsr__flux2_set_step(c, 0);
    dump_text(c, &c->prompt, &conditional);
    dump_text(c, &c->negative, &unconditional);
    dump_ids(c, "img_ids", c->img_ids, c->L);
    tsr__outputs_stage(&c->outputs, "sigmas", TSR_F32, TSR__SHAPE(c->steps + 1), c->sigmas);
    tsr__outputs_stage(&c->outputs, "timesteps", TSR_F32, TSR__SHAPE(c->steps), c->timesteps);
    size_t n = (size_t)(c->rows * c->L * c->C);
    if (!tsr__outputs_told(&c->outputs)) return TSR_OK;
    void *typed = tsr__calloc(c->engine, n, sizeof(float));
    if (!typed) return TSR_NOMEM;
    (void)tsr_convert_from_f32(c->p->dtype, c->latents, typed, n);
    tsr__outputs_stage(&c->outputs, "latents_initial", c->p->dtype, TSR__SHAPE(c->rows, c->L, c->C), typed);
    tsr__free(c->engine, typed);
    return c->outputs.status;
}

tsr_status tsr__flux2_dump_end(tsr__flux2_call *c) {
    const int64_t *z = c->vae_in_shape;
    tsr__outputs_stage(&c->outputs, "vae_in", TSR_F32, TSR__SHAPE(c->rows, z[1], z[2], z[3]), c->images->latents.data);
    if (!c->o->output_latents) {
        tsr__outputs_stage(&c->outputs, "vae_out", TSR_F32, TSR__SHAPE(c->rows, 3, c->height, c->width), c->vae_out);
        tsr__outputs_stage(&c->outputs, "image_u8", TSR_U8, TSR__SHAPE(c->rows, c->height, c->width, 3),
                           c->images->pixels);
    }
    return c->outputs.status;
}
