#include "base/rng.h"

#include <math.h>

/* Noise is part of the picture, so every step below has the precision and the order of the reference: `fmaf` where it
 * rounds once, plain float operations where it rounds each time. This file must not be compiled with contraction. */

static const double PI = 3.14159265358979323846;
enum { WORDS = 624, SHIFT_WORDS = 397, GROUP = 16, HALF = GROUP / 2 };

void tsr__rng_seed(tsr__rng *rng, uint64_t seed) {
    uint32_t word = (uint32_t)seed;
    for (uint32_t i = 0; i < WORDS; i++) {
        if (i > 0) word = 1812433253u * (word ^ (word >> 30)) + i;
        rng->state[i] = word;
    }
    rng->next = WORDS;
    rng->has_cached_normal = false;
    rng->cached_normal = 0.0;
}

/* MT19937 (Matsumoto and Nishimura, 1998): the next 624 words of the recurrence. */
static void twist(uint32_t *state) {
    for (int i = 0; i < WORDS; i++) {
        uint32_t joined = (state[i] & 0x80000000u) | (state[(i + 1) % WORDS] & 0x7fffffffu);
        state[i] = state[(i + SHIFT_WORDS) % WORDS] ^ (joined >> 1) ^ (joined & 1u ? 0x9908b0dfu : 0u);
    }
}

