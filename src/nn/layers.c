#include "nn/layers.h"

/* Refuses an input whose last dimension is not what the weight wants, naming the module. */
static bool fits(tsr__exec *x, const tsr__module *module, tsr__value in, int64_t channels) {
    if (tsr__is_none(in) || tsr__exec_stopped(x)) return false;
    if (in.ndim > 0 && in.shape[in.ndim - 1] == channels) return true;
    char path[TSR__PATH_BYTES], shape[128];
    (void)tsr__exec_fail(x, TSR_SHAPE, "%s: its input has shape %s, but it takes %lld channels",
                         tsr__module_path(module, path, sizeof path), tsr__shape_text(in, shape), (long long)channels);
    return false;
}

void tsr__linear_add(tsr__module *parent, tsr__linear *linear, const char *name, int64_t in, int64_t out,
                     tsr__bias bias) {
    tsr__module_add(parent, &linear->module, name);
    linear->module.kind = TSR__LINEAR_LAYER;
    TSR__PARAM(linear, weight, out, in);
    if (bias == TSR__BIAS) TSR__PARAM(linear, bias, out);
}

static tsr__value refuse_features(tsr__exec *x, const tsr__linear *linear, const char *why, const tsr__split *given) {
    char path[TSR__PATH_BYTES], from[TSR__PATH_BYTES] = "";
    if (given) given->origin_path(given->origin, from, sizeof from);
    return tsr__exec_fail(x, TSR_SHAPE, "%s (%s): its input is %s%s%s",
                          tsr__module_path(&linear->module, path, sizeof path),
                          tsr_tp_style_name(linear->module.tp.style), why, given ? "; it was split by " : "", from);
}

static bool same_parts(const tsr__split *a, const tsr__split *b) {
    return a->n_parts == b->n_parts && memcmp(a->parts, b->parts, a->n_parts * sizeof *a->parts) == 0;
}

/* The input with the features that this rank's columns of the weight want; none after a refusal. This is where a plan
 * that pairs modules wrongly is found, in the meta run. */
static tsr__value take_features(tsr__exec *x, const tsr__linear *linear, tsr__value in) {
    if (tsr__is_none(in) || tsr__exec_stopped(x)) return tsr__none();
    tsr_tp_style style = linear->module.tp.style;
    tsr__split columns = tsr__param_split(&linear->weight);
    const tsr__split *given = tsr__value_split(x, in, TSR__AXIS_TP);
    bool split = given->comm && given->dim == in.ndim - 1, wanted = columns.comm && columns.dim == 1;
    if (split && style == TSR_ROWWISE_SPLIT_INPUT)
        return refuse_features(x, linear, "split over ranks already: declare it rowwise", given);
    if (split && !wanted)
        return refuse_features(x, linear, "split over ranks, but it takes all features: declare it rowwise", given);
    if (split && !same_parts(given, &columns))
        return refuse_features(x, linear, "split over ranks by other blocks than its columns: declare the same", given);
    if (!wanted || split) return in;
    if (style != TSR_ROWWISE_SPLIT_INPUT)
        return refuse_features(x, linear,
                               "whole on every rank: declare what gives it colwise, or this rowwise_split_input", NULL);
    columns.dim = in.ndim - 1;
    return tsr__take_piece(x, in, TSR__AXIS_TP, &columns);
}

tsr__value tsr__linear_forward(tsr__exec *x, const tsr__linear *linear, tsr__value in) {
    in = take_features(x, linear, in);
    if (!fits(x, &linear->module, in, linear->weight.view.shape[1])) return tsr__none();
    const tsr__tp *tp = &linear->module.tp;
    bool adds_bias = linear->weight.spec.dim == 0 || tp->rank == 0; /* once in a sum over ranks */
    tsr__value weight = tsr__param_value(x, &linear->weight);
    tsr__value bias = adds_bias ? tsr__param_value(x, &linear->bias) : tsr__none();
    tsr__value out = tsr__sum_over_ranks(x, tsr__matmul(x, in, weight, bias));
    if (tp->style == TSR_COLWISE_GATHER_OUTPUT) out = tsr__gather_over_ranks(x, out, TSR__AXIS_TP);
    return tsr__tapped(x, &linear->module, out);
}

void tsr__layer_norm_add(tsr__module *parent, tsr__norm *norm, const char *name, double eps) {
    tsr__module_add(parent, &norm->module, name);
    norm->eps = (float)eps;
}

void tsr__rms_norm_add(tsr__module *parent, tsr__norm *norm, const char *name, int64_t channels, double eps) {
    tsr__module_add(parent, &norm->module, name);
    norm->eps = (float)eps;
    TSR__PARAM(norm, weight, channels);
}

tsr__value tsr__layer_norm_forward(tsr__exec *x, const tsr__norm *norm, tsr__value in) {
    tsr__value weight = tsr__param_value(x, &norm->weight), bias = tsr__param_value(x, &norm->bias);
    return tsr__tapped(x, &norm->module, tsr__layer_norm(x, in, weight, bias, norm->eps));
}

