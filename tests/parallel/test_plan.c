/* Plans from configs alone, against what diffusers resolves (../shared/golden/expected/shard_specs.json). */
#include "support.h"

#include <tessera/plan.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const int asked[] = {2, 3, 4, 6, 8};

static tsr_status make(tsr_engine *engine, const char *path, int tp, tsr_tp_plan_kind kind, tsr_plan **plan) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr_plan_options options = TSR_PLAN_OPTIONS_INIT;
    const tsr_tp_plan tp_plan = {kind, NULL, 0};
    size_t n = 0;
    tensor.tp_degree = tp;
    parallel.tensor_parallel = &tensor;
    parallel.tp_plan = &tp_plan;
    options.parallel = &parallel;
    return tsr_plan_make(engine, path, &options, plan, &n);
}

/* Full-size models list block 0 of each stack, which stands for the others: "blocks.7.x" is looked up as "blocks.0.x".
 */
static json_t *find(json_t *by_name, const char *name) {
    char first[256];
    const char *dot = strchr(name, '.');
    size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;
    json_t *found = json_object_get(by_name, name);
    if (found || !digits) return found;
    snprintf(first, sizeof first, "%.*s.0%s", (int)(dot - name), name, dot + 1 + digits);
    return json_object_get(by_name, first);
}

static void check_list(const char *name, json_t *expected, const int64_t *numbers, size_t n) {
    if (json_array_size(expected) != n) fail_msg("%s: %zu numbers instead of %zu", name, n, json_array_size(expected));
    for (size_t i = 0; i < n; i++) assert_int_equal(json_integer_value(json_array_get(expected, i)), numbers[i]);
}

static void check_weight(json_t *model, const tsr_plan_weight *w, int degree) {
    json_t *spec = find(json_object_get(model, "specs"), w->name);
    check_list(w->name, find(json_object_get(model, "shapes"), w->name), w->shape, (size_t)w->ndim);
    json_t *dim = json_array_get(spec, 0);
    bool split = json_is_integer(dim);
    assert_int_equal(w->style != TSR_REPLICATED, split);
    assert_int_equal(w->dim, split ? json_integer_value(dim) : -1);
    check_list(w->name, split ? json_array_get(spec, 1) : NULL, w->blocks, w->n_blocks);
    for (int i = 0; i < w->ndim; i++)
        assert_int_equal(w->local_shape[i], i == w->dim ? w->shape[i] / degree : w->shape[i]);
}

static void check_plan(json_t *model, const tsr_plan *plan, json_t *at_degree) {
    size_t bytes = 0;
    json_int_t of_rank = json_integer_value(json_object_get(at_degree, "per_rank_bytes_bf16"));
    for (size_t i = 0; i < plan->n_weights; i++) {
        const tsr_plan_weight *w = &plan->weights[i];
        size_t size = 2;
        for (int d = 0; d < w->ndim; d++) size *= (size_t)w->local_shape[d];
        assert_int_equal(w->bytes, size);
        bytes += size;
        check_weight(model, w, plan->tp_degree);
    }
    assert_int_equal(plan->n_weights, json_integer_value(json_object_get(model, "num_tensors")));
    assert_int_equal(plan->whole_bytes, json_integer_value(json_object_get(model, "total_bytes_bf16")));
    assert_int_equal(plan->n_ranks, plan->tp_degree);
    for (size_t r = 0; r < plan->n_ranks; r++) assert_int_equal(plan->ranks[r].weight_bytes, of_rank);
    assert_int_equal(bytes, of_rank);
}

static void check_degree(tsr_engine *engine, const char *path, json_t *model, int degree) {
    char text[16];
    tsr_plan *plan = NULL;
    snprintf(text, sizeof text, "%d", degree);
    json_t *expected = json_object_get(json_object_get(model, "tp"), text);
    if (!json_is_true(json_object_get(expected, "accepted"))) {
        assert_refused(engine, make(engine, path, degree, TSR_TP_PLAN_REFERENCE, &plan), TSR_SHAPE,
                       "degrees that work: 1, ");
        return;
    }
    assert_ok(engine, make(engine, path, degree, TSR_TP_PLAN_REFERENCE, &plan));
    assert_string_equal(plan->component, "transformer");
    check_plan(model, plan, expected);
    tsr_plans_free(engine, plan, 1);
}

