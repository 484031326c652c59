/* The text of a call: ids of the prompts, or embeddings that were given. */
#include "pipelines/flux2.h"

static tsr_status make_text_ids(tsr__flux2_call *c, tsr__flux2_text *t) {
    t->txt_ids = tsr__calloc(c->engine, (size_t)(4 * t->S), sizeof *t->txt_ids);
    t->embeds = tsr__calloc(c->engine, (size_t)(t->rows * t->S), (size_t)c->J * sizeof *t->embeds);
    if (!t->txt_ids || !t->embeds) return TSR_NOMEM;
    for (int64_t s = 0; s < t->S; s++) t->txt_ids[4 * s + 3] = s;
    return TSR_OK;
}

static tsr_status take_prompts(tsr__flux2_call *c, tsr__flux2_text *t, const char *const *prompts, int64_t n) {
    TSR__TRY(tsr__flux2_resolve_length(c->p, c->o->max_sequence_length, &t->S));
    t->rows = n;
    t->ids = tsr__calloc(c->engine, (size_t)(n * t->S), sizeof *t->ids);
    t->mask = tsr__calloc(c->engine, (size_t)(n * t->S), sizeof *t->mask);
    if (!t->ids || !t->mask) return TSR_NOMEM;
    for (int64_t b = 0; b < n; b++)
        TSR__TRY(c->tokenize(c->p, prompts[b], t->S, t->ids + b * t->S, t->mask + b * t->S));
    return make_text_ids(c, t);
}

static tsr_status take_embeds(tsr__flux2_call *c, tsr__flux2_text *t, const tsr_tensor *given, const char *name) {
    bool fits = given->ndim == 3 && given->shape[2] == c->J && given->shape[1] >= 1 &&
                given->shape[1] <= TSR__FLUX2_MAX_TEXT && (given->shape[0] == c->B || given->shape[0] == 1);
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

tsr_status tsr__flux2_take_text(tsr__flux2_call *c) {
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
