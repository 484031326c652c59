/* A picture whose tokens are spread over ranks: each holds all weights and a piece of the sequence. The transformer is
 * loaded whole and then told so, as in diffusers' guide to context parallelism. Rank 0 saves.
 *
 *   mpirun -n 2 03_context_parallel FOLDER "a prompt" out.png ring       keys and values come round
 *   mpirun -n 2 03_context_parallel FOLDER "a prompt" out.png ulysses    tokens are traded for heads
 *   03_context_parallel FOLDER "a prompt" out.png ring 2                 ranks as threads, which share the weights */
#include <tessera/tessera.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 42;

static tsr_status draw(tsr_pipeline *pipeline, tsr_engine *engine, char **argv) {
    tsr_generate_options what = TSR_GENERATE_OPTIONS_INIT;
    tsr_images *images = NULL;
    what.prompts = (const char *const *)&argv[2];
    what.n_prompts = 1;
    what.seeds = &seed;
    what.n_seeds = 1;
    tsr_status status = tsr_pipeline_generate(pipeline, &what, &images);
    if (status == TSR_OK && tsr_engine_rank(engine) == 0) status = tsr_images_save(engine, images, 0, argv[3], NULL);
    tsr_images_free(engine, images);
    return status;
}

/* What every rank does. */
static tsr_status run(tsr_engine *engine, void *arguments) {
    char **argv = arguments;
    tsr_context_parallel_config context = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    bool ring = strcmp(argv[4], "ring") == 0;
    *(ring ? &context.ring_degree : &context.ulysses_degree) = tsr_engine_size(engine);
    *(ring ? &context.ring_anything : &context.ulysses_anything) = true; /* any number of tokens */

    tsr_model_options loading = TSR_MODEL_OPTIONS_INIT;
    loading.subfolder = "transformer";
    tsr_model *transformer = NULL;
    tsr_status status = tsr_model_from_pretrained(engine, argv[1], &loading, &transformer);
    if (status == TSR_OK) status = tsr_model_enable_parallelism(transformer, TSR_PARALLEL(&context));

    tsr_pipeline_options around = TSR_PIPELINE_OPTIONS_INIT;
    around.transformer = transformer;
    around.parallel = TSR_PARALLEL(&context);
    tsr_pipeline *pipeline = NULL;
    if (status == TSR_OK) status = tsr_pipeline_from_pretrained(engine, argv[1], &around, &pipeline);
    if (status == TSR_OK) status = draw(pipeline, engine, argv);
    tsr_pipeline_destroy(pipeline);
    tsr_model_destroy(transformer);
    return status;
}

int main(int argc, char **argv) {
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[1024] = "";
    if (argc < 5) return fprintf(stderr, "usage: %s FOLDER PROMPT OUT.png ring|ulysses [RANKS]\n", argv[0]), 2;
    tsr_status status =
        tsr_launch(&options, argc > 5 ? (int)strtol(argv[5], NULL, 10) : 0, run, argv, message, sizeof message);
    if (status != TSR_OK && tsr_launcher_rank() == 0) fprintf(stderr, "%s\n", message);
    return status == TSR_OK ? 0 : 1;
}
