/* FlowMatchEulerDiscreteScheduler, bit for bit: all of golden/expected/scheduler.json, and rows measured apart. */
#include "schedulers/scheduling_flow_match_euler_discrete.h"
#include "support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 64 };

static tsr_engine *engine;

static int setup(void **state) {
    (void)state;
    engine = test_engine("ref");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tsr_engine_destroy(engine);
    return 0;
}

/* A folder with this text as its scheduler_config.json, read. */
static tsr_status from_text(const char *text, tsr__flow_match_euler *out) {
    const char *folder = test_folder();
    char path[256];
    snprintf(path, sizeof path, "%s/scheduler_config.json", folder);
    test_write_file(path, text, strlen(text));
    return tsr__flow_match_euler_from_config(engine, folder, out);
}

static json_t *load_golden(void) {
    json_error_t error;
    json_t *root = json_load_file(test_golden("expected/scheduler.json"), 0, &error);
    if (!root) fail_msg("scheduler.json: %s", error.text);
    return root;
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* "1 to 1/n, n values", a list, or null. */
static const double *sigmas_argument(const json_t *row, int n, double *buffer) {
    const json_t *given = json_object_get(row, "sigmas_argument");
    if (json_is_null(given)) return NULL;
    if (json_is_string(given)) tsr__linspace(1.0, 1.0 / n, n, buffer);
    for (size_t i = 0; i < json_array_size(given); i++) buffer[i] = json_number_value(json_array_get(given, i));
    return buffer;
}

static void assert_values(const char *label, int n, const char *what, const json_t *wanted, const float *values) {
    for (size_t i = 0; i < json_array_size(wanted); i++)
        if (values[i] != (float)json_number_value(json_array_get(wanted, i)))
            fail_msg("%s, %d steps: %s[%zu] is %.9g, not %.9g", label, n, what, i, (double)values[i],
                     json_number_value(json_array_get(wanted, i)));
}

static void all_golden_schedules(void **state) {
    (void)state;
    json_t *root = load_golden(), *row;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "rows")), 204);
    json_array_foreach(json_object_get(root, "rows"), i, row) {
        char *text = json_dumps(json_object_get(row, "config"), 0);
        tsr__flow_match_euler scheduler;
        assert_ok(engine, from_text(text, &scheduler));
        free(text);
        assert_true(json_is_null(json_object_get(row, "timesteps_argument")));
        int n = (int)number(row, "num_inference_steps");
        double buffer[MOST_STEPS], mu = json_is_null(json_object_get(row, "mu")) ? NAN : number(row, "mu");
        float sigmas[MOST_STEPS + 1], timesteps[MOST_STEPS];
        assert_ok(engine, tsr__flow_match_euler_set_timesteps(engine, &scheduler, n, sigmas_argument(row, n, buffer),
                                                              mu, sigmas, timesteps));
        const char *label = json_string_value(json_object_get(row, "label"));
        assert_int_equal(json_array_size(json_object_get(row, "sigmas")), n + 1);
        assert_values(label, n, "sigmas", json_object_get(row, "sigmas"), sigmas);
        assert_values(label, n, "timesteps", json_object_get(row, "timesteps"), timesteps);
    }
    json_decref(root);
}

static void all_golden_mus(void **state) {
    (void)state;
    json_t *root = load_golden(), *row;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "mu")), 96);
    json_array_foreach(json_object_get(root, "mu"), i, row) {
        int64_t length = json_integer_value(json_object_get(row, "image_seq_len"));
        int steps = (int)number(row, "num_steps");
        assert_true(tsr__flux2_empirical_mu(length, steps) == number(row, "flux2_mu"));
        assert_true(tsr__linear_mu(length, 256, 4096, 0.5, 1.15) == number(row, "flux_mu"));
        assert_true(tsr__linear_mu(length, 256, 8192, 0.5, 0.9) == number(row, "qwenimage_mu"));
    }
    json_decref(root);
}

