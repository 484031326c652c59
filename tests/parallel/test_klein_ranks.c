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
    int64_t side, text;
    int steps;
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
    what.height = what.width = r->side;
    what.num_inference_steps = r->steps;
    what.max_sequence_length = r->text;
    what.seeds = &seed;
    what.n_seeds = 1;
    what.dump = r->dump;
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

static tsr_status compare(tsr_engine *engine, const char *dump, const char *name) {
    char stages[512], expected[2048];
    float *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    double worst = 0.0;
    snprintf(stages, sizeof stages, "%s/stages.safetensors", dump);
    tsr_status status = read_floats(engine, stages, name, &a, &n);
    if (status == TSR_OK)
        status =
            read_floats(engine, fixture(expected, sizeof expected, "klein_expected/a64.safetensors"), name, &b, &m);
    for (size_t i = 0; status == TSR_OK && i < n && i < m; i++)
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]) / (1.0 + fabs((double)b[i])));
    if (status == TSR_OK && (n != m || !(worst <= 1e-4)))
        status = tsr__fail(engine, TSR_INTERNAL, "%s: off by %g over %zu and %zu values", name, worst, n, m);
    tsr__free(engine, a);
    tsr__free(engine, b);
    return status;
}

static tsr_status equals_diffusers(tsr_engine *engine, void *user) {
    static const char *const names[] = {"prompt_embeds", "transformer_out", "latents_step_3", "vae_out"};
    (void)user;
    char dump[] = "/tmp/tessera-ranks-XXXXXX", command[64];
    bool first = tsr_engine_rank(engine) == 0;
    if (first) RANK_CHECK(engine, mkdtemp(dump) != NULL);
    request r = {"A cat holding a sign that says hello world", dump, 64, 32, 4};
    tsr_images *images = NULL;
    tsr_status status = draw(engine, &r, &images);
    for (size_t i = 0; first && status == TSR_OK && i < TSR__COUNT(names); i++)
        status = compare(engine, dump, names[i]);
    if (status == TSR_OK && (images->pixels != NULL) != first)
        status = tsr__fail(engine, TSR_INTERNAL, "pixels are on the wrong rank");
    tsr_images_free(engine, images);
    snprintf(command, sizeof command, "rm -rf %s", dump);
    if (first && system(command) != 0) fprintf(stderr, "could not remove %s\n", dump);
    return tsr_status_agree(engine, status);
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

/* An allocation fails on the last rank alone, in each part of the work: all ranks end alike, nobody waits, nothing
 * leaks. */
static tsr_status one_rank_runs_out_of_memory(tsr_engine *engine, void *user) {
    (void)user;
    const request r = {"a cat", NULL, 16, 8, 1};
    bool last = tsr_engine_rank(engine) == tsr_engine_size(engine) - 1;
    int64_t failures = 0;
    for (int64_t k = 0;; k += 1 + k / 5) {
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
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"equals_diffusers", equals_diffusers},
                                      {"one_rank_runs_out_of_memory", one_rank_runs_out_of_memory}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
