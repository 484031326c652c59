/* Values that are views of others. */
#include "exec/ops.h"
#include "exec/split.h"

#include <stdio.h>
#include <string.h>

const char *tsr__shape_text(tsr__value v, char *text) {
    size_t used = 0;
    used += (size_t)snprintf(text, 128, "[");
    for (int i = 0; i < v.ndim && used < 100; i++)
        used += (size_t)snprintf(text + used, 128 - used, i ? ", %lld" : "%lld", (long long)v.shape[i]);
    snprintf(text + used, 128 - used, "]");
    return text;
}

/* Fills in one -1; false where the numbers of elements differ. */
static bool complete_shape(const tsr__view *from, int ndim, int64_t *shape) {
    int64_t known = 1, all = tsr__view_elements(from);
    int unknown = -1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            unknown = i;
        else
            known *= shape[i];
    }
    if (unknown >= 0) shape[unknown] = known ? all / known : 0;
    return known * (unknown >= 0 ? shape[unknown] : 1) == all;
}

/* Drops dimensions of size 1 and merges neighbours that are dense with each other. */
static int merge_dims(const tsr__view *from, int64_t *shape, int64_t *stride) {
    int n = 0;
    for (int i = 0; i < from->ndim; i++) {
        if (from->shape[i] == 1) continue;
        if (n && stride[n - 1] == from->shape[i] * from->stride[i]) {
            shape[n - 1] *= from->shape[i];
            stride[n - 1] = from->stride[i];
        } else {
            shape[n] = from->shape[i];
            stride[n++] = from->stride[i];
        }
    }
    return n;
}

/* Strides of `shape` over the elements of `from`; false where only a copy could do it. */
static bool reshaped_strides(const tsr__view *from, int ndim, const int64_t *shape, int64_t *stride) {
    int64_t merged[TSR_MAX_DIMS], merged_stride[TSR_MAX_DIMS];
    int n = merge_dims(from, merged, merged_stride), group = n - 1;
    if (tsr__view_elements(from) == 0) group = -1; /* nothing to reach: any strides do */
    int64_t used = 1;                              /* elements of the group that dimensions to the right of i take up */
    for (int i = ndim - 1; i >= 0; i--) {
        if (group >= 0 && used == merged[group] && shape[i] != 1) group--, used = 1;
        int64_t step = group >= 0 ? merged_stride[group] : 1;
        stride[i] = used * step;
        used *= shape[i] ? shape[i] : 1;
        if (group >= 0 && merged[group] % used != 0) return false;
    }
    return true;
}

tsr__value tsr__reshape(tsr__exec *x, tsr__value v, int ndim, const int64_t *shape) {
    if (tsr__is_none(v) || tsr__exec_stopped(x)) return tsr__none();
    const tsr__view *from = tsr__value_strides(x, v);
    int64_t to[TSR_MAX_DIMS], stride[TSR_MAX_DIMS];
    memcpy(to, shape, (size_t)ndim * sizeof *shape);
    char text[128];
    if (!complete_shape(from, ndim, to) || !reshaped_strides(from, ndim, to, stride))
        return tsr__exec_fail(x, TSR_SHAPE, "a value of shape %s cannot be viewed with %d dimensions as asked",
                              tsr__shape_text(v, text), ndim);
    tsr__value out = tsr__value_view(x, v, 0, ndim, to, stride);
    tsr__split_reshape(x, v, out);
    return out;
}

tsr__value tsr__slice(tsr__exec *x, tsr__value v, int dim, int64_t begin, int64_t end) {
    if (tsr__is_none(v) || tsr__exec_stopped(x)) return tsr__none();
    const tsr__view from = *tsr__value_strides(x, v);
    if (dim < 0) dim += v.ndim;
    char text[128];
    if (dim < 0 || dim >= v.ndim || begin < 0 || end < begin || end > v.shape[dim])
        return tsr__exec_fail(x, TSR_SHAPE, "no slice [%lld, %lld) in dimension %d of %s", (long long)begin,
                              (long long)end, dim, tsr__shape_text(v, text));
    int64_t shape[TSR_MAX_DIMS];
    memcpy(shape, from.shape, sizeof shape);
    shape[dim] = end - begin;
    tsr__value out = tsr__value_view(x, v, begin * from.stride[dim], v.ndim, shape, from.stride);
    tsr__split_slice(x, v, dim, (tsr_range){begin, end}, out);
    return out;
}

tsr__value tsr__chunk(tsr__exec *x, tsr__value v, int i, int n) {
    int64_t size = v.ndim > 0 ? v.shape[v.ndim - 1] / n : 0;
    return tsr__slice(x, v, -1, i * size, (i + 1) * size);
}

tsr__value tsr__permute(tsr__exec *x, tsr__value v, const int *order) {
    if (tsr__is_none(v) || tsr__exec_stopped(x)) return tsr__none();
    const tsr__view from = *tsr__value_strides(x, v);
    int64_t shape[TSR_MAX_DIMS], stride[TSR_MAX_DIMS];
    for (int i = 0; i < v.ndim; i++) {
        shape[i] = from.shape[order[i]];
        stride[i] = from.stride[order[i]];
    }
    tsr__value out = tsr__value_view(x, v, 0, v.ndim, shape, stride);
    tsr__split_permute(x, v, order, out);
    return out;
}
