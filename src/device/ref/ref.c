#include "device/ref/ref.h"

#include <stdio.h>

static tsr_status ref_create(tsr_engine *engine, tsr__device *device) {
    (void)engine;
    device->threads = 1;
    snprintf(device->description, sizeof device->description, "ref: plain C, 1 thread");
    return TSR_OK;
}

static void ref_destroy(tsr__device *device) { (void)device; }

/* Its memory is the host's, but like a GPU's it is filled by uploads: so the tests go that way too. */
static void *ref_host_pointer(tsr__device *device, void *pointer) {
    (void)device;
    (void)pointer;
    return NULL;
}

static size_t ref_scratch_bytes(tsr__device *device, const tsr__op *op) {
    (void)device;
    return op->kind == TSR__OP_attention ? tsr__ref_attention_scratch(op) : 0;
}

static tsr_status ref_gemm_yardstick(tsr__device *device, int64_t m, int64_t k, int64_t n, int runs, double *gflops) {
    (void)m;
    (void)k;
    (void)n;
    (void)runs;
    (void)gflops;
    return tsr__fail(device->engine, TSR_UNSUPPORTED, "the ref device is no yardstick; measure on the cpu device");
}

const tsr__device_ops tsr__device_ref = {
    .name = "ref",
    .create = ref_create,
    .destroy = ref_destroy,
    .alloc = tsr__host_alloc,
    .free = tsr__host_free,
    .host_pointer = ref_host_pointer,
    .upload = tsr__host_copy,
    .download = tsr__host_copy,
    .scratch_bytes = ref_scratch_bytes,
    .run = {[TSR__OP_matmul] = tsr__ref_matmul,
            [TSR__OP_conv2d] = tsr__ref_conv2d,
            [TSR__OP_attention] = tsr__ref_attention,
            [TSR__OP_attention_merge] = tsr__ref_attention_merge,
            [TSR__OP_rms_norm] = tsr__ref_rms_norm,
            [TSR__OP_layer_norm] = tsr__ref_layer_norm,
            [TSR__OP_group_norm] = tsr__ref_group_norm,
            [TSR__OP_batch_denorm] = tsr__ref_batch_denorm,
            [TSR__OP_modulate] = tsr__ref_modulate,
            [TSR__OP_gated_add] = tsr__ref_gated_add,
            [TSR__OP_add] = tsr__ref_add,
            [TSR__OP_sub] = tsr__ref_sub,
            [TSR__OP_axpy] = tsr__ref_axpy,
            [TSR__OP_silu] = tsr__ref_silu,
            [TSR__OP_swiglu] = tsr__ref_swiglu,
            [TSR__OP_arange] = tsr__host_arange,
            [TSR__OP_flat_index] = tsr__host_flat_index,
            [TSR__OP_zeros] = tsr__host_zeros,
            [TSR__OP_index_select] = tsr__ref_index_select,
            [TSR__OP_index_copy] = tsr__ref_index_copy,
            [TSR__OP_embedding] = tsr__host_embedding,
            [TSR__OP_sinusoid] = tsr__host_sinusoid,
            [TSR__OP_rope_table] = tsr__host_rope_table,
            [TSR__OP_rope] = tsr__ref_rope,
            [TSR__OP_upsample_nearest2x] = tsr__ref_upsample_nearest2x,
            [TSR__OP_copy] = tsr__ref_copy,
            [TSR__OP_concat] = tsr__ref_concat},
    .gemm_yardstick = ref_gemm_yardstick,
};
