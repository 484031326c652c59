#include "cli.h"

/* A rank's share of the work. */
typedef struct job {
    cli_session *session;
    cli_inputs inputs;
    tsr_model *model;
} job;

/* What a rank does by itself before the model is opened. The output is the first rank's alone. */
static tsr_status open_files(job *j) {
    tsr_engine *engine = j->session->engine;
    tsr_status status = TSR_OK;
    if (tsr_engine_rank(engine) == 0) status = tsr_output_check(engine, j->session->options->output);
    if (status == TSR_OK) status = cli_inputs_open(j->session, &j->inputs);
    return tsr_status_agree(engine, status);
}

static tsr_status open_model(job *j) {
    const cli_options *o = j->session->options;
    cli_layout layout;
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    tsr_status status = cli_layout_open(j->session, &layout);
    how.parallel = &layout.parallel;
    how.force = o->force;
    if (o->dtype) how.dtype = tsr_dtype_from_name(o->dtype);
    if (status == TSR_OK) status = tsr_model_from_pretrained(j->session->engine, o->arguments[0], &how, &j->model);
    cli_layout_close(j->session, &layout);
    return status;
}

static tsr_status run(job *j) {
    tsr_engine *engine = j->session->engine;
    tsr_tensor *results = NULL;
    size_t n = 0;
    tsr_status status = open_files(j);
    if (status == TSR_OK) status = open_model(j);
    if (status == TSR_OK) status = tsr_status_agree(engine, cli_inputs_read(j->session, j->model, &j->inputs));
    if (status == TSR_OK) status = tsr_model_forward(j->model, j->inputs.tensors, j->inputs.n, &results, &n);
    if (status == TSR_OK && tsr_engine_rank(engine) == 0)
        status = tsr_safetensors_save(engine, j->session->options->output, results, n, NULL);
    tsr_tensors_free(engine, results, n);
    if (status == TSR_OK) cli_session_note(j->session, "saved %s", j->session->options->output);
    return status;
}

static tsr_status forward(cli_session *session, void *user) {
    (void)user;
    job j = {.session = session};
    tsr_status status = run(&j);
    tsr_model_destroy(j.model);
    cli_inputs_close(&j.inputs);
    return status;
}

int cli_forward(const cli_options *options) {
    if (!options->inputs) return cli_usage(options->command, "--inputs FILE is missing");
    if (!options->output) return cli_usage(options->command, "-o FILE is missing");
    if (cli_same_file(options->inputs, options->output))
        return cli_usage(options->command, "-o %s is the file of --inputs, which would be lost: give another name",
                         options->output);
    int result = cli_check_extension(options->command, "-o", options->output, ".safetensors");
    if (result == CLI_DONE) result = cli_want_folder(options->arguments[0], CLI_COMPONENT);
    return result == CLI_DONE ? cli_launch(options, forward, NULL) : result;
}
