/* Plans from configs alone, against what diffusers resolves (../shared/golden/expected/shard_specs.json). */
#include "support.h"

#include <tessera/plan.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const int asked[] = {2, 3, 4, 6, 8};

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
    for (size_t i = 0; i < plan->n_weights; i++) {
        const tsr_plan_weight *w = &plan->weights[i];
        size_t size = 2;
        for (int d = 0; d < w->ndim; d++) size *= (size_t)w->local_shape[d];
        bytes += size;
        check_weight(model, w, plan->tp_degree);
    }
    assert_int_equal(plan->n_weights, json_integer_value(json_object_get(model, "num_tensors")));
    assert_int_equal(plan->whole_bytes, json_integer_value(json_object_get(model, "total_bytes_bf16")));
    assert_int_equal(plan->rank_bytes, json_integer_value(json_object_get(at_degree, "per_rank_bytes_bf16")));
    assert_int_equal(plan->rank_bytes, bytes);
}

static void check_degree(tsr_engine *engine, const char *path, json_t *model, int degree) {
    char text[16];
    tsr_plan *plans = NULL;
    size_t n = 0;
    snprintf(text, sizeof text, "%d", degree);
    json_t *expected = json_object_get(json_object_get(model, "tp"), text);
    if (!json_is_true(json_object_get(expected, "accepted"))) {
        assert_refused(engine, tsr_plan_make(engine, path, degree, 0, &plans, &n), TSR_SHAPE, "degrees that work: 1, ");
        return;
    }
    assert_ok(engine, tsr_plan_make(engine, path, degree, 0, &plans, &n));
    assert_int_equal(n, 1);
    assert_string_equal(plans->component, "transformer");
    check_plan(model, plans, expected);
    tsr_plans_free(engine, plans, n);
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

/* Case 8: the degrees up to 16. */
static void test_degrees(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int degrees[TSR_MAX_DEGREES];
    } known[] = {{"FLUX.2-klein-4B", {1, 2, 3, 4, 6, 8, 12}},
                 {"FLUX.2-klein-9B", {1, 2, 4, 8, 16}},
                 {"FLUX.2-dev", {1, 2, 3, 4, 6, 8, 12, 16}}};
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(known); i++) {
        char relative[128];
        tsr_plan *plans = NULL;
        size_t n = 0;
        snprintf(relative, sizeof relative, "expected/configs/%s", known[i].config);
        assert_ok(engine, tsr_plan_make(engine, test_golden(relative), 1, 0, &plans, &n));
        for (size_t k = 0; k < plans->n_degrees; k++) assert_int_equal(plans->degrees[k], known[i].degrees[k]);
        assert_true(plans->n_degrees == TSR_MAX_DEGREES || known[i].degrees[plans->n_degrees] == 0);
        tsr_plans_free(engine, plans, n);
    }
    tsr_engine_destroy(engine);
}

/* A pipeline folder: the text encoder has its own degree, the VAE is whole. */
static void test_pipeline(void **state) {
    (void)state;
    static const struct {
        int tp, encoder, expected;
    } degrees[] = {{1, 0, 1}, {2, 0, 2}, {4, 0, 4}, {4, 2, 2}, {4, 1, 1}};
    tsr_engine *engine = test_engine("ref");
    for (size_t i = 0; i < TSR__COUNT(degrees); i++) {
        tsr_plan *plans = NULL;
        size_t n = 0;
        assert_ok(engine, tsr_plan_make(engine, test_fixture("klein"), degrees[i].tp, degrees[i].encoder, &plans, &n));
        assert_int_equal(n, 3);
        assert_string_equal(plans[0].component, "text_encoder");
        assert_int_equal(plans[0].tp_degree, degrees[i].expected);
        assert_int_equal(plans[1].tp_degree, degrees[i].tp);
        assert_int_equal(plans[2].tp_degree, 1);
        assert_true(plans[2].rank_bytes == plans[2].whole_bytes);
        assert_true(degrees[i].tp == 1 || plans[1].rank_bytes < plans[1].whole_bytes);
        tsr_plans_free(engine, plans, n);
    }
    tsr_engine_destroy(engine);
}

static void test_refusals(void **state) {
    (void)state;
    tsr_plan *plans = NULL;
    size_t n = 0;
    tsr_engine *engine = test_engine("ref");
    const char *klein = test_fixture("klein");
    assert_refused(engine, tsr_plan_make(engine, klein, 0, 0, &plans, &n), TSR_ARG, "tp is 0");
    assert_refused(engine, tsr_plan_make(engine, klein, 3, 0, &plans, &n), TSR_SHAPE, "degrees that work: 1, 2, 4");
    assert_refused(engine, tsr_plan_make(engine, klein, 4, 3, &plans, &n), TSR_SHAPE, "Qwen3ForCausalLM");
    assert_refused(engine, tsr_plan_make(engine, test_fixture("klein/vae"), 2, 0, &plans, &n), TSR_UNSUPPORTED,
                   "no tensor-parallel plan");
    assert_refused(engine, tsr_plan_make(engine, "no/such", 2, 0, &plans, &n), TSR_IO, "no/such");
    assert_null(plans);
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
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
