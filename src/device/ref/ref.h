/* The oracle: each operation as its definition reads, one element after another, sums in double. It honours any strides
 * of its inputs (the last dimension is dense) and any dtype; outputs are dense float32. */
#ifndef TSR_DEVICE_REF_H
#define TSR_DEVICE_REF_H

#include "base/float16.h"
#include "device/host.h"

/* The number of rows (all dimensions but the last), and the offset in elements of row r. */
static inline int64_t tsr__ref_rows(const tsr__view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->ndim - 1; i++) n *= view->shape[i];
    return n;
}

static inline int64_t tsr__ref_row(const tsr__view *view, int64_t r) {
    int64_t offset = 0;
    for (int i = view->ndim - 2; i >= 0; i--) {
        offset += r % view->shape[i] * view->stride[i];
        r /= view->shape[i];
    }
    return offset;
}

static inline int64_t tsr__ref_width(const tsr__view *view) { return view->shape[view->ndim - 1]; }

/* The element at an offset, as float32. */
static inline float tsr__ref_load(const tsr__view *view, int64_t offset) {
    if (view->dtype == TSR_F32) return ((const float *)view->data)[offset];
    if (view->dtype == TSR_BF16) return tsr__bf16_to_f32(((const uint16_t *)view->data)[offset]);
    return tsr__f16_to_f32(((const uint16_t *)view->data)[offset]);
}

/* Element i of a vector that may be absent. */
static inline double tsr__ref_optional(const tsr__view *vector, int64_t i, double absent) {
    return vector ? (double)tsr__ref_load(vector, i * vector->stride[0]) : absent;
}

tsr_status tsr__ref_matmul(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_conv2d(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_attention(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_attention_merge(tsr__device *device, const tsr__op *op);
size_t tsr__ref_attention_scratch(const tsr__op *op);
tsr_status tsr__ref_rms_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_layer_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_group_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_batch_denorm(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_modulate(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_gated_add(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_add(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_sub(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_axpy(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_silu(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_swiglu(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_index_select(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_index_copy(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_rope(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_upsample_nearest2x(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_copy(tsr__device *device, const tsr__op *op);
tsr_status tsr__ref_concat(tsr__device *device, const tsr__op *op);

#endif
