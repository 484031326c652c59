/* A model as configured against the same on one rank, or against a dump: every output of every module. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compare.h"

/* A rank's view; what is compared is the first rank's. */
typedef struct verifier {
    cli_session *session;
    const cli_request *request; /* NULL: a component */
    cli_layout layout;
    tsr_pipeline *pipeline;
    tsr_model *model;
    cli_inputs inputs;
    tsr_checkpoint *dump;
    cli_output *reference; /* [n_reference], of one rank, in its order */
    size_t n_reference, capacity, next;
    cli_comparison comparison;
} verifier;

/* ---- hooks ---- */

/* Stages, among them the picture and the latents of every step, are kept whole; "#" is in the names of modules. */
static bool is_sampled(const verifier *v, const char *name) { return !v->dump && strchr(name, '#'); }

static tsr_status take(const verifier *v, const tsr_tensor *output, cli_output *out) {
    if (cli_output_take(output, is_sampled(v, output->name), out)) return TSR_OK;
    return cli_session_refuse(v->session, "%s: its dtype %s cannot be compared", output->name,
                              tsr_dtype_name(output->dtype));
}

static tsr_status keep(void *user, const tsr_tensor *output) {
    verifier *v = user;
    cli_output kept;
    tsr_status status = take(v, output, &kept);
    if (status != TSR_OK) return status;
    v->reference = cli_grow(v->reference, v->n_reference, &v->capacity, sizeof *v->reference);
    v->reference[v->n_reference++] = kept;
    return TSR_OK;
}

/* Both runs tell their outputs in the same order. */
static const cli_output *find(verifier *v, const char *name) {
    for (size_t i = 0; i < v->n_reference; i++) {
        const cli_output *kept = &v->reference[(v->next + i) % v->n_reference];
        if (strcmp(kept->name, name) != 0) continue;
        v->next = (v->next + i + 1) % v->n_reference;
        return kept;
    }
    return NULL;
}

static tsr_status read_expected(const verifier *v, const tsr_tensor_info *info, cli_output *out) {
    tsr_tensor t = {.name = info->name, .dtype = info->dtype, .ndim = info->ndim};
    memcpy(t.shape, info->shape, sizeof t.shape);
    t.data = cli_alloc(1, (size_t)info->size);
    tsr_status status = tsr_checkpoint_read(v->dump, info, 0, NULL, 0, t.data, (size_t)info->size);
    if (status == TSR_OK) status = take(v, &t, out);
    free(t.data);
    return status;
}

static tsr_status compare_with_dump(verifier *v, const tsr_tensor_info *info, const cli_output *a) {
    cli_output b;
    tsr_status status = read_expected(v, info, &b);
    if (status != TSR_OK) return status;
    cli_compare(&v->comparison, a, &b);
    cli_output_free(&b);
    return TSR_OK;
}

/* Files of one component call the output of a module debug.<path>#<index>. */
static const tsr_tensor_info *find_in_dump(const verifier *v, const char *name) {
    const tsr_tensor_info *info = tsr_checkpoint_find(v->dump, name);
    const char *path = strchr(name, '#') ? strchr(name, '.') : NULL;
    if (info || !path || v->request) return info;
    char *other = cli_format("debug%s", path);
    info = tsr_checkpoint_find(v->dump, other);
    free(other);
    return info;
}

static tsr_status compare(void *user, const tsr_tensor *output) {
    verifier *v = user;
    const tsr_tensor_info *info = v->dump ? find_in_dump(v, output->name) : NULL;
    const cli_output *kept = find(v, output->name);
    cli_output a;
    if (!info && !kept) {
        v->comparison.unmatched++;
        return TSR_OK;
    }
    tsr_status status = take(v, output, &a);
    if (status != TSR_OK) return status;
    if (info)
        status = compare_with_dump(v, info, &a);
    else
        cli_compare(&v->comparison, &a, kept);
    cli_output_free(&a);
    return status;
}

/* All is known that can be known before a weight is read. */
static tsr_status stop(void *user, const tsr_tensor *output) {
    (void)user;
    (void)output;
    return TSR_CANCELLED;
}

/* ---- runs ---- */

static tsr_dtype wanted_dtype(const cli_options *o) { return o->dtype ? tsr_dtype_from_name(o->dtype) : TSR_F32; }

