/* Memory of an engine: small blocks, and large ones, which are mappings. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/machine.h"

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

/* Resets the peak, and says whether memory given back is seen by it: the sanitizers keep theirs, and not every kernel
 * can. */
static bool seen_to_be_given_back(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return tsr__memory_resident_peak_reset();
#endif
}

/* What was freed is given back at once, and the peak can be counted anew. */
static void test_resident(void **state) {
    (void)state;
    (void)tsr__memory_resident_peak_reset();
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
    if (!seen_to_be_given_back()) skip();
    assert_true(tsr__memory_resident_peak() <= with_block - 60 * MIB);
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

/* Small pieces stay with malloc as long as one behind them is in use, until they are trimmed. */
static void test_trimmed(void **state) {
    (void)state;
    if (!seen_to_be_given_back()) skip();
    enum { PIECE = 4096, N_PIECES = 64 * MIB / PIECE };
    static char *pieces[N_PIECES];
    for (int i = 0; i < N_PIECES; i++) {
        assert_non_null(pieces[i] = tsr__alloc(engine, PIECE));
        memset(pieces[i], 1, PIECE);
    }
    char *behind = tsr__alloc(engine, PIECE);
    assert_non_null(behind);
    size_t with_pieces = tsr__memory_resident_peak();
    for (int i = 0; i < N_PIECES; i++) tsr__free(engine, pieces[i]);
    tsr__memory_trim();
    (void)tsr__memory_resident_peak_reset();
    size_t trimmed = tsr__memory_resident_peak();
    tsr__free(engine, behind);
    assert_true(trimmed <= with_pieces - 60 * MIB);
}

enum { N_TRIMMERS = 4 };

static void *trim(void *together) {
    (void)pthread_barrier_wait(together);
    tsr__memory_trim();
    return NULL;
}

/* Threads that give memory back at once, in processes of their own, which have not done so before. It can fail where
 * malloc is not glibc's, as under AddressSanitizer. */
static void test_trimmed_together(void **state) {
    (void)state;
    for (int process = 0; process < 100; process++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pthread_barrier_t together;
            pthread_t threads[N_TRIMMERS];
            (void)pthread_barrier_init(&together, NULL, N_TRIMMERS);
            for (int i = 0; i < N_TRIMMERS; i++)
                if (pthread_create(&threads[i], NULL, trim, &together)) _exit(EXIT_FAILURE);
            for (int i = 0; i < N_TRIMMERS; i++) (void)pthread_join(threads[i], NULL);
            _exit(EXIT_SUCCESS);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
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
        cmocka_unit_test_setup_teardown(test_trimmed, setup, nothing_left),
        cmocka_unit_test_setup_teardown(test_trimmed_together, setup, nothing_left),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
