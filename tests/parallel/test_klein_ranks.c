/* The tiny klein pipeline on several ranks, device ref: equal to diffusers, and to itself when one rank alone fails. */
#include "ranks.h"

#include <tessera/tessera.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *fixture(char *path, size_t size, const char *relative) {
    const char *source = getenv("TESSERA_SOURCE");
    snprintf(path, size, "%s/tests/fixtures/%s", source ? source : ".", relative);
    return path;
}

typedef struct request {
    const char *prompt, *dump;
    int64_t height, width, text;
    int steps;
    tsr_output_hook hook; /* for modules too */
    void *hook_user;
} request;

static const uint64_t seed = 42;

/* Opens the fixture split over all ranks and draws. */
static tsr_status draw(tsr_engine *engine, const request *r, tsr_images **images) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr_pipeline_options how = TSR_PIPELINE_OPTIONS_INIT;
    tsr_generate_options what = TSR_GENERATE_OPTIONS_INIT;
    tsr_pipeline *pipeline = NULL;
    char folder[2048];
    tensor.tp_degree = tsr_engine_size(engine);
    parallel.tensor_parallel = &tensor;
    how.parallel = &parallel;
    how.dtype = TSR_F32;
    what.prompts = &r->prompt;
    what.n_prompts = 1;
    what.height = r->height;
    what.width = r->width;
    what.num_inference_steps = r->steps;
    what.max_sequence_length = r->text;
    what.seeds = &seed;
    what.n_seeds = 1;
    what.dump = r->dump;
    what.dump_blocks = true;
    what.hook = r->hook;
    what.hook_user = r->hook_user;
    what.hook_modules = true;
    tsr_status status = tsr_pipeline_from_pretrained(engine, fixture(folder, sizeof folder, "klein"), &how, &pipeline);
    if (status == TSR_OK) status = tsr_pipeline_generate(pipeline, &what, images);
    tsr_pipeline_destroy(pipeline);
    return status;
}

/* --- equal to diffusers --- */

static tsr_status read_floats(tsr_engine *engine, const char *path, const char *name, float **floats, size_t *n) {
    tsr_checkpoint *file = NULL;
    TSR__TRY(tsr_checkpoint_open(engine, path, &file));
    const tsr_tensor_info *info = tsr_checkpoint_find(file, name);
    *n = info ? (size_t)info->size / sizeof(float) : 0;
    *floats = tsr__calloc(engine, *n + 1, sizeof **floats);
    tsr_status status = *floats && info ? tsr_checkpoint_read(file, info, 0, NULL, 0, *floats, (size_t)info->size)
                                        : tsr__fail(engine, TSR_ARG, "%s: no tensor %s", path, name);
    tsr_checkpoint_close(file);
    return status;
}

static tsr_status compare(tsr_engine *engine, const char *dump, const char *file, const char *name) {
    char stages[512], expected[2048];
    float *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    double worst = 0.0;
    snprintf(stages, sizeof stages, "%s/stages.safetensors", dump);
    tsr_status status = read_floats(engine, stages, name, &a, &n);
    if (status == TSR_OK) status = read_floats(engine, fixture(expected, sizeof expected, file), name, &b, &m);
    for (size_t i = 0; status == TSR_OK && i < n && i < m; i++)
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]) / (1.0 + fabs((double)b[i])));
    if (status == TSR_OK && (n != m || !(worst <= 1e-4)))
        status = tsr__fail(engine, TSR_INTERNAL, "%s: off by %g over %zu and %zu values", name, worst, n, m);
    tsr__free(engine, a);
    tsr__free(engine, b);
    return status;
}

/* Every tensor of the file, but the last layer of the text encoder, whose output nobody reads: it is not run. */
static tsr_status compare_all(tsr_engine *engine, const char *dump, const char *file) {
    tsr_checkpoint *expected = NULL;
    char path[2048];
    size_t compared = 0;
    TSR__TRY(tsr_checkpoint_open(engine, fixture(path, sizeof path, file), &expected));
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < tsr_checkpoint_count(expected) && status == TSR_OK; i++) {
        const char *name = tsr_checkpoint_at(expected, i)->name;
        if (strcmp(name, "text_encoder.model.layers.27#0") == 0) continue;
        status = compare(engine, dump, file, name);
        compared++;
    }
    tsr_checkpoint_close(expected);
    if (status == TSR_OK) RANK_CHECK(engine, compared >= 280);
    return status;
}

/* Modules at every degree: also those whose ranks hold parts, and key/value heads that several ranks hold. */
static tsr_status compare_files(tsr_engine *engine, const char *dump, const char *modules) {
    static const char *const names[] = {"prompt_embeds", "transformer_out", "latents_step_3", "vae_out"};
    if (modules) return compare_all(engine, dump, modules);
    for (size_t i = 0; i < TSR__COUNT(names); i++)
        TSR__TRY(compare(engine, dump, "klein_expected/a64.safetensors", names[i]));
    return TSR_OK;
}

