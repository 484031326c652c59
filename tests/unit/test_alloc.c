/* Memory of an engine: small blocks, and large ones, which are mappings. */
#include "support.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"

enum { MIB = 1 << 20 };

static tsr_engine *engine;
static size_t before; /* allocated when a test began */

static int setup(void **state) {
    (void)state;
    before = tsr_engine_memory_current(engine);
    return 0;
}

static int nothing_left(void **state) {
    (void)state;
    return tsr_engine_memory_current(engine) == before ? 0 : -1;
}

static const size_t sizes[] = {0, 1, 63, 4096, MIB - 1, MIB, MIB + 1, 5 * MIB + 4097};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void test_blocks(void **state) {
    (void)state;
    char *blocks[N_SIZES];
    size_t sum = 0;
    for (size_t i = 0; i < N_SIZES; i++) {
        blocks[i] = tsr__alloc(engine, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
        sum += sizes[i];
    }
    assert_int_equal(tsr_engine_memory_current(engine), before + sum);
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t k = 0; k < sizes[i]; k += 509) assert_int_equal(blocks[i][k], i + 1);
    for (size_t i = 0; i < N_SIZES; i++) tsr__free(engine, blocks[i * 3 % N_SIZES]); /* 3 and N_SIZES share no factor */
}

/* From every size to every other: what fits stays. */
static void test_other_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t j = 0; j < N_SIZES; j++) {
            char *block = tsr__calloc(engine, sizes[i], 1);
            assert_non_null(block);
            for (size_t k = 0; k < sizes[i]; k += 509) assert_int_equal(block[k], 0);
            memset(block, 7, sizes[i]);
            block = tsr__realloc(engine, block, sizes[j]);
            assert_non_null(block);
            for (size_t k = 0; k < sizes[i] && k < sizes[j]; k += 509) assert_int_equal(block[k], 7);
            assert_int_equal(tsr_engine_memory_current(engine), before + sizes[j]);
            tsr__free(engine, block);
        }
}

static void test_refusals(void **state) {
    (void)state;
    static const size_t too_large[] = {SIZE_MAX, SIZE_MAX - 64};
    for (size_t i = 0; i < TSR__COUNT(too_large); i++) {
        assert_null(tsr__alloc(engine, too_large[i]));
        assert_non_null(strstr(tsr_engine_message(engine), "no memory for"));
    }
    assert_null(tsr__calloc(engine, SIZE_MAX / 2, 4));
    for (size_t i = 0; i < N_SIZES; i++) {
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count));
        assert_null(tsr__alloc(engine, sizes[i]));
    }
    atomic_store(&engine->allocator.fail_at, -1);
}

/* What was freed is given back at once, and the peak can be counted anew. */
static void test_resident(void **state) {
    (void)state;
    tsr__memory_resident_peak_reset();
    size_t at_first = tsr__memory_resident_peak();
    char *block = tsr__alloc(engine, 64 * MIB);
    assert_non_null(block);
    memset(block, 1, 64 * MIB);
    size_t with_block = tsr__memory_resident_peak();
    assert_true(with_block >= at_first + 60 * MIB);
    assert_int_equal(tsr_engine_memory_peak(engine), before + 64 * MIB);
    tsr__free(engine, block);
    tsr__memory_peak_reset(engine);
    assert_int_equal(tsr_engine_memory_peak(engine), before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tsr__memory_resident_peak_reset();
    if (tsr__memory_resident_peak() == with_block) skip(); /* a kernel that cannot reset it */
    assert_true(tsr__memory_resident_peak() <= with_block - 60 * MIB);
#endif
}

enum { N_BLOCKS = 512 };

static void *free_all(void *blocks) {
    for (int i = 0; i < N_BLOCKS; i++) tsr__free(engine, ((void **)blocks)[i]);
    return NULL;
}

/* Another thread frees blocks while this one takes and frees its own. */
static void test_freed_elsewhere(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        void *blocks[N_BLOCKS];
        for (int i = 0; i < N_BLOCKS; i++) assert_non_null(blocks[i] = tsr__alloc(engine, MIB));
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_all, blocks), 0);
        for (int i = 0; i < N_BLOCKS; i++) {
            void *own = tsr__alloc(engine, MIB);
            assert_non_null(own);
            tsr__free(engine, own);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks, setup, nothing_left),
        cmocka_unit_test_setup_teardown(test_other_sizes, setup, nothing_left),
        cmocka_unit_test_setup_teardown(test_refusals, setup, nothing_left),
        cmocka_unit_test_setup_teardown(test_resident, setup, nothing_left),
        cmocka_unit_test_setup_teardown(test_freed_elsewhere, setup, nothing_left),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
