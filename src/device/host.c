#include "device/host.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

/* Asks for huge pages where whole ones fit: a weight is touched once while it is read, page by page, and small pages
 * cost as much as the reading. Only whole pages inside, so that nothing beside the memory becomes resident. */
static void prefer_huge_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const uintptr_t huge = (uintptr_t)2 << 20;
    uintptr_t begin = ((uintptr_t)memory + huge - 1) & ~(huge - 1), end = ((uintptr_t)memory + bytes) & ~(huge - 1);
    if (end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

void *tsr__host_alloc(tsr__device *device, size_t bytes) {
    void *memory = tsr__alloc(device->engine, bytes);
    if (memory) prefer_huge_pages(memory, bytes);
    return memory;
}

void tsr__host_free(tsr__device *device, void *pointer) { tsr__free(device->engine, pointer); }

tsr_status tsr__host_copy(tsr__device *device, void *dst, const void *src, size_t bytes) {
    (void)device;
    if (bytes) memcpy(dst, src, bytes);
    return TSR_OK;
}

tsr__rows tsr__rows_of(const tsr__view *view) {
    int last = view->ndim - 1;
    tsr__rows rows = {.data = view->data, .element = tsr_dtype_bits(view->dtype) / 8, .count = 1, .width = 1};
    if (last >= 0) rows.width = view->shape[last];
    for (int i = 0; i < last; i++) {
        int64_t shape = view->shape[i], stride = view->stride[i];
        rows.count *= shape;
        if (shape == 1) continue;
        int outer = rows.ndim - 1;
        if (outer >= 0 && rows.stride[outer] == stride * shape) {
            rows.shape[outer] *= shape;
            rows.stride[outer] = stride;
            continue;
        }
        rows.shape[rows.ndim] = shape;
        rows.stride[rows.ndim++] = stride;
    }
    return rows;
}

tsr_status tsr__host_check_index(tsr__device *device, const tsr__op *op, const tsr__view *index, int64_t rows) {
    for (int64_t i = 0; index && i < index->shape[0]; i++) {
        int64_t row = tsr__index_at(index, i);
        if (row < 0 || row >= rows)
            return tsr__fail(device->engine, TSR_ARG,
                             "%s: entry %lld of the indices is %lld, which is none of %lld rows; correct the input "
                             "that they come from",
                             tsr__op_name(op->kind), (long long)i, (long long)row, (long long)rows);
    }
    return TSR_OK;
}

tsr_status tsr__host_flat_index(tsr__device *device, const tsr__op *op) {
    const tsr__view *row = op->in[0], *column = op->in[1];
    int64_t *out = op->out[0]->data;
    TSR__TRY(tsr__host_check_index(device, op, row, INT64_MAX / op->param.size));
    TSR__TRY(tsr__host_check_index(device, op, column, op->param.size));
    for (int64_t i = 0; i < row->shape[0]; i++)
        out[i] = tsr__index_at(row, i) * op->param.size + tsr__index_at(column, i);
    return TSR_OK;
}

tsr_status tsr__host_zeros(tsr__device *device, const tsr__op *op) {
    (void)device;
    size_t bytes = tsr__view_bytes(op->out[0]);
    if (bytes) memset(op->out[0]->data, 0, bytes);
    return TSR_OK;
}

tsr_status tsr__host_arange(tsr__device *device, const tsr__op *op) {
    (void)device;
    int64_t *out = op->out[0]->data;
    for (int64_t i = 0; i < op->out[0]->shape[0]; i++) out[i] = i;
    return TSR_OK;
}

tsr_status tsr__host_embedding(tsr__device *device, const tsr__op *op) {
    tsr__view ids = *op->in[0]; /* its last dimension may be strided: seen as rows of one id */
    ids.shape[ids.ndim] = ids.stride[ids.ndim] = 1;
    ids.ndim++;
    tsr__rows id_rows = tsr__rows_of(&ids), table = tsr__rows_of(op->in[1]);
    float *out = op->out[0]->data;
    for (int64_t r = 0; r < id_rows.count; r++) {
        int64_t id = *(const int64_t *)tsr__row(&id_rows, r) - op->param.embedding.first;
        bool absent = id < 0 || id >= table.count;
        if (absent && op->param.embedding.partial) {
            memset(out + r * table.width, 0, (size_t)table.width * sizeof *out);
            continue;
        }
        if (absent)
            return tsr__fail(device->engine, TSR_ARG,
                             "token id %lld is outside the embedding of %lld rows; the tokenizer does not belong to "
                             "this text encoder",
                             (long long)id, (long long)table.count);
        (void)tsr_convert_to_f32(op->in[1]->dtype, tsr__row(&table, id), out + r * table.width, (size_t)table.width);
    }
    return TSR_OK;
}

tsr_status tsr__host_sinusoid(tsr__device *device, const tsr__op *op) {
    (void)device;
    const float *t = op->in[0]->data;
    int64_t batch = op->out[0]->shape[0], width = op->out[0]->shape[1], half = width / 2;
    float *out = op->out[0]->data;
    for (int64_t b = 0; b < batch; b++, out += width)
        for (int64_t i = 0; i < half; i++) {
            float exponent = -9.210340371976184f * (float)i / (float)half; /* -ln(10000) i / half, each step rounded */
            float angle = op->param.scalar * t[b * op->in[0]->stride[0]] * expf(exponent);
            out[i] = cosf(angle);
            out[half + i] = sinf(angle);
        }
    return TSR_OK;
}

/* The position of row s on an axis. */
static double rope_position(const tsr__view *ids, int64_t s, int axis) {
    int64_t at = s * ids->stride[0] + axis * ids->stride[1];
    return ids->dtype == TSR_F32 ? (double)((const float *)ids->data)[at] : (double)((const int64_t *)ids->data)[at];
}

/* id * theta^(-2i/dim). The reference's float32 path rounds after each step: a large id times the error of its
 * frequency shows in the picture. */
static double rope_angle(const tsr__op *op, int64_t dim, int64_t i, double id) {
    double theta = op->param.rope_table.theta;
    if (op->param.rope_table.f64) return id * (1.0 / pow(theta, (double)(2 * i) / (double)dim));
    float frequency = 1.0f / powf((float)theta, (float)(2 * i) / (float)dim);
    return (double)((float)id * frequency);
}

tsr_status tsr__host_rope_table(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *ids = op->in[0];
    int64_t width = op->out[0]->shape[1];
    bool half = op->param.rope_table.style == TSR__ROPE_HALF;
    float *cosines = op->out[0]->data, *sines = op->out[1]->data;
    for (int64_t s = 0; s < ids->shape[0]; s++, cosines += width, sines += width) {
        int64_t pair = 0;
        for (int axis = 0; axis < op->param.rope_table.axes; axis++) {
            int64_t dim = op->param.rope_table.dims[axis];
            double id = rope_position(ids, s, axis);
            for (int64_t i = 0; i < dim / 2; i++, pair++) {
                double angle = rope_angle(op, dim, i, id);
                int64_t first = half ? pair : 2 * pair, second = half ? pair + width / 2 : 2 * pair + 1;
                cosines[first] = cosines[second] = (float)cos(angle);
                sines[first] = sines[second] = (float)sin(angle);
            }
        }
    }
    return TSR_OK;
}
