/* bench collectives: latency, bandwidth, and what hides behind work. */
#include "cli.h"

static void print_table(const cli_options *o, const tsr_bench_collectives_result *r) {
    char layout[80], size[32];
    cli_layout_text(o, layout, sizeof layout);
    cli_size_text((double)r->bytes, size);
    printf("%s, %s a call; times of the slowest rank\n\n%-14s %12s %12s %12s\n", layout, size, "operation", "latency",
           "time", "rate");
    for (int i = 0; i < TSR_BENCH_N_COLLECTIVES; i++) {
        const tsr_bench_collective *c = &r->collectives[i];
        printf("%-14s %9.1f us %9.3f ms %7.2f GB/s\n", c->name, c->latency * 1e6, c->seconds * 1e3,
               (double)r->bytes / c->seconds / 1e9);
    }
    printf("\npassing %s on: %.3f ms; work: %.3f ms; both at once: %.3f ms; hidden: %.2f\n", size,
           r->exchange_seconds * 1e3, r->work_seconds * 1e3, r->both_seconds * 1e3, r->hidden);
}

static void print_json(const tsr_bench_collectives_result *r) {
    printf("{\"bytes\": %zu, \"collectives\": {", r->bytes);
    for (int i = 0; i < TSR_BENCH_N_COLLECTIVES; i++)
        printf("%s\"%s\": {\"latency\": %.9g, \"seconds\": %.9g}", i ? ", " : "", r->collectives[i].name,
               r->collectives[i].latency, r->collectives[i].seconds);
    printf("}, \"exchange_seconds\": %.9g, \"work_seconds\": %.9g, \"both_seconds\": %.9g, \"hidden\": %.9g}\n",
           r->exchange_seconds, r->work_seconds, r->both_seconds, r->hidden);
}

static tsr_status measure(cli_session *session, void *user) {
    (void)user;
    const cli_options *o = session->options;
    tsr_bench_collectives_options wanted = TSR_BENCH_COLLECTIVES_OPTIONS_INIT;
    tsr_bench_collectives_result result;
    if (o->bytes) wanted.bytes = (size_t)o->bytes;
    if (o->repeats) wanted.repeats = (int)o->repeats;
    tsr_status status = tsr_bench_collectives(session->engine, &wanted, &result);
    if (status != TSR_OK || tsr_engine_rank(session->engine) > 0) return status;
    if (o->json)
        print_json(&result);
    else
        print_table(o, &result);
    return TSR_OK;
}

int cli_bench_collectives(const cli_options *options) {
    if (options->n_arguments > 1) return cli_usage(options->command, "too much: '%s'", options->arguments[1]);
    if (cli_n_ranks(options) == 1 && tsr_launcher_size() <= 1)
        return cli_usage(options->command, "bench collectives needs ranks to send between: give --tp N");
    return cli_launch(options, measure, NULL);
}
