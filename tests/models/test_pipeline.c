/* The pipeline as a library: what may be given instead of a prompt or noise, seeds, cancelling, refusals. */
#include "klein.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const klein_case small = {"small", {"a cat"}, 32, 48, 2, 1.0, 1, 16, false};

static tsr_engine *engine;
static tsr_pipeline *pipeline;

static int open_all(void **state) {
    (void)state;
    engine = test_engine("cpu");
    pipeline = open_klein(engine, test_fixture("klein"), false);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    tsr_pipeline_destroy(pipeline);
    tsr_engine_destroy(engine);
    return 0;
}

static tsr_images *draw(const tsr_generate_options *options) {
    tsr_images *images = NULL;
    assert_ok(engine, tsr_pipeline_generate(pipeline, options, &images));
    return images;
}

static size_t bytes_of(const tsr_images *images) { return (size_t)(3 * images->height * images->width); }

static void everything_is_released(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    tsr_images_free(engine, draw(&options)); /* the tokenizer keeps the stack of its longest match */
    size_t before = tsr_engine_memory_current(engine);
    tsr_images_free(engine, draw(&options));
    assert_int_equal(tsr_engine_memory_current(engine), before);
}

static void a_seed_gives_the_same_picture_again(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    tsr_images *a = draw(&options), *b = draw(&options);
    const uint64_t other = 43;
    options.seeds = &other;
    tsr_images *c = draw(&options);
    assert_memory_equal(a->pixels, b->pixels, bytes_of(a));
    assert_int_not_equal(memcmp(a->pixels, c->pixels, bytes_of(a)), 0);
    tsr_images_free(engine, a);
    tsr_images_free(engine, b);
    tsr_images_free(engine, c);
}

/* A list of seeds: picture i is the run with seed i. One seed: only picture 0 is (rows are multiples of 16 values). */
static void seeds_of_a_batch(void **state) {
    (void)state;
    static const uint64_t seeds[3] = {7, 8, 9};
    tsr_generate_options options = klein_options(&small);
    options.num_images_per_prompt = 3;
    options.seeds = seeds;
    options.n_seeds = 3;
    tsr_images *list = draw(&options);
    options.n_seeds = 1;
    tsr_images *one = draw(&options);
    options.num_images_per_prompt = 1;
    for (int i = 0; i < 3; i++) {
        options.seeds = &seeds[i];
        tsr_images *single = draw(&options);
        const uint8_t *in_list = list->pixels + (size_t)i * bytes_of(list),
                      *in_one = one->pixels + (size_t)i * bytes_of(one);
        int worst = 0;
        for (size_t j = 0; j < bytes_of(single); j++) {
            int off = abs(single->pixels[j] - in_list[j]);
            worst = off > worst ? off : worst;
        }
        assert_true(worst <= 1);
        assert_int_equal(list->seeds[i], seeds[i]);
        assert_int_equal(one->seeds[i], seeds[0]);
        if (i > 0) assert_int_not_equal(memcmp(single->pixels, in_one, bytes_of(single)), 0);
        tsr_images_free(engine, single);
    }
    options.seeds = seeds;
    options.n_seeds = 2;
    tsr_images *none = NULL;
    assert_refused(engine, tsr_pipeline_generate(pipeline, &options, &none), TSR_ARG, "2 seeds for 1 pictures");
    tsr_images_free(engine, list);
    tsr_images_free(engine, one);
}

static void a_random_seed_is_told(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    options.n_seeds = 0;
    tsr_images *a = draw(&options);
    options.seeds = a->seeds;
    options.n_seeds = 1;
    tsr_images *b = draw(&options);
    assert_memory_equal(a->pixels, b->pixels, bytes_of(a));
    tsr_images_free(engine, a);
    tsr_images_free(engine, b);
}

/* --- latents and embeddings as input --- */

static tsr_tensor read_stage(const char *folder, const char *name, char *path, size_t size) {
    tsr_checkpoint *file = NULL;
    snprintf(path, size, "%s/stages.safetensors", folder);
    assert_ok(engine, tsr_checkpoint_open(engine, path, &file));
    const tsr_tensor_info *info = tsr_checkpoint_find(file, name);
    assert_non_null(info);
    tsr_tensor t = {.name = name, .dtype = info->dtype, .ndim = info->ndim, .data = malloc(info->size)};
    memcpy(t.shape, info->shape, sizeof t.shape);
    assert_ok(engine, tsr_checkpoint_read(file, info, 0, NULL, 0, t.data, info->size));
    tsr_checkpoint_close(file);
    return t;
}

