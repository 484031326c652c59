#include "klein.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of links, in which model_index_base.json plays model_index.json. */
static const char *base_folder(const char *folder) {
    static const char *const parts[] = {"scheduler", "text_encoder", "tokenizer", "transformer", "vae"};
    static char links[256];
    char absolute[4096], target[4200], link[512];
    snprintf(links, sizeof links, "%s", test_folder());
    assert_non_null(realpath(folder, absolute));
    for (size_t i = 0; i < TSR__COUNT(parts); i++) {
        snprintf(target, sizeof target, "%s/%s", absolute, parts[i]);
        snprintf(link, sizeof link, "%s/%s", links, parts[i]);
        assert_int_equal(symlink(target, link), 0);
    }
    snprintf(target, sizeof target, "%s/model_index_base.json", absolute);
    snprintf(link, sizeof link, "%s/model_index.json", links);
    assert_int_equal(symlink(target, link), 0);
    return links;
}

tsr_pipeline *open_klein(tsr_engine *engine, const char *folder, bool base) {
    tsr_pipeline_options options = TSR_PIPELINE_OPTIONS_INIT;
    tsr_pipeline *pipeline = NULL;
    options.dtype = TSR_F32;
    assert_ok(engine, tsr_pipeline_from_pretrained(engine, base ? base_folder(folder) : folder, &options, &pipeline));
    return pipeline;
}

tsr_generate_options klein_options(const klein_case *c) {
    static const uint64_t seed = 42;
    tsr_generate_options o = TSR_GENERATE_OPTIONS_INIT;
    o.prompts = c->prompts;
    o.n_prompts = c->prompts[1] ? 2 : 1;
    o.height = c->height;
    o.width = c->width;
    o.num_inference_steps = c->steps;
    o.guidance_scale = c->guidance;
    o.num_images_per_prompt = c->images_per_prompt;
    o.max_sequence_length = c->max_sequence_length;
    o.seeds = &seed;
    o.n_seeds = 1;
    return o;
}

static float *read_floats(tsr_engine *engine, tsr_checkpoint *file, const tsr_tensor_info *info, size_t *n) {
    void *raw = malloc(info->size + 1);
    *n = (size_t)info->size * 8 / tsr_dtype_bits(info->dtype);
    float *floats = malloc((*n + 1) * sizeof *floats);
    assert_non_null(raw);
    assert_non_null(floats);
    assert_ok(engine, tsr_checkpoint_read(file, info, 0, NULL, 0, raw, info->size));
    assert_true(tsr_convert_to_f32(info->dtype, raw, floats, *n));
    free(raw);
    return floats;
}

/* Noise and schedules are exact (timesteps to 1e-6), pixels within one level, everything else within the tolerance. */
static double tolerance_of(const tsr_tensor_info *info, double tolerance) {
    if (strcmp(info->name, "image_u8") == 0) return 1.0;
    if (info->dtype == TSR_I64 || strcmp(info->name, "latents_initial") == 0) return 0.0;
    return strcmp(info->name, "sigmas") == 0 || strcmp(info->name, "timesteps") == 0 ? 1e-6 : tolerance;
}

static void compare_pixels(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i] - b[i] > 1.0f || b[i] - a[i] > 1.0f)
            fail_msg("pixel value %zu is %g, expected %g", i, (double)a[i], (double)b[i]);
}

size_t compare_tensors(tsr_engine *engine, const char *actual, const char *expected, double tolerance,
                       size_t *missing) {
    tsr_checkpoint *a = NULL, *e = NULL;
    size_t compared = 0;
    assert_ok(engine, tsr_checkpoint_open(engine, actual, &a));
    assert_ok(engine, tsr_checkpoint_open(engine, expected, &e));
    for (size_t i = 0; i < tsr_checkpoint_count(e); i++) {
        const tsr_tensor_info *want = tsr_checkpoint_at(e, i), *have = tsr_checkpoint_find(a, want->name);
        if (!have) {
            (*missing)++;
            continue;
        }
        size_t n = 0, m = 0;
        float *x = read_floats(engine, a, have, &n), *y = read_floats(engine, e, want, &m);
        if (have->ndim != want->ndim || memcmp(have->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0)
            fail_msg("%s has another shape", want->name);
        double allowed = tolerance_of(want, tolerance);
        if (allowed >= 1.0)
            compare_pixels(x, y, n);
        else
            assert_close(want->name, x, y, n, allowed);
        compared++;
        free(x);
        free(y);
    }
    tsr_checkpoint_close(a);
    tsr_checkpoint_close(e);
    return compared;
}
