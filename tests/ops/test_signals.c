/* Signal handlers that run while the cpu device computes must not change what it writes, nor where: oneDNN's AVX-512
 * GEMM alone does not stand them. */
#include "ops.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t n_signals;

static void count(int number) {
    (void)number;
    n_signals++;
}

static void set_timer(int microseconds) {
    const struct itimerval every = {{0, microseconds}, {0, microseconds}};
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

enum { GUARD = 1024, M = 96, K = 96, N = 24, RUNS = 20000 };

/* x [M, K], w [N, K] and out [M, N] with GUARD floats before and after each. */
typedef struct guarded {
    float x[GUARD + M * K + GUARD], w[N * K + GUARD], out[M * N + GUARD];
} guarded;

static void multiply(tsr__device *device, guarded *g) {
    tsr__view x = tsr__view_dense(g->x + GUARD, TSR_F32, 2, (const int64_t[]){M, K});
    tsr__view w = tsr__view_dense(g->w, TSR_F32, 2, (const int64_t[]){N, K});
    tsr__view out = tsr__view_dense(g->out, TSR_F32, 2, (const int64_t[]){M, N});
    tsr__op op = {.kind = TSR__OP_matmul, .in = {&x, &w}, .out = {&out}, .param.matmul.round_inputs = TSR_F32};
    assert_int_equal(device->ops->scratch_bytes(device, &op), 0);
    assert_int_equal(device->ops->run[TSR__OP_matmul](device, &op), TSR_OK);
}

static void handlers_do_not_disturb_a_matmul(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    guarded *g = calloc(1, sizeof *g), *expected = calloc(1, sizeof *expected);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    assert_non_null(g);
    assert_non_null(expected);
    for (int i = 0; i < M * K; i++) g->x[GUARD + i] = ops_random();
    for (int i = 0; i < N * K; i++) g->w[i] = ops_random();
    multiply(engine->device, g);
    memcpy(expected, g, sizeof *g);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    set_timer(200);
    for (int i = 0; i < RUNS; i++) {
        multiply(engine->device, g);
        if (memcmp(g, expected, sizeof *g) != 0) fail_msg("run %d, after %d signals", i, (int)n_signals);
    }
    set_timer(0);
    assert_true(n_signals > 10); /* held back, not lost */
    free(g);
    free(expected);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(handlers_do_not_disturb_a_matmul)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
