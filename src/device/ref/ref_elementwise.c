#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

static float silu(float x) { return (float)((double)x / (1.0 + exp(-(double)x))); }

/* Element d of row r of an operand. */
static float at(const tsr__view *view, int64_t r, int64_t d) { return tsr__ref_load(view, tsr__ref_row(view, r) + d); }

/* out[r, d] = expression, for all rows of in0; `b` is the row that row r reads of a table: where in0 is [B, S, D], the
 * one that in3 names for its place in the sequence, else that of its batch. */
#define ELEMENTWISE(name, expression)                                                                                  \
    tsr_status tsr__ref_##name(tsr__device *device, const tsr__op *op) {                                               \
        const tsr__view *x = op->in[0], *y = op->in[1], *z = op->in[2], *index = op->in[3];                            \
        float *out = op->out[0]->data;                                                                                 \
        int64_t rows = tsr__ref_rows(x), width = tsr__ref_width(x), length = x->ndim > 1 ? x->shape[x->ndim - 2] : 1;  \
        TSR__TRY(tsr__host_check_index(device, op, index, index ? y->shape[0] : 0));                                   \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t d = 0; d < width; d++) {                                                                      \
                int64_t b = index ? tsr__index_at(index, r % length) : r / length;                                     \
                (void)y, (void)z, (void)b;                                                                             \
                *out++ = (expression);                                                                                 \
            }                                                                                                          \
        return TSR_OK;                                                                                                 \
    }

ELEMENTWISE(modulate, at(x, r, d) * (1.0f + at(y, b, d)) + at(z, b, d))
ELEMENTWISE(gated_add, at(x, r, d) + at(y, b, d) * at(z, r, d))
ELEMENTWISE(add, at(x, r, d) + at(y, r, d))
ELEMENTWISE(sub, at(x, r, d) - at(y, r, d))
ELEMENTWISE(axpy, at(x, r, d) + op->param.scalar * at(y, r, d))
ELEMENTWISE(silu, silu(at(x, r, d)))
ELEMENTWISE(swiglu, silu(at(x, r, d)) * at(y, r, d))

/* The byte address of element i, in row-major order of the view's shape. */
static char *element(const tsr__view *view, int64_t i) {
    int64_t offset = 0;
    for (int d = view->ndim - 1; d >= 0; d--) {
        offset += i % view->shape[d] * view->stride[d];
        i /= view->shape[d];
    }
    return (char *)view->data + offset * (int64_t)(tsr_dtype_bits(view->dtype) / 8);
}

static void copy(const tsr__view *from, const tsr__view *to) {
    int64_t n = tsr__view_elements(from);
    for (int64_t i = 0; i < n; i++) memcpy(element(to, i), element(from, i), tsr_dtype_bits(from->dtype) / 8);
}

tsr_status tsr__ref_index_select(tsr__device *device, const tsr__op *op) {
    const tsr__view *x = op->in[0], *index = op->in[1];
    int64_t n = index->shape[0], width = x->shape[2];
    float *out = op->out[0]->data;
    TSR__TRY(tsr__host_check_index(device, op, index, x->shape[1]));
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < width; d++) *out++ = at(x, b * x->shape[1] + tsr__index_at(index, i), d);
    return TSR_OK;
}

tsr_status tsr__ref_index_copy(tsr__device *device, const tsr__op *op) {
    const tsr__view *index = op->in[1], *rows = op->in[2], *to = op->out[0];
    float *out = to->data;
    TSR__TRY(tsr__host_check_index(device, op, index, to->shape[1]));
    if (op->in[0]->data != out) copy(op->in[0], to);
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t i = 0; i < index->shape[0]; i++)
            for (int64_t d = 0; d < to->shape[2]; d++)
                out[(b * to->shape[1] + tsr__index_at(index, i)) * to->shape[2] + d] =
                    at(rows, b * index->shape[0] + i, d);
    return TSR_OK;
}

tsr_status tsr__ref_copy(tsr__device *device, const tsr__op *op) {
    (void)device;
    copy(op->in[0], op->out[0]);
    return TSR_OK;
}

tsr_status tsr__ref_concat(tsr__device *device, const tsr__op *op) {
    (void)device;
    int axis = op->param.axis;
    tsr__view part = *op->out[0];
    for (int i = 0; i < 2; i++) {
        part.shape[axis] = op->in[i]->shape[axis];
        copy(op->in[i], &part);
        part.data =
            (char *)part.data + part.shape[axis] * part.stride[axis] * (int64_t)(tsr_dtype_bits(part.dtype) / 8);
    }
    return TSR_OK;
}
