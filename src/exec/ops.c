#include "exec/ops.h"
#include "exec/split.h"

#include <math.h>
#include <string.h>

/* What most operations are: one output of the shape of the first input. */
static tsr__value emit(tsr__exec *x, tsr__emission e, int ndim, const int64_t *shape) {
    tsr__value out = {.ndim = ndim};
    memcpy(out.shape, shape, (size_t)ndim * sizeof *shape);
    e.n_out = 1;
    if (e.out_dtype == TSR_DTYPE_NONE) e.out_dtype = TSR_F32;
    tsr__emit(x, &e, &out);
    return out;
}

#define NONE tsr__none()
#define IN(...)                                                                                                        \
    { __VA_ARGS__ }

static tsr__value refuse(tsr__exec *x, tsr__op_kind kind, tsr__value a, tsr__value b) {
    char left[128], right[128], left_note[300], right_note[300];
    return tsr__exec_fail(x, TSR_SHAPE, "%s: shapes %s%s and %s%s do not fit", tsr__op_name(kind),
                          tsr__shape_text(a, left), tsr__split_note(x, a, left_note, sizeof left_note),
                          tsr__shape_text(b, right), tsr__split_note(x, b, right_note, sizeof right_note));
}

static bool broken(tsr__exec *x, tsr__value a, tsr__value b) {
    return tsr__exec_stopped(x) || tsr__is_none(a) || tsr__is_none(b);
}

static int64_t last(tsr__value v) { return v.ndim ? v.shape[v.ndim - 1] : 1; }

static int64_t rows(tsr__value v) {
    int64_t n = 1;
    for (int i = 0; i < v.ndim - 1; i++) n *= v.shape[i];
    return n;
}

static bool same_shape(tsr__value a, tsr__value b) {
    return a.ndim == b.ndim && memcmp(a.shape, b.shape, (size_t)a.ndim * sizeof *a.shape) == 0;
}

/* none, or [n] */
static bool is_vector(tsr__value v, int64_t n) { return tsr__is_none(v) || (v.ndim == 1 && v.shape[0] == n); }

tsr__value tsr__matmul(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias) {
    if (broken(x, in, weight)) return NONE;
    if (weight.ndim != 2 || in.ndim < 1 || last(in) != weight.shape[1] || !is_vector(bias, weight.shape[0]))
        return refuse(x, TSR__OP_matmul, in, weight);
    int64_t shape[TSR_MAX_DIMS];
    memcpy(shape, in.shape, sizeof shape);
    shape[in.ndim - 1] = weight.shape[0];
    tsr__emission e = {.op = {.kind = TSR__OP_matmul, .param.matmul.round_inputs = tsr__exec_round_inputs(x)},
                       .in = IN(in, weight, bias, NONE),
                       .flops = 2.0 * (double)rows(in) * (double)weight.shape[0] * (double)weight.shape[1]};
    return emit(x, e, in.ndim, shape);
}

tsr__value tsr__conv2d(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias) {
    if (broken(x, in, weight)) return NONE;
    if (in.ndim != 4 || weight.ndim != 4 || in.shape[3] != weight.shape[1] || weight.shape[2] != weight.shape[3] ||
        weight.shape[2] % 2 == 0 || !is_vector(bias, weight.shape[0]))
        return refuse(x, TSR__OP_conv2d, in, weight);
    int64_t taps = weight.shape[1] * weight.shape[2] * weight.shape[3];
    tsr__emission e = {.op = {.kind = TSR__OP_conv2d, .param.matmul.round_inputs = tsr__exec_round_inputs(x)},
                       .in = IN(in, weight, bias, NONE),
                       .flops = 2.0 * (double)rows(in) * (double)weight.shape[0] * (double)taps};
    return emit(x, e, TSR__SHAPE(in.shape[0], in.shape[1], in.shape[2], weight.shape[0]));
}

