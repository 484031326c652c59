/* The seam itself: tables without holes, memory, threads, failures. */
#include "ops.h"

#include "device/cpu/cpu.h"

#include <dirent.h>
#include <omp.h>

static const tsr__device_ops *const tables[] = {&tsr__device_meta, &tsr__device_ref, &tsr__device_cpu};

static void every_slot_is_filled(void **state) {
    (void)state;
    for (size_t i = 0; i < TSR__COUNT(tables); i++) {
        const tsr__device_ops *t = tables[i];
        assert_ptr_equal(tsr__device_find(t->name), t);
        assert_true(t->create && t->destroy && t->alloc && t->free && t->upload && t->download);
        assert_true(t->host_pointer && t->scratch_bytes && t->gemm_yardstick);
        for (int kind = 0; kind < TSR__OP_COUNT; kind++)
            if (!t->run[kind]) fail_msg("%s lacks %s", t->name, tsr__op_name((tsr__op_kind)kind));
    }
    assert_null(tsr__device_find("gpu"));
}

static tsr__device *device_of(tsr_engine *engine, const tsr__device_ops *ops, int threads) {
    tsr__device *device = NULL;
    assert_ok(engine, tsr__device_create(engine, ops, threads, &device));
    return device;
}

static void memory_comes_back(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(tables); i++) {
        tsr__device *device = device_of(engine, tables[i], 1);
        assert_true(strncmp(device->description, tables[i]->name, strlen(tables[i]->name)) == 0);
        char sent[] = "bytes", received[sizeof sent] = "";
        void *memory = tables[i]->alloc(device, sizeof sent);
        assert_non_null(memory);
        assert_ok(engine, tables[i]->upload(device, memory, sent, sizeof sent));
        assert_ok(engine, tables[i]->download(device, received, memory, sizeof sent));
        if (tables[i] != &tsr__device_meta) assert_string_equal(received, sent);
        tables[i]->free(device, memory);
        tsr__device_destroy(device);
    }
    tsr_engine_destroy(engine);
}

static void meta_computes_nothing(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    tsr__device *meta = device_of(engine, &tsr__device_meta, 0);
    float number = 7.0f;
    tsr__view view = tsr__view_dense(&number, TSR_F32, 1, (int64_t[]){1});
    tsr__op op = {.kind = TSR__OP_add, .in = {&view, &view}, .out = {&view}};
    assert_int_equal(meta->ops->scratch_bytes(meta, &op), 0);
    assert_ok(engine, meta->ops->run[op.kind](meta, &op));
    assert_true(number == 7.0f);
    double gflops = 0.0;
    assert_refused(engine, meta->ops->gemm_yardstick(meta, 1, 1, 1, 1, &gflops), TSR_UNSUPPORTED, "cpu");
    tsr__device_destroy(meta);
    tsr_engine_destroy(engine);
}

static void yardsticks(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    double gflops = 0.0;
    assert_ok(engine, engine->device->ops->gemm_yardstick(engine->device, 64, 48, 80, 2, &gflops));
    assert_true(gflops > 0.0);
    tsr__device *ref = device_of(engine, &tsr__device_ref, 0);
    assert_refused(engine, ref->ops->gemm_yardstick(ref, 1, 1, 1, 1, &gflops), TSR_UNSUPPORTED, "cpu");
    tsr__device_destroy(ref);
    tsr_engine_destroy(engine);
}

static void cpu_takes_the_cores_that_it_may_use(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    tsr_engine *engine = test_engine("cpu");
    assert_int_equal(engine->device->threads, CPU_COUNT(&before));
    assert_non_null(strstr(engine->device->description, "oneDNN"));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after)); /* later threads and programs inherit it */
    tsr_engine_destroy(engine);
}

static void cpu_takes_the_threads_that_it_is_given(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    tsr__device *device = device_of(engine, &tsr__device_cpu, 3);
    assert_int_equal(device->threads, 3);
    assert_non_null(strstr(device->description, "3 threads"));
    tsr__device_destroy(device);
    device = NULL;
    assert_refused(engine, tsr__device_create(engine, &tsr__device_cpu, 100000, &device), TSR_ARG, "more than");
    assert_null(device);
    tsr_engine_destroy(engine);
}

