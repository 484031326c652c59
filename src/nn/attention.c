#include "nn/attention.h"

#include <string.h>

int64_t tsr__spread_length(const tsr__spread *s, int r, int u) {
    return tsr__split_length(&s->split, s->split.sequence->place[r * s->U + u]);
}

int64_t tsr__ring_length(const tsr__spread *s, int r) {
    int64_t length = 0;
    for (int u = 0; u < s->U; u++) length += tsr__spread_length(s, r, u);
    return length;
}

tsr__value tsr__cut(tsr__exec *x, tsr__value flat, int64_t at, const int64_t *shape) {
    int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
    return tsr__reshape(x, tsr__slice(x, flat, 0, at, at + n), 4, shape);
}

static bool same_parts(const tsr__split *a, const tsr__split *b) {
    return a->comm == b->comm && a->n_parts == b->n_parts &&
           memcmp(a->parts, b->parts, a->n_parts * sizeof *a->parts) == 0;
}

/* --- masks --- */

/* A mask [B, T] has the tokens of the keys: all of them, or the same pieces. */
static bool mask_fits(tsr__exec *x, const tsr__spread *s, tsr__value mask) {
    const tsr__split *own = tsr__value_split(x, mask, TSR__AXIS_SEQUENCE);
    int64_t tokens = tsr__split_length(&s->split, -1);
    if (mask.ndim != 2 || (!own->comm && mask.shape[1] != tokens))
        (void)tsr__exec_fail(x, TSR_SHAPE, "attention: the key mask must have a row of the %lld keys a batch",
                             (long long)tokens);
    else if (own->comm && !same_parts(own, &s->split))
        (void)tsr__exec_fail(x, TSR_SHAPE, "attention: the key mask is split, but not as the keys are");
    else
        return true;
    return false;
}

tsr__masks tsr__gather_mask(tsr__exec *x, const tsr__spread *s, tsr__value mask) {
    tsr__masks masks = {mask, tsr__none()};
    if (tsr__is_none(mask) || tsr__exec_stopped(x) || !mask_fits(x, s, mask)) return masks;
    if (!tsr__value_split(x, mask, TSR__AXIS_SEQUENCE)->comm) return masks;
    int64_t elements[TSR__MAX_RANKS];
    tsr__comm *all = s->split.sequence->all;
    for (int i = 0; i < all->size; i++) elements[i] = mask.shape[0] * tsr__split_length(&s->split, i);
    masks.gathered = tsr__all_gather_values(x, all, tsr__contiguous(x, tsr__as_local(x, mask)), elements);
    return masks;
}

/* What rank `place` holds of the mask, part after part: writes [B, n] to `target` from column `at` on; returns n. */
static int64_t fill_mask(tsr__exec *x, const tsr__spread *s, tsr__masks masks, int place, tsr__value target,
                         int64_t at) {
    int64_t B = masks.whole.shape[0], n = tsr__split_length(&s->split, place), begin = 0;
    if (!tsr__is_none(masks.gathered)) {
        for (int i = 0; i < place; i++) begin += B * tsr__split_length(&s->split, i);
        tsr__value piece = tsr__slice(x, masks.gathered, 0, begin, begin + B * n);
        tsr__fill(x, tsr__slice(x, target, 1, at, at + n), tsr__reshape(x, piece, TSR__SHAPE(B, n)));
        return n;
    }
    for (size_t p = 0; p < s->split.n_parts; p++) {
        tsr_range piece = tsr__split_piece(&s->split, p, place);
        int64_t length = piece.end - piece.begin;
        tsr__fill(x, tsr__slice(x, target, 1, at, at + length),
                  tsr__slice(x, masks.whole, 1, begin + piece.begin, begin + piece.end));
        at += length;
        begin += s->split.parts[p];
    }
    return n;
}

tsr__value tsr__mask_of(tsr__exec *x, const tsr__spread *s, tsr__masks masks, int r) {
    if (tsr__is_none(masks.whole) || tsr__exec_stopped(x)) return tsr__none();
    tsr__value out = tsr__empty(x, TSR_I64, TSR__SHAPE(masks.whole.shape[0], tsr__ring_length(s, r)));
    int64_t at = 0;
    for (int u = 0; u < s->U; u++) at += fill_mask(x, s, masks, s->split.sequence->place[r * s->U + u], out, at);
    return out;
}

/* --- over ranks --- */

static tsr__spread spread_of(const tsr__split *split) {
    const tsr__sequence *seq = split->sequence;
    return (tsr__spread){*split, seq->ring ? seq->ring->size : 1, seq->ulysses ? seq->ulysses->size : 1,
                         seq->ring ? seq->ring->rank : 0, seq->ulysses ? seq->ulysses->rank : 0};
}

/* Keys and values must be the same tokens and heads. Queries may be others of the same ranks, but ulysses sends them in
 * one parcel with the keys. */
static bool split_alike(tsr__exec *x, const tsr__spread *s, tsr__qkv in) {
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        const tsr__split *q = tsr__value_split(x, in.q, axis), *k = tsr__value_split(x, in.k, axis);
        bool one_parcel = axis == TSR__AXIS_SEQUENCE && s->U > 1;
        bool queries = one_parcel ? same_parts(q, k) : q->comm == k->comm;
        if (queries && same_parts(k, tsr__value_split(x, in.v, axis))) continue;
        (void)tsr__exec_fail(x, TSR_SHAPE, "attention: queries, keys and values are not split alike over the ranks");
        return false;
    }
    return true;
}

static tsr__value attend_over_ranks(tsr__exec *x, const tsr__spread *s, tsr__qkv in, tsr__attention_options options) {
    int64_t heads = in.q.shape[2];
    tsr__masks masks = tsr__gather_mask(x, s, options.key_mask);
    tsr__qkv own = {tsr__as_local(x, in.q), tsr__as_local(x, in.k), tsr__as_local(x, in.v)};
    if (s->U > 1) own = tsr__tokens_to_heads(x, s, own);
    tsr__value out = tsr__ring_attention(x, s, own, masks, options);
    return s->U > 1 ? tsr__heads_to_tokens(x, s, out, heads) : out;
}

tsr__value tsr__attention(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options) {
    if (tsr__exec_stopped(x) || tsr__is_none(q) || tsr__is_none(k) || tsr__is_none(v)) return tsr__none();
    tsr__value out;
    const tsr__split split = *tsr__value_split(x, k, TSR__AXIS_SEQUENCE);
    if (!split.comm) {
        out = tsr__sdpa(x, q, k, v, options, NULL);
    } else {
        const tsr__spread s = spread_of(&split);
        if (!split_alike(x, &s, (tsr__qkv){q, k, v})) return tsr__none();
        if (options.causal)
            return tsr__exec_fail(x, TSR_UNSUPPORTED, "causal attention over a sequence that is split over ranks");
        out = attend_over_ranks(x, &s, (tsr__qkv){q, k, v}, options);
        for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) tsr__set_split(x, out, axis, tsr__value_split(x, q, axis));
    }
    return tsr__reshape(x, out, TSR__SHAPE(out.shape[0], out.shape[1], -1));
}
