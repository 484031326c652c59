/* `bench load` as C calls it: what it refuses, and one allocation after the other failing. */
#include "support.h"

#include <tessera/bench.h>

#include <string.h>

static tsr_bench_load_options options(const char *folder) {
    tsr_bench_load_options o = TSR_BENCH_LOAD_OPTIONS_INIT;
    o.folder = folder;
    o.tp_degree = 2;
    o.as_rank = 1;
    o.repeats = 1;
    return o;
}

static void test_refusals(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    tsr_bench_load_result result = {.rank = -1};
    const char *folder = test_fixture("klein/transformer");
    tsr_bench_load_options o = options(NULL);
    assert_refused(engine, tsr_bench_load(engine, &o, &result), TSR_ARG, "needs a folder");
    o = options(folder);
    o.repeats = 0;
    assert_refused(engine, tsr_bench_load(engine, &o, &result), TSR_ARG, "at least one repeat");
    o = options(folder);
    o.as_rank = 2;
    assert_refused(engine, tsr_bench_load(engine, &o, &result), TSR_ARG, "rank 2 of 2");
    o.as_rank = -1;
    assert_refused(engine, tsr_bench_load(engine, &o, &result), TSR_ARG, "tp 2 needs as many ranks, but there are 1");
    assert_int_equal(result.rank, -1);
    tsr_engine_destroy(engine);
}

/* The older half of the struct: what comes after it has its defaults. */
static void test_older_caller(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    tsr_bench_load_result result = {0};
    tsr_bench_load_options o = options(test_fixture("klein/transformer"));
    o.size = offsetof(tsr_bench_load_options, cold);
    o.repeats = 0; /* behind what this caller knows */
    o.mode = TSR_LOAD_STREAMED;
    assert_ok(engine, tsr_bench_load(engine, &o, &result));
    assert_int_equal(result.rank, 1);
    assert_int_equal(result.streamed.bytes_read, result.weight_bytes);
    assert_true(result.whole.bytes_read > result.weight_bytes);
    tsr_engine_destroy(engine);
}

static void test_allocations(const char *device) {
    tsr_engine *engine = test_engine(device);
    tsr_bench_load_options o = options(test_fixture("klein/transformer"));
    size_t before = tsr_engine_memory_current(engine);
    tsr_status status = TSR_NOMEM;
    int failures = -1;
    for (long long n = 0; status != TSR_OK; n += 1 + n / 97, failures++) {
        tsr_bench_load_result result = {.rank = -1};
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + n);
        status = tsr_bench_load(engine, &o, &result);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_true(status == TSR_OK || status == TSR_NOMEM);
        assert_true(status == TSR_OK || result.rank == -1);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
    assert_true(failures > 200);
    tsr_engine_destroy(engine);
}

static void test_allocations_cpu(void **state) {
    (void)state;
    test_allocations("cpu");
}

static void test_allocations_ref(void **state) {
    (void)state;
    test_allocations("ref");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_older_caller),
        cmocka_unit_test(test_allocations_cpu),
        cmocka_unit_test(test_allocations_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
