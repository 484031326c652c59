/* Flux2KleinPipeline against diffusers: every stage of every case, and every submodule. */
#include "klein.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const klein_case fixtures[] = {
    {"a64", {"A cat holding a sign that says hello world"}, 64, 64, 4, 1.0, 1, 32, false},
    {"cfg", {"A red fox beside a frozen lake"}, 48, 80, 2, 4.0, 1, 24, true},
    {"batch",
     {"A bowl of ripe oranges", "The word \"OPEN\" on a green door, 35 mm film, in the rain at night"},
     32,
     48,
     2,
     1.0,
     2,
     28,
     false},
    {"debug32", {"A cat"}, 32, 16, 1, 1.0, 1, 16, false},
};

static const klein_case golden[] = {
    {"a64", {"A cat holding a sign that says hello world"}, 64, 64, 4, 1.0, 1, 64, false},
    {"base_cfg_96x64", {"A red fox sleeps beside a frozen lake"}, 96, 64, 3, 4.0, 1, 48, true},
    {"batch2",
     {"A bowl of ripe oranges", "Watercolour painting of a quiet village street in the rain"},
     48,
     64,
     2,
     1.0,
     1,
     40,
     false},
    {"odd_48x80", {"The word \"OPEN\" is painted in white letters on a green door."}, 48, 80, 2, 1.0, 1, 0, false},
};

/* Draws the case on the device and compares every stage with <expected>.safetensors and, if there, .debug.safetensors.
 */
static void check_case(const char *device, const char *folder, const char *expected, const klein_case *c) {
    tsr_engine *engine = test_engine(device);
    tsr_pipeline *pipeline = open_klein(engine, folder, c->base);
    tsr_generate_options options = klein_options(c);
    tsr_images *images = NULL;
    char dump[256], stages[512], file[4200];
    snprintf(dump, sizeof dump, "%s", test_folder());
    snprintf(stages, sizeof stages, "%s/stages.safetensors", dump);
    options.dump = dump;
    options.dump_blocks = true;
    assert_ok(engine, tsr_pipeline_generate(pipeline, &options, &images));
    size_t missing = 0;
    snprintf(file, sizeof file, "%s.safetensors", expected);
    assert_true(compare_tensors(engine, stages, file, 1e-4, &missing) >= 17);
    assert_int_equal(missing, 2); /* last_transformer_in.timestep, last_transformer_out */
    snprintf(file, sizeof file, "%s.debug.safetensors", expected);
    FILE *debug = fopen(file, "rb");
    if (debug) {
        fclose(debug);
        missing = 0;
        assert_true(compare_tensors(engine, stages, file, 1e-4, &missing) >= 29);
        assert_true(missing <= 1); /* the layer behind the last tap, which is not run */
    }
    tsr_images_free(engine, images);
    tsr_pipeline_destroy(pipeline);
    tsr_engine_destroy(engine);
}

static void check_fixtures(const char *device) {
    char folder[4096], expected[8192];
    snprintf(folder, sizeof folder, "%s", test_fixture("klein"));
    for (size_t i = 0; i < TSR__COUNT(fixtures); i++) {
        snprintf(expected, sizeof expected, "%s_expected/%s", folder, fixtures[i].name);
        check_case(device, folder, expected, &fixtures[i]);
    }
}

static void fixtures_on_cpu(void **state) {
    (void)state;
    check_fixtures("cpu");
}

static void fixtures_on_ref(void **state) {
    (void)state;
    check_fixtures("ref");
}

static void golden_on_cpu(void **state) {
    (void)state;
    char folder[4096], expected[4096], stem[4200];
    snprintf(folder, sizeof folder, "%s", test_golden("models/flux2-klein"));
    for (size_t i = 0; i < TSR__COUNT(golden); i++) {
        snprintf(expected, sizeof expected, "%s", test_golden("expected/flux2-klein__"));
        snprintf(stem, sizeof stem, "%s%s", expected, golden[i].name);
        check_case("cpu", folder, stem, &golden[i]);
    }
}

/* --- the initial latents in bfloat16, bit for bit --- */

static void check_noise(tsr_engine *engine, tsr_pipeline *pipeline, tsr_checkpoint *expected,
                        const tsr_tensor_info *info) {
    int height = 0, width = 0;
    unsigned long long seed = 0;
    assert_int_equal(sscanf(info->name, "latents_%dx%d_seed%llu", &height, &width, &seed), 3);
    const klein_case c = {info->name, {"x"}, height, width, 1, 1.0, 1, 16, false};
    tsr_generate_options options = klein_options(&c);
    uint64_t one = seed;
    char dump[256], stages[512];
    snprintf(dump, sizeof dump, "%s", test_folder());
    snprintf(stages, sizeof stages, "%s/stages.safetensors", dump);
    options.seeds = &one;
    options.dump = dump;
    options.output_latents = true;
    tsr_images *images = NULL;
    tsr_checkpoint *actual = NULL;
    assert_ok(engine, tsr_pipeline_generate(pipeline, &options, &images));
    assert_ok(engine, tsr_checkpoint_open(engine, stages, &actual));
    const tsr_tensor_info *have = tsr_checkpoint_find(actual, "latents_initial");
    assert_non_null(have);
    assert_int_equal(have->dtype, TSR_BF16);
    assert_int_equal(have->size, info->size);
    char *a = malloc(info->size), *b = malloc(info->size);
    assert_ok(engine, tsr_checkpoint_read(actual, have, 0, NULL, 0, a, info->size));
    assert_ok(engine, tsr_checkpoint_read(expected, info, 0, NULL, 0, b, info->size));
    assert_memory_equal(a, b, info->size);
    free(a);
    free(b);
    tsr_checkpoint_close(actual);
    tsr_images_free(engine, images);
}

static void golden_noise_in_bfloat16(void **state) {
    (void)state;
    (void)test_golden(""); /* skips before there is anything to release */
    tsr_engine *engine = test_engine("cpu");
    tsr_pipeline_options options = TSR_PIPELINE_OPTIONS_INIT;
    tsr_pipeline *pipeline = NULL;
    tsr_checkpoint *expected = NULL;
    options.dtype = TSR_BF16;
    assert_ok(engine, tsr_pipeline_from_pretrained(engine, test_golden("models/flux2-klein"), &options, &pipeline));
    assert_ok(engine,
              tsr_checkpoint_open(engine, test_golden("expected/flux2-klein__bf16_noise.safetensors"), &expected));
    assert_true(tsr_checkpoint_count(expected) == 9);
    for (size_t i = 0; i < tsr_checkpoint_count(expected); i++)
        check_noise(engine, pipeline, expected, tsr_checkpoint_at(expected, i));
    tsr_checkpoint_close(expected);
    tsr_pipeline_destroy(pipeline);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_on_cpu),
        cmocka_unit_test(fixtures_on_ref),
        cmocka_unit_test(golden_on_cpu),
        cmocka_unit_test(golden_noise_in_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
