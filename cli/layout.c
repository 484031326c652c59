/* The layout that a command line asks for, as the library takes it. */
#include "cli.h"

tsr_status cli_layout_open(cli_session *session, cli_layout *out) {
    const cli_options *o = session->options;
    *out = (cli_layout){TSR_TENSOR_PARALLEL_CONFIG_INIT, TSR_PARALLEL_CONFIG_INIT, NULL};
    out->tp.tp_degree = (int)o->tp;
    out->parallel.tensor_parallel = &out->tp;
    out->parallel.text_encoder_tp = (int)o->text_encoder_tp;
    tsr_status status = o->tp_plan ? tsr_tp_plan_read(session->engine, o->tp_plan, &out->plan) : TSR_OK;
    out->parallel.tp_plan = out->plan;
    return tsr_status_agree(session->engine, status);
}

void cli_layout_close(cli_session *session, cli_layout *layout) { tsr_tp_plan_free(session->engine, layout->plan); }
