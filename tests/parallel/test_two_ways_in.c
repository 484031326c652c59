/* A model that is read in parts, one that is read whole and cut in memory, and one that is opened on "meta", split and
 * then loaded: the same parts, the same outputs, bit for bit. And what is refused on all ranks alike. */
#include "ranks.h"
#include "transformer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *folder(char *path, size_t size) {
    const char *source = getenv("TESSERA_SOURCE");
    snprintf(path, size, "%s/tests/fixtures/klein/transformer", source ? source : ".");
    return path;
}

typedef enum way { STREAMED, ENABLED, META, N_WAYS } way;

/* Opens the transformer on all ranks in one of the ways. */
static tsr_status open_way(tsr_engine *engine, way w, const tsr_parallel_config *config, tsr_model **out) {
    char path[2048];
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    if (w == STREAMED) how.parallel = config;
    how.meta = w == META;
    TSR__TRY(tsr_model_from_pretrained(engine, folder(path, sizeof path), &how, out));
    if (w == ENABLED) return tsr_model_enable_parallelism(*out, config);
    if (w == STREAMED) return TSR_OK;
    TSR__TRY(tsr_apply_tensor_parallel(*out, config->tensor_parallel, config->tp_plan, true));
    return tsr_model_load_weights(*out);
}

/* --- the same parts --- */

typedef struct digest {
    uint64_t sum;
    size_t weights, split;
} digest;

static tsr_status add_to_digest(void *user, tsr__param *param) {
    digest *d = user;
    const unsigned char *bytes = param->view.data;
    for (size_t i = 0; i < tsr__view_bytes(&param->view); i++) d->sum = (d->sum ^ bytes[i]) * 0x100000001b3u;
    d->weights++;
    d->split += param->spec.style != TSR_REPLICATED;
    return TSR_OK;
}

/* --- the same outputs --- */

static tsr_status take(tsr_engine *engine, way w, const tsr_parallel_config *config, digest *d, float *out, size_t *n) {
    tsr_model *model = NULL;
    tsr_status status = open_way(engine, w, config, &model);
    if (status == TSR_OK) status = tsr__module_visit_params(model->self, add_to_digest, d);
    if (status == TSR_OK) status = rank_forward(engine, model, false, out, n);
    tsr_model_destroy(model);
    return status;
}

static tsr_status compare_ways(tsr_engine *engine, const tsr_parallel_config *config) {
    static _Thread_local float first[RANK_FLOATS], other[RANK_FLOATS];
    digest d = {0xcbf29ce484222325u, 0, 0};
    size_t n = 0, m = 0;
    TSR__TRY(take(engine, STREAMED, config, &d, first, &n));
    RANK_CHECK(engine, n > 0 && n <= RANK_FLOATS && d.weights > 20 && (d.split > 20) == (tsr_engine_size(engine) > 1));
    for (way w = ENABLED; w < N_WAYS; w++) {
        digest e = {0xcbf29ce484222325u, 0, 0};
        TSR__TRY(take(engine, w, config, &e, other, &m));
        RANK_CHECK(engine, m == n && memcmp(first, other, n * sizeof *first) == 0);
        RANK_CHECK(engine, memcmp(&d, &e, sizeof d) == 0);
    }
    return TSR_OK;
}

static tsr_status same_parts_and_outputs(tsr_engine *engine, void *user) {
    (void)user;
    const tsr_tp_plan plans[] = {{TSR_TP_PLAN_FULL, NULL, 0}, {TSR_TP_PLAN_REFERENCE, NULL, 0}};
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    config.tensor_parallel = &tp;
    tp.tp_degree = tsr_engine_size(engine);
    for (size_t i = 0; i < TSR__COUNT(plans); i++) {
        config.tp_plan = &plans[i];
        TSR__TRY(compare_ways(engine, &config));
    }
    return TSR_OK;
}

