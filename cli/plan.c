/* What each rank would hold, read, compute and send. */
#include "plan.h"

#include <inttypes.h>

const char *cli_plan_list(const int64_t *numbers, size_t n, char text[CLI_PLAN_TEXT]) {
    size_t at = (size_t)snprintf(text, CLI_PLAN_TEXT, "[");
    for (size_t i = 0; i < n && at < CLI_PLAN_TEXT; i++)
        at += (size_t)snprintf(text + at, CLI_PLAN_TEXT - at, "%s%" PRId64, i ? ", " : "", numbers[i]);
    if (at < CLI_PLAN_TEXT) snprintf(text + at, CLI_PLAN_TEXT - at, "]");
    return text;
}

static tsr_status make(cli_session *session, tsr_plan **plans, size_t *n) {
    const cli_options *o = session->options;
    cli_layout layout;
    tsr_plan_options wanted = TSR_PLAN_OPTIONS_INIT;
    tsr_status status = cli_layout_open(session, &layout);
    wanted.parallel = &layout.parallel;
    wanted.height = o->height;
    wanted.width = o->width;
    wanted.max_sequence_length = o->max_sequence_length;
    wanted.num_images_per_prompt = o->images;
    wanted.memory_per_rank = (size_t)o->memory_per_rank;
    if (status == TSR_OK) status = tsr_plan_make(session->engine, o->arguments[0], &wanted, plans, n);
    cli_layout_close(session, &layout);
    return status;
}

/* Scratch memory grows with the threads of a rank: by default its share of the cores, as if all ranks ran here. */
static int64_t threads_of_rank(const cli_options *o) {
    return o->threads ? o->threads : tsr_threads_per_rank((int)cli_n_ranks(o));
}

int cli_plan(const cli_options *options) {
    cli_session session;
    cli_options as_rank = *options;
    as_rank.threads = threads_of_rank(options);
    int result = cli_session_open(&as_rank, &session);
    if (result != CLI_DONE) return result;
    tsr_plan *plans = NULL;
    size_t n = 0;
    tsr_status status = make(&session, &plans, &n);
    if (status == TSR_OK)
        (options->json ? cli_plan_print_json : cli_plan_print_table)(plans, n, options);
    else
        result = cli_session_error(&session, NULL, status);
    tsr_plans_free(session.engine, plans, n);
    cli_session_close(&session);
    return result;
}