static tsr_status open_pipeline(const verifier *v, tsr_engine *engine, const tsr_parallel_config *parallel,
                                tsr_pipeline **out) {
    tsr_pipeline_options how = TSR_PIPELINE_OPTIONS_INIT;
    how.parallel = parallel;
    how.force = v->session->options->force;
    how.dtype = wanted_dtype(v->session->options);
    return tsr_pipeline_from_pretrained(engine, v->session->options->arguments[0], &how, out);
}

static tsr_status draw(verifier *v, tsr_engine *engine, tsr_pipeline *pipeline, tsr_output_hook hook) {
    tsr_generate_options g = cli_request_options(v->request);
    tsr_images *images = NULL;
    g.hook = hook;
    g.hook_user = v;
    g.hook_modules = true;
    tsr_status status = tsr_pipeline_generate(pipeline, &g, &images);
    tsr_images_free(engine, images);
    return status;
}

static tsr_status open_model(const verifier *v, tsr_engine *engine, const tsr_parallel_config *parallel,
                             tsr_model **out) {
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    how.parallel = parallel;
    how.force = v->session->options->force;
    how.dtype = wanted_dtype(v->session->options);
    how.meta = parallel != NULL; /* to be checked first */
    return tsr_model_from_pretrained(engine, v->session->options->arguments[0], &how, out);
}

static tsr_status forward(verifier *v, tsr_engine *engine, tsr_model *model, tsr_output_hook hook) {
    tsr_tensor *results = NULL;
    size_t n = 0;
    tsr_model_set_output_hook(model, hook, v);
    tsr_status status = tsr_model_forward(model, v->inputs.tensors, v->inputs.n, &results, &n);
    for (size_t i = 0; i < n && status == TSR_OK && tsr_engine_rank(engine) == 0; i++)
        if (results[i].data) status = hook(v, &results[i]);
    tsr_tensors_free(engine, results, n);
    return tsr_status_agree(engine, status);
}

/* Opens the model as configured and checks it on shapes alone: a plan that does not fit is refused here. */
static tsr_status prepare(verifier *v) {
    tsr_engine *engine = v->session->engine;
    tsr_status status = cli_layout_open(v->session, &v->layout);
    if (status != TSR_OK) return status;
    if (v->request) {
        status = open_pipeline(v, engine, &v->layout.parallel, &v->pipeline);
        if (status == TSR_OK) status = draw(v, engine, v->pipeline, stop);
        return status == TSR_CANCELLED && !cli_caught_signal() ? TSR_OK : status;
    }
    status = tsr_status_agree(engine, cli_inputs_open(v->session, &v->inputs));
    if (status == TSR_OK) status = open_model(v, engine, &v->layout.parallel, &v->model);
    if (status == TSR_OK) status = tsr_status_agree(engine, cli_inputs_read(v->session, v->model, &v->inputs));
    return status == TSR_OK ? forward(v, engine, v->model, compare) : status;
}

/* The first rank alone, with an engine of its own. */
static tsr_status run_reference(tsr_engine *engine, void *user) {
    verifier *v = user;
    tsr_pipeline *pipeline = NULL;
    tsr_model *model = NULL;
    cli_session_note(v->session, "one rank, as the reference");
    tsr_status status = v->request ? open_pipeline(v, engine, NULL, &pipeline) : open_model(v, engine, NULL, &model);
    if (status == TSR_OK) status = v->request ? draw(v, engine, pipeline, keep) : forward(v, engine, model, keep);
    tsr_pipeline_destroy(pipeline);
    tsr_model_destroy(model);
    return status;
}

static tsr_status make_reference(verifier *v) {
    tsr_engine *engine = v->session->engine;
    tsr_status status = tsr_run_alone(engine, run_reference, v);
    if (status != TSR_NOMEM) return status;
    return cli_session_refuse(v->session,
                              "one rank, as the reference: %s; or compare with a dump of another run: --against DUMP",
                              tsr_engine_message(engine));
}

static tsr_status run_as_configured(verifier *v) {
    tsr_engine *engine = v->session->engine;
    if (!v->dump) cli_session_note(v->session, "as configured, %s", v->comparison.layout);
    if (v->request) return draw(v, engine, v->pipeline, compare);
    tsr_status status = tsr_model_load_weights(v->model);
    return status == TSR_OK ? forward(v, engine, v->model, compare) : status;
}

