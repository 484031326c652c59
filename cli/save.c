#include "cli.h"

static tsr_status save_component(cli_session *session, const tsr_parallel_config *parallel,
                                 const tsr_save_options *how) {
    const cli_options *o = session->options;
    tsr_model_options options = TSR_MODEL_OPTIONS_INIT;
    tsr_model *model = NULL;
    options.parallel = parallel;
    options.force = o->force;
    tsr_status status = tsr_model_from_pretrained(session->engine, o->arguments[0], &options, &model);
    if (status == TSR_OK) status = tsr_model_save_pretrained(model, o->output, how);
    tsr_model_destroy(model);
    return status;
}

static tsr_status save_pipeline(cli_session *session, const tsr_parallel_config *parallel,
                                const tsr_save_options *how) {
    const cli_options *o = session->options;
    tsr_pipeline_options options = TSR_PIPELINE_OPTIONS_INIT;
    tsr_pipeline *pipeline = NULL;
    options.parallel = parallel;
    options.force = o->force;
    tsr_status status = tsr_pipeline_from_pretrained(session->engine, o->arguments[0], &options, &pipeline);
    if (status == TSR_OK) status = tsr_pipeline_save_pretrained(pipeline, o->output, how);
    tsr_pipeline_destroy(pipeline);
    return status;
}

static tsr_status save(cli_session *session, void *user) {
    const cli_options *o = session->options;
    tsr_save_options how = TSR_SAVE_OPTIONS_INIT;
    cli_layout layout;
    (void)user;
    how.max_shard_size = (uint64_t)o->max_shard_size;
    tsr_status status = cli_layout_open(session, &layout);
    if (status == TSR_OK)
        status = (cli_is_component(o->arguments[0]) ? save_component : save_pipeline)(session, &layout.parallel, &how);
    cli_layout_close(session, &layout);
    if (status == TSR_OK) cli_session_note(session, "saved %s", o->output);
    return status;
}

int cli_save(const cli_options *options) {
    if (!options->output) return cli_usage(options->command, "-o DIR is missing");
    return cli_launch(options, save, NULL);
}
