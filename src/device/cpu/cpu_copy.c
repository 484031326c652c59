/* Copies and permutations: runs by memcpy, transpositions in tiles. */
#include "device/cpu/cpu.h"

#include <string.h>

enum { TILE = 32, RUN = 4096, COLUMNS = 512 };

/* Both sides of a copy, dimensions that lie evenly on both merged; at least two. Strides in elements. */
typedef struct layout {
    const char *from;
    char *to;
    int64_t bytes; /* an element */
    int ndim;
    int64_t shape[TSR_MAX_DIMS + 1], source[TSR_MAX_DIMS + 1], target[TSR_MAX_DIMS + 1];
} layout;

static void append(layout *l, int64_t shape, int64_t source, int64_t target) {
    int last = l->ndim - 1;
    if (last >= 0 && l->source[last] == source * shape && l->target[last] == target * shape) {
        l->shape[last] *= shape;
        l->source[last] = source;
        l->target[last] = target;
        return;
    }
    l->shape[l->ndim] = shape;
    l->source[l->ndim] = source;
    l->target[l->ndim++] = target;
}

static layout layout_of(const tsr__view *from, const tsr__view *to) {
    layout merged = {.from = from->data, .to = to->data, .bytes = (int64_t)tsr_dtype_bits(from->dtype) / 8};
    for (int i = 0; i < from->ndim; i++)
        if (from->shape[i] != 1) append(&merged, from->shape[i], from->stride[i], to->stride[i]);
    if (merged.ndim > 1) return merged;
    /* one run, or one element: rows of RUN elements, where that divides it, give every thread something */
    int64_t n = merged.ndim ? merged.shape[0] : 1, source = merged.ndim ? merged.source[0] : 1;
    int64_t target = merged.ndim ? merged.target[0] : 1, run = n % RUN == 0 && n > 0 ? RUN : n;
    layout l = {.from = merged.from, .to = merged.to, .bytes = merged.bytes, .ndim = 2};
    l.shape[0] = n > 0 ? n / run : 0, l.source[0] = source * run, l.target[0] = target * run;
    l.shape[1] = run, l.source[1] = source, l.target[1] = target;
    return l;
}

/* to[r, c] = from[r, c]; strides are those of the dimensions `row` and the last. */
#define COPY_TILE(type)                                                                                                \
    static void copy_##type(const layout *l, int row, const void *source, void *target, int64_t rows, int64_t cols) {  \
        const type *from = source;                                                                                     \
        type *to = target;                                                                                             \
        int64_t from_row = l->source[row], to_row = l->target[row];                                                    \
        int64_t from_col = l->source[l->ndim - 1], to_col = l->target[l->ndim - 1];                                    \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t c = 0; c < cols; c++) to[r * to_row + c * to_col] = from[r * from_row + c * from_col];        \
    }

COPY_TILE(uint8_t)
COPY_TILE(uint16_t)
COPY_TILE(uint32_t)
COPY_TILE(uint64_t)

static void copy_tile(const layout *l, int row, const char *from, char *to, int64_t rows, int64_t cols) {
    if (l->bytes == 1)
        copy_uint8_t(l, row, from, to, rows, cols);
    else if (l->bytes == 2)
        copy_uint16_t(l, row, from, to, rows, cols);
    else if (l->bytes == 4)
        copy_uint32_t(l, row, from, to, rows, cols);
    else
        copy_uint64_t(l, row, from, to, rows, cols);
}

/* TILE steps of dimension `row` at the given place of the others, over the whole last dimension. */
static void copy_stripe(const layout *l, int row, const char *from, char *to, int64_t rows) {
    int last = l->ndim - 1;
    int64_t cols = l->shape[last];
    if (l->source[last] == 1 && l->target[last] == 1) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * l->target[row] * l->bytes, from + r * l->source[row] * l->bytes, (size_t)(cols * l->bytes));
        return;
    }
    for (int64_t c = 0; c < cols; c += TILE)
        copy_tile(l, row, from + c * l->source[last] * l->bytes, to + c * l->target[last] * l->bytes, rows,
                  cols - c < TILE ? cols - c : TILE);
}