/* ---- the result ---- */

static tsr_status conclude(verifier *v) {
    cli_comparison *c = &v->comparison;
    if (!v->dump && v->n_reference > c->n) c->unmatched += v->n_reference - c->n;
    bool agrees = c->departed == 0 && c->n > 0 && (v->dump || !c->unmatched);
    if (tsr_engine_rank(v->session->engine) > 0) return TSR_OK;
    cli_comparison_print(c, agrees, v->session->options->json);
    if (agrees) return TSR_OK;
    if (c->n == 0)
        return cli_session_refuse(v->session, "%s holds no output of this model", v->session->options->against);
    if (c->departed == 0) return cli_session_refuse(v->session, "%zu outputs are of one run alone", c->unmatched);
    const cli_difference *first = cli_comparison_first(c);
    return cli_session_refuse(v->session, "%zu of %zu outputs depart, first %s%s", c->departed, c->n, first->name,
                              first->not_finite ? ", which is not finite" : "");
}

/* ---- the command ---- */

/* A file, or the folder of `generate --dump`. */
static tsr_status open_dump(verifier *v) {
    const char *path = v->session->options->against;
    struct stat at;
    if (!path || tsr_engine_rank(v->session->engine) > 0) return TSR_OK;
    bool folder = stat(path, &at) == 0 && S_ISDIR(at.st_mode);
    char *file = cli_format("%s%s", path, folder ? "/stages.safetensors" : "");
    tsr_status status = tsr_checkpoint_open(v->session->engine, file, &v->dump);
    free(file);
    return status;
}

static tsr_status run(verifier *v) {
    tsr_engine *engine = v->session->engine;
    tsr_status status = tsr_status_agree(engine, open_dump(v));
    if (status == TSR_OK) status = prepare(v);
    if (status == TSR_OK && !v->session->options->against) status = make_reference(v);
    if (status == TSR_OK) status = run_as_configured(v);
    return status == TSR_OK ? tsr_status_agree(engine, conclude(v)) : status;
}

static tsr_status verify(cli_session *session, void *user) {
    const cli_options *o = session->options;
    verifier v = {.session = session, .request = user, .comparison = {"tp 1", o->against, o->atol, o->rtol}};
    if (cli_n_ranks(o) > 1) cli_layout_text(o, v.comparison.layout, sizeof v.comparison.layout);
    tsr_status status = run(&v);
    tsr_pipeline_destroy(v.pipeline);
    tsr_model_destroy(v.model);
    cli_inputs_close(&v.inputs);
    cli_layout_close(session, &v.layout);
    tsr_checkpoint_close(v.dump);
    for (size_t i = 0; i < v.n_reference; i++) cli_output_free(&v.reference[i]);
    free(v.reference);
    cli_comparison_free(&v.comparison);
    return status;
}

/* What is missing or too much is said before that there is nothing to compare with. */
static int check_usage(const cli_options *o) {
    const char *model = o->arguments[0];
    if (cli_is_component(model) && !o->inputs)
        return cli_usage(o->command, "%s is a component: --inputs FILE is missing", model);
    if (o->inputs && o->n_arguments > 1)
        return cli_usage(o->command, "'%s' is too much: a component is run on --inputs, a pipeline on a prompt",
                         o->arguments[1]);
    return o->inputs ? cli_want_folder(model, CLI_COMPONENT) : CLI_DONE;
}

static int launch(const cli_options *o, cli_request *request) {
    if (cli_n_ranks(o) == 1 && !o->against)
        return cli_usage(o->command, "on one rank there is nothing to compare: give --tp N, or --against DUMP");
    return cli_launch(o, verify, request);
}

int cli_verify(const cli_options *o) {
    int result = check_usage(o);
    if (result != CLI_DONE) return result;
    if (o->inputs) return launch(o, NULL);
    cli_request request;
    result = cli_request_open(o, &request);
    if (result == CLI_DONE) result = cli_want_folder(o->arguments[0], CLI_PIPELINE);
    if (result == CLI_DONE) result = launch(o, &request);
    cli_request_close(&request);
    return result;
}
