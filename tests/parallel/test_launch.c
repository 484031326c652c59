/* Launches of ranks as threads: ranks that leave early, refusals, results. */
#include "comm/comm.h"
#include "support.h"
#include "transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The operations in which a rank can wait for one that never comes. */
static tsr_status call_all_reduce(tsr_engine *engine) {
    float x[100] = {0};
    return tsr__all_reduce(tsr__world(engine), x, 100);
}

static tsr_status call_all_gather(tsr_engine *engine) {
    const size_t bytes[] = {4, 4, 4, 4};
    char send[4] = "", recv[16];
    return tsr__all_gather(tsr__world(engine), send, bytes, recv);
}

static tsr_status call_all_to_all(tsr_engine *engine) {
    const size_t bytes[] = {4, 4, 4, 4};
    char send[16] = "", recv[16];
    return tsr__all_to_all(tsr__world(engine), send, bytes, recv, bytes);
}

static tsr_status call_send_receive(tsr_engine *engine) {
    char send[4] = "", recv[4];
    int size = tsr_engine_size(engine), rank = tsr_engine_rank(engine);
    return tsr__send_receive(tsr__world(engine), send, 4, (rank + 1) % size, recv, 4, (rank + size - 1) % size);
}

static tsr_status call_broadcast(tsr_engine *engine) {
    char data[4] = "";
    return tsr__broadcast(tsr__world(engine), data, 4, 1);
}

static tsr_status call_split(tsr_engine *engine) {
    tsr__comm *out = NULL;
    return tsr__comm_split(tsr__world(engine), tsr_engine_rank(engine) % 2, &out);
}

static tsr_status call_split_host(tsr_engine *engine) {
    tsr__comm *out = NULL;
    return tsr__comm_split_host(tsr__world(engine), &out);
}

static tsr_status call_agree(tsr_engine *engine) { return tsr_status_agree(engine, TSR_OK); }

static tsr_status call_mesh(tsr_engine *engine) {
    static const char *const names[] = {"tp"};
    tsr_device_mesh *mesh = NULL;
    int size = tsr_engine_size(engine);
    return tsr_device_mesh_create(engine, &size, names, 1, &mesh);
}

static const struct operation {
    const char *name;
    tsr_status (*call)(tsr_engine *engine);
} operations[] = {{"all_reduce", call_all_reduce},     {"all_gather", call_all_gather}, {"all_to_all", call_all_to_all},
                  {"send_receive", call_send_receive}, {"broadcast", call_broadcast},   {"split", call_split},
                  {"split_host", call_split_host},     {"all_gather", call_agree},      {"all_gather", call_mesh}};

typedef struct leaving {
    const struct operation *operation;
    int leaver, before; /* operations that all complete first */
    bool late;          /* the others sleep already when it leaves */
    tsr_status with;
    double seconds[4];
    tsr_status ended[4];
    char said[4][TSR__MESSAGE_BYTES];
} leaving;

static tsr_status leaving_body(tsr_engine *engine, void *user) {
    leaving *l = user;
    int rank = tsr_engine_rank(engine);
    tsr__rank_phase(engine, "denoise");
    for (int i = 0; i < l->before; i++) TSR__TRY(call_all_reduce(engine));
    if (rank == l->leaver) {
        if (l->late) usleep(20000);
        return l->with == TSR_OK ? TSR_OK : tsr__fail(engine, l->with, "the disk is full");
    }
    double begin = tsr__seconds();
    tsr_status status = l->operation->call(engine);
    if (l->operation->call(engine) != TSR_COMM) status = TSR_INTERNAL; /* and so for ever */
    l->seconds[rank] = tsr__seconds() - begin;
    l->ended[rank] = status;
    snprintf(l->said[rank], sizeof l->said[rank], "%s", tsr_engine_message(engine));
    return status;
}

