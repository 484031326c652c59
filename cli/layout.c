/* The layout that a command line asks for, as the library takes it. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"

tsr_status cli_layout_open(cli_session *session, cli_layout *out) {
    const cli_options *o = session->options;
    *out =
        (cli_layout){TSR_TENSOR_PARALLEL_CONFIG_INIT, TSR_CONTEXT_PARALLEL_CONFIG_INIT, TSR_PARALLEL_CONFIG_INIT, NULL};
    out->tp.tp_degree = (int)o->tp;
    out->parallel.tensor_parallel = &out->tp;
    out->cp.ring_degree = (int)o->ring;
    out->cp.ulysses_degree = (int)o->ulysses;
    out->cp.convert_to_fp32 = !o->no_convert_to_fp32;
    out->cp.ring_anything = o->ring_anything;
    out->cp.ulysses_anything = o->ulysses_anything;
    if (o->rotate_method && strcmp(o->rotate_method, "alltoall") == 0) out->cp.rotate_method = TSR_ROTATE_ALLTOALL;
    bool context = o->ring > 1 || o->ulysses > 1 || o->ring_anything || o->ulysses_anything;
    out->parallel.context_parallel = context ? &out->cp : NULL;
    out->parallel.text_encoder_tp = (int)o->text_encoder_tp;
    tsr_status status = o->tp_plan ? tsr_tp_plan_read(session->engine, o->tp_plan, &out->plan) : TSR_OK;
    out->parallel.tp_plan = out->plan;
    return tsr_status_agree(session->engine, status);
}

void cli_layout_close(cli_session *session, cli_layout *layout) { tsr_tp_plan_free(session->engine, layout->plan); }

/* The degrees above 1, each behind `before`, with `between` between them. */
static void list_degrees(const cli_options *o, const char *before, const char *between, char *text, size_t size) {
    const struct {
        const char *name;
        int64_t degree;
    } axes[] = {{"ring", o->ring}, {"ulysses", o->ulysses}, {"tp", o->tp}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (axes[i].degree > 1)
            used += (size_t)snprintf(text + used, size - used, "%s%s%s %" PRId64, used ? between : "", before,
                                     axes[i].name, axes[i].degree);
}

void cli_layout_text(const cli_options *o, char *text, size_t size) {
    snprintf(text, size, "1 rank");
    list_degrees(o, "", " x ", text, size);
}

void cli_layout_options(const cli_options *o, int64_t ranks, char *text, size_t size) {
    snprintf(text, size, "--tp %" PRId64, ranks);
    list_degrees(o, "--", " ", text, size);
}
