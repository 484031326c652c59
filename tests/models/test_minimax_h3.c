/* MiniMaxH3Transformer3DModel against diffusers: every submodule, both outputs; what it refuses. */
#include "tensors.h"

#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128 };

typedef struct fixture {
    tsr_engine *engine;
    tsr_model *model;
    tsr_tensor tensors[MOST]; /* inputs, outputs, and debug.<module path>#<output index> */
    size_t n;
} fixture;

static fixture open_fixture(const char *device, const char *folder, const char *file) {
    fixture f = {.engine = test_engine(device)};
    f.n = test_tensors_read(f.engine, file, f.tensors, MOST);
    assert_ok(f.engine, tsr_model_from_pretrained(f.engine, folder, NULL, &f.model));
    assert_string_equal(tsr_model_class_name(f.model), "MiniMaxH3Transformer3DModel");
    return f;
}

static fixture open_own(const char *device) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", test_fixture("minimax_h3/transformer"));
    return open_fixture(device, folder, test_fixture("minimax_h3/forward.safetensors"));
}

static void close_fixture(fixture *f) {
    tsr_model_destroy(f->model);
    test_tensors_release(f->tensors, f->n);
    tsr_engine_destroy(f->engine);
}

static tsr_tensor *named(fixture *f, const char *name) {
    tsr_tensor *t = test_tensors_find(f->tensors, f->n, name);
    if (!t) fail_msg("no tensor %s", name);
    return t;
}

/* --- every submodule --- */

/* What taps have seen. */
typedef struct listener {
    fixture *f;
    size_t compared, unknown;
} listener;

static void compare(void *user, tsr__exec *x, const void *owner, int index, tsr__value v) {
    listener *l = user;
    char path[TSR__PATH_BYTES], name[TSR__PATH_BYTES + 16];
    snprintf(name, sizeof name, "debug.%s#%d", tsr__module_path(owner, path, sizeof path), index);
    const tsr_tensor *expected = test_tensors_find(l->f->tensors, l->f->n, name);
    if (!expected) {
        l->unknown++;
        return;
    }
    if (v.ndim != expected->ndim || memcmp(v.shape, expected->shape, (size_t)v.ndim * sizeof *v.shape) != 0)
        fail_msg("%s has another shape", name);
    float *seen = malloc(tsr_tensor_bytes(expected));
    assert_ok(l->f->engine, tsr__exec_peek(x, v, seen));
    assert_close(name, seen, expected->data, (size_t)tsr_tensor_elements(expected), 1e-4);
    free(seen);
    l->compared++;
}

/* The inputs in the order and the dtypes of the class. */
static tsr__call call_of(fixture *f) {
    tsr__call call = {.model = f->model};
    for (int i = 0; f->model->desc->inputs[i].name; i++) {
        tsr_tensor *t = named(f, f->model->desc->inputs[i].name);
        size_t n = (size_t)tsr_tensor_elements(t);
        if (t->dtype == TSR_F64) { /* in place: a float32 is shorter */
            float *shorter = malloc(n * sizeof *shorter);
            assert_true(tsr_convert_to_f32(TSR_F64, t->data, shorter, n));
            free(t->data);
            t->data = shorter;
            t->dtype = TSR_F32;
        }
        assert_int_equal(t->dtype, f->model->desc->inputs[i].dtype);
        call.inputs[i] = *t;
    }
    return call;
}

static listener listen(fixture *f) {
    listener l = {.f = f};
    tsr__call call = call_of(f);
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    assert_ok(f->engine, tsr__exec_create(f->engine, TSR_F32, &x));
    tsr__exec_set_tap(x, compare, &l);
    tsr__exec_explain(x, true);
    assert_ok(f->engine, tsr__exec_record(x, tsr__call_forward, &call, &graph));
    assert_ok(f->engine, tsr__exec_reserve(x));
    for (int i = 0; i < 2; i++) call.outputs[i].data = malloc(tsr_tensor_bytes(&call.outputs[i]));
    assert_ok(f->engine, tsr__exec_run(x, graph, &call));
    for (int i = 0; i < 2; i++) free(call.outputs[i].data);
    tsr__exec_destroy(x);
    return l;
}

static size_t count_expected(const fixture *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) n += strncmp(f->tensors[i].name, "debug.", 6) == 0;
    return n;
}

static void check_outputs(fixture *f) {
    static const char *const names[] = {"sample", "audio_sample"};
    tsr_tensor *outputs = NULL;
    size_t n = 0;
    assert_ok(f->engine, tsr_model_forward(f->model, f->tensors, f->n, &outputs, &n));
    assert_int_equal(n, TSR__COUNT(names));
    for (size_t i = 0; i < n; i++) {
        const tsr_tensor *expected = named(f, names[i]);
        assert_string_equal(outputs[i].name, names[i]);
        assert_memory_equal(outputs[i].shape, expected->shape, 3 * sizeof *expected->shape);
        assert_close(names[i], outputs[i].data, expected->data, (size_t)tsr_tensor_elements(expected), 1e-4);
    }
    tsr_tensors_free(f->engine, outputs, n);
}

static void every_submodule_is_diffusers(void **state) {
    (void)state;
    const char *const devices[] = {"cpu", "ref"};
    for (size_t i = 0; i < TSR__COUNT(devices); i++) {
        fixture f = open_own(devices[i]);
        check_outputs(&f);
        listener l = listen(&f);
        assert_int_equal(l.compared, count_expected(&f));
        assert_int_equal(l.compared, 91);
        assert_int_equal(l.unknown, 0);
        close_fixture(&f);
    }
}