/* cases.md, 17 (first four) and schedules that diffusers 0.42.1 computes for options the golden file has not. */
static void measured_schedules(void **state) {
    (void)state;
    static const double half[] = {0.5}, ends[] = {1.0, 0.0};
    static const struct {
        const char *config;
        int n;
        double mu;
        bool own;            /* the scheduler's sigmas, else `given`, else linspace(1, 1/n, n) */
        const double *given; /* [n] */
        float sigmas[MOST_STEPS], first_timestep;
    } rows[] = {
        {"{\"shift\": 3.0, \"use_dynamic_shifting\": false}", 4, NAN, false, NULL, {1, 0.9f, 0.75f, 0.5f, 0}, 1000},
        {"{\"shift\": 1.0, \"use_dynamic_shifting\": false}", 4, NAN, false, NULL, {1, 0.75f, 0.5f, 0.25f, 0}, 1000},
        {"{\"shift\": 3}", 4, NAN, true, NULL, {1, 0.857692301f, 0.602150559f, 0.00892857183f, 0}, 1000},
        {"{}", 1, NAN, false, NULL, {1, 0}, 1000},
        {"{\"shift\": 3, \"num_train_timesteps\": 500}",
         5,
         NAN,
         true,
         NULL,
         {1, 0.900716305f, 0.752234340f, 0.505940616f, 0.0177165363f, 0},
         500},
        {"{\"shift_terminal\": 0.02}", 1, NAN, false, half, {0.0199999809f, 0}, 19.999980927f},
        {"{\"shift_terminal\": 1}", 2, NAN, false, NULL, {1, 1, 0}, 1000},
        {"{\"shift_terminal\": null}", 2, NAN, false, ends, {1, 0, 0}, 1000},
        {"{\"use_karras_sigmas\": true}", 2, NAN, false, ends, {1, 0, 0}, 1000},
        {"{\"use_dynamic_shifting\": true}", 2, 1, false, ends, {1, 0, 0}, 1000},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr__flow_match_euler scheduler;
        double line[MOST_STEPS];
        float sigmas[MOST_STEPS + 1], timesteps[MOST_STEPS];
        int n = rows[i].n;
        tsr__linspace(1.0, 1.0 / n, n, line);
        const double *given = rows[i].own ? NULL : rows[i].given ? rows[i].given : line;
        assert_ok(engine, from_text(rows[i].config, &scheduler));
        assert_ok(engine,
                  tsr__flow_match_euler_set_timesteps(engine, &scheduler, n, given, rows[i].mu, sigmas, timesteps));
        for (int j = 0; j <= n; j++)
            if (sigmas[j] != rows[i].sigmas[j]) fail_msg("row %zu: sigma %d is %.9g", i, j, (double)sigmas[j]);
        if (timesteps[0] != rows[i].first_timestep) fail_msg("row %zu: timestep %.9g", i, (double)timesteps[0]);
    }
}

/* Both ends are exact, which first + i * step alone does not give for n = 50 and others. */
static void linspace_ends(void **state) {
    (void)state;
    for (int n = 1; n <= MOST_STEPS; n++) {
        double values[MOST_STEPS];
        tsr__linspace(1.0, 1.0 / n, n, values);
        assert_true(values[0] == 1.0 && values[n - 1] == 1.0 / n);
    }
}

/* Pipelines take mu's constants from here. */
static void pipeline_configs(void **state) {
    (void)state;
    static const struct {
        const char *folder;
        double shift, max_shift, shift_terminal;
        int64_t max_image_seq_len;
    } rows[] = {
        {"models/flux/scheduler", 3.0, 1.15, 0.0, 4096},
        {"models/flux2/scheduler", 3.0, 1.15, 0.0, 4096},
        {"models/flux2-klein/scheduler", 3.0, 1.15, 0.0, 4096},
        {"models/qwenimage/scheduler", 1.0, 0.9, 0.02, 8192},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr__flow_match_euler s;
        assert_ok(engine, tsr__flow_match_euler_from_config(engine, test_golden(rows[i].folder), &s));
        assert_true(s.use_dynamic_shifting && !s.linear_time_shift && !s.invert_sigmas && !s.use_karras_sigmas);
        assert_true(s.num_train_timesteps == 1000 && s.base_shift == 0.5 && s.base_image_seq_len == 256);
        assert_true(s.shift == rows[i].shift && s.max_shift == rows[i].max_shift);
        assert_true(s.shift_terminal == rows[i].shift_terminal && s.max_image_seq_len == rows[i].max_image_seq_len);
    }
}

