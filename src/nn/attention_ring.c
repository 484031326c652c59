/* Ring attention: queries stay, keys and values come from the other ranks. Source: Liu, Zaharia and Abbeel 2023. */
#include "nn/attention.h"

/* Attention over some of the keys; stats only where partial results are to be merged. */
static tsr__partial_attention attend(tsr__exec *x, tsr__qkv in, tsr__attention_options options, bool with_stats) {
    tsr__partial_attention part = {tsr__none(), tsr__none()};
    if (tsr__exec_stopped(x) || tsr__is_none(in.k)) return part;
    if (in.k.shape[2] == 0) { /* fewer heads than ulysses ranks: none of them is here */
        part.out = tsr__empty(x, TSR_F32, in.q.ndim, in.q.shape);
        part.stats = tsr__empty(x, TSR_F32, TSR__SHAPE(in.q.shape[0], in.q.shape[1], 0, 2));
        return part;
    }
    part.out = tsr__sdpa(x, in.q, in.k, in.v, options, with_stats ? &part.stats : NULL);
    return part;
}

/* Keys and values of one block [B, T, 2G, D], keys first. */
static tsr__qkv with_block(tsr__exec *x, tsr__value q, tsr__value kv) {
    int64_t G = kv.shape[2] / 2;
    return (tsr__qkv){q, tsr__slice(x, kv, 2, 0, G), tsr__slice(x, kv, 2, G, 2 * G)};
}

/* The block of the rank at place r of the ring. */
static tsr__value shape_of_block(const tsr__spread *s, tsr__value kv, int r) {
    kv.shape[1] = tsr__ring_length(s, r);
    return kv;
}

/* Blocks travel: while a rank attends to one, it passes it on and the next comes in. */
static tsr__value rotate(tsr__exec *x, const tsr__spread *s, tsr__value q, tsr__value kv, tsr__masks masks,
                         tsr__attention_options options) {
    tsr__comm *ring = s->split.sequence->ring;
    tsr__partial_attention sum = {tsr__none(), tsr__none()};
    for (int i = 0; i < s->R; i++) {
        int owner = (s->r - i + s->R) % s->R, next_owner = (owner - 1 + s->R) % s->R;
        bool last = i == s->R - 1;
        tsr__value shape = shape_of_block(s, kv, next_owner);
        tsr__value next = last ? tsr__none() : tsr__start_shift(x, ring, kv, shape.ndim, shape.shape);
        options.key_mask = tsr__mask_of(x, s, masks, owner);
        tsr__partial_attention part = attend(x, with_block(x, q, kv), options, true);
        sum = i ? tsr__merge_attention(x, sum, part) : part;
        if (last) break;
        tsr__finish_shift(x, ring, kv);
        kv = next;
    }
    return sum.out;
}

/* All blocks, and their masks, as one. */
static tsr__value gather(tsr__exec *x, const tsr__spread *s, tsr__value q, tsr__value kv, tsr__masks masks,
                         tsr__attention_options options) {
    int64_t elements[TSR__MAX_RANKS], B = kv.shape[0], row = kv.shape[2] * kv.shape[3], T = 0, at = 0, token = 0;
    for (int r = 0; r < s->R; r++) elements[r] = B * tsr__ring_length(s, r) * row;
    for (int r = 0; r < s->R; r++) T += tsr__ring_length(s, r);
    bool masked = !tsr__is_none(masks.whole);
    tsr__value flat = tsr__all_gather_values(x, s->split.sequence->ring, kv, elements);
    const int64_t shape[] = {B, T, kv.shape[2], kv.shape[3]};
    tsr__value all = B == 1 ? tsr__reshape(x, flat, 4, shape) : tsr__empty(x, TSR_F32, 4, shape);
    tsr__value mask = masked ? tsr__empty(x, TSR_I64, TSR__SHAPE(B, T)) : tsr__none();
    for (int r = 0; r < s->R; r++) {
        tsr__value block = shape_of_block(s, kv, r);
        int64_t end = token + block.shape[1];
        if (B > 1) tsr__fill(x, tsr__slice(x, all, 1, token, end), tsr__cut(x, flat, at, block.shape));
        if (masked) tsr__fill(x, tsr__slice(x, mask, 1, token, end), tsr__mask_of(x, s, masks, r));
        at += elements[r];
        token = end;
    }
    options.key_mask = mask;
    return attend(x, with_block(x, q, all), options, false).out;
}

tsr__value tsr__ring_attention(tsr__exec *x, const tsr__spread *s, tsr__qkv in, tsr__masks masks,
                               tsr__attention_options options) {
    if (tsr__exec_stopped(x) || tsr__is_none(in.q)) return tsr__none();
    if (s->R == 1) {
        options.key_mask = tsr__mask_of(x, s, masks, 0);
        return attend(x, in, options, false).out;
    }
    tsr__value kv = tsr__concat(x, in.k, in.v, 2);
    if (s->split.sequence->rotate_method == TSR_ROTATE_ALLTOALL) return rotate(x, s, in.q, kv, masks, options);
    return gather(x, s, in.q, kv, masks, options);
}