/* A mesh counts, whatever tp_degree says. */
static tsr_status a_mesh_overrides_the_degree(tsr_engine *engine, void *user) {
    (void)user;
    const int shape = tsr_engine_size(engine);
    const char *const name = "tp";
    tsr_device_mesh *mesh = NULL;
    tsr_model *model = NULL;
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    TSR__TRY(tsr_device_mesh_create(engine, &shape, &name, 1, &mesh));
    config.tensor_parallel = &tp;
    tp.tp_degree = 17;
    tp.mesh = mesh;
    tsr_status status = open_way(engine, STREAMED, &config, &model);
    bool split = model && model->split;
    tsr_model_destroy(model);
    tsr_device_mesh_destroy(mesh);
    TSR__TRY(status);
    RANK_CHECK(engine, split == (shape > 1));
    return TSR_OK;
}

/* --- refusals --- */

static tsr_status expect(tsr_engine *engine, tsr_status status, tsr_status wanted, const char *words) {
    if (status == wanted && strstr(tsr_engine_message(engine), words)) return TSR_OK;
    return tsr__fail(engine, TSR_INTERNAL, "status %d, not %d with \"%s\"", (int)status, (int)wanted, words);
}

static tsr_status misuse_is_refused(tsr_engine *engine, void *user) {
    (void)user;
    char path[2048];
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_model_options meta = TSR_MODEL_OPTIONS_INIT;
    tsr_model *model = NULL;
    tp.tp_degree = tsr_engine_size(engine);
    meta.meta = true;
    TSR__TRY(tsr_model_from_pretrained(engine, folder(path, sizeof path), &meta, &model));
    tsr_status status =
        expect(engine, tsr_apply_tensor_parallel(model, &tp, NULL, false), TSR_ARG, "no weights in memory");
    if (status == TSR_OK) status = tsr_model_load_weights(model);
    if (status == TSR_OK) status = expect(engine, tsr_model_load_weights(model), TSR_ARG, "in memory already");
    if (status == TSR_OK)
        status = expect(engine, tsr_apply_tensor_parallel(model, &tp, NULL, true), TSR_ARG, "must be false");
    if (status == TSR_OK) status = tsr_apply_tensor_parallel(model, &tp, NULL, false);
    if (status == TSR_OK && tp.tp_degree > 1)
        status =
            expect(engine, tsr_apply_tensor_parallel(model, &tp, NULL, false), TSR_ARG, "split over ranks already");
    tsr_model_destroy(model);
    return status;
}

/* Refusals of a model whose weights are in memory: by the plan's last rule, after the others have marked the tree, by
 * the mesh, and by a rank that has no memory (before anything is cut, or the model is lost). */
static tsr_status refuse_all(tsr_engine *engine, tsr_model *model) {
    static const tsr_tp_rule rules[] = {{"transformer_blocks.*.attn.to_q", TSR_COLWISE, {0}},
                                        {"no.such.module", TSR_COLWISE, {0}}};
    const tsr_tp_plan misnamed = {TSR_TP_PLAN_RULES, rules, TSR__COUNT(rules)};
    const int size = tsr_engine_size(engine);
    const char *const axis = "tensor";
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_device_mesh *mesh = NULL;
    tp.tp_degree = size;
    TSR__TRY(expect(engine, tsr_apply_tensor_parallel(model, &tp, &misnamed, false), TSR_ARG, "matches no module"));
    TSR__TRY(tsr_device_mesh_create(engine, &size, &axis, 1, &mesh));
    tp.mesh = mesh;
    tsr_status status = tsr_apply_tensor_parallel(model, &tp, NULL, false);
    tsr_device_mesh_destroy(mesh);
    TSR__TRY(expect(engine, status, TSR_ARG, "no axis \"tp\""));
    tp.mesh = NULL;
    if (tsr_engine_rank(engine) == size - 1)
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count));
    status = tsr_apply_tensor_parallel(model, &tp, NULL, false);
    atomic_store(&engine->allocator.fail_at, -1);
    return expect(engine, status, TSR_NOMEM, "no memory for");
}

static tsr_status check_after_refusals(tsr_engine *engine, tsr_model *model) {
    static _Thread_local float before[RANK_FLOATS], after[RANK_FLOATS];
    size_t n = 0, m = 0;
    tsr_tensor_parallel_config tp = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tp.tp_degree = tsr_engine_size(engine);
    TSR__TRY(rank_forward(engine, model, false, before, &n));
    TSR__TRY(refuse_all(engine, model));
    TSR__TRY(rank_forward(engine, model, false, after, &m));
    RANK_CHECK(engine, m == n && memcmp(before, after, n * sizeof *before) == 0);
    TSR__TRY(tsr_apply_tensor_parallel(model, &tp, NULL, false));
    TSR__TRY(rank_forward(engine, model, false, after, &m));
    RANK_CHECK(engine, m == n && model->split == (tp.tp_degree > 1));
    for (size_t i = 0; i < n; i++) RANK_CHECK(engine, fabsf(after[i] - before[i]) <= 2e-5f * (1.0f + fabsf(before[i])));
    return TSR_OK;
}

