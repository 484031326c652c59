/* Flux2Transformer2DModel by itself, with guidance embedding and an odd number of heads, through tsr_model_forward. */
#include "klein.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
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

/* --- output hooks --- */

typedef struct heard {
    size_t n, end; /* end: the output at which the hook ends the run; 0: none */
    char first[128], last[128];
    float *data; /* of the last */
    size_t bytes;
    bool blocks_have_two;
} heard;

static tsr_status hear(void *user, const tsr_tensor *output) {
    heard *h = user;
    snprintf(h->n ? h->last : h->first, sizeof h->last, "%s", output->name);
    assert_int_equal(output->dtype, TSR_F32);
    h->blocks_have_two |= strcmp(output->name, "transformer.transformer_blocks.0#1") == 0;
    h->bytes = tsr_tensor_bytes(output);
    h->data = realloc(h->data, h->bytes);
    memcpy(h->data, output->data, h->bytes);
    return ++h->n == h->end ? TSR_BACKEND : TSR_OK;
}

static void modules_are_told_in_the_order_of_the_forward(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    tsr_model_options options = TSR_MODEL_OPTIONS_INIT;
    tsr_model *model = NULL;
    tsr_tensor tensors[MOST], *outputs = NULL;
    size_t n_outputs = 0,
           n = test_tensors_read(engine, test_fixture("flux2_guidance/forward.safetensors"), tensors, MOST);
    heard h = {0};
    options.meta = true;
    assert_ok(engine, tsr_model_from_pretrained(engine, test_fixture("flux2_guidance/transformer"), &options, &model));
    tsr_model_set_output_hook(model, hear, &h);
    assert_ok(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs)); /* no weights yet: shapes alone */
    assert_true(n_outputs == 1 && !outputs[0].data && outputs[0].ndim == 3 && outputs[0].shape[1] == 12);
    assert_int_equal(h.n, 0);
    tsr_tensors_free(engine, outputs, n_outputs);

    assert_ok(engine, tsr_model_load_weights(model));
    assert_ok(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs));
    assert_int_equal(h.n, 76);
    assert_string_equal(h.first, "transformer.time_guidance_embed.time_proj#0");
    assert_string_equal(h.last, "transformer.proj_out#0");
    assert_true(h.blocks_have_two);
    assert_int_equal(h.bytes, tsr_tensor_bytes(&outputs[0]));
    assert_memory_equal(h.data, outputs[0].data, h.bytes);
    tsr_tensors_free(engine, outputs, n_outputs);

    h.n = 0, h.end = 5;
    assert_refused(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs), TSR_BACKEND,
                   "the output hook ended the call at transformer.time_guidance_embed");
    assert_int_equal(h.n, 5);
    tsr_model_set_output_hook(model, NULL, NULL);
    assert_ok(engine, tsr_model_forward(model, tensors, n, &outputs, &n_outputs));
    assert_int_equal(h.n, 5);
    tsr_tensors_free(engine, outputs, n_outputs);
    free(h.data);
    tsr_model_destroy(model);
    test_tensors_release(tensors, n);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixture_with_guidance),
        cmocka_unit_test(golden_six_heads),
        cmocka_unit_test(missing_and_misshapen_inputs_are_refused),
        cmocka_unit_test(modules_are_told_in_the_order_of_the_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
