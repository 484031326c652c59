/* Flux2Transformer2DModel by itself, with guidance embedding and an odd number of heads, through tsr_model_forward. */
#include "klein.h"
#include "tensors.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

static void check(const char *device, const char *folder, const char *subfolder, const char *file) {
    tsr_engine *engine = test_engine(device);
    tsr_model_options options = TSR_MODEL_OPTIONS_INIT;
    tsr_model *model = NULL;
    tsr_tensor tensors[MOST], *outputs = NULL;
    size_t n = test_tensors_read(engine, file, tensors, MOST), n_outputs = 0;
    options.subfolder = subfolder;
    assert_ok(engine, tsr_model_from_pretrained(engine, folder, &options, &model));
    assert_string_equal(tsr_model_class_name(model), "Flux2Transformer2DModel");
    for (int repeat = 0; repeat < 2; repeat++) {
        assert_ok(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs));
        const tsr_tensor *expected = test_tensors_find(tensors, n, "transformer_out");
        assert_non_null(expected);
        assert_int_equal(n_outputs, 1);
        assert_string_equal(outputs[0].name, "transformer_out");
        assert_int_equal(tsr_tensor_bytes(&outputs[0]), tsr_tensor_bytes(expected));
        assert_close("transformer_out", outputs[0].data, expected->data, (size_t)tsr_tensor_elements(expected), 1e-4);
        tsr_tensors_free(engine, outputs, n_outputs);
    }
    tsr_model_destroy(model);
    test_tensors_release(tensors, n);
    tsr_engine_destroy(engine);
}

static void fixture_with_guidance(void **state) {
    (void)state;
    char folder[4096], file[4200];
    snprintf(folder, sizeof folder, "%s", test_fixture("flux2_guidance"));
    snprintf(file, sizeof file, "%s/forward.safetensors", folder);
    check("cpu", folder, "transformer", file);
    check("ref", folder, "transformer", file);
}

static void golden_six_heads(void **state) {
    (void)state;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", test_golden("models/flux2-6heads/transformer"));
    check("cpu", folder, NULL, test_golden("expected/flux2-6heads.safetensors"));
}

static void missing_and_misshapen_inputs_are_refused(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    tsr_model *model = NULL;
    tsr_tensor tensors[MOST], *outputs = NULL;
    size_t n_outputs = 0;
    char file[4096];
    snprintf(file, sizeof file, "%s", test_fixture("flux2_guidance/forward.safetensors"));
    size_t n = test_tensors_read(engine, file, tensors, MOST);
    assert_ok(engine, tsr_model_from_pretrained(engine, test_fixture("flux2_guidance/transformer"), NULL, &model));
    assert_refused(engine, tsr_model_forward(model, tensors, 0, &outputs, &n_outputs), TSR_ARG,
                   "needs the input \"hidden_states\"");
    tsr_tensor *hidden = test_tensors_find(tensors, n, "hidden_states");
    assert_non_null(hidden);
    hidden->shape[2] /= 2;
    hidden->shape[1] *= 2;
    assert_refused(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs), TSR_SHAPE,
                   "x_embedder: its input has shape");
    assert_null(outputs);
    tsr_model_destroy(model);
    test_tensors_release(tensors, n);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixture_with_guidance),
        cmocka_unit_test(golden_six_heads),
        cmocka_unit_test(missing_and_misshapen_inputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