/* Both allocations of a cpu device, one after the other, fail. */
static void creation_survives_failed_allocations(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    size_t current = atomic_load(&engine->allocator.current);
    for (int n = 0; n < 2; n++) {
        tsr__device *device = NULL;
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + n);
        assert_refused(engine, tsr__device_create(engine, &tsr__device_cpu, 1, &device), TSR_NOMEM, "no memory");
        assert_null(device);
        assert_int_equal(atomic_load(&engine->allocator.current), current);
    }
    double gflops = 0.0;
    atomic_store(&engine->allocator.fail_at, -1);
    tsr__device *device = device_of(engine, &tsr__device_cpu, 1);
    atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count));
    assert_refused(engine, device->ops->gemm_yardstick(device, 8, 8, 8, 1, &gflops), TSR_NOMEM, "no memory");
    tsr__device_destroy(device);
    tsr_engine_destroy(engine);
}

static void count_tile(void *user) {
    assert_int_equal(omp_get_thread_num(), 0);
    ++*(int *)user;
}

/* Long operations call on_tile, from the caller's thread alone. */
static void long_operations_report_tiles(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    ops_pool pool = {.n = 0};
    int tiles = 0;
    tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_GAP, 2, 600, 32), w = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1100, 32);
    tsr__view y = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 2, 600, 1100), z = y;
    z.data = ops_memory(&pool, tsr__view_bytes(&z));
    ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w}, .out = {&z}});
    engine->device->on_tile = count_tile;
    engine->device->on_tile_user = &tiles;
    ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w}, .out = {&y}});
    assert_int_equal(tiles, 8); /* 2 panels of columns x 2 runs of rows x (512 + 88 rows) */
    assert_close("tiles", y.data, z.data, (size_t)tsr__view_elements(&y), 1e-5);
    tiles = 0;
    tsr__view q = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 600, 64, 4),
              out = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 600, 64, 4);
    ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_attention, .in = {&q, &q, &q}, .out = {&out}});
    assert_true(tiles >= 3 && tiles % 3 == 0); /* 3 tiles of keys for each tile of queries on this thread */
    ops_free(&pool);
    tsr_engine_destroy(engine);
}

/* Results do not depend on what another engine of this thread told OpenMP. */
static void engines_do_not_disturb_each_other(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    tsr__device *single = device_of(engine, &tsr__device_cpu, 1);
    ops_pool pool = {.n = 0};
    tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 16, 16, 32),
              w = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 32, 32, 3, 3);
    tsr__view y = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 16, 16, 32);
    tsr__op op = {.kind = TSR__OP_conv2d, .in = {&x, &w}, .out = {&y}};
    size_t bytes = engine->device->ops->scratch_bytes(engine->device, &op);
    (void)single->ops->scratch_bytes(single, &op);
    assert_int_equal(engine->device->ops->scratch_bytes(engine->device, &op), bytes);
    omp_set_num_threads(7);
    assert_int_equal(engine->device->ops->scratch_bytes(engine->device, &op), bytes);
    ops_run(engine, &pool, op);
    ops_free(&pool);
    tsr__device_destroy(single);
    tsr_engine_destroy(engine);
}

static int count_threads(void) {
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks)) n++;
    assert_int_equal(closedir(tasks), 0);
    return n;
}

/* A device of one thread wakes no other, whatever OpenMP's own number is. */
static void one_thread_stays_one(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    tsr__device *previous = engine->device, *single = device_of(engine, &tsr__device_cpu, 1);
    ops_pool pool = {.n = 0};
    tsr__view q = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 512, 2, 128);
    tsr__view out = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 512, 2, 128);
    tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 256, 256), w = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 512, 256);
    tsr__view y = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 256, 512);
    int before = count_threads();
    engine->device = single;
    omp_set_num_threads(9);
    ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_attention, .in = {&q, &q, &q}, .out = {&out}});
    omp_set_num_threads(9);
    ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w}, .out = {&y}});
    engine->device = previous;
    assert_int_equal(count_threads(), before);
    ops_free(&pool);
    tsr__device_destroy(single);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_is_filled),
        cmocka_unit_test(memory_comes_back),
        cmocka_unit_test(meta_computes_nothing),
        cmocka_unit_test(yardsticks),
        cmocka_unit_test(cpu_takes_the_cores_that_it_may_use),
        cmocka_unit_test(cpu_takes_the_threads_that_it_is_given),
        cmocka_unit_test(creation_survives_failed_allocations),
        cmocka_unit_test(long_operations_report_tiles),
        cmocka_unit_test(engines_do_not_disturb_each_other),
        cmocka_unit_test(one_thread_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
