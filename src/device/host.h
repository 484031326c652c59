/* What the devices that compute in host memory share: their memory, rows of a view, and the operations that only look
 * up or tabulate, once per picture or step (embedding, sinusoid, rope_table, indices). All other arithmetic is written
 * twice, so that ref can judge cpu. */
#ifndef TSR_DEVICE_HOST_H
#define TSR_DEVICE_HOST_H

#include "device/device.h"

/* The memory slots of tsr__device_ops. */
void *tsr__host_alloc(tsr__device *device, size_t bytes);
void tsr__host_free(tsr__device *device, void *pointer);
tsr_status tsr__host_copy(tsr__device *device, void *dst, const void *src, size_t bytes);

/* A view as `count` rows of `width` elements; leading dimensions that lie evenly one after another are merged. */
typedef struct tsr__rows {
    char *data;
    size_t element; /* bytes */
    int64_t count, width;
    int ndim; /* of the rows: 0 or 1 where one stride leads from row to row */
    int64_t shape[TSR_MAX_DIMS], stride[TSR_MAX_DIMS];
} tsr__rows;

tsr__rows tsr__rows_of(const tsr__view *view);

/* The first element of row r. */
static inline void *tsr__row(const tsr__rows *rows, int64_t r) {
    int64_t offset = 0;
    for (int i = rows->ndim - 1; i > 0; i--) {
        offset += r % rows->shape[i] * rows->stride[i];
        r /= rows->shape[i];
    }
    if (rows->ndim > 0) offset += r * rows->stride[0];
    return rows->data ? rows->data + offset * (int64_t)rows->element : NULL;
}

/* Entry i of an index [n] I64. */
static inline int64_t tsr__index_at(const tsr__view *index, int64_t i) {
    return ((const int64_t *)index->data)[i * index->stride[0]];
}

/* ARG where an entry of the index (NULL: none) is no row of a table of so many rows; op is for the message. */
tsr_status tsr__host_check_index(tsr__device *device, const tsr__op *op, const tsr__view *index, int64_t rows);

/* numpy.ravel_multi_index of two indices. Errors: ARG, a column outside the table. */
tsr_status tsr__host_flat_index(tsr__device *device, const tsr__op *op);
tsr_status tsr__host_zeros(tsr__device *device, const tsr__op *op);
/* 0, 1, .. n-1: torch.arange */
tsr_status tsr__host_arange(tsr__device *device, const tsr__op *op);
/* torch.nn.Embedding. Errors: ARG, an id outside the table. */
tsr_status tsr__host_embedding(tsr__device *device, const tsr__op *op);
/* diffusers get_timestep_embedding(flip_sin_to_cos=True, downscale_freq_shift=0), in its float32 steps. */
tsr_status tsr__host_sinusoid(tsr__device *device, const tsr__op *op);
/* diffusers get_1d_rotary_pos_embed for each axis, transformers *RotaryEmbedding; angles rounded to float32 once. */
tsr_status tsr__host_rope_table(tsr__device *device, const tsr__op *op);

#endif
