#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "preview.h"

/* What to draw; all ranks of a process share it. */
typedef struct job {
    const cli_options *options;
    const char *model, *output;
    cli_request request; /* its seed: drawn by each process; the first rank's counts */
    bool latents;
} job;

static size_t n_outputs(const job *j) { return j->latents ? 1 : j->request.n_images; }

/* No file of a run may replace another one of the same run. other: what the option names, or NULL. */
static int check_distinct(const job *j, const char *option, const char *other) {
    int result = CLI_DONE;
    for (size_t i = 0; i < n_outputs(j) && result == CLI_DONE && other; i++) {
        char *name = cli_picture_name(j->output, i, n_outputs(j));
        if (cli_same_file(name, other))
            result = cli_usage(j->options->command, "-o %s and %s %s would write the same file: give two names", name,
                               option, other);
        free(name);
    }
    return result;
}

/* What is wrong with the command line is said before anything is opened. */
static int check_usage(job *j) {
    const cli_options *o = j->options;
    j->latents = o->output_type && strcmp(o->output_type, "latent") == 0;
    j->output = o->output ? o->output : j->latents ? "out.safetensors" : "out.png";
    if (o->dump_blocks && !o->dump) return cli_usage(o->command, "--dump-blocks needs --dump DIR");
    if (o->show && j->latents) return cli_usage(o->command, "--show needs pictures; --output-type latent gives none");
    if (o->grid && j->latents) return cli_usage(o->command, "--grid needs pictures; --output-type latent gives none");
    if (o->grid && cli_check_extension(o->command, "--grid", o->grid, ".png") != CLI_DONE) return CLI_USAGE;
    if (cli_check_extension(o->command, "-o", j->output, j->latents ? ".safetensors" : ".png") != CLI_DONE)
        return CLI_USAGE;
    return check_distinct(j, "--grid", o->grid);
}

/* The first rank alone: the folder may be on its host only. */
static tsr_status check_outputs(const job *j, tsr_engine *engine) {
    size_t n = n_outputs(j);
    bool first = tsr_engine_rank(engine) == 0;
    tsr_status status = first && j->options->grid ? tsr_output_check(engine, j->options->grid) : TSR_OK;
    for (size_t i = 0; i < n && status == TSR_OK && first; i++) {
        char *name = cli_picture_name(j->output, i, n);
        status = tsr_output_check(engine, name);
        free(name);
    }
    return tsr_status_agree(engine, status);
}