static tsr_status draw_and_compare(tsr_engine *engine, request r, const char *modules) {
    char dump[] = "/tmp/tessera-ranks-XXXXXX", command[64];
    bool first = tsr_engine_rank(engine) == 0;
    if (first) RANK_CHECK(engine, mkdtemp(dump) != NULL);
    r.dump = dump;
    tsr_images *images = NULL;
    tsr_status status = draw(engine, &r, &images);
    if (first && status == TSR_OK) status = compare_files(engine, dump, modules);
    if (status == TSR_OK && (images->pixels != NULL) != first)
        status = tsr__fail(engine, TSR_INTERNAL, "pixels are on the wrong rank");
    tsr_images_free(engine, images);
    snprintf(command, sizeof command, "rm -rf %s", dump);
    if (first && system(command) != 0) fprintf(stderr, "could not remove %s\n", dump);
    return tsr_status_agree(engine, status);
}

static tsr_status equals_diffusers(tsr_engine *engine, void *user) {
    (void)user;
    const request r = {"A cat holding a sign that says hello world", NULL, 64, 64, 32, 4, NULL, NULL};
    return draw_and_compare(engine, r, NULL);
}

static tsr_status every_module_equals_diffusers(tsr_engine *engine, void *user) {
    (void)user;
    const request r = {"A cat", NULL, 32, 16, 16, 1, NULL, NULL};
    return draw_and_compare(engine, r, "klein_expected/debug32.debug.safetensors");
}

/* --- one rank fails --- */

/* Every rank's status is that of rank 0. */
static tsr_status check_same(tsr_engine *engine, tsr_status own) {
    int status = (int)own;
    TSR__TRY(tsr__broadcast(tsr__world(engine), &status, sizeof status, 0));
    return tsr_status_agree(engine, status == (int)own
                                        ? TSR_OK
                                        : tsr__fail(engine, TSR_INTERNAL, "rank %d ended with %d, rank 0 with %d",
                                                    tsr_engine_rank(engine), (int)own, status));
}

static tsr_status count_output(void *user, const tsr_tensor *output) {
    *(size_t *)user += output->data != NULL;
    return TSR_OK;
}

static tsr_status end_at(void *user, const tsr_tensor *output) {
    return strcmp(output->name, user) == 0 ? TSR_CANCELLED : TSR_OK;
}

/* An allocation fails on the last rank alone, in each part of the work: all ranks end alike, nobody waits, nothing
 * leaks. */
static tsr_status one_rank_runs_out_of_memory(tsr_engine *engine, void *user) {
    (void)user;
    size_t told = 0;
    const request r = {"a cat", NULL, 16, 16, 8, 1, count_output, &told};
    bool last = tsr_engine_rank(engine) == tsr_engine_size(engine) - 1;
    int64_t failures = 0;
    for (int64_t k = 0;; k += 1 + k / 5) { /* with a hook, which looks at parts of all ranks */
        size_t before = tsr_engine_memory_current(engine);
        tsr_images *images = NULL;
        if (last) atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr_status status = draw(engine, &r, &images);
        atomic_store(&engine->allocator.fail_at, -1);
        tsr_images_free(engine, images);
        TSR__TRY(check_same(engine, status));
        RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
        RANK_CHECK(engine, status == TSR_OK || status == TSR_NOMEM);
        if (status == TSR_OK) break;
        failures++;
    }
    RANK_CHECK(engine, failures > 20);
    RANK_CHECK(engine, (told > 0) == (tsr_engine_rank(engine) == 0));
    return TSR_OK;
}

/* A hook that has seen enough ends the call on all ranks with its status: among stages, in a run of each model. */
static tsr_status a_hook_ends_the_call(tsr_engine *engine, void *user) {
    static const char *const last[] = {"sigmas", "text_encoder.model.layers.3.mlp#0", "prompt_embeds",
                                       "transformer.transformer_blocks.1.attn.to_q#0", "vae.decoder.conv_in#0"};
    (void)user;
    for (size_t i = 0; i < TSR__COUNT(last); i++) {
        const request r = {"a cat", NULL, 16, 16, 8, 1, end_at, (void *)(uintptr_t)last[i]};
        size_t before = tsr_engine_memory_current(engine);
        tsr_images *images = NULL;
        RANK_CHECK(engine, draw(engine, &r, &images) == TSR_CANCELLED);
        RANK_CHECK(engine, strstr(tsr_engine_message(engine), "the output hook ended the call at "));
        RANK_CHECK(engine, strstr(tsr_engine_message(engine), last[i]));
        TSR__TRY(tsr_status_agree(engine, TSR_OK)); /* ranks free memory that belongs to the engines of others */
        RANK_CHECK(engine, !images && tsr_engine_memory_current(engine) == before);
    }
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"equals_diffusers", equals_diffusers},
                                      {"every_module_equals_diffusers", every_module_equals_diffusers},
                                      {"a_hook_ends_the_call", a_hook_ends_the_call},
                                      {"one_rank_runs_out_of_memory", one_rank_runs_out_of_memory}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