/* The dimension that a tile spans besides the last: that in which the source is dense, else the last but one. */
static int row_dimension(const layout *l) {
    for (int i = 0; i < l->ndim - 1; i++)
        if (l->source[i] == 1) return i;
    return l->ndim - 2;
}

/* Stripe number i: a place in the dimensions other than `row` and the last, and a range of `row`. */
static void copy_stripe_number(const layout *l, int row, int64_t stripes, int64_t i) {
    int64_t begin = i % stripes * TILE, left = l->shape[row] - begin, place = i / stripes;
    int64_t source = begin * l->source[row], target = begin * l->target[row];
    for (int d = l->ndim - 2; d >= 0; d--) {
        if (d == row) continue;
        source += place % l->shape[d] * l->source[d];
        target += place % l->shape[d] * l->target[d];
        place /= l->shape[d];
    }
    copy_stripe(l, row, l->from + source * l->bytes, l->to + target * l->bytes, left < TILE ? left : TILE);
}

void tsr__cpu_copy_view(const tsr__device *device, const tsr__view *from, const tsr__view *to) {
    int64_t elements = tsr__view_elements(from);
    if (elements == 0) return;
    layout l = layout_of(from, to);
    int row = row_dimension(&l);
    int64_t stripes = (l.shape[row] + TILE - 1) / TILE;
    int64_t count = stripes;
    for (int d = 0; d < l.ndim - 1; d++) count *= d == row ? 1 : l.shape[d];
#pragma omp parallel for num_threads(tsr__cpu_threads(device, elements))
    for (int64_t i = 0; i < count; i++) copy_stripe_number(&l, row, stripes, i);
}

tsr_status tsr__cpu_copy(tsr__device *device, const tsr__op *op) {
    tsr__cpu_copy_view(device, op->in[0], op->out[0]);
    return TSR_OK;
}

tsr_status tsr__cpu_index_select(tsr__device *device, const tsr__op *op) {
    const tsr__view *index = op->in[1];
    int64_t length = op->in[0]->shape[1], n = index->shape[0], count = op->in[0]->shape[0] * n;
    TSR__TRY(tsr__host_check_index(device, op, index, length));
    tsr__rows x = tsr__rows_of(op->in[0]);
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, count *x.width))
    for (int64_t r = 0; r < count; r++)
        memcpy(out + r * x.width, tsr__row(&x, r / n * length + tsr__index_at(index, r % n)),
               (size_t)x.width * sizeof *out);
    return TSR_OK;
}

/* Threads share the columns, not the rows: an index may name a row more than once. */
tsr_status tsr__cpu_index_copy(tsr__device *device, const tsr__op *op) {
    const tsr__view *index = op->in[1];
    int64_t length = op->out[0]->shape[1], n = index->shape[0];
    TSR__TRY(tsr__host_check_index(device, op, index, length));
    tsr__rows rows = tsr__rows_of(op->in[2]);
    float *out = op->out[0]->data;
    if (op->in[0]->data != out) tsr__cpu_copy_view(device, op->in[0], op->out[0]);
#pragma omp parallel for num_threads(tsr__cpu_threads(device, rows.count *rows.width))
    for (int64_t begin = 0; begin < rows.width; begin += COLUMNS) {
        int64_t left = rows.width - begin, columns = left < COLUMNS ? left : COLUMNS;
        for (int64_t r = 0; r < rows.count; r++)
            memcpy(out + (r / n * length + tsr__index_at(index, r % n)) * rows.width + begin,
                   (const float *)tsr__row(&rows, r) + begin, (size_t)columns * sizeof *out);
    }
    return TSR_OK;
}

tsr_status tsr__cpu_concat(tsr__device *device, const tsr__op *op) {
    int axis = op->param.axis;
    tsr__view part = *op->out[0];
    for (int i = 0; i < 2; i++) {
        part.shape[axis] = op->in[i]->shape[axis];
        tsr__cpu_copy_view(device, op->in[i], &part);
        part.data = (char *)part.data + part.shape[axis] * part.stride[axis] * (tsr_dtype_bits(part.dtype) / 8);
    }
    return TSR_OK;
}