/* Packed [1, L, C] to [1, C, h, w]. */
static tsr_tensor unpacked(const tsr_tensor *packed, int64_t h, int64_t w) {
    int64_t L = packed->shape[1], C = packed->shape[2];
    tsr_tensor t = {"latents", TSR_F32, 4, {1, C, h, w}, malloc(tsr_tensor_bytes(packed))};
    for (int64_t i = 0; i < L; i++)
        for (int64_t c = 0; c < C; c++) ((float *)t.data)[c * L + i] = ((float *)packed->data)[i * C + c];
    return t;
}

static void latents_and_embeddings_may_be_given(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    char folder[256], path[512];
    snprintf(folder, sizeof folder, "%s", test_folder());
    options.dump = folder;
    tsr_images *drawn = draw(&options);
    tsr_tensor embeds = read_stage(folder, "prompt_embeds", path, sizeof path);
    tsr_tensor packed = read_stage(folder, "latents_initial", path, sizeof path);
    tsr_tensor latents = unpacked(&packed, 2, 3);
    options.dump = NULL;
    options.prompts = NULL;
    options.n_prompts = 0;
    options.prompt_embeds = &embeds;
    options.latents = &latents;
    tsr_images *again = draw(&options);
    assert_memory_equal(drawn->pixels, again->pixels, bytes_of(drawn));
    latents.shape[2] = 3, latents.shape[3] = 2;
    tsr_images *none = NULL;
    assert_refused(engine, tsr_pipeline_generate(pipeline, &options, &none), TSR_SHAPE,
                   "latents must have shape [1, 32, 2, 3]");
    latents.shape[2] = 2, latents.shape[3] = 3;
    embeds.shape[2]--;
    assert_refused(engine, tsr_pipeline_generate(pipeline, &options, &none), TSR_SHAPE,
                   "prompt_embeds must have shape");
    free(embeds.data);
    free(packed.data);
    free(latents.data);
    tsr_images_free(engine, drawn);
    tsr_images_free(engine, again);
}

static void latents_may_be_the_result(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    options.output_latents = true;
    tsr_images *images = draw(&options);
    char *png = NULL;
    size_t n = 0;
    assert_null(images->pixels);
    assert_int_equal(images->latents.ndim, 4);
    assert_int_equal(images->latents.shape[1], 8);
    assert_int_equal(images->latents.shape[2], 4);
    assert_int_equal(images->latents.shape[3], 6);
    assert_refused(engine, tsr_images_save(engine, images, 0, "/tmp/never.png", NULL), TSR_ARG, "no picture 0");
    assert_refused(engine, tsr_images_encode(engine, images, 0, NULL, &png, &n), TSR_ARG, "no picture 0");
    tsr_images_free(engine, images);
}

/* --- defaults and refusals --- */

static void defaults_are_those_of_a_distilled_model(void **state) {
    (void)state;
    tsr_generate_options options = klein_options(&small);
    options.num_inference_steps = 0;
    options.guidance_scale = -1.0;
    options.num_images_per_prompt = 0;
    tsr_images *images = draw(&options);
    assert_int_equal(images->n, 1);
    assert_int_equal(images->num_inference_steps, 4);
    assert_true(images->guidance_scale == 1.0);
    tsr_images_free(engine, images);
}

static void sizes_are_rounded_down_or_refused(void **state) {
    (void)state;
    static const struct {
        int64_t height, width, drawn_height, drawn_width; /* 0: refused */
    } rows[] = {{72, 40, 64, 32}, {56, 56, 48, 48},   {16, 16, 16, 16}, {8, 8, 0, 0},
                {-16, 32, 0, 0},  {32, 100000, 0, 0}, {32, 64, 32, 64}};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_generate_options options = klein_options(&small);
        tsr_images *images = NULL;
        options.height = rows[i].height;
        options.width = rows[i].width;
        options.num_inference_steps = 1;
        tsr_status status = tsr_pipeline_generate(pipeline, &options, &images);
        assert_int_equal(status, rows[i].drawn_height ? TSR_OK : TSR_ARG);
        if (!images) continue;
        assert_int_equal(images->height, rows[i].drawn_height);
        assert_int_equal(images->width, rows[i].drawn_width);
        tsr_images_free(engine, images);
    }
}

