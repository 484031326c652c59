/* DeepSpeed-Ulysses: attention needs all tokens, but each head by itself. Source: Jacobs et al. 2023. */
#include "nn/attention.h"

enum { N_QKV = 3 };

/* Elements of a piece of n tokens and the given heads. */
static int64_t elements(tsr__value v, int64_t tokens, tsr_range heads) {
    return v.shape[0] * tokens * (heads.end - heads.begin) * v.shape[3];
}

/* Query heads must come to the rank to which the key heads that they read come. */
static bool heads_fit(tsr__exec *x, const tsr__spread *s, tsr__qkv in) {
    int64_t H = in.q.shape[2], G = in.k.shape[2];
    if (H == G || (H % s->U == 0 && G % s->U == 0)) return true;
    (void)tsr__exec_fail(x, TSR_UNSUPPORTED,
                         "ulysses: %lld query heads over %lld key heads do not divide over %d ranks", (long long)H,
                         (long long)G, s->U);
    return false;
}

tsr__qkv tsr__tokens_to_heads(tsr__exec *x, const tsr__spread *s, tsr__qkv in) {
    const tsr__qkv none = {tsr__none(), tsr__none(), tsr__none()};
    if (tsr__exec_stopped(x) || !heads_fit(x, s, in)) return none;
    tsr__value all[N_QKV] = {in.q, in.k, in.v}, out[N_QKV];
    int64_t sent[TSR__MAX_RANKS] = {0}, received[TSR__MAX_RANKS] = {0}, total = 0, at = 0;
    int64_t own = tsr__spread_length(s, s->r, s->u), B = in.q.shape[0], D = in.q.shape[3];
    for (int u = 0; u < s->U; u++)
        for (int i = 0; i < N_QKV; i++) {
            sent[u] += elements(all[i], own, tsr__tensor_split(all[i].shape[2], s->U, u));
            received[u] +=
                elements(all[i], tsr__spread_length(s, s->r, u), tsr__tensor_split(all[i].shape[2], s->U, s->u));
        }
    for (int u = 0; u < s->U; u++) total += sent[u];
    tsr__value parcel = tsr__empty(x, TSR_F32, TSR__SHAPE(total));
    for (int u = 0; u < s->U; u++)
        for (int i = 0; i < N_QKV; i++) {
            tsr_range heads = tsr__tensor_split(all[i].shape[2], s->U, u);
            tsr__value piece = tsr__slice(x, all[i], 2, heads.begin, heads.end);
            tsr__fill(x, tsr__cut(x, parcel, at, piece.shape), piece);
            at += elements(all[i], own, heads);
        }
    tsr__value got = tsr__all_to_all_values(x, s->split.sequence->ulysses, parcel, sent, received);
    for (int i = 0; i < N_QKV; i++) {
        tsr_range heads = tsr__tensor_split(all[i].shape[2], s->U, s->u);
        out[i] = tsr__empty(x, TSR_F32, TSR__SHAPE(B, tsr__ring_length(s, s->r), heads.end - heads.begin, D));
    }
    int64_t token = 0;
    at = 0;
    for (int u = 0; u < s->U; u++) {
        int64_t n = tsr__spread_length(s, s->r, u);
        for (int i = 0; i < N_QKV; i++) {
            const int64_t shape[] = {B, n, out[i].shape[2], D};
            tsr__fill(x, tsr__slice(x, out[i], 1, token, token + n), tsr__cut(x, got, at, shape));
            at += B * n * out[i].shape[2] * D;
        }
        token += n;
    }
    return (tsr__qkv){out[0], out[1], out[2]};
}

/* [B, tokens of all ulysses ranks, own heads, D], in the order in which it is sent: rank after rank. */
static tsr__value by_rank(tsr__exec *x, const tsr__spread *s, tsr__value out) {
    int64_t B = out.shape[0], h = out.shape[2], D = out.shape[3], token = 0, at = 0;
    if (B == 1) return tsr__reshape(x, out, TSR__SHAPE(-1));
    tsr__value parcel = tsr__empty(x, TSR_F32, TSR__SHAPE(B * out.shape[1] * h * D));
    for (int u = 0; u < s->U; u++) {
        int64_t n = tsr__spread_length(s, s->r, u);
        const int64_t shape[] = {B, n, h, D};
        tsr__fill(x, tsr__cut(x, parcel, at, shape), tsr__slice(x, out, 1, token, token + n));
        at += B * n * h * D;
        token += n;
    }
    return parcel;
}

tsr__value tsr__heads_to_tokens(tsr__exec *x, const tsr__spread *s, tsr__value out, int64_t heads) {
    if (tsr__exec_stopped(x) || tsr__is_none(out)) return tsr__none();
    int64_t sent[TSR__MAX_RANKS], received[TSR__MAX_RANKS], at = 0;
    int64_t B = out.shape[0], D = out.shape[3], own = tsr__spread_length(s, s->r, s->u);
    for (int u = 0; u < s->U; u++) {
        tsr_range theirs = tsr__tensor_split(heads, s->U, u);
        sent[u] = B * tsr__spread_length(s, s->r, u) * out.shape[2] * D;
        received[u] = elements(out, own, theirs);
    }
    tsr__value got = tsr__all_to_all_values(x, s->split.sequence->ulysses, by_rank(x, s, out), sent, received);
    tsr__value whole = tsr__empty(x, TSR_F32, TSR__SHAPE(B, own, heads, D));
    for (int u = 0; u < s->U; u++) {
        tsr_range theirs = tsr__tensor_split(heads, s->U, u);
        const int64_t shape[] = {B, own, theirs.end - theirs.begin, D};
        tsr__fill(x, tsr__slice(x, whole, 2, theirs.begin, theirs.end), tsr__cut(x, got, at, shape));
        at += received[u];
    }
    return whole;
}
