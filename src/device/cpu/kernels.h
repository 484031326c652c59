/* Inner loops over one row of n float32 elements. kernels.c is compiled once for each instruction set that can make a
 * difference, and the table is chosen at run time; no other file of cpu/ depends on the instruction set. */
#ifndef TSR_DEVICE_CPU_KERNELS_H
#define TSR_DEVICE_CPU_KERNELS_H

#include <stdint.h>

/* X(result, name, (arguments)). out may be the memory of x. */
#define TSR__KERNEL_LIST(X)                                                                                            \
    X(void, bf16_to_f32, (const uint16_t *x, float *out, int64_t n))                                                   \
    X(void, f16_to_f32, (const uint16_t *x, float *out, int64_t n))                                                    \
    X(void, f32_to_bf16, (const float *x, uint16_t *out, int64_t n))                                                   \
    X(double, dot, (const float *x, const float *y, int64_t n))                                                        \
    X(double, sum, (const float *x, int64_t n))                                                                        \
    /* sum of (x - center)^2 */                                                                                        \
    X(double, sum_squares, (const float *x, float center, int64_t n))                                                  \
    /* out = (x - center) scale w + b */                                                                               \
    X(void, norm, (const float *x, float center, float scale, const float *w, const float *b, float *out, int64_t n))  \
    /* out = (x - center) scale + b, all vectors */                                                                    \
    X(void, normalize,                                                                                                 \
      (const float *x, const float *center, const float *scale, const float *b, float *out, int64_t n))                \
    /* sum += (x - center)^2 */                                                                                        \
    X(void, add_squares, (const float *x, const float *center, float *sum, int64_t n))                                 \
    /* out = x (1 + scale) + shift */                                                                                  \
    X(void, modulate, (const float *x, const float *scale, const float *shift, float *out, int64_t n))                 \
    /* out = x + gate y */                                                                                             \
    X(void, gated_add, (const float *x, const float *gate, const float *y, float *out, int64_t n))                     \
    /* out = x + s y */                                                                                                \
    X(void, axpy, (const float *x, const float *y, float s, float *out, int64_t n))                                    \
    /* out = silu(x); y and s are not read */                                                                          \
    X(void, silu, (const float *x, const float *y, float s, float *out, int64_t n))                                    \
    /* out = silu(x) y; s is not read */                                                                               \
    X(void, swiglu, (const float *x, const float *y, float s, float *out, int64_t n))                                  \
    X(void, scale, (const float *x, float s, float *out, int64_t n))                                                   \
    /* -inf for n = 0 */                                                                                               \
    X(float, maximum, (const float *x, int64_t n))                                                                     \
    /* x = exp(x - center); returns the sum */                                                                         \
    X(float, exp_sum, (float *x, float center, int64_t n))                                                             \
    /* rotate pairs (2j, 2j+1), or (j, j + n/2), by the angles of cosines and sines [n] */                             \
    X(void, rope_interleaved, (const float *x, const float *cosines, const float *sines, float *out, int64_t n))       \
    X(void, rope_half, (const float *x, const float *cosines, const float *sines, float *out, int64_t n))

typedef struct tsr__kernels {
    const char *name; /* of the instruction set */
#define TSR__KERNEL_SLOT(result, kernel, arguments) result(*kernel) arguments;
    TSR__KERNEL_LIST(TSR__KERNEL_SLOT)
#undef TSR__KERNEL_SLOT
} tsr__kernels;

extern const tsr__kernels tsr__kernels_generic, tsr__kernels_avx2, tsr__kernels_avx512;

#endif