static void test_specs(void **state) {
    const char *name = *state;
    char path[4096], relative[256];
    json_t *root = json_load_file(test_golden("expected/shard_specs.json"), 0, NULL);
    json_t *model = json_object_get(json_object_get(root, "models"), name);
    assert_non_null(model);
    const char *config = json_string_value(json_object_get(model, "config"));
    snprintf(relative, sizeof relative, "%s%s", strncmp(config, "configs/", 8) == 0 ? "expected/" : "", config);
    snprintf(path, sizeof path, "%s", test_golden(relative));
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(asked); i++) check_degree(engine, path, model, asked[i]);
    *strrchr(path, '/') = '\0'; /* a folder, with weights or with its config alone */
    for (size_t i = 0; i < TSR__COUNT(asked); i++) check_degree(engine, path, model, asked[i]);
    tsr_engine_destroy(engine);
    json_decref(root);
}

/* --- full-size models --- */

static const struct {
    const char *config;
    int degrees[TSR_MAX_DEGREES]; /* up to 16 */
} full_size[] = {{"FLUX.2-klein-4B", {1, 2, 3, 4, 6, 8, 12}},
                 {"FLUX.2-klein-9B", {1, 2, 4, 8, 16}},
                 {"FLUX.2-dev", {1, 2, 3, 4, 6, 8, 12, 16}}};

static const char *config_folder(const char *name) {
    char relative[128];
    snprintf(relative, sizeof relative, "expected/configs/%s", name);
    return test_golden(relative);
}

/* Neither plan lacks a degree; at each of them the forward works, and a rank needs less than with fewer ranks. */
static void test_degrees(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(full_size); i++)
        for (int kind = TSR_TP_PLAN_FULL; kind <= TSR_TP_PLAN_REFERENCE; kind++) {
            tsr_plan *plan = NULL;
            assert_ok(engine, make(engine, config_folder(full_size[i].config), 1, (tsr_tp_plan_kind)kind, &plan));
            assert_int_equal(plan->n_problems, 0);
            assert_int_equal(plan->n_sizes, plan->n_degrees);
            for (size_t k = 0; k < plan->n_degrees; k++) {
                const tsr_plan_size *size = &plan->sizes[k];
                assert_int_equal(plan->degrees[k], full_size[i].degrees[k]);
                assert_int_equal(size->ranks, full_size[i].degrees[k]);
                assert_int_equal(size->tp_degree, size->ranks);
                assert_true(k == 0 || size->weight_bytes < size[-1].weight_bytes);
                assert_true(k == 0 || size->activation_bytes < size[-1].activation_bytes);
            }
            assert_true(plan->n_degrees == TSR_MAX_DEGREES || full_size[i].degrees[plan->n_degrees] == 0);
            tsr_plans_free(engine, plan, 1);
        }
    tsr_engine_destroy(engine);
}

/* The full plan leaves less than a hundredth of a rank's part whole. */
static void test_full(void **state) {
    (void)state;
    static const int degrees[] = {2, 4, 8};
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(full_size); i++)
        for (size_t k = 0; k < TSR__COUNT(degrees); k++) {
            tsr_plan *plan = NULL;
            assert_ok(engine, make(engine, config_folder(full_size[i].config), degrees[k], TSR_TP_PLAN_FULL, &plan));
            double share = (double)plan->ranks[0].weight_bytes * degrees[k] / (double)plan->whole_bytes;
            print_message("%s, tp %d: %.5f of an equal share, %.1f MB whole on every rank\n", full_size[i].config,
                          degrees[k], share, (double)plan->replicated_bytes / 1e6);
            assert_true(share >= 1.0 && share <= 1.01);
            assert_int_equal(plan->replicated_bytes * (size_t)degrees[k] + plan->whole_bytes - plan->replicated_bytes,
                             plan->ranks[0].weight_bytes * (size_t)degrees[k]);
            tsr_plans_free(engine, plan, 1);
        }
    tsr_engine_destroy(engine);
}

/* --- pipelines --- */