tsr__value tsr__sdpa(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options,
                     tsr__value *stats) {
    if (broken(x, q, k) || broken(x, v, q)) return NONE;
    tsr__value mask = options.key_mask;
    if (q.ndim != 4 || k.ndim != 4 || !same_shape(k, v) || q.shape[0] != k.shape[0] || last(q) != last(k) ||
        k.shape[2] < 1 || q.shape[2] % k.shape[2] != 0)
        return refuse(x, TSR__OP_attention, q, k);
    if (!tsr__is_none(mask) && (mask.ndim != 2 || mask.shape[0] != k.shape[0] || mask.shape[1] != k.shape[1]))
        return refuse(x, TSR__OP_attention, mask, k);
    float scale = options.scale != 0.0f ? options.scale : 1.0f / sqrtf((float)last(q));
    tsr__emission e = {.op = {.kind = TSR__OP_attention, .param.attention = {scale, options.causal}},
                       .in = IN(q, k, v, mask),
                       .n_out = stats ? 2 : 1,
                       .out_dtype = TSR_F32,
                       .flops = 4.0 * (double)(q.shape[0] * q.shape[2]) * (double)q.shape[1] * (double)k.shape[1] *
                                (double)last(q)};
    tsr__value out[2] = {q, {.ndim = 4, .shape = {q.shape[0], q.shape[1], q.shape[2], 2}}};
    tsr__emit(x, &e, out);
    if (stats) *stats = out[1];
    return out[0];
}

tsr__partial_attention tsr__merge_attention(tsr__exec *x, tsr__partial_attention a, tsr__partial_attention b) {
    tsr__partial_attention none = {NONE, NONE};
    if (broken(x, a.out, a.stats) || broken(x, b.out, b.stats)) return none;
    if (!same_shape(a.out, b.out) || !same_shape(a.stats, b.stats)) {
        (void)refuse(x, TSR__OP_attention_merge, a.out, b.out);
        return none;
    }
    tsr__emission e = {.op.kind = TSR__OP_attention_merge,
                       .in = IN(a.out, a.stats, b.out, b.stats),
                       .n_out = 2,
                       .out_dtype = TSR_F32,
                       .in_place = true};
    tsr__value out[2] = {a.out, a.stats};
    tsr__emit(x, &e, out);
    return (tsr__partial_attention){out[0], out[1]};
}