static int draw_seed(job *j) {
    uint64_t *seed = &j->request.seed;
    if (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
        return cli_error("the system gives no random numbers (%s); give --seed", strerror(errno));
    *seed >>= 11; /* 53 bits, so that no JSON reader rounds it */
    return CLI_DONE;
}

static tsr_generate_options wanted(const job *j) {
    tsr_generate_options g = cli_request_options(&j->request);
    g.output_latents = j->latents;
    g.dump = j->options->dump;
    g.dump_blocks = j->options->dump_blocks;
    return g;
}

static tsr_status save_latents(const job *j, cli_session *session, const tsr_images *images) {
    tsr_tensor latents = images->latents;
    latents.name = "latents";
    tsr_status status = tsr_safetensors_save(session->engine, j->output, &latents, 1, NULL);
    if (status == TSR_OK) cli_session_note(session, "saved %s", j->output);
    return status;
}

/* Enough to draw the picture again. Of several from one generator, the place in the batch is part of that. */
static tsr_status save_picture(const job *j, tsr_engine *engine, const tsr_images *images, size_t i, const char *name) {
    enum { TEXT = 80 };
    char seed[TEXT], steps[TEXT], size[TEXT], guidance[TEXT], place[TEXT] = "", layout[TEXT], software[TEXT];
    snprintf(seed, TEXT, "%" PRIu64, images->seeds[i]);
    snprintf(steps, TEXT, "%d", images->num_inference_steps);
    snprintf(size, TEXT, "%" PRId64 "x%" PRId64, images->width, images->height);
    snprintf(guidance, TEXT, "%g", images->guidance_scale);
    snprintf(software, TEXT, "Tessera %s", tsr_version());
    cli_layout_text(j->options, layout, TEXT);
    if (images->n > 1 && j->options->n_seeds <= 1) snprintf(place, TEXT, "%zu of %zu from one generator", i, images->n);
    const char *text[] = {"prompt",   j->request.prompts[i * j->request.n_prompts / images->n],
                          "seed",     seed,
                          "picture",  place,
                          "steps",    steps,
                          "size",     size,
                          "guidance", guidance,
                          "model",    !j->model[cli_utf8_valid(j->model)] ? j->model : "",
                          "layout",   layout,
                          "Software", software,
                          NULL};
    return tsr_images_save(engine, images, i, name, j->options->no_metadata ? NULL : text);
}

static tsr_status save_pictures(const job *j, cli_session *session, const tsr_images *images) {
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < images->n && status == TSR_OK; i++) {
        char *name = cli_picture_name(j->output, i, images->n);
        status = save_picture(j, session->engine, images, i, name);
        if (status == TSR_OK)
            cli_session_note(session, "saved %s: %" PRId64 " wide, %" PRId64 " high, seed %" PRIu64, name,
                             images->width, images->height, images->seeds[i]);
        free(name);
    }
    if (status == TSR_OK && j->options->grid) {
        status = cli_grid_save(session->engine, images, j->options->grid);
        if (status == TSR_OK) cli_session_note(session, "saved %s: all %zu", j->options->grid, images->n);
    }
    if (status == TSR_OK) cli_preview(session, images);
    return status;
}

static tsr_status draw(const job *j, cli_session *session, tsr_pipeline **pipeline, tsr_images **images) {
    const cli_options *o = j->options;
    cli_layout layout;
    tsr_pipeline_options how = TSR_PIPELINE_OPTIONS_INIT;
    tsr_generate_options g = wanted(j);
    tsr_status status = check_outputs(j, session->engine);
    if (status == TSR_OK) status = cli_layout_open(session, &layout);
    if (status != TSR_OK) return status;
    how.parallel = &layout.parallel;
    how.force = o->force;
    if (o->dtype) how.dtype = tsr_dtype_from_name(o->dtype);
    status = tsr_pipeline_from_pretrained(session->engine, j->model, &how, pipeline);
    if (status == TSR_OK) status = tsr_pipeline_generate(*pipeline, &g, images);
    cli_layout_close(session, &layout);
    return status;
}

/* Only once it is sure that there will be pictures of that seed. */
static void announce_seed(const job *j, cli_session *session) {
    char line[40];
    if (j->options->seeds || session->quiet) return;
    snprintf(line, sizeof line, "seed %" PRIu64, j->request.seed);
    cli_progress_announce(session->progress, line);
}

static tsr_status draw_and_save(cli_session *session, void *user) {
    const job *j = user;
    tsr_pipeline *pipeline = NULL;
    tsr_images *images = NULL;
    announce_seed(j, session);
    tsr_status status = draw(j, session, &pipeline, &images);
    if (images && tsr_engine_rank(session->engine) == 0) { /* also where the dump could not be written */
        tsr_status saved = (j->latents ? save_latents : save_pictures)(j, session, images);
        if (status == TSR_OK) status = saved;
    }
    tsr_images_free(session->engine, images);
    tsr_pipeline_destroy(pipeline);
    return status;
}

int cli_generate(const cli_options *options) {
    job j = {.options = options, .model = options->arguments[0]};
    int result = cli_request_open(options, &j.request);
    if (result == CLI_DONE) result = check_usage(&j);
    if (result == CLI_DONE) result = cli_want_folder(j.model, CLI_PIPELINE);
    if (result == CLI_DONE && !options->seeds) result = draw_seed(&j);
    if (result == CLI_DONE) result = cli_launch(options, draw_and_save, &j);
    cli_request_close(&j.request);
    return result;
}
