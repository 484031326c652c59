#include "device/cpu/cpu.h"

enum { CHUNK = 4096 };

typedef void (*elementwise)(const float *x, const float *y, float s, float *out, int64_t n);

/* Memory without gaps is cut into rows of CHUNK elements, whatever its shape; the last row may be short. */
static void flatten(tsr__rows *rows, int64_t n) {
    rows->count = (n + CHUNK - 1) / CHUNK;
    rows->width = rows->stride[0] = CHUNK;
    rows->ndim = 1;
}

static tsr_status each(const tsr__device *device, const tsr__op *op, elementwise kernel, float s) {
    const tsr__view *second = op->in[1] ? op->in[1] : op->in[0];
    int64_t n = tsr__view_elements(op->in[0]);
    tsr__rows x = tsr__rows_of(op->in[0]), y = tsr__rows_of(second);
    if (tsr__view_is_dense(op->in[0]) && tsr__view_is_dense(second)) {
        flatten(&x, n);
        flatten(&y, n);
    }
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, n))
    for (int64_t r = 0; r < x.count; r++) {
        int64_t begin = r * x.width, left = n - begin;
        kernel(tsr__row(&x, r), tsr__row(&y, r), s, out + begin, left < x.width ? left : x.width);
    }
    return TSR_OK;
}

tsr_status tsr__cpu_add(tsr__device *device, const tsr__op *op) {
    return each(device, op, tsr__kernels_of(device)->axpy, 1.0f);
}

tsr_status tsr__cpu_sub(tsr__device *device, const tsr__op *op) {
    return each(device, op, tsr__kernels_of(device)->axpy, -1.0f);
}

tsr_status tsr__cpu_axpy(tsr__device *device, const tsr__op *op) {
    return each(device, op, tsr__kernels_of(device)->axpy, op->param.scalar);
}

tsr_status tsr__cpu_silu(tsr__device *device, const tsr__op *op) {
    return each(device, op, tsr__kernels_of(device)->silu, 0.0f);
}

tsr_status tsr__cpu_swiglu(tsr__device *device, const tsr__op *op) {
    return each(device, op, tsr__kernels_of(device)->swiglu, 0.0f);
}

/* The row of a table that row r of in0 [B, S, D] reads: of its place in the sequence, or of its batch. */
static int64_t table_row(const tsr__op *op, int64_t r) {
    int64_t length = op->in[0]->shape[1];
    return op->in[3] ? tsr__index_at(op->in[3], r % length) : r / length;
}

tsr_status tsr__cpu_modulate(tsr__device *device, const tsr__op *op) {
    TSR__TRY(tsr__host_check_index(device, op, op->in[3], op->in[1]->shape[0]));
    tsr__rows x = tsr__rows_of(op->in[0]), scale = tsr__rows_of(op->in[1]), shift = tsr__rows_of(op->in[2]);
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++) {
        int64_t t = table_row(op, r);
        tsr__kernels_of(device)->modulate(tsr__row(&x, r), tsr__row(&scale, t), tsr__row(&shift, t), out + r * x.width,
                                          x.width);
    }
    return TSR_OK;
}

tsr_status tsr__cpu_gated_add(tsr__device *device, const tsr__op *op) {
    TSR__TRY(tsr__host_check_index(device, op, op->in[3], op->in[1]->shape[0]));
    tsr__rows x = tsr__rows_of(op->in[0]), gate = tsr__rows_of(op->in[1]), y = tsr__rows_of(op->in[2]);
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++)
        tsr__kernels_of(device)->gated_add(tsr__row(&x, r), tsr__row(&gate, table_row(op, r)), tsr__row(&y, r),
                                           out + r * x.width, x.width);
    return TSR_OK;
}

tsr_status tsr__cpu_rope(tsr__device *device, const tsr__op *op) {
    const tsr__kernels *kernels = tsr__kernels_of(device);
    tsr__rows x = tsr__rows_of(op->in[0]), cosines = tsr__rows_of(op->in[1]), sines = tsr__rows_of(op->in[2]);
    int64_t length = op->in[0]->shape[1], heads = op->in[0]->shape[2], rotated = cosines.width;
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++) {
        int64_t s = r / heads % length;
        const float *from = tsr__row(&x, r);
        float *to = out + r * x.width;
        (op->param.rope == TSR__ROPE_HALF ? kernels->rope_half : kernels->rope_interleaved)(
            from, tsr__row(&cosines, s), tsr__row(&sines, s), to, rotated);
        for (int64_t d = rotated; d < x.width; d++) to[d] = from[d];
    }
    return TSR_OK;
}
