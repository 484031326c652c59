/* The latents that a call starts from: [rows, C, h, w] as drawn or given, packed to [rows, L, C]. */
#include "pipelines/flux2.h"

#include <string.h>

static tsr_status make_img_ids(tsr__flux2_call *c) {
    c->img_ids = tsr__calloc(c->engine, (size_t)(4 * c->L), sizeof *c->img_ids);
    if (!c->img_ids) return TSR_NOMEM;
    for (int64_t i = 0; i < c->L; i++) {
        c->img_ids[4 * i + 1] = i / c->w;
        c->img_ids[4 * i + 2] = i % c->w;
    }
    return TSR_OK;
}

static tsr_status take_latents(tsr__flux2_call *c, const tsr_tensor *given) {
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

static tsr_status make_seeds(tsr__flux2_call *c, uint64_t *seeds) {
    uint64_t one = 0;
    if (!c->o->n_seeds) TSR__TRY(tsr__random_seed(c->engine, &one));
    for (int64_t i = 0; i < c->rows; i++)
        seeds[i] = c->o->n_seeds > 1 ? c->o->seeds[i] : c->o->n_seeds ? c->o->seeds[0] : one;
    return TSR_OK;
}

/* [C, h w] -> [h w, C] for each row */
static void pack(const tsr__flux2_call *c) {
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t ch = 0; ch < c->C; ch++)
            for (int64_t i = 0; i < c->L; i++)
                c->latents[(r * c->L + i) * c->C + ch] = c->noise[(r * c->C + ch) * c->L + i];
}

tsr_status tsr__flux2_make_latents(tsr__flux2_call *c) {
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
    return make_img_ids(c);
}

static tsr_status share(const tsr__flux2_call *c, void *data, size_t n, size_t size) {
    return data ? tsr__broadcast(tsr__world(c->engine), data, n * size, 0) : TSR_OK;
}

tsr_status tsr__flux2_share_inputs(tsr__flux2_call *c) {
    tsr__flux2_text *const texts[] = {&c->prompt, &c->negative};
    for (size_t i = 0; i < TSR__COUNT(texts); i++) {
        size_t n = (size_t)(texts[i]->rows * texts[i]->S);
        TSR__TRY(share(c, texts[i]->ids, n, sizeof *texts[i]->ids));
        TSR__TRY(share(c, texts[i]->mask, n, sizeof *texts[i]->mask));
    }
    TSR__TRY(share(c, c->images->seeds, (size_t)c->rows, sizeof *c->images->seeds));
    return share(c, c->latents, (size_t)(c->rows * c->L * c->C), sizeof *c->latents);
}