static void check_leaving(leaving *l, int n) {
    char message[TSR__MESSAGE_BYTES], words[64];
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref";
    tsr_status status = tsr_launch(&options, n, leaving_body, l, message, sizeof message);
    assert_int_equal(status, l->with == TSR_OK ? TSR_COMM : l->with);
    snprintf(words, sizeof words, l->with == TSR_OK ? "rank %d has ended" : "rank %d: the disk is full", l->leaver);
    if (!strstr(message, words)) fail_msg("\"%s\" lacks \"%s\"", message, words);
    for (int i = 0; i < n; i++) {
        if (i == l->leaver) continue;
        assert_int_equal(l->ended[i], TSR_COMM);
        assert_true(l->seconds[i] < 1.0);
        snprintf(words, sizeof words, "%s on rank %d of %d (phase denoise): ", l->operation->name, i, n);
        if (!strstr(l->said[i], words)) fail_msg("\"%s\" lacks \"%s\"", l->said[i], words);
        assert_non_null(strstr(l->said[i], "has ended"));
    }
}

static void a_rank_leaves(void **state) {
    (void)state;
    for (size_t o = 0; o < TSR__COUNT(operations); o++)
        for (int n = 2; n <= 4; n++)
            for (int variant = 0; variant < 4; variant++) {
                leaving l = {.operation = &operations[o], .leaver = (int)(o + (size_t)variant) % n};
                l.before = variant;
                l.late = variant % 2 == 0;
                l.with = variant == 3 ? TSR_OK : TSR_IO;
                check_leaving(&l, n);
            }
}

/* Ranks 2 and 3 go on among themselves when 0 has left, and when 1 has failed because of it. */
static tsr_status halves_body(tsr_engine *engine, void *user) {
    (void)user;
    tsr__comm *half = NULL;
    float x = 0.0f;
    int rank = tsr_engine_rank(engine);
    TSR__TRY(tsr__comm_split(tsr__world(engine), rank / 2, &half));
    tsr_status status = TSR_OK;
    for (int i = 0; i < 2000 && rank > 0 && status == TSR_OK; i++) status = tsr__all_reduce(half, &x, 1);
    tsr__comm_destroy(half);
    if (rank == 0) return tsr__fail(engine, TSR_IO, "gone");
    return status == (rank == 1 ? TSR_COMM : TSR_OK) ? TSR_OK : TSR_INTERNAL;
}

static void other_groups_go_on(void **state) {
    (void)state;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[TSR__MESSAGE_BYTES];
    options.device = "ref";
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tsr_launch(&options, 4, halves_body, NULL, message, sizeof message), TSR_IO);
        assert_string_equal(message, "rank 0: gone");
    }
}

static tsr_status count_body(tsr_engine *engine, void *user) {
    atomic_int *count = user;
    atomic_fetch_add(count, 1 + 100 * tsr_engine_rank(engine));
    if (tsr_engine_rank(engine) == 0) atomic_fetch_add(count, 10000 * tsr_engine_size(engine));
    return TSR_OK;
}

static tsr_status same_failure_body(tsr_engine *engine, void *user) {
    (void)user;
    return tsr__fail(engine, TSR_FORMAT, "the config is broken");
}

static void results(void **state) {
    (void)state;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[64] = "old";
    options.device = "ref";
    atomic_int count = 0;
    assert_int_equal(tsr_launch(&options, 4, count_body, &count, message, sizeof message), TSR_OK);
    assert_int_equal(atomic_load(&count), 4 + 600 + 40000);
    assert_string_equal(message, "");
    for (int n = 0; n < 2; n++) {
        atomic_store(&count, 0);
        assert_int_equal(tsr_launch(&options, n, count_body, &count, NULL, 0), TSR_OK);
        assert_int_equal(atomic_load(&count), 1 + 10000);
    }
    for (int n = 1; n < 4; n++) {
        assert_int_equal(tsr_launch(&options, n, same_failure_body, NULL, message, sizeof message), TSR_FORMAT);
        assert_string_equal(message, "the config is broken");
    }
}