static tsr__value norm(tsr__exec *x, tsr__op op, tsr__value in, tsr__value a, tsr__value b) {
    if (broken(x, in, in)) return NONE;
    if (!is_vector(a, last(in)) || !is_vector(b, last(in))) return refuse(x, op.kind, in, a);
    tsr__emission e = {.op = op, .in = IN(in, a, b, NONE), .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__rms_norm(tsr__exec *x, tsr__value in, tsr__value weight, float eps) {
    return norm(x, (tsr__op){.kind = TSR__OP_rms_norm, .param.norm.eps = eps}, in, weight, NONE);
}

tsr__value tsr__layer_norm(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias, float eps) {
    return norm(x, (tsr__op){.kind = TSR__OP_layer_norm, .param.norm.eps = eps}, in, weight, bias);
}

tsr__value tsr__group_norm(tsr__exec *x, tsr__value in, tsr__value weight, tsr__value bias, int groups, float eps) {
    if (in.ndim != 4 || groups < 1 || in.shape[3] % groups != 0) return refuse(x, TSR__OP_group_norm, in, weight);
    return norm(x, (tsr__op){.kind = TSR__OP_group_norm, .param.norm = {eps, groups}}, in, weight, bias);
}

tsr__value tsr__batch_denorm(tsr__exec *x, tsr__value in, tsr__value mean, tsr__value variance, float eps) {
    return norm(x, (tsr__op){.kind = TSR__OP_batch_denorm, .param.norm.eps = eps}, in, mean, variance);
}

/* in [B, S, D] with a [B, D], or with a table a [V, D] and an index [S] */
static bool broadcasts(tsr__value in, tsr__value a, tsr__value index) {
    if (in.ndim != 3 || a.ndim != 2 || a.shape[1] != in.shape[2]) return false;
    return tsr__is_none(index) ? a.shape[0] == in.shape[0] : index.ndim == 1 && index.shape[0] == in.shape[1];
}

tsr__value tsr__modulate_rows(tsr__exec *x, tsr__value in, tsr__value scale, tsr__value shift, tsr__value index) {
    if (broken(x, in, scale) || broken(x, shift, shift)) return NONE;
    if (!broadcasts(in, scale, index) || !same_shape(scale, shift)) return refuse(x, TSR__OP_modulate, in, scale);
    tsr__emission e = {.op.kind = TSR__OP_modulate, .in = IN(in, scale, shift, index), .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__modulate(tsr__exec *x, tsr__value in, tsr__value scale, tsr__value shift) {
    return tsr__modulate_rows(x, in, scale, shift, NONE);
}

tsr__value tsr__gated_add_rows(tsr__exec *x, tsr__value in, tsr__value gate, tsr__value branch, tsr__value index) {
    if (broken(x, in, gate) || broken(x, branch, branch)) return NONE;
    if (!broadcasts(in, gate, index) || !same_shape(in, branch)) return refuse(x, TSR__OP_gated_add, in, branch);
    tsr__emission e = {.op.kind = TSR__OP_gated_add, .in = IN(in, gate, branch, index), .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__gated_add(tsr__exec *x, tsr__value in, tsr__value gate, tsr__value branch) {
    return tsr__gated_add_rows(x, in, gate, branch, NONE);
}

static tsr__value binary(tsr__exec *x, tsr__op op, tsr__value a, tsr__value b) {
    if (broken(x, a, b)) return NONE;
    if (!same_shape(a, b)) return refuse(x, op.kind, a, b);
    tsr__emission e = {.op = op, .in = IN(a, b, NONE, NONE), .in_place = true};
    return emit(x, e, a.ndim, a.shape);
}

tsr__value tsr__add_values(tsr__exec *x, tsr__value a, tsr__value b) {
    return binary(x, (tsr__op){.kind = TSR__OP_add}, a, b);
}

tsr__value tsr__sub_values(tsr__exec *x, tsr__value a, tsr__value b) {
    return binary(x, (tsr__op){.kind = TSR__OP_sub}, a, b);
}

tsr__value tsr__axpy(tsr__exec *x, tsr__value a, float scalar, tsr__value b) {
    return binary(x, (tsr__op){.kind = TSR__OP_axpy, .param.scalar = scalar}, a, b);
}

tsr__value tsr__swiglu(tsr__exec *x, tsr__value gate, tsr__value value) {
    return binary(x, (tsr__op){.kind = TSR__OP_swiglu}, gate, value);
}

tsr__value tsr__silu(tsr__exec *x, tsr__value in) {
    if (broken(x, in, in)) return NONE;
    tsr__emission e = {.op.kind = TSR__OP_silu, .in = IN(in, NONE, NONE, NONE), .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__arange(tsr__exec *x, int64_t n) {
    tsr__emission e = {.op.kind = TSR__OP_arange, .in = IN(NONE, NONE, NONE, NONE), .out_dtype = TSR_I64};
    return emit(x, e, TSR__SHAPE(n));
}

tsr__value tsr__flat_index(tsr__exec *x, tsr__value row, tsr__value column, int64_t size) {
    if (broken(x, row, column)) return NONE;
    if (row.ndim != 1 || !same_shape(row, column)) return refuse(x, TSR__OP_flat_index, row, column);
    tsr__emission e = {.op = {.kind = TSR__OP_flat_index, .param.size = size},
                       .in = IN(row, column, NONE, NONE),
                       .out_dtype = TSR_I64};
    return emit(x, e, row.ndim, row.shape);
}

tsr__value tsr__zeros(tsr__exec *x, int ndim, const int64_t *shape) {
    tsr__emission e = {.op.kind = TSR__OP_zeros, .in = IN(NONE, NONE, NONE, NONE)};
    return emit(x, e, ndim, shape);
}

tsr__value tsr__index_select(tsr__exec *x, tsr__value in, tsr__value index) {
    if (broken(x, in, index)) return NONE;
    if (in.ndim != 3 || index.ndim != 1) return refuse(x, TSR__OP_index_select, in, index);
    tsr__emission e = {.op.kind = TSR__OP_index_select, .in = IN(in, index, NONE, NONE)};
    return emit(x, e, TSR__SHAPE(in.shape[0], index.shape[0], in.shape[2]));
}

tsr__value tsr__index_copy(tsr__exec *x, tsr__value in, tsr__value index, tsr__value source) {
    if (broken(x, in, index) || broken(x, source, source)) return NONE;
    tsr__value whole = source;
    whole.shape[1] = in.shape[1];
    if (in.ndim != 3 || index.ndim != 1 || !same_shape(in, whole)) return refuse(x, TSR__OP_index_copy, in, source);
    if (index.shape[0] != source.shape[1]) return refuse(x, TSR__OP_index_copy, index, source);
    tsr__emission e = {.op.kind = TSR__OP_index_copy, .in = IN(in, index, source, NONE), .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__embedding(tsr__exec *x, tsr__value ids, tsr__value table, int64_t first, bool partial) {
    if (broken(x, ids, table)) return NONE;
    if (table.ndim != 2 || ids.ndim >= TSR_MAX_DIMS) return refuse(x, TSR__OP_embedding, ids, table);
    int64_t shape[TSR_MAX_DIMS];
    memcpy(shape, ids.shape, sizeof shape);
    shape[ids.ndim] = table.shape[1];
    tsr__emission e = {.op = {.kind = TSR__OP_embedding, .param.embedding = {first, partial}},
                       .in = IN(ids, table, NONE, NONE)};
    return emit(x, e, ids.ndim + 1, shape);
}

tsr__value tsr__sinusoid(tsr__exec *x, tsr__value t, float scale, int64_t channels) {
    if (broken(x, t, t)) return NONE;
    if (t.ndim != 1 || channels < 2 || channels % 2 != 0) return refuse(x, TSR__OP_sinusoid, t, t);
    tsr__emission e = {.op = {.kind = TSR__OP_sinusoid, .param.scalar = scale}, .in = IN(t, NONE, NONE, NONE)};
    return emit(x, e, TSR__SHAPE(t.shape[0], channels));
}

tsr__rope tsr__rope_table(tsr__exec *x, tsr__value ids, const int64_t *axes_dims, double theta, bool f64,
                          tsr__rope_style style) {
    tsr__rope none = {NONE, NONE, style};
    if (broken(x, ids, ids)) return none;
    if (ids.ndim != 2 || ids.shape[1] > TSR__MAX_ROPE_AXES) {
        (void)refuse(x, TSR__OP_rope_table, ids, ids);
        return none;
    }
    tsr__emission e = {
        .op.kind = TSR__OP_rope_table, .in = IN(ids, NONE, NONE, NONE), .n_out = 2, .out_dtype = TSR_F32};
    e.op.param.rope_table.axes = (int)ids.shape[1];
    e.op.param.rope_table.theta = theta;
    e.op.param.rope_table.f64 = f64;
    e.op.param.rope_table.style = style;
    int64_t channels = 0;
    for (int i = 0; i < (int)ids.shape[1]; i++) channels += e.op.param.rope_table.dims[i] = axes_dims[i];
    tsr__value out[2];
    for (int i = 0; i < 2; i++) out[i] = (tsr__value){.ndim = 2, .shape = {ids.shape[0], channels}};
    tsr__emit(x, &e, out);
    return (tsr__rope){out[0], out[1], style};
}

tsr__value tsr__rotate(tsr__exec *x, tsr__value in, tsr__rope rope) {
    if (broken(x, in, rope.cos)) return NONE;
    if (in.ndim != 4 || rope.cos.ndim != 2 || rope.cos.shape[0] != in.shape[1] || rope.cos.shape[1] > in.shape[3])
        return refuse(x, TSR__OP_rope, in, rope.cos);
    tsr__emission e = {.op = {.kind = TSR__OP_rope, .param.rope = rope.style},
                       .in = IN(in, rope.cos, rope.sin, NONE),
                       .in_place = true};
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__upsample_nearest2x(tsr__exec *x, tsr__value in) {
    if (broken(x, in, in)) return NONE;
    if (in.ndim != 4) return refuse(x, TSR__OP_upsample_nearest2x, in, in);
    tsr__emission e = {.op.kind = TSR__OP_upsample_nearest2x, .in = IN(in, NONE, NONE, NONE)};
    return emit(x, e, TSR__SHAPE(in.shape[0], 2 * in.shape[1], 2 * in.shape[2], in.shape[3]));
}

tsr__value tsr__contiguous(tsr__exec *x, tsr__value in) {
    if (broken(x, in, in)) return NONE;
    tsr__emission e = {.op.kind = TSR__OP_copy, .in = IN(in, NONE, NONE, NONE)};
    e.out_dtype = tsr__value_strides(x, in)->dtype;
    return emit(x, e, in.ndim, in.shape);
}

tsr__value tsr__concat(tsr__exec *x, tsr__value a, tsr__value b, int dim) {
    if (broken(x, a, b)) return NONE;
    if (dim < 0) dim += a.ndim;
    tsr__value joined = a;
    if (dim < 0 || dim >= a.ndim || a.ndim != b.ndim) return refuse(x, TSR__OP_concat, a, b);
    joined.shape[dim] = b.shape[dim];
    if (!same_shape(joined, b)) return refuse(x, TSR__OP_concat, a, b);
    joined.shape[dim] = a.shape[dim] + b.shape[dim];
    tsr_dtype dtype = tsr__value_strides(x, a)->dtype;
    if (tsr__value_strides(x, b)->dtype != dtype)
        return tsr__exec_fail(x, TSR_SHAPE, "concat: values of different dtypes cannot be joined");
    tsr__emission e = {.op = {.kind = TSR__OP_concat, .param.axis = dim}, .in = IN(a, b, NONE, NONE)};
    e.out_dtype = dtype;
    return emit(x, e, joined.ndim, joined.shape);
}