static tsr_status a_refusal_changes_nothing(tsr_engine *engine, void *user) {
    (void)user;
    tsr_model *model = NULL;
    if (tsr_engine_size(engine) == 1) return TSR_OK;
    TSR__TRY(tsr_status_agree(engine, TSR_OK)); /* all have released what the last test had */
    size_t before = tsr_engine_memory_current(engine);
    TSR__TRY(rank_open_part(engine, "transformer", NULL, false, &model));
    tsr_status status = check_after_refusals(engine, model);
    tsr_model_destroy(model);
    TSR__TRY(tsr_status_agree(engine, status));
    RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
    return TSR_OK;
}

static tsr_status arguments_are_refused_by_name(tsr_engine *engine, void *user) {
    (void)user;
    static const struct {
        const char *name, *value;
        tsr_status status;
    } rows[] = {{"device_map", "auto", TSR_UNSUPPORTED},       {"low_cpu_mem_usage", "False", TSR_UNSUPPORTED},
                {"low_cpu_mem_usage", "True", TSR_OK},         {"quantization_config", "nf4", TSR_UNSUPPORTED},
                {"use_safetensors", "False", TSR_UNSUPPORTED}, {"use_flashpack", "True", TSR_UNSUPPORTED},
                {"offload_folder", "/tmp", TSR_UNSUPPORTED},   {"no_such", "1", TSR_ARG}};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        const char *const arguments[] = {rows[i].name, rows[i].value, NULL};
        char path[2048];
        tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
        tsr_model *model = NULL;
        how.meta = true;
        how.arguments = arguments;
        tsr_status status = tsr_model_from_pretrained(engine, folder(path, sizeof path), &how, &model);
        tsr_model_destroy(model);
        RANK_CHECK(engine, status == rows[i].status);
        RANK_CHECK(engine, status == TSR_OK || strstr(tsr_engine_message(engine), rows[i].name));
    }
    return TSR_OK;
}

/* Threads that share a sequence hold one copy of the weights, those of the first; processes one each. */
static tsr_status a_sequence_shares_weights(tsr_engine *engine, void *user) {
    (void)user;
    tsr_context_parallel_config context = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_model *model = NULL;
    digest own = {0, 0, 0}, of_first;
    if (tsr_engine_size(engine) == 1) return TSR_OK;
    TSR__TRY(tsr_status_agree(engine, TSR_OK)); /* all have released what the last test had */
    size_t before = tsr_engine_memory_current(engine);
    context.ring_degree = tsr_engine_size(engine);
    TSR__TRY(open_way(engine, STREAMED, TSR_PARALLEL(&context), &model));
    bool holds = tsr_engine_memory_current(engine) - before >= tsr_model_weight_bytes(model);
    bool shared = tsr__world(engine)->ops->one_process;
    tsr_status status = tsr__module_visit_params(model->self, add_to_digest, &own);
    of_first = own;
    if (status == TSR_OK) status = tsr__broadcast(tsr__world(engine), &of_first, sizeof of_first, 0);
    tsr_model_destroy(model);
    TSR__TRY(tsr_status_agree(engine, status));
    RANK_CHECK(engine, holds == (!shared || tsr_engine_rank(engine) == 0));
    RANK_CHECK(engine, own.weights > 20 && own.sum == of_first.sum);
    RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"same_parts_and_outputs", same_parts_and_outputs},
                                      {"a_sequence_shares_weights", a_sequence_shares_weights},
                                      {"a_mesh_overrides_the_degree", a_mesh_overrides_the_degree},
                                      {"misuse_is_refused", misuse_is_refused},
                                      {"a_refusal_changes_nothing", a_refusal_changes_nothing},
                                      {"arguments_are_refused_by_name", arguments_are_refused_by_name}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