static uint32_t next_word(tsr__rng *rng) {
    if (rng->next == WORDS) {
        twist(rng->state);
        rng->next = 0;
    }
    uint32_t word = rng->state[rng->next++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

/* Uniform in [0, 1) on the grid of 2^-24. */
static float uniform_f32(tsr__rng *rng) { return (float)(next_word(rng) & 0xffffffu) * 0x1p-24f; }

/* Uniform in [0, 1) on the grid of 2^-53; two words, the high one first. */
static double uniform_f64(tsr__rng *rng) {
    uint64_t high = next_word(rng);
    return (double)(((high << 32) | next_word(rng)) & 0x1fffffffffffffu) * 0x1p-53;
}

/* ln x for 0 < x <= 1 (the polynomial of Cephes' logf), x = m 2^exponent with sqrt(1/2) <= m < sqrt(2). */
static float log_f32(float x) {
    static const float p[] = {7.0376836292E-2f,  -1.1514610310E-1f, 1.1676998740E-1f,
                              -1.2420140846E-1f, 1.4249322787E-1f,  -1.6668057665E-1f,
                              2.0000714765E-1f,  -2.4999993993E-1f, 3.3333331174E-1f};
    int exponent;
    float m = frexpf(x, &exponent);
    bool small = m < 0.70710678f;
    m = small ? m - 1.0f + m : m - 1.0f;
    float e = (float)(small ? exponent - 1 : exponent), z = m * m, y = p[0];
    for (int i = 1; i < (int)(sizeof p / sizeof p[0]); i++) y = fmaf(y, m, p[i]);
    y = fmaf(y * m, z, e * -2.12194440e-4f); /* ln 2 in two parts: this one, and 0.693359375 */
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, m + y);
}

/* Sine and cosine of 0 <= t < 2 pi + 1 ulp (Cephes' sinf and cosf): j counts octants, rounded up to an even one. */
static void sin_cos_f32(float t, float *sine, float *cosine) {
    int j = ((int)(t * 1.27323954473516f) + 1) & ~1;
    float octants = (float)j;
    float x = fmaf(octants, -0.78515625f, t);
    x = fmaf(octants, -2.4187564849853515625e-4f, x);
    x = fmaf(octants, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = fmaf(fmaf(2.443315711809948E-5f, z, -1.388731625493765E-3f), z, 4.166664568298827E-2f) * z;
    c = fmaf(c, z, -(z * 0.5f)) + 1.0f;
    float s = fmaf(fmaf(-1.9515295891E-4f, z, 8.3321608736E-3f), z, -1.6666654611E-1f) * z;
    s = fmaf(s, x, x);
    bool swap = j & 2;
    *sine = (j & 4 ? -1.0f : 1.0f) * (swap ? c : s);
    *cosine = ((j - 2) & 4 ? 1.0f : -1.0f) * (swap ? s : c);
}

/* Box and Muller, u1 in (0, 1] and u2 in [0, 1): two independent normal values. */
static void box_muller_f32(float u1, float u2, float *first, float *second) {
    float radius = sqrtf(-2.0f * log_f32(u1)), sine, cosine;
    sin_cos_f32(6.2831855f * u2, &sine, &cosine);
    *first = radius * cosine + 0.0f; /* the reference adds the mean, 0, which turns -0 into 0 */
    *second = radius * sine + 0.0f;
}

/* Groups pair value i with value i + 8: torch's normal_fill. */
static void normal_group_f32(tsr__rng *rng, tsr_dtype dtype, void *dst) {
    float group[GROUP];
    for (int i = 0; i < GROUP; i++) group[i] = uniform_f32(rng);
    for (int i = 0; i < HALF; i++) box_muller_f32(1.0f - group[i], group[i + HALF], &group[i], &group[i + HALF]);
    (void)tsr_convert_from_f32(dtype, group, dst, GROUP);
}

static void normal_group_f64(tsr__rng *rng, double *dst) {
    for (int i = 0; i < GROUP; i++) dst[i] = uniform_f64(rng);
    for (int i = 0; i < HALF; i++) {
        double radius = sqrt(-2.0 * log(1.0 - dst[i])), theta = 2.0 * PI * dst[i + HALF];
        dst[i] = radius * cos(theta) + 0.0;
        dst[i + HALF] = radius * sin(theta) + 0.0;
    }
}

static void normal_group(tsr__rng *rng, tsr_dtype dtype, void *dst) {
    if (dtype == TSR_F64)
        normal_group_f64(rng, dst);
    else
        normal_group_f32(rng, dtype, dst);
}

/* n >= 16. A last, incomplete group is replaced by 16 fresh values over the end of dst; its own uniforms are drawn all
 * the same where the reference fills dst with them, that is, not for the short dtypes. */
static void normal_groups(tsr__rng *rng, tsr_dtype dtype, char *dst, int64_t n) {
    int64_t bytes = tsr_dtype_bits(dtype) / 8;
    for (int64_t i = 0; i + GROUP <= n; i += GROUP) normal_group(rng, dtype, dst + i * bytes);
    if (n % GROUP == 0) return;
    int words = dtype == TSR_F32 ? 1 : dtype == TSR_F64 ? 2 : 0;
    for (int64_t i = 0; i < n % GROUP * words; i++) (void)next_word(rng);
    normal_group(rng, dtype, dst + (n - GROUP) * bytes);
}

/* One value of a pair; the generator keeps the other, for whatever dtype comes next. */
static double normal_single(tsr__rng *rng) {
    if (rng->has_cached_normal) {
        rng->has_cached_normal = false;
        return rng->cached_normal;
    }
    double theta = 2.0 * PI * uniform_f64(rng);
    double radius = sqrt(-2.0 * log1p(-uniform_f64(rng)));
    rng->cached_normal = radius * sin(theta);
    rng->has_cached_normal = true;
    return radius * cos(theta);
}

static bool is_drawable(tsr_dtype dtype) {
    return dtype == TSR_F32 || dtype == TSR_BF16 || dtype == TSR_F16 || dtype == TSR_F64;
}

static void store(tsr_dtype dtype, double value, void *dst, int64_t i) {
    float single = (float)value;
    if (dtype == TSR_F64)
        ((double *)dst)[i] = value;
    else
        (void)tsr_convert_from_f32(dtype, &single, (char *)dst + i * (tsr_dtype_bits(dtype) / 8), 1);
}

bool tsr__rng_randn(tsr__rng *rng, tsr_dtype dtype, void *dst, int64_t n) {
    if (!is_drawable(dtype)) return false;
    if (n >= GROUP)
        normal_groups(rng, dtype, dst, n);
    else
        for (int64_t i = 0; i < n; i++) store(dtype, normal_single(rng) + 0.0, dst, i);
    return true;
}

/* The interval stays half open in a short dtype: what would round to 1 becomes 0. */
static float wrap(tsr_dtype dtype, float value) {
    float limit = dtype == TSR_BF16 ? 1.0f - 0x1p-9f : dtype == TSR_F16 ? 1.0f - 0x1p-12f : 1.0f;
    return value >= limit ? 0.0f : value;
}

bool tsr__rng_rand(tsr__rng *rng, tsr_dtype dtype, void *dst, int64_t n) {
    if (!is_drawable(dtype)) return false;
    for (int64_t i = 0; i < n; i++)
        store(dtype, dtype == TSR_F64 ? uniform_f64(rng) : wrap(dtype, uniform_f32(rng)), dst, i);
    return true;
}

void tsr__rng_randint32(tsr__rng *rng, int64_t *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        (void)next_word(rng); /* a range of 2^32 takes 64 random bits modulo 2^32 */
        dst[i] = next_word(rng);
    }
}
