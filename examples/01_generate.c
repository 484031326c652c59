/* Draws a picture with a diffusers pipeline folder and saves it as out.png:
 *     01_generate FOLDER "a prompt" [SIZE]
 * The same as: tessera generate FOLDER "a prompt" --height SIZE --width SIZE --seed 42 -o out.png --no-metadata */
#include <tessera/tessera.h>

#include <stdio.h>
#include <stdlib.h>

static bool show(void *user, const tsr_progress *progress) {
    (void)user;
    if (progress->phase == TSR_PHASE_DENOISE)
        fprintf(stderr, "step %llu of %llu\n", (unsigned long long)progress->done, (unsigned long long)progress->total);
    return true; /* false would cancel */
}

static tsr_status draw(tsr_engine *engine, const char *folder, const char *prompt, int64_t size) {
    tsr_pipeline *pipeline = NULL;
    tsr_status status = tsr_pipeline_from_pretrained(engine, folder, NULL, &pipeline);
    if (status != TSR_OK) return status;

    uint64_t seed = 42;
    tsr_generate_options options = TSR_GENERATE_OPTIONS_INIT;
    options.prompts = &prompt, options.n_prompts = 1;
    options.height = options.width = size; /* 0: the pipeline's default */
    options.seeds = &seed, options.n_seeds = 1;
    tsr_images *images = NULL;
    status = tsr_pipeline_generate(pipeline, &options, &images);
    if (status == TSR_OK) status = tsr_images_save(engine, images, 0, "out.png", NULL);
    tsr_images_free(engine, images);
    tsr_pipeline_destroy(pipeline);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: %s FOLDER PROMPT [SIZE]\n", argv[0]), 2;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.progress = show;
    tsr_engine *engine = NULL;
    if (tsr_engine_create(&options, &engine) != TSR_OK) return 1;
    tsr_status status = draw(engine, argv[1], argv[2], argc > 3 ? strtoll(argv[3], NULL, 10) : 0);
    if (status != TSR_OK) fprintf(stderr, "%s: %s\n", tsr_status_name(status), tsr_engine_message(engine));
    tsr_engine_destroy(engine);
    return status == TSR_OK ? 0 : 1;
}
