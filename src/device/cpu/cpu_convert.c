/* Weights of any dtype as float32. */
#include "device/cpu/cpu.h"

#include <string.h>

void tsr__cpu_to_f32(const tsr__device *device, tsr_dtype dtype, const void *src, float *dst, int64_t n) {
    const tsr__kernels *kernels = tsr__kernels_of(device);
    if (dtype == TSR_BF16)
        kernels->bf16_to_f32(src, dst, n);
    else if (dtype == TSR_F16)
        kernels->f16_to_f32(src, dst, n);
    else if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *dst);
}

const float *tsr__cpu_vector(const tsr__device *device, const tsr__view *vector, int64_t n, float absent,
                             tsr__scratch *scratch) {
    if (vector && vector->dtype == TSR_F32) return vector->data;
    float *copy = tsr__scratch_take(scratch, (size_t)n * sizeof *copy);
    if (!copy) return NULL; /* only measured */
    if (vector) tsr__cpu_to_f32(device, vector->dtype, vector->data, copy, n);
    for (int64_t i = 0; !vector && i < n; i++) copy[i] = absent;
    return copy;
}
