/* klein's transformer computes the same on every layout of the ranks, however it was spread. */
#include "ranks.h"
#include "transformer.h"

#include <math.h>
#include <string.h>

/* A layout of so many ranks. by_degrees: the config brings degrees instead of the mesh. replicas: an axis "tp" that the
 * config does not ask for. */
typedef struct layout_row {
    int ranks;
    rank_axis mesh[RANK_AXES];
    bool by_degrees, anything, replicas;
} layout_row;

/* clang-format off */
static const layout_row layouts[] = {
    {2, {{"ring", 2}, {"ulysses", 1}, {"tp", 1}},                 true,  false, false},
    {2, {{"ring", 1}, {"ulysses", 2}, {"tp", 1}},                 true,  false, false},
    {2, {{"tp", 1}, {"ulysses", 1}, {"ring", 2}},                 false, true,  false},
    {2, {{"ring", 1}, {"ulysses", 2}},                            false, true,  false},
    {3, {{"ring", 3}, {"ulysses", 1}, {"tp", 1}},                 true,  true,  false},
    {3, {{"ring", 1}, {"ulysses", 3}, {"tp", 1}},                 true,  true,  false},
    {4, {{"ring", 4}, {"ulysses", 1}, {"tp", 1}},                 true,  false, false},
    {4, {{"ring", 1}, {"ulysses", 4}, {"tp", 1}},                 true,  true,  false},
    {4, {{"ring", 2}, {"ulysses", 2}, {"tp", 1}},                 true,  false, false},
    {4, {{"ulysses", 2}, {"ring", 2}},                            false, true,  false},
    {4, {{"ring", 2}, {"ulysses", 1}, {"tp", 2}},                 true,  true,  false},
    {4, {{"tp", 2}, {"ulysses", 2}, {"ring", 1}},                 false, false, false},
    {4, {{"fsdp", 2}, {"ring", 2}, {"ulysses", 1}},               false, true,  false},
    {4, {{"ulysses", 2}, {"fsdp", 2}, {"ring", 1}, {"tp", 1}},    false, false, false},
    {4, {{"ring", 2}, {"tp", 2}, {"ulysses", 1}},                 false, true,  true},
    {8, {{"ring", 2}, {"ulysses", 2}, {"tp", 2}},                 true,  true,  false},
    {8, {{"tp", 2}, {"ulysses", 2}, {"fsdp", 2}, {"ring", 1}},    false, false, false},
};
/* clang-format on */

/* 0: it has no such axis. */
static int axis_size(const layout_row *row, const char *name) {
    for (int i = 0; i < RANK_AXES && row->mesh[i].name; i++)
        if (strcmp(row->mesh[i].name, name) == 0) return row->mesh[i].size;
    return 0;
}
static int size_of(const layout_row *row, const char *name) {
    int size = axis_size(row, name);
    return size ? size : 1;
}

typedef enum way { STREAMED, ENABLED, APPLIED, N_WAYS } way;

static tsr_status open_way(tsr_engine *engine, way w, const tsr_parallel_config *config, tsr_model **out) {
    TSR__TRY(rank_open_part(engine, "transformer", w == STREAMED ? config : NULL, false, out));
    if (w == ENABLED) return tsr_model_enable_parallelism(*out, config);
    return w == APPLIED ? tsr_apply_context_parallel(*out, config->context_parallel, NULL) : TSR_OK;
}

/* What one rank computes. */
typedef struct expected {
    float out[RANK_FLOATS];
    size_t n, bytes; /* floats, and bytes of the weights */
} expected;

static tsr_status compare(tsr_engine *engine, way w, const tsr_parallel_config *config, bool odd, bool split,
                          const expected *one) {
    static _Thread_local float out[RANK_FLOATS];
    tsr_model *model = NULL;
    size_t n = 0, bytes = 0;
    double worst = 0.0;
    tsr_status status = open_way(engine, w, config, &model);
    if (status == TSR_OK) bytes = tsr_model_weight_bytes(model);
    if (status == TSR_OK) status = rank_forward(engine, model, odd, out, &n);
    tsr_model_destroy(model);
    TSR__TRY(status);
    RANK_CHECK(engine, n == one->n && n <= RANK_FLOATS && (bytes < one->bytes) == split);
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)out[i] - (double)one->out[i]) / (1.0 + fabs((double)one->out[i]));
        worst = off <= worst ? worst : off; /* also a NaN */
    }
    if (worst <= 2e-5) return TSR_OK;
    return tsr__fail(engine, TSR_INTERNAL, "way %d, %s lengths: off by %g", (int)w, odd ? "odd" : "even", worst);
}

