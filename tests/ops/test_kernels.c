/* The inner loops of the cpu device, in every instruction set that this machine has, against double precision. */
#include "support.h"

#include "base/float16.h"
#include "device/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 1 << 16 };

static float x[N], y[N];
static uint16_t halves[N];

static int supported(const tsr__kernels **tables) {
    int n = 0;
    tables[n++] = &tsr__kernels_generic;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables[n++] = &tsr__kernels_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        tables[n++] = &tsr__kernels_avx512;
#endif
    return n;
}

/* Runs a check on each table. */
static void on_each(void (*check)(const tsr__kernels *kernels)) {
    const tsr__kernels *tables[3];
    int n = supported(tables);
    for (int i = 0; i < n; i++) {
        print_message("%s\n", tables[i]->name);
        check(tables[i]);
    }
}

static bool same(float a, float b) { return tsr__f32_bits(a) == tsr__f32_bits(b) || (isnan(a) && isnan(b)); }

static void check_halves(const tsr__kernels *kernels) {
    for (int i = 0; i < N; i++) halves[i] = (uint16_t)i;
    kernels->f16_to_f32(halves, x, N);
    for (int i = 0; i < N; i++)
        if (!same(x[i], tsr__f16_to_f32((uint16_t)i))) fail_msg("f16 %04x became %g", i, (double)x[i]);
    kernels->bf16_to_f32(halves, x, N);
    for (int i = 0; i < N; i++) assert_true(same(x[i], tsr__bf16_to_f32((uint16_t)i)));
}

static void check_rounding(const tsr__kernels *kernels) {
    for (uint32_t low = 0; low <= 0xffff; low += 0x1555) { /* ends, halves and points between */
        for (uint32_t i = 0; i < N; i++) x[i] = tsr__f32_from_bits(i << 16 | low | (i & 1 ? 0x8000u : 0u));
        kernels->f32_to_bf16(x, halves, N);
        for (int i = 0; i < N; i++) assert_int_equal(halves[i], tsr__f32_to_bf16(x[i]));
    }
}

/* The error in units of the last place of the float32 next to `exact`. */
static double ulps(float value, double exact) {
    float near = (float)exact;
    if (isinf(near)) return value == near ? 0.0 : INFINITY;
    double ulp = fmax((double)nextafterf(fabsf(near), INFINITY) - fabs((double)near), 0x1p-149);
    return fabs((double)value - exact) / ulp;
}

/* Sixteen passes of N points cover [-110, 90] in steps of 2e-4. */
static void check_exponential(const tsr__kernels *kernels) {
    double worst = 0.0;
    for (int pass = 0; pass < 16; pass++) {
        for (int i = 0; i < N; i++) y[i] = x[i] = -110.0f + 200.0f * (float)(pass * N + i) / (16.0f * N);
        (void)kernels->exp_sum(x, 0.0f, N);
        for (int i = 0; i < N; i++) worst = fmax(worst, ulps(x[i], exp((double)y[i])));
    }
    print_message("exp is off by at most %.2f ulp\n", worst);
    assert_true(worst <= 2.0);
    float special[] = {-INFINITY, INFINITY, NAN, 0.0f, -FLT_MAX, FLT_MAX};
    (void)kernels->exp_sum(special, 0.0f, 6);
    assert_true(special[0] == 0.0f && isinf(special[1]) && isnan(special[2]));
    assert_true(special[3] == 1.0f && special[4] == 0.0f && isinf(special[5]));
}

static void check_silu(const tsr__kernels *kernels) {
    for (int i = 0; i < N; i++) x[i] = y[i] = -120.0f + 240.0f * (float)i / N;
    kernels->silu(x, NULL, 0.0f, x, N);
    for (int i = 0; i < N; i++) {
        double exact = (double)y[i] / (1.0 + exp(-(double)y[i]));
        assert_true(fabs((double)x[i] - exact) <= 4e-7 * fabs(exact) + 1e-36);
    }
}

static void assert_near(double value, double exact) { assert_true(fabs(value - exact) <= 1e-6 * (1.0 + fabs(exact))); }

static void check_reductions(const tsr__kernels *kernels) {
    for (int n = 0; n < 600; n += 7) {
        double dot = 0.0, sum = 0.0, squares = 0.0, exps = 0.0;
        float greatest = -INFINITY;
        for (int i = 0; i < n; i++) {
            x[i] = sinf((float)(i + n));
            y[i] = cosf((float)(3 * i - n));
            dot += (double)x[i] * (double)y[i];
            sum += (double)x[i];
            squares += pow((double)x[i] - 0.5, 2);
            exps += exp((double)x[i] - 0.5);
            greatest = fmaxf(greatest, x[i]);
        }
        assert_near(kernels->dot(x, y, n), dot);
        assert_near(kernels->sum(x, n), sum);
        assert_near(kernels->sum_squares(x, 0.5f, n), squares);
        assert_true(kernels->maximum(x, n) == greatest);
        assert_near((double)kernels->exp_sum(x, 0.5f, n), exps);
    }
}

static void halves_convert_exactly(void **state) {
    (void)state;
    on_each(check_halves);
    on_each(check_rounding);
}

static void exponentials_are_within_two_ulps(void **state) {
    (void)state;
    on_each(check_exponential);
    on_each(check_silu);
}

static void reductions_are_close(void **state) {
    (void)state;
    on_each(check_reductions);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_convert_exactly),
        cmocka_unit_test(exponentials_are_within_two_ulps),
        cmocka_unit_test(reductions_are_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