tsr__value tsr__rms_norm_forward(tsr__exec *x, const tsr__norm *norm, tsr__value in) {
    if (!fits(x, &norm->module, in, norm->weight.view.shape[0])) return tsr__none();
    return tsr__tapped(x, &norm->module, tsr__rms_norm(x, in, tsr__param_value(x, &norm->weight), norm->eps));
}

void tsr__group_norm_add(tsr__module *parent, tsr__group_norm_layer *norm, const char *name, int64_t channels,
                         int64_t groups, double eps) {
    tsr__module_add(parent, &norm->module, name);
    norm->groups = (int)groups;
    norm->eps = (float)eps;
    TSR__PARAM(norm, weight, channels);
    TSR__PARAM(norm, bias, channels);
}

tsr__value tsr__group_norm_forward(tsr__exec *x, const tsr__group_norm_layer *norm, tsr__value in) {
    if (!fits(x, &norm->module, in, norm->weight.view.shape[0])) return tsr__none();
    tsr__value weight = tsr__param_value(x, &norm->weight), bias = tsr__param_value(x, &norm->bias);
    return tsr__tapped_image(x, &norm->module, tsr__group_norm(x, in, weight, bias, norm->groups, norm->eps));
}

void tsr__conv2d_add(tsr__module *parent, tsr__conv2d_layer *conv, const char *name, int64_t in, int64_t out,
                     int64_t kernel) {
    tsr__module_add(parent, &conv->module, name);
    TSR__PARAM(conv, weight, out, in, kernel, kernel);
    TSR__PARAM(conv, bias, out);
}

tsr__value tsr__conv2d_forward(tsr__exec *x, const tsr__conv2d_layer *conv, tsr__value in) {
    if (!fits(x, &conv->module, in, conv->weight.view.shape[1])) return tsr__none();
    tsr__value weight = tsr__param_value(x, &conv->weight), bias = tsr__param_value(x, &conv->bias);
    return tsr__tapped_image(x, &conv->module, tsr__conv2d(x, in, weight, bias));
}

void tsr__embedding_add(tsr__module *parent, tsr__embedding_layer *embedding, const char *name, int64_t n,
                        int64_t dim) {
    tsr__module_add(parent, &embedding->module, name);
    embedding->module.kind = TSR__EMBEDDING_LAYER;
    TSR__PARAM(embedding, weight, n, dim);
}

tsr__value tsr__embedding_forward(tsr__exec *x, const tsr__embedding_layer *embedding, tsr__value ids) {
    const tsr__tp *tp = &embedding->module.tp;
    tsr__value table = tsr__param_value(x, &embedding->weight);
    bool partial = tp->style == TSR_ROWWISE;
    int64_t first = partial ? tp->rank * embedding->weight.view.shape[0] : 0;
    tsr__value out = tsr__embedding(x, ids, table, first, partial);
    return tsr__tapped(x, &embedding->module, tsr__sum_over_ranks(x, out));
}

void tsr__linear_item_add(tsr__module *parent, tsr__linear_item *list, const char *name, int64_t in, int64_t out,
                          tsr__bias bias) {
    tsr__module_add(parent, &list->list.module, name);
    list->list.module.kind = TSR__LIST_OF_MODULES;
    list->list.n = 1;
    tsr__linear_add(&list->list.module, &list->item, "0", in, out, bias);
}

void tsr__timestep_embedding_add(tsr__module *parent, tsr__timestep_embedding *mlp, const char *name, int64_t in,
                                 int64_t out, tsr__bias bias) {
    tsr__module_add(parent, &mlp->module, name);
    TSR__LINEAR(mlp, linear_1, in, out, bias);
    TSR__CHILD(mlp, act);
    TSR__LINEAR(mlp, linear_2, out, out, bias);
}

tsr__value tsr__timestep_embedding_forward(tsr__exec *x, const tsr__timestep_embedding *mlp, tsr__value sinusoid) {
    tsr__value h = tsr__tapped(x, &mlp->act.module, tsr__silu(x, tsr__linear_forward(x, &mlp->linear_1, sinusoid)));
    return tsr__tapped(x, &mlp->module, tsr__linear_forward(x, &mlp->linear_2, h));
}

tsr__value tsr__gated(tsr__exec *x, const tsr__plain_module *act, tsr__value gate, tsr__value value) {
    if (tsr__exec_explains(x)) tsr__tapped_at(x, &act->module, 0, tsr__silu(x, tsr__contiguous(x, gate)));
    return tsr__swiglu(x, gate, value);
}

tsr__value tsr__split_heads(tsr__exec *x, tsr__value v, int64_t head_dim) {
    return tsr__reshape(x, v, TSR__SHAPE(v.shape[0], v.shape[1], -1, head_dim));
}
