/* The operations of a forward: shapes inferred and checked, then recorded or executed. What each computes is said in
 * device.h. An operand may be none only where it says so. */
#ifndef TSR_EXEC_OPS_H
#define TSR_EXEC_OPS_H

#include "exec/exec.h"

/* Views: no data move. */
/* The same elements in another shape; one -1 is inferred. SHAPE where strides do not allow it. */
tsr__value tsr__reshape(tsr__exec *x, tsr__value v, int ndim, const int64_t *shape);
#define TSR__SHAPE(...)                                                                                                \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
/* Indices [begin, end) of a dimension; negative dimensions count from the end. */
tsr__value tsr__slice(tsr__exec *x, tsr__value v, int dim, int64_t begin, int64_t end);
/* Dimension i of the result is dimension order[i] of v. */
tsr__value tsr__permute(tsr__exec *x, tsr__value v, const int *order);
#define TSR__ORDER(...) ((const int[]){__VA_ARGS__})
/* The i-th of n equal parts along the last dimension (torch.chunk). */
tsr__value tsr__chunk(tsr__exec *x, tsr__value v, int i, int n);

/* Linear algebra. weight [N, K], bias [N] or none. */
tsr__value tsr__matmul(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias);
tsr__value tsr__conv2d(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias);

typedef struct tsr__attention_options {
    tsr__value key_mask; /* [B, T] I64 or none */
    bool causal;
    float scale; /* 0: 1/sqrt(head_dim) */
} tsr__attention_options;
/* q [B, S, H, D], k and v [B, T, G, D] -> [B, S, H, D]; stats, if not NULL: [B, S, H, 2], see device.h. */
tsr__value tsr__sdpa(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options,
                     tsr__value *stats);
/* An attention of queries, output and stats. */
typedef struct tsr__partial_attention {
    tsr__value out, stats;
} tsr__partial_attention;
/* Of the same queries over the keys of a and of b. */
tsr__partial_attention tsr__merge_attention(tsr__exec *x, tsr__partial_attention a, tsr__partial_attention b);

tsr__value tsr__rms_norm(tsr__exec *x, tsr__value in, tsr__value weight, float eps); /* weight or none */
tsr__value tsr__layer_norm(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias, float eps); /* or none */
tsr__value tsr__group_norm(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias, int groups, float eps);
tsr__value tsr__batch_denorm(tsr__exec *x, tsr__value in, tsr__value mean, tsr__value variance, float eps);

/* Elementwise. */
tsr__value tsr__modulate(tsr__exec *x, tsr__value in, tsr__value scale, tsr__value shift);
tsr__value tsr__gated_add(tsr__exec *x, tsr__value in, tsr__value gate, tsr__value branch); /* in + gate branch */
/* The same with tables [V, D], of which row s of every sequence reads row index[s]: a modulation for each row. */
tsr__value tsr__modulate_rows(tsr__exec *x, tsr__value in, tsr__value scale, tsr__value shift, tsr__value index);
tsr__value tsr__gated_add_rows(tsr__exec *x, tsr__value in, tsr__value gate, tsr__value branch, tsr__value index);
tsr__value tsr__add_values(tsr__exec *x, tsr__value a, tsr__value b);
tsr__value tsr__sub_values(tsr__exec *x, tsr__value a, tsr__value b);
tsr__value tsr__axpy(tsr__exec *x, tsr__value a, float scalar, tsr__value b); /* a + scalar b */
tsr__value tsr__silu(tsr__exec *x, tsr__value in);
tsr__value tsr__swiglu(tsr__exec *x, tsr__value gate, tsr__value value); /* silu(gate) value */

tsr__value tsr__arange(tsr__exec *x, int64_t n); /* [n] I64: 0, 1, .. n-1 */
/* [n] I64: row size + column, from [n] I64 each; a column outside [0, size) fails the run. */
tsr__value tsr__flat_index(tsr__exec *x, tsr__value row, tsr__value column, int64_t size);
tsr__value tsr__zeros(tsr__exec *x, int ndim, const int64_t *shape);
/* torch.index_select and index_copy along dimension 1 of in [B, S, D]; index [n] I64, source [B, n, D]. An entry
 * outside [0, S) fails the run. */
tsr__value tsr__index_select(tsr__exec *x, tsr__value in, tsr__value index);
tsr__value tsr__index_copy(tsr__exec *x, tsr__value in, tsr__value index, tsr__value source);
/* The table holds the rows of ids first, first + 1, ...; partial: ids outside it give zeros, else they are an error. */
tsr__value tsr__embedding(tsr__exec *x, tsr__value ids, tsr__value table, int64_t first, bool partial);
tsr__value tsr__sinusoid(tsr__exec *x, tsr__value t, float scale, int64_t channels);

typedef struct tsr__rope {
    tsr__value cos, sin; /* [S, R] */
    tsr__rope_style style;
} tsr__rope;
/* ids [S, axes] I64, or F32 where positions are fractional */
tsr__rope tsr__rope_table(tsr__exec *x, tsr__value ids, const int64_t *axes_dims, double theta, bool f64,
                          tsr__rope_style style);
tsr__value tsr__rotate(tsr__exec *x, tsr__value in, tsr__rope rope); /* in [B, S, H, D]: its first R channels */

tsr__value tsr__upsample_nearest2x(tsr__exec *x, tsr__value in);
tsr__value tsr__contiguous(tsr__exec *x, tsr__value in);
tsr__value tsr__concat(tsr__exec *x, tsr__value a, tsr__value b, int dim); /* negative: from the end */
/* Memory that tsr__fill writes piece by piece: `target`, a view of it, gets the elements of v, of the same shape. */
tsr__value tsr__empty(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape);
void tsr__fill(tsr__exec *x, tsr__value target, tsr__value v);
/* v as this rank's own: what follows cuts and joins it without regard to other ranks. */
tsr__value tsr__as_local(tsr__exec *x, tsr__value v);

/* A partial sum (what a matmul over split channels leaves on each rank) becomes the sum, in place; another value stays
 * as it is. */
tsr__value tsr__sum_over_ranks(tsr__exec *x, tsr__value v);
/* A value that is split along the axis becomes whole on every rank; another one stays as it is. */
tsr__value tsr__gather_over_ranks(tsr__exec *x, tsr__value v, tsr__axis axis);
/* Between ranks, of what they hold locally; recv [n] elements of v's dtype. all_gather: v of every rank, one after
 * another. all_to_all: part i of v goes to rank i, parts lie one after another. Elements, by rank. */
tsr__value tsr__all_gather_values(tsr__exec *x, struct tsr__comm *comm, tsr__value v, const int64_t *elements);
tsr__value tsr__all_to_all_values(tsr__exec *x, struct tsr__comm *comm, tsr__value v, const int64_t *sent,
                                  const int64_t *received);
/* Begins to send v to the next rank and to receive a value of `shape` from the one before; what comes may be read, and
 * v be written, behind tsr__finish_shift. */
tsr__value tsr__start_shift(tsr__exec *x, struct tsr__comm *comm, tsr__value v, int ndim, const int64_t *shape);
void tsr__finish_shift(tsr__exec *x, struct tsr__comm *comm, tsr__value sent);
/* This rank's piece of a value that is whole, as `split` cuts it. A view. */
tsr__value tsr__take_piece(tsr__exec *x, tsr__value v, tsr__axis axis, const tsr__split *split);

/* "[2, 16, 32]" into text of at least 128 bytes, for messages. Returns text. */
const char *tsr__shape_text(tsr__value v, char *text);

#endif
