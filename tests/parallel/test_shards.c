/* Every rank's part of every weight, byte for byte as diffusers cuts it (../shared/golden/expected/shards). */
#include "sha256.h"
#include "support.h"

#include "models/models.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void test_digest(void **state) {
    (void)state;
    static const struct {
        const char *text, *digest;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char digest[65];
    for (size_t i = 0; i < TSR__COUNT(known); i++) {
        test_sha256(known[i].text, strlen(known[i].text), digest);
        assert_string_equal(digest, known[i].digest);
    }
}

typedef struct comparison {
    json_t *tensors; /* of one rank, by name */
    size_t compared, bytes;
} comparison;

static tsr_status compare(void *user, tsr__param *param) {
    comparison *c = user;
    char path[TSR__PATH_BYTES], digest[65];
    json_t *expected = json_object_get(c->tensors, tsr__param_path(param, path, sizeof path));
    json_t *shape = json_object_get(expected, "shape");
    if (!expected) fail_msg("%s is not in the expected shards", path);
    assert_int_equal(json_array_size(shape), param->view.ndim);
    for (int i = 0; i < param->view.ndim; i++)
        assert_int_equal(json_integer_value(json_array_get(shape, (size_t)i)), param->view.shape[i]);
    size_t bytes = (size_t)tsr__view_elements(&param->view) * tsr_dtype_bits(param->view.dtype) / 8;
    test_sha256(param->view.data, bytes, digest);
    if (strcmp(digest, json_string_value(json_object_get(expected, "sha256"))) != 0) fail_msg("%s: other bytes", path);
    assert_int_equal(param->spec.style != TSR_REPLICATED, json_is_true(json_object_get(expected, "sharded")));
    c->compared++;
    c->bytes += bytes;
    return TSR_OK;
}

/* The two ways in: only the part is read, or everything is read and cut in memory. */
static void load_part(tsr_engine *engine, tsr_model *model, int rank, int degree, bool streamed) {
    if (!streamed) assert_ok(engine, tsr__model_load(model));
    assert_ok(engine, tsr__model_split(model, NULL, rank, degree));
    assert_ok(engine, streamed ? tsr__model_load(model) : tsr__model_keep_part(model));
}

static void check_rank(tsr_engine *engine, const char *folder, json_t *expected, int degree, bool streamed) {
    comparison c = {.tensors = json_object_get(expected, "tensors")};
    int rank = (int)json_integer_value(json_object_get(expected, "rank"));
    tsr_model *model = NULL;
    assert_ok(engine, tsr__model_open(engine, folder, "transformer", NULL, &model));
    model->tp_plan.kind = TSR_TP_PLAN_REFERENCE;
    load_part(engine, model, rank, degree, streamed);
    assert_ok(engine, tsr__module_visit_params(model->self, compare, &c));
    assert_int_equal(c.compared, json_object_size(c.tensors));
    assert_int_equal(c.bytes, json_integer_value(json_object_get(expected, "bytes")));
    assert_int_equal(tsr_model_weight_bytes(model), c.bytes);
    if (streamed) assert_int_equal(tsr_checkpoint_bytes_read(model->checkpoint), c.bytes);
    tsr_model_destroy(model);
}

static void test_shards(void **state) {
    char folder[4096], relative[128];
    snprintf(relative, sizeof relative, "expected/shards/%s.json", (const char *)*state);
    json_t *root = json_load_file(test_golden(relative), 0, NULL), *ranks, *expected;
    assert_non_null(root);
    snprintf(folder, sizeof folder, "%s", test_golden(json_string_value(json_object_get(root, "model"))));
    tsr_engine *engine = test_engine("ref");
    const char *degree;
    size_t i, checked = 0;
    json_object_foreach(json_object_get(root, "tp"), degree, ranks) {
        assert_int_equal(json_array_size(ranks), atoi(degree));
        json_array_foreach(ranks, i, expected) {
            check_rank(engine, folder, expected, atoi(degree), true);
            check_rank(engine, folder, expected, atoi(degree), false);
            checked++;
        }
    }
    assert_true(checked >= 5);
    tsr_engine_destroy(engine);
    json_decref(root);
}

int main(void) {
    static char names[][16] = {"flux2-klein", "flux2", "flux2-6heads"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest),
        cmocka_unit_test_prestate(test_shards, names[0]),
        cmocka_unit_test_prestate(test_shards, names[1]),
        cmocka_unit_test_prestate(test_shards, names[2]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
