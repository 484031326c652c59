/* The fast device: oneDNN for GEMM and convolution, loops of its own for the rest, OpenMP threads. */
#ifndef TSR_DEVICE_CPU_H
#define TSR_DEVICE_CPU_H

#include "device/cpu/kernels.h"
#include "device/host.h"

#include <oneapi/dnnl/dnnl.h>
#include <sched.h>

typedef struct tsr__cpu {
    const tsr__kernels *kernels;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool bf16_available; /* oneDNN multiplies bf16 on this machine */
    bool bf16_matmul;    /* and it is faster than float32: used where an operation allows rounding */
    bool bound;          /* threads are bound to the cores of `allowed` */
    cpu_set_t allowed;
} tsr__cpu;

static inline tsr__cpu *tsr__cpu_of(const tsr__device *device) { return device->state; }
static inline const tsr__kernels *tsr__kernels_of(const tsr__device *device) { return tsr__cpu_of(device)->kernels; }

/* The threads that are worth waking for so many elements. */
static inline int tsr__cpu_threads(const tsr__device *device, int64_t elements) {
    return elements < 16384 ? 1 : device->threads;
}

static inline void tsr__cpu_tile_done(const tsr__device *device) {
    if (device->on_tile) device->on_tile(device->on_tile_user);
}

/* Hands out parts of an operation's scratch, each aligned to 64 bytes. With base NULL it only measures. */
typedef struct tsr__scratch {
    char *base;
    size_t used;
} tsr__scratch;

static inline void *tsr__scratch_take(tsr__scratch *scratch, size_t bytes) {
    void *part = scratch->base ? scratch->base + scratch->used : NULL;
    scratch->used += (bytes + 63) / 64 * 64;
    return part;
}

/* n elements of a weight as float32. */
void tsr__cpu_to_f32(const tsr__device *device, tsr_dtype dtype, const void *src, float *dst, int64_t n);
/* A weight vector as float32: itself, or converted into scratch; `absent` n times where vector is NULL. */
const float *tsr__cpu_vector(const tsr__device *device, const tsr__view *vector, int64_t n, float absent,
                             tsr__scratch *scratch);

/* BACKEND (NOMEM where oneDNN says so) with a message, unless status is success. */
tsr_status tsr__dnnl_check(const tsr__device *device, dnnl_status_t status, const char *what);

typedef struct tsr__dnnl_arg {
    int index; /* DNNL_ARG_... */
    const dnnl_memory_desc_t *desc;
    const void *data;
} tsr__dnnl_arg;

/* Makes the primitive (kept in oneDNN's cache), runs it, waits. At most 5 arguments. */
tsr_status tsr__dnnl_run(const tsr__device *device, const_dnnl_primitive_desc_t desc, const tsr__dnnl_arg *args, int n);
/* Attributes with the scratchpad in the caller's hands. NULL on failure. */
dnnl_primitive_attr_t tsr__dnnl_attributes(void);

/* Copies between views of equal shape and dtype, any strides on both sides. */
void tsr__cpu_copy_view(const tsr__device *device, const tsr__view *from, const tsr__view *to);

size_t tsr__cpu_matmul_scratch(const tsr__device *device, const tsr__op *op);
size_t tsr__cpu_conv2d_scratch(const tsr__device *device, const tsr__op *op);
size_t tsr__cpu_attention_scratch(const tsr__device *device, const tsr__op *op);
size_t tsr__cpu_norm_scratch(const tsr__device *device, const tsr__op *op);
size_t tsr__cpu_group_norm_scratch(const tsr__device *device, const tsr__op *op);

tsr_status tsr__cpu_matmul(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_conv2d(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_attention(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_attention_merge(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_rms_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_layer_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_group_norm(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_batch_denorm(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_modulate(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_gated_add(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_add(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_sub(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_axpy(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_silu(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_swiglu(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_index_select(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_index_copy(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_rope(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_upsample_nearest2x(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_copy(tsr__device *device, const tsr__op *op);
tsr_status tsr__cpu_concat(tsr__device *device, const tsr__op *op);

#endif