static tsr_status compare_ways(tsr_engine *engine, const layout_row *row, const tsr_device_mesh *mesh, bool odd,
                               const expected *one) {
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    cp.ring_degree = row->by_degrees ? size_of(row, "ring") : 77; /* a mesh counts instead */
    cp.ulysses_degree = row->by_degrees ? size_of(row, "ulysses") : 77;
    tp.tp_degree = row->by_degrees ? size_of(row, "tp") : 77;
    cp.mesh = tp.mesh = row->by_degrees ? NULL : mesh;
    cp.ring_anything = row->anything && size_of(row, "ring") > 1;
    cp.ulysses_anything = row->anything && size_of(row, "ulysses") > 1;
    config.context_parallel = &cp;
    config.tensor_parallel = row->replicas || !axis_size(row, "tp") ? NULL : &tp;
    bool alone = row->replicas || size_of(row, "tp") == 1; /* a context config suffices */
    for (int method = 0; method < (size_of(row, "ring") > 1 ? TSR_N_ROTATE_METHODS : 1); method++) {
        cp.rotate_method = (tsr_rotate_method)method;
        for (way w = STREAMED; w < (alone ? N_WAYS : APPLIED); w++)
            TSR__TRY(compare(engine, w, &config, odd, !alone, one));
    }
    return TSR_OK;
}

static tsr_status compute_alone(tsr_engine *engine, bool odd, expected *one) {
    tsr_model *model = NULL;
    TSR__TRY(rank_open_part(engine, "transformer", NULL, false, &model));
    one->bytes = tsr_model_weight_bytes(model);
    tsr_status status = rank_forward(engine, model, odd, one->out, &one->n);
    tsr_model_destroy(model);
    return status;
}

static tsr_status every_layout_computes_the_same(tsr_engine *engine, void *user) {
    (void)user;
    static _Thread_local expected one[2]; /* of even and of odd lengths */
    for (int odd = 0; odd < 2; odd++) TSR__TRY(compute_alone(engine, odd, &one[odd]));
    for (size_t i = 0; i < TSR__COUNT(layouts); i++) {
        const layout_row *row = &layouts[i];
        tsr_device_mesh *mesh = NULL;
        if (row->ranks != tsr_engine_size(engine)) continue;
        TSR__TRY(rank_open_mesh(engine, row->mesh, &mesh));
        tsr_status status = compare_ways(engine, row, mesh, false, &one[0]);
        if (status == TSR_OK && row->anything) status = compare_ways(engine, row, mesh, true, &one[1]);
        tsr_device_mesh_destroy(mesh);
        if (status != TSR_OK) return tsr__context(engine, status, "layout %zu", i);
    }
    return TSR_OK;
}

/* --- one rank fails --- */

/* Every rank's status is that of rank 0. */
static tsr_status check_same(tsr_engine *engine, tsr_status own) {
    int status = (int)own;
    TSR__TRY(tsr__broadcast(tsr__world(engine), &status, sizeof status, 0));
    if (status == (int)own) return tsr_status_agree(engine, TSR_OK);
    return tsr_status_agree(engine, tsr__fail(engine, TSR_INTERNAL, "rank %d ended with %d, rank 0 with %d",
                                              tsr_engine_rank(engine), (int)own, status));
}

static tsr_status open_and_run(tsr_engine *engine, way w, const tsr_parallel_config *config) {
    static _Thread_local float out[RANK_FLOATS];
    tsr_model *model = NULL;
    size_t n = 0;
    tsr_status status = open_way(engine, w, config, &model);
    if (status == TSR_OK) status = rank_forward(engine, model, false, out, &n);
    tsr_model_destroy(model);
    return status;
}

/* An allocation fails on the last rank alone, wherever: all end alike, nobody waits, nothing leaks. */
static tsr_status one_rank_runs_out_of_memory(tsr_engine *engine, void *user) {
    (void)user;
    tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    bool last = tsr_engine_rank(engine) == tsr_engine_size(engine) - 1;
    cp.ring_degree = tsr_engine_size(engine);
    cp.ring_anything = true;
    cp.rotate_method = TSR_ROTATE_ALLTOALL;
    config.context_parallel = &cp;
    TSR__TRY(tsr_status_agree(engine, TSR_OK)); /* all have released what they shared before */
    for (way w = STREAMED; w < N_WAYS; w++) {
        tsr_status status = TSR_NOMEM;
        for (int64_t k = 0; status != TSR_OK; k += 1 + k / 5) {
            size_t before = tsr_engine_memory_current(engine);
            if (last) atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
            status = open_and_run(engine, w, &config);
            atomic_store(&engine->allocator.fail_at, -1);
            TSR__TRY(check_same(engine, status));
            RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
            RANK_CHECK(engine, status == TSR_NOMEM || (status == TSR_OK && k > 20));
        }
    }
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"every_layout_computes_the_same", every_layout_computes_the_same},
                                      {"one_rank_runs_out_of_memory", one_rank_runs_out_of_memory}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
