/* Attention as models call it, for every layout of a run. */
#ifndef TSR_NN_ATTENTION_H
#define TSR_NN_ATTENTION_H

#include "comm/comm.h"
#include "nn/module.h"

/* The ranks that share a sequence: ring x ulysses of them. */
typedef struct tsr__sequence {
    tsr__comm *all;            /* each holds a piece of the sequence */
    tsr__comm *ring, *ulysses; /* those of them that differ along one axis only; NULL where that has size 1 */
    const int *place;          /* [ring size, ulysses size] their places in `all` */
    tsr_rotate_method rotate_method;
    bool uneven_lengths, uneven_heads; /* are allowed */
} tsr__sequence;

/* Scaled dot-product attention of q [B, S, H, D] over k, v [B, T, G, D], G dividing H -> [B, S, H D].
 * Where k and v are whole it is plain. Where they are split along the sequence, q must be so too; the result is split
 * as q is. Source: torch.nn.functional.scaled_dot_product_attention; diffusers, models/attention_dispatch.py. */
tsr__value tsr__attention(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options);

/* --- private to attention*.c --- */

/* How one attention is spread: the split that its operands share, and where this rank is. */
typedef struct tsr__spread {
    tsr__split split;
    int R, U, r, u; /* sizes of ring and ulysses, and this rank along them */
} tsr__spread;

/* Tokens that rank (r, u) holds; and that all ranks at place r of the ring hold together. */
int64_t tsr__spread_length(const tsr__spread *s, int r, int u);
int64_t tsr__ring_length(const tsr__spread *s, int r);

typedef struct tsr__qkv {
    tsr__value q, k, v;
} tsr__qkv;

/* All heads of this rank's tokens -> this rank's heads of the tokens of all ulysses ranks, in one all-to-all; and the
 * output back. */
tsr__qkv tsr__tokens_to_heads(tsr__exec *x, const tsr__spread *s, tsr__qkv in);
tsr__value tsr__heads_to_tokens(tsr__exec *x, const tsr__spread *s, tsr__value out, int64_t heads);

/* The key mask of those tokens at place r of the ring [B, T_r], out of what tsr__gather_mask has made; none without
 * one. */
typedef struct tsr__masks {
    tsr__value whole;    /* as it was given, or none */
    tsr__value gathered; /* pieces of all ranks one after another, or none */
} tsr__masks;
tsr__masks tsr__gather_mask(tsr__exec *x, const tsr__spread *s, tsr__value mask);
tsr__value tsr__mask_of(tsr__exec *x, const tsr__spread *s, tsr__masks masks, int r);

/* Queries of this rank over the keys of the whole ring. */
tsr__value tsr__ring_attention(tsr__exec *x, const tsr__spread *s, tsr__qkv in, tsr__masks masks,
                               tsr__attention_options options);

/* n elements of a flat value from `at` on, as `shape` [4]. */
tsr__value tsr__cut(tsr__exec *x, tsr__value flat, int64_t at, const int64_t *shape);

#endif