static void golden(void **state) {
    (void)state;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", test_golden("models/minimax-h3/transformer"));
    fixture f = open_fixture("cpu", folder, test_golden("expected/minimax-h3.safetensors"));
    check_outputs(&f);
    listener l = listen(&f);
    assert_int_equal(l.compared, count_expected(&f));
    assert_int_equal(l.compared, 9);
    close_fixture(&f);
}

static void weights_stay_as_they_are_stored(void **state) {
    (void)state;
    fixture f = open_own("cpu");
    size_t elements[2] = {0, 0}; /* bfloat16, float32 */
    for (size_t i = 0; i < tsr_checkpoint_count(f.model->checkpoint); i++) {
        const tsr_tensor_info *info = tsr_checkpoint_at(f.model->checkpoint, i);
        elements[info->dtype == TSR_F32] += (size_t)info->size * 8 / tsr_dtype_bits(info->dtype);
    }
    assert_true(elements[0] > 0 && elements[1] > 0);
    assert_int_equal(tsr_model_weight_bytes(f.model), 2 * elements[0] + 4 * elements[1]);
    close_fixture(&f);
}

/* --- refusals --- */

static void wrong_inputs_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *input;
        int64_t entry, value; /* of an index; or, with value INT64_MIN, the last dimension becomes `entry` */
        tsr_status status;
        const char *words;
    } rows[] = {
        {"text_indices", 4, 17, TSR_ARG, "index_copy: entry 4 of the indices is 17, which is none of 17 rows"},
        {"video_indices", 0, -1, TSR_ARG, "index_copy: entry 0 of the indices is -1"},
        {"timestep_indices", 3, 3, TSR_ARG, "modulate: entry 3 of the indices is"},
        {"timestep_indices", 2, INT64_MAX / 2, TSR_ARG, "flat_index: entry 2 of the indices is"},
        {"token_tags", 16, 3, TSR_ARG, "flat_index: entry 16 of the indices is 3, which is none of 3 rows"},
        {"audio_indices", 3, INT64_MIN, TSR_SHAPE, "index_copy: shapes [3] and [2, 4, 28] do not fit"},
        {"token_tags", 16, INT64_MIN, TSR_SHAPE, "flat_index: shapes [17] and [16] do not fit"},
        {"position_ids", 2, INT64_MIN, TSR_SHAPE, "position_ids has shape [17, 2], but must hold (t, h, w)"},
        {"audio_hidden_states", 4, INT64_MIN, TSR_SHAPE, "audio_proj_in: its input has shape [2, 4, 4]"},
    };
    fixture f = open_own("cpu");
    tsr_tensor *outputs = NULL;
    size_t n = 0;
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_tensor *t = named(&f, rows[i].input), before = *t;
        int64_t *entry = rows[i].value == INT64_MIN ? &t->shape[t->ndim - 1] : (int64_t *)t->data + rows[i].entry;
        int64_t old = *entry;
        *entry = rows[i].value == INT64_MIN ? rows[i].entry : rows[i].value;
        assert_refused(f.engine, tsr_model_forward(f.model, f.tensors, f.n, &outputs, &n), rows[i].status,
                       rows[i].words);
        assert_null(outputs);
        *entry = old;
        assert_memory_equal(t, &before, sizeof before);
    }
    check_outputs(&f);
    close_fixture(&f);
}

static void wrong_configs_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"\"rope_freq_dim\": 22",
         "a rope_freq_dim of 22 rotates 132 channels of a head, but attention_head_dim is 128"},
        {"\"patch_size\": [2, 2]", "patch_size has 2 numbers instead of 3"},
        {"\"hidden_size\": 0", "hidden_size"},
        {"\"num_layers\": 1.5", "num_layers"},
    };
    tsr_engine *engine = test_engine("ref");
    char path[512], text[256];
    snprintf(path, sizeof path, "%s/config.json", test_folder());
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_model *model = NULL;
        int length = snprintf(text, sizeof text, "{\"_class_name\": \"MiniMaxH3Transformer3DModel\", %s}", rows[i][0]);
        test_write_file(path, text, (size_t)length);
        assert_refused(engine, tsr__model_from_config(engine, path, TSR_BF16, (int64_t[]){-1, -1}, &model), TSR_FORMAT,
                       rows[i][1]);
        assert_null(model);
    }
    tsr_engine_destroy(engine);
}

static tsr_status open_and_run(tsr_engine *engine, const char *folder, const tsr_tensor *inputs, size_t n_inputs) {
    tsr_model *model = NULL;
    tsr_tensor *outputs = NULL;
    size_t n = 0;
    tsr_status status = tsr_model_from_pretrained(engine, folder, NULL, &model);
    if (status == TSR_OK) status = tsr_model_forward(model, inputs, n_inputs, &outputs, &n);
    tsr_tensors_free(engine, outputs, n);
    tsr_model_destroy(model);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    fixture f = open_own("ref");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", test_fixture("minimax_h3/transformer"));
    size_t before = tsr_engine_memory_current(f.engine);
    long long failures = 0;
    for (;; failures++) {
        atomic_store(&f.engine->allocator.fail_at, atomic_load(&f.engine->allocator.count) + failures);
        tsr_status status = open_and_run(f.engine, folder, f.tensors, f.n);
        atomic_store(&f.engine->allocator.fail_at, -1);
        assert_int_equal(tsr_engine_memory_current(f.engine), before);
        if (status == TSR_OK) break;
        assert_int_equal(status, TSR_NOMEM);
    }
    assert_true(failures > 100);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_submodule_is_diffusers),    cmocka_unit_test(golden),
        cmocka_unit_test(weights_stay_as_they_are_stored), cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(wrong_configs_are_refused),       cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