static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    static const double nan_sigma[] = {1.0, NAN};
    tsr_generate_options good = klein_options(&small), rows[6];
    static const char *const words[6] = {"num_inference_steps", "num_images_per_prompt", "max_sequence_length",
                                         "guidance_scale",      "either a prompt",       "finite"};
    for (int i = 0; i < 6; i++) rows[i] = good;
    rows[0].num_inference_steps = 1000000;
    rows[1].num_images_per_prompt = 1000000;
    rows[2].max_sequence_length = -5;
    rows[3].guidance_scale = INFINITY;
    rows[4].n_prompts = 0;
    rows[5].sigmas = nan_sigma;
    rows[5].n_sigmas = 2;
    for (int i = 0; i < 6; i++) {
        tsr_images *images = NULL;
        assert_refused(engine, tsr_pipeline_generate(pipeline, &rows[i], &images), TSR_ARG, words[i]);
        assert_null(images);
    }
}

static void sigmas_set_the_number_of_steps(void **state) {
    (void)state;
    static const double linear[] = {1.0, 0.5};
    tsr_generate_options options = klein_options(&small);
    tsr_images *by_steps = draw(&options);
    options.sigmas = linear;
    options.n_sigmas = 2;
    options.num_inference_steps = 0;
    tsr_images *by_sigmas = draw(&options);
    assert_int_equal(by_sigmas->num_inference_steps, 2);
    assert_memory_equal(by_steps->pixels, by_sigmas->pixels, bytes_of(by_steps));
    tsr_images_free(engine, by_steps);
    tsr_images_free(engine, by_sigmas);
}

/* --- progress --- */

typedef struct watch {
    int calls[4];
    uint64_t last_done[4], last_total[4];
    int cancel_phase; /* -1: never */
} watch;

static bool look(void *user, const tsr_progress *p) {
    watch *w = user;
    w->calls[p->phase]++;
    w->last_done[p->phase] = p->done;
    w->last_total[p->phase] = p->total;
    return (int)p->phase != w->cancel_phase;
}

static void progress_is_reported_and_can_cancel(void **state) {
    (void)state;
    static const char *const names[] = {"load", "encode", "denoise", "decode"};
    for (int cancel = -1; cancel < 4; cancel++) {
        watch w = {.cancel_phase = cancel};
        tsr_engine_options eo = TSR_ENGINE_OPTIONS_INIT;
        eo.progress = look;
        eo.progress_user = &w;
        eo.log_level = TSR_LOG_ERROR;
        tsr_engine *own = NULL;
        assert_int_equal(tsr_engine_create(&eo, &own), TSR_OK);
        tsr_pipeline *p = open_klein(own, test_fixture("klein"), false);
        tsr_generate_options options = klein_options(&small);
        tsr_images *images = NULL;
        int64_t *ids = NULL;
        size_t n = 0;
        assert_ok(own, tsr_pipeline_tokenize(p, small.prompts[0], 16, &ids, &n));
        tsr_free(own, ids);
        size_t before = tsr_engine_memory_current(own);
        tsr_status status = tsr_pipeline_generate(p, &options, &images);
        if (status != (cancel < 0 ? TSR_OK : TSR_CANCELLED))
            fail_msg("cancelled in %s: %s", cancel < 0 ? "none" : names[cancel], tsr_engine_message(own));
        for (int phase = 0; cancel < 0 && phase < 4; phase++) assert_int_equal(w.last_done[phase], w.last_total[phase]);
        if (cancel < 0) assert_int_equal(w.calls[TSR_PHASE_DENOISE], 3); /* start, and after each of two steps */
        tsr_images_free(own, images);
        assert_int_equal(tsr_engine_memory_current(own), before);
        tsr_pipeline_destroy(p);
        tsr_engine_destroy(own);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_released),
        cmocka_unit_test(a_seed_gives_the_same_picture_again),
        cmocka_unit_test(seeds_of_a_batch),
        cmocka_unit_test(a_random_seed_is_told),
        cmocka_unit_test(latents_and_embeddings_may_be_given),
        cmocka_unit_test(latents_may_be_the_result),
        cmocka_unit_test(defaults_are_those_of_a_distilled_model),
        cmocka_unit_test(sizes_are_rounded_down_or_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(sigmas_set_the_number_of_steps),
        cmocka_unit_test(progress_is_reported_and_can_cancel),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
