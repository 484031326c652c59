#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A rank's share of the work. */
typedef struct job {
    cli_session *session;
    tsr_checkpoint *saved;
    tsr_model *model;
    tsr_tensor *inputs; /* [n] */
    size_t n;
    char *ignored; /* names, with commas */
} job;

/* Names in files of saved stages; a tensor of such a name goes before one of the bare name. */
static const char *const prefixes[] = {"transformer_in.", "in."};
enum { N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };

/* The argument that a tensor of that name stands for, or NULL. */
static const char *argument_name(const job *j, const char *name) {
    const char *argument = name;
    bool outranked = false;
    for (size_t i = 0; i < N_PREFIXES; i++) {
        size_t n = strlen(prefixes[i]);
        if (argument == name && strncmp(name, prefixes[i], n) == 0) argument = name + n;
        char *other = cli_format("%s%s", prefixes[i], name);
        outranked |= tsr_checkpoint_find(j->saved, other) != NULL;
        free(other);
    }
    return !outranked && tsr_model_has_input(j->model, argument) ? argument : NULL;
}

static tsr_status read_tensor(job *j, const tsr_tensor_info *info, const char *name) {
    tsr_tensor *t = &j->inputs[j->n];
    *t = (tsr_tensor){.name = name, .dtype = info->dtype, .ndim = info->ndim};
    memcpy(t->shape, info->shape, sizeof t->shape);
    t->data = cli_alloc(1, (size_t)info->size);
    j->n++;
    return tsr_checkpoint_read(j->saved, info, 0, NULL, 0, t->data, (size_t)info->size);
}

static void ignore(job *j, const char *name) {
    char *longer = cli_format("%s%s%s", j->ignored ? j->ignored : "", j->ignored ? ", " : "", name);
    free(j->ignored);
    j->ignored = longer;
}

static tsr_status read_inputs(job *j) {
    size_t count = tsr_checkpoint_count(j->saved);
    j->inputs = cli_alloc(count, sizeof *j->inputs);
    for (size_t i = 0; i < count; i++) {
        const tsr_tensor_info *info = tsr_checkpoint_at(j->saved, i);
        const char *name = argument_name(j, info->name);
        if (!name) {
            ignore(j, info->name);
            continue;
        }
        for (size_t k = 0; k < j->n; k++) {
            if (strcmp(j->inputs[k].name, name) == 0)
                return cli_session_refuse(j->session, "%s: '%s' is there twice", j->session->options->inputs, name);
        }
        tsr_status status = read_tensor(j, info, name);
        if (status != TSR_OK) return status;
    }
    if (j->ignored)
        cli_session_note(j->session, "ignored (no arguments of %s): %s", tsr_model_class_name(j->model), j->ignored);
    return TSR_OK;
}

static const char *output_name(const cli_options *o) { return o->output ? o->output : "out.safetensors"; }

/* What a rank does by itself before the model is opened. The output is the first rank's alone. */
static tsr_status open_files(job *j) {
    tsr_engine *engine = j->session->engine;
    tsr_status status = TSR_OK;
    if (tsr_engine_rank(engine) == 0) status = tsr_output_check(engine, output_name(j->session->options));
    if (status == TSR_OK) status = tsr_checkpoint_open(engine, j->session->options->inputs, &j->saved);
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
    if (status == TSR_OK) status = tsr_status_agree(engine, read_inputs(j));
    if (status == TSR_OK) status = tsr_model_forward(j->model, j->inputs, j->n, &results, &n);
    if (status == TSR_OK && tsr_engine_rank(engine) == 0)
        status = tsr_safetensors_save(engine, output_name(j->session->options), results, n, NULL);
    tsr_tensors_free(engine, results, n);
    if (status == TSR_OK) cli_session_note(j->session, "saved %s", output_name(j->session->options));
    return status;
}

static tsr_status forward(cli_session *session, void *user) {
    (void)user;
    job j = {.session = session};
    tsr_status status = run(&j);
    for (size_t i = 0; i < j.n; i++) free(j.inputs[i].data);
    free(j.inputs);
    free(j.ignored);
    tsr_model_destroy(j.model);
    tsr_checkpoint_close(j.saved);
    return status;
}

int cli_forward(const cli_options *options) {
    if (!options->inputs) return cli_usage(options->command, "--inputs FILE is missing");
    int result = cli_check_extension(options->command, output_name(options), ".safetensors");
    return result == CLI_DONE ? cli_launch(options, forward, NULL) : result;
}