/* The text encoder has its own degree, the VAE is whole on rank 0. */
static void test_pipeline(void **state) {
    (void)state;
    static const struct {
        int tp, encoder, expected;
    } degrees[] = {{1, 0, 1}, {2, 0, 2}, {4, 0, 4}, {4, 2, 2}, {4, 1, 1}};
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(degrees); i++) {
        tsr_tensor_parallel_config tensor = {sizeof tensor, degrees[i].tp, NULL};
        tsr_parallel_config parallel = {sizeof parallel, &tensor, degrees[i].encoder, NULL, NULL};
        tsr_plan_options options = {sizeof options, &parallel, 0, 0, 0, 0, 0};
        tsr_plan *plans = NULL;
        size_t n = 0;
        assert_ok(engine, tsr_plan_make(engine, test_fixture("klein"), &options, &plans, &n));
        assert_int_equal(n, 3);
        assert_string_equal(plans[0].component, "text_encoder");
        const int shared_by[] = {degrees[i].expected, degrees[i].tp, 1};
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(plans[k].tp_degree, shared_by[k]);
            assert_int_equal(plans[k].n_ranks, degrees[i].tp);
            assert_int_equal(plans[k].n_sizes, 3); /* 1, 2 and 4 ranks */
            for (int r = 0; r < degrees[i].tp; r++) {
                assert_int_equal(plans[k].ranks[r].weight_bytes > 0, r < shared_by[k]);
                assert_int_equal(plans[k].ranks[r].activation_bytes > 0, r < shared_by[k]);
            }
        }
        for (size_t s = 0; s < 3; s++)
            assert_int_equal(plans[0].sizes[s].tp_degree,
                             degrees[i].encoder && degrees[i].encoder < 1 << s ? degrees[i].encoder : 1 << s);
        assert_int_equal(plans[1].height, 1024);
        assert_int_equal(plans[1].max_sequence_length, 512);
        tsr_plans_free(engine, plans, n);
    }
    tsr_engine_destroy(engine);
}

static void test_memory(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    tsr_plan *plan = NULL;
    size_t n = 0, at_two;
    tsr_plan_options options = TSR_PLAN_OPTIONS_INIT;
    const char *path = test_fixture("klein/transformer");
    assert_ok(engine, tsr_plan_make(engine, path, &options, &plan, &n));
    assert_true(plan->sizes[0].fits);
    at_two = plan->sizes[1].weight_bytes + plan->sizes[1].activation_bytes;
    tsr_plans_free(engine, plan, n);
    for (size_t less = 0; less < 2; less++) {
        options.memory_per_rank = at_two - less;
        assert_ok(engine, tsr_plan_make(engine, path, &options, &plan, &n));
        assert_false(plan->sizes[0].fits);
        assert_int_equal(plan->sizes[1].fits, !less);
        assert_true(plan->sizes[2].fits);
        assert_int_equal(plan->n_problems, 1);
        assert_non_null(strstr(plan->problems[0], less ? "would do: 4" : "would do: 2, 4"));
        tsr_plans_free(engine, plan, n);
    }
    options.memory_per_rank = 1000;
    assert_ok(engine, tsr_plan_make(engine, path, &options, &plan, &n));
    assert_non_null(strstr(plan->problems[0], "no number of ranks up to 16 would do"));
    tsr_plans_free(engine, plan, n);
    tsr_engine_destroy(engine);
}

/* --- refusals --- */

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int tp, encoder;
        int64_t height, text, images;
        tsr_status status;
        const char *words;
    } rows[] = {
        {"klein", 0, 0, 0, 0, 0, TSR_ARG, "axis tp of the mesh has size 0"},
        {"klein", 3, 0, 0, 0, 0, TSR_SHAPE, "degrees that work: 1, 2, 4"},
        {"klein", 4, 3, 0, 0, 0, TSR_SHAPE, "Qwen3ForCausalLM"},
        {"klein", 2, 4, 0, 0, 0, TSR_ARG, "over 4 ranks: there are 2"},
        {"klein/vae", 2, 0, 0, 0, 0, TSR_UNSUPPORTED, "no tensor-parallel plan"},
        {"no/such", 2, 0, 0, 0, 0, TSR_IO, "no/such"},
        {"klein", 1, 0, 8, 0, 0, TSR_ARG, "height 8"},
        {"klein/transformer", 1, 0, 8, 0, 0, TSR_ARG, "height 8"},
        {"klein/transformer", 1, 0, 0, -1, 0, TSR_ARG, "max_sequence_length -1"},
        {"klein/transformer", 1, 0, 0, 0, 5000, TSR_ARG, "num_images_per_prompt 5000"},
    };
    tsr_plan *plans = NULL;
    size_t n = 0;
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_tensor_parallel_config tensor = {sizeof tensor, rows[i].tp, NULL};
        tsr_parallel_config parallel = {sizeof parallel, &tensor, rows[i].encoder, NULL, NULL};
        tsr_plan_options options = {sizeof options, &parallel, rows[i].height, 0, rows[i].text, rows[i].images, 0};
        assert_refused(engine, tsr_plan_make(engine, test_fixture(rows[i].path), &options, &plans, &n), rows[i].status,
                       rows[i].words);
    }
    assert_null(plans);
    tsr_engine_destroy(engine);
}

