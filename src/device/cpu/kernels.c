/* Plain loops that the compiler vectorises (-O3, kernels.cmake). kernels_avx2.c and kernels_avx512.c include this file.
 */
#include "device/cpu/kernels.h"

#include "base/float16.h"

#include <math.h>

#ifndef KERNELS
#define KERNELS tsr__kernels_generic
#define KERNELS_NAME "generic"
#endif

enum { LANES = 64 }; /* partial sums side by side: enough to hide the latency of additions, and exact enough */

static void bf16_to_f32(const uint16_t *x, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = tsr__bf16_to_f32(x[i]);
}

/* The exponent and mantissa, shifted into place, are a float32 that is 2^112 too small, subnormal numbers included. */
static void f16_to_f32(const uint16_t *x, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = x[i], magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
        uint32_t finite = tsr__f32_bits(tsr__f32_from_bits(magnitude) * 0x1p112f);
        out[i] = tsr__f32_from_bits(sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite));
    }
}

static void f32_to_bf16(const float *x, uint16_t *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = tsr__f32_bits(x[i]), nan = (bits >> 16) | 0x40u;
        uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        out[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
}

/* exp to 1.1 ulp for every float32. x = n ln 2 + r, |r| <= ln 2 / 2; the series of exp(r) ends where it is below
 * float32; 2^n is two factors, so that results near overflow and subnormal results come out right. */
static inline float exponential(float x) {
    float inside = x < -104.0f ? 0.0f : x > 89.0f ? 89.0f : x; /* an exact 0 is far cheaper than an underflow */
    float shifted = inside * 0x1.715476p0f + 0x1.8p23f;        /* rounds: the low bits now hold n */
    int32_t n = (int32_t)(tsr__f32_bits(shifted) - 0x4b400000u), half = n >> 1;
    float whole = shifted - 0x1.8p23f, r = inside - whole * 0x1.62e400p-1f - whole * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    p *= tsr__f32_from_bits((uint32_t)(half + 127) << 23);
    p *= tsr__f32_from_bits((uint32_t)(n - half + 127) << 23);
    return x < -104.0f ? 0.0f : p;
}

/* The sum of an expression in x[i] over i < n. */
#define RETURN_SUM(expression)                                                                                         \
    float part[LANES] = {0};                                                                                           \
    double total = 0.0;                                                                                                \
    int64_t whole = n - n % LANES;                                                                                     \
    for (int64_t begin = 0; begin < whole; begin += LANES)                                                             \
        for (int64_t i = begin; i < begin + LANES; i++) part[i - begin] += expression;                                 \
    for (int64_t i = whole; i < n; i++) part[i - whole] += expression;                                                 \
    for (int lane = 0; lane < LANES; lane++) total += (double)part[lane];                                              \
    return total

static double dot(const float *x, const float *y, int64_t n) { RETURN_SUM(x[i] * y[i]); }
static double sum(const float *x, int64_t n) { RETURN_SUM(x[i]); }

static double sum_squares(const float *x, float center, int64_t n) { RETURN_SUM((x[i] - center) * (x[i] - center)); }

static void norm(const float *x, float center, float scale_, const float *w, const float *b, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - center) * scale_ * w[i] + b[i];
}

static void normalize(const float *x, const float *center, const float *scale_, const float *b, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - center[i]) * scale_[i] + b[i];
}

static void add_squares(const float *x, const float *center, float *total, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) total[i] += (x[i] - center[i]) * (x[i] - center[i]);
}

static void modulate(const float *x, const float *scale_, const float *shift, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * (1.0f + scale_[i]) + shift[i];
}

static void gated_add(const float *x, const float *gate, const float *y, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + gate[i] * y[i];
}

static void axpy(const float *x, const float *y, float s, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + s * y[i];
}

static void silu(const float *x, const float *y, float s, float *out, int64_t n) {
    (void)y;
    (void)s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] / (1.0f + exponential(-x[i]));
}

static void swiglu(const float *x, const float *y, float s, float *out, int64_t n) {
    (void)s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] / (1.0f + exponential(-x[i])) * y[i];
}

static void scale(const float *x, float s, float *out, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = x[i] * s;
}

static float maximum(const float *x, int64_t n) {
    float greatest = -INFINITY;
#pragma omp simd reduction(max : greatest)
    for (int64_t i = 0; i < n; i++) greatest = x[i] > greatest ? x[i] : greatest;
    return greatest;
}

static float exp_sum(float *x, float center, int64_t n) {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        x[i] = exponential(x[i] - center);
        total += x[i];
    }
    return total;
}

static void rope_interleaved(const float *x, const float *cosines, const float *sines, float *out, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n / 2; j++) {
        float a = x[2 * j], b = x[2 * j + 1];
        out[2 * j] = a * cosines[2 * j] - b * sines[2 * j];
        out[2 * j + 1] = b * cosines[2 * j + 1] + a * sines[2 * j + 1];
    }
}

static void rope_half(const float *x, const float *cosines, const float *sines, float *out, int64_t n) {
    int64_t half = n / 2;
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        float a = x[j], b = x[j + half];
        out[j] = a * cosines[j] - b * sines[j];
        out[j + half] = b * cosines[j + half] + a * sines[j + half];
    }
}

#define KERNEL_ENTRY(result, kernel, arguments) .kernel = kernel,
const tsr__kernels KERNELS = {.name = KERNELS_NAME, TSR__KERNEL_LIST(KERNEL_ENTRY)};