static void refusals(void **state) {
    (void)state;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[256];
    atomic_int count = 0;
    options.device = "ref";
    assert_int_equal(tsr_launch(&options, -1, count_body, &count, message, sizeof message), TSR_ARG);
    assert_non_null(strstr(message, "-1 ranks"));
    assert_int_equal(tsr_launch(&options, 1025, count_body, &count, message, sizeof message), TSR_ARG);
    assert_non_null(strstr(message, "1 to 1024"));
    options.threads = -1;
    assert_int_equal(tsr_launch(&options, 2, count_body, &count, message, sizeof message), TSR_ARG);
    options.threads = 0;
    options.device = "abacus";
    for (int n = 1; n < 4; n++) {
        assert_int_equal(tsr_launch(&options, n, count_body, &count, message, sizeof message), TSR_ARG);
        assert_non_null(strstr(message, "\"abacus\""));
    }
    assert_int_equal(atomic_load(&count), 0);
}

/* What counts as a launcher is what its variables say. */
static void launchers(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value;
        int size;
    } cases[] = {{"SLURM_NTASKS", "4", 0},
                 {"SLURM_STEP_NUM_TASKS", "1", 0},
                 {"SLURM_STEP_NUM_TASKS", "3", 3},
                 {"PMI_SIZE", "4", 4},
                 {"PMI_SIZE", "1", 0},
                 {"PMI_SIZE", "many", 0},
                 {"OMPI_COMM_WORLD_SIZE", "1", 1},
                 {"OMPI_COMM_WORLD_SIZE", "8", 8},
                 {"OMPI_COMM_WORLD_SIZE", "", 0},
                 {"MV2_COMM_WORLD_SIZE", "2", 2},
                 {"PMIX_RANK", "0", 0}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        assert_int_equal(setenv(cases[i].variable, cases[i].value, 1), 0);
        assert_int_equal(tsr_launcher_size(), cases[i].size);
        assert_int_equal(unsetenv(cases[i].variable), 0);
    }
    assert_int_equal(tsr_launcher_size(), 0);
    assert_non_null(strstr(tsr_mpi_version(), "MPI"));
}

/* A rank that ends by itself, its model destroyed: the others, who may use its weights, neither wait nor read what is
 * gone. Two models, so that the order in which they are destroyed differs too. */
static tsr_status sharing_body(tsr_engine *engine, void *user) {
    static _Thread_local float out[RANK_FLOATS];
    const int leaver = *(const int *)user;
    tsr_context_parallel_config context = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_model *models[2] = {NULL, NULL};
    size_t n = 0;
    context.ring_degree = tsr_engine_size(engine);
    context.ring_anything = true;
    tsr_status status = TSR_OK;
    for (int i = 0; i < 2 && status == TSR_OK; i++)
        status = rank_open_part(engine, "transformer", TSR_PARALLEL(&context), false, &models[i]);
    if (status == TSR_OK && tsr_engine_rank(engine) == leaver) status = tsr__fail(engine, TSR_IO, "the disk is full");
    if (status == TSR_OK) status = rank_forward(engine, models[0], false, out, &n);
    for (int i = 0; i < 2; i++) tsr_model_destroy(models[(i + tsr_engine_rank(engine)) % 2]);
    return status;
}

static void a_sharer_leaves(void **state) {
    (void)state;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[TSR__MESSAGE_BYTES];
    options.device = "ref";
    for (int n = 2; n <= 4; n++)
        for (int leaver = -1; leaver < n; leaver++) {
            assert_int_equal(tsr_launch(&options, n, sharing_body, &leaver, message, sizeof message),
                             leaver < 0 ? TSR_OK : TSR_IO);
            if (leaver >= 0) assert_non_null(strstr(message, "the disk is full"));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers),          cmocka_unit_test(results),
        cmocka_unit_test(refusals),           cmocka_unit_test(a_rank_leaves),
        cmocka_unit_test(other_groups_go_on), cmocka_unit_test(a_sharer_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