/* Rules that fit every weight, but not each other: found by the run on shapes, which names the module. */
static void test_rules_that_do_not_meet(void **state) {
    (void)state;
    static const tsr_tp_rule rules[] = {{"transformer_blocks.*.ff.linear_in", TSR_COLWISE, {0}},
                                        {"transformer_blocks.*.ff.linear_out", TSR_ROWWISE, {0}}};
    const tsr_tp_plan tp_plan = {TSR_TP_PLAN_RULES, rules, TSR__COUNT(rules)};
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = {sizeof parallel, &tensor, 0, &tp_plan, NULL};
    tsr_plan_options options = {sizeof options, &parallel, 0, 0, 0, 0, 0};
    const char *module = "transformer_blocks.0.ff.linear_in";
    tsr_plan *plan = NULL;
    size_t n = 0;
    tsr_engine *engine = test_engine("ref");
    assert_ok(engine, tsr_plan_make(engine, test_fixture("klein/transformer"), &options, &plan, &n));
    assert_int_equal(plan->n_sizes, 1); /* one rank works; the degrees 2 and 4 are problems */
    assert_int_equal(plan->n_degrees, 1);
    assert_int_equal(plan->n_problems, 2);
    assert_non_null(strstr(plan->problems[0], "tp 2: "));
    assert_non_null(strstr(plan->problems[0], module));
    tsr_plans_free(engine, plan, n);
    tensor.tp_degree = 2;
    assert_refused(engine, tsr_plan_make(engine, test_fixture("klein/transformer"), &options, &plan, &n), TSR_SHAPE,
                   module);
    tsr_engine_destroy(engine);
}

/* Every allocation fails in turn: the call ends with NOMEM, and nothing leaks. */
static void test_allocations(void **state) {
    (void)state;
    tsr_tensor_parallel_config tensor = {sizeof tensor, 2, NULL};
    tsr_parallel_config parallel = {sizeof parallel, &tensor, 0, NULL, NULL};
    tsr_plan_options options = {sizeof options, &parallel, 32, 32, 8, 0, 1000};
    tsr_engine *engine = test_engine("ref");
    size_t before = tsr_engine_memory_current(engine);
    long long failures = 0;
    for (long long k = 0;; k += 1 + k / 97) {
        tsr_plan *plans = NULL;
        size_t n = 0;
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr_status status = tsr_plan_make(engine, test_fixture("klein"), &options, &plans, &n);
        atomic_store(&engine->allocator.fail_at, -1);
        tsr_plans_free(engine, plans, n);
        assert_int_equal(tsr_engine_memory_current(engine), before);
        if (status == TSR_OK) break;
        if (status != TSR_NOMEM)
            fail_msg("allocation %lld: %s: %s", k, tsr_status_name(status), tsr_engine_message(engine));
        failures++;
    }
    assert_true(failures > 100);
    tsr_engine_destroy(engine);
}

int main(void) {
    static char names[][20] = {"FLUX.2-dev",  "FLUX.2-klein-4B", "FLUX.2-klein-9B",
                               "flux2-klein", "flux2",           "flux2-6heads"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_specs, names[0]),
        cmocka_unit_test_prestate(test_specs, names[1]),
        cmocka_unit_test_prestate(test_specs, names[2]),
        cmocka_unit_test_prestate(test_specs, names[3]),
        cmocka_unit_test_prestate(test_specs, names[4]),
        cmocka_unit_test_prestate(test_specs, names[5]),
        cmocka_unit_test(test_degrees),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_rules_that_do_not_meet),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