static void wrong_configs_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tsr_status status;
        const char *words;
    } rows[] = {
        {"{\"stochastic_sampling\": true}", TSR_UNSUPPORTED, "stochastic_sampling is not supported"},
        {"{\"use_beta_sigmas\": true}", TSR_UNSUPPORTED, "use_beta_sigmas is not supported"},
        {"{\"use_beta_sigmas\": true, \"use_karras_sigmas\": true}", TSR_FORMAT, "only one of"},
        {"{\"use_exponential_sigmas\": true, \"use_karras_sigmas\": true}", TSR_FORMAT, "only one of"},
        {"{\"time_shift_type\": \"cosine\"}", TSR_FORMAT, "\"cosine\""},
        {"{\"num_train_timesteps\": 0}", TSR_FORMAT, "num_train_timesteps"},
        {"{\"shift\": \"three\"}", TSR_FORMAT, "shift"},
        {"{\"shift_terminal\": 1.5}", TSR_FORMAT, "shift_terminal"},
        {"{\"shift\": ", TSR_FORMAT, "scheduler_config.json"},
    };
    tsr__flow_match_euler scheduler = {.shift = -7.0};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        assert_refused(engine, from_text(rows[i].text, &scheduler), rows[i].status, rows[i].words);
        assert_non_null(strstr(tsr_engine_message(engine), "scheduler_config.json"));
    }
    const char *absent = test_folder();
    assert_refused(engine, tsr__flow_match_euler_from_config(engine, absent, &scheduler), TSR_IO, absent);
    assert_true(scheduler.shift == -7.0);
}

/* Where the reference raises, or returns NaN. */
static void undefined_schedules_are_refused(void **state) {
    (void)state;
    static const double ends[] = {1.0, 0.0};
    static const struct {
        const char *config;
        int n;
        double mu;
        const char *words;
    } rows[] = {
        {"{}", 0, NAN, "must be at least 1"},
        {"{\"use_dynamic_shifting\": true}", 2, NAN, "needs a finite mu"},
        {"{\"shift_terminal\": 0.02}", 1, NAN, "shift_terminal of scheduler_config.json needs at least 2 steps"},
        {"{\"shift_terminal\": 0.02, \"use_dynamic_shifting\": true}", 1, 0.5, "needs at least 2 steps"},
        {"{\"shift\": 0}", 2, NAN, "sigma 0 of 2 is not finite"},
        {"{\"use_dynamic_shifting\": true}", 2, 100.0, "is not finite"},
        {"{\"use_dynamic_shifting\": true}", 2, 800.0, "is not finite"},
        {"{\"use_dynamic_shifting\": true, \"time_shift_type\": \"linear\"}", 2, 0.0, "is not finite"},
        {"{\"use_exponential_sigmas\": true}", 2, NAN, "is not finite"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr__flow_match_euler scheduler;
        float sigmas[3] = {-1, -1, -1}, timesteps[2] = {-1, -1};
        assert_ok(engine, from_text(rows[i].config, &scheduler));
        assert_refused(
            engine,
            tsr__flow_match_euler_set_timesteps(engine, &scheduler, rows[i].n, ends, rows[i].mu, sigmas, timesteps),
            TSR_ARG, rows[i].words);
        assert_true(sigmas[0] == -1 && sigmas[2] == -1 && timesteps[0] == -1);
    }
}

/* Each allocation fails once: an error, nothing written, nothing leaked. */
static void out_of_memory(void **state) {
    (void)state;
    tsr__flow_match_euler scheduler = {.shift = -7.0};
    const char *folder = test_golden("models/flux/scheduler");
    tsr_status status = TSR_NOMEM;
    size_t before = tsr_engine_memory_current(engine);
    for (int i = 0; status != TSR_OK; i++) {
        assert_true(i < 100 && status == TSR_NOMEM && scheduler.shift == -7.0);
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + i);
        status = tsr__flow_match_euler_from_config(engine, folder, &scheduler);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
    float sigmas[3], timesteps[2];
    atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count));
    assert_int_equal(tsr__flow_match_euler_set_timesteps(engine, &scheduler, 2, NULL, 1.0, sigmas, timesteps),
                     TSR_NOMEM);
    atomic_store(&engine->allocator.fail_at, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_golden_schedules),
        cmocka_unit_test(all_golden_mus),
        cmocka_unit_test(measured_schedules),
        cmocka_unit_test(linspace_ends),
        cmocka_unit_test(pipeline_configs),
        cmocka_unit_test(wrong_configs_are_refused),
        cmocka_unit_test(undefined_schedules_are_refused),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
