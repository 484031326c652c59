#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "cli.h"

/* A row of the report. Units: "" a count, "B" bytes, "s" seconds, and so on. */
typedef struct row {
    const char *key, *label, *unit;
    double value;
} row;

enum { MAX_ROWS = 16 };

static double peak_resident_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? 1024.0 * (double)usage.ru_maxrss : 0.0;
}

static size_t make_rows(const tsr_bench_step_options *o, const tsr_bench_step_result *r, row rows[MAX_ROWS]) {
    double peak = peak_resident_bytes(), planned = (double)r->weight_bytes + (double)r->activation_bytes;
    const row all[] = {
        {"tokens", "image tokens", "", (double)o->tokens},
        {"text_tokens", "text tokens", "", (double)o->text_tokens},
        {"weight_bytes", "weights", "B", (double)r->weight_bytes},
        {"activation_bytes", "activations, predicted", "B", (double)r->activation_bytes},
        {"peak_resident_bytes", "peak resident memory", "B", peak},
        {"overhead_bytes", "  above weights and activations", "B", peak - planned},
        {"bytes_sent", "sent by this rank in a step", "B", (double)r->bytes_sent},
        {"flops", "one step", "TFLOP", r->flops},
        {"seconds", "seconds a step, best", "s", r->seconds},
        {"gflops", "rate of the step", "GFLOP/s", r->flops / r->seconds / 1e9},
        {"yardstick_gflops", "yardstick: float32 GEMM 1536x3072x9216", "GFLOP/s", r->yardstick_gflops},
        {"ratio", "step / (FLOPs at the yardstick's rate)", "", r->ratio},
    };
    memcpy(rows, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void print_value(const row *r) {
    char size[32];
    if (strcmp(r->unit, "B") == 0) {
        cli_size_text(r->value < 0 ? -r->value : r->value, size);
        printf("%s%s\n", r->value < 0 ? "-" : "", size);
    } else if (strcmp(r->unit, "TFLOP") == 0) {
        printf("%.4f TFLOP\n", r->value / 1e12);
    } else {
        printf("%.*f %s\n", r->value == (double)(int64_t)r->value ? 0 : 3, r->value, r->unit);
    }
}

static void print_table(const char *device, const char *dtype, const char *weights, const row *rows, size_t n) {
    printf("%-40s %s\n%-40s %s\n%-40s %s\n", "device", device, "arithmetic", dtype, "weights in memory", weights);
    for (size_t i = 0; i < n; i++) {
        printf("%-40s ", rows[i].label);
        print_value(&rows[i]);
    }
}

static void print_json(const char *device, const char *dtype, const char *weights, const row *rows, size_t n) {
    fputs("{\"device\": ", stdout);
    cli_print_json_string(device);
    printf(", \"dtype\": \"%s\", \"weights\": \"%s\"", dtype, weights);
    for (size_t i = 0; i < n; i++) printf(", \"%s\": %.17g", rows[i].key, rows[i].value);
    puts("}");
}

static int check_usage(const cli_options *o) {
    const char *what = o->arguments[0];
    if (strcmp(what, "image") == 0) return cli_usage(o->command, "bench '%s' is not in this version", what);
    if (strcmp(what, "step") != 0)
        return cli_usage(o->command, "unknown measurement '%s'; there are 'step', 'load' and 'collectives'", what);
    if (o->n_arguments > 1) return cli_usage(o->command, "too much: '%s'", o->arguments[1]);
    if (!o->config) return cli_usage(o->command, "--config FILE is missing");
    if (!o->random) return cli_usage(o->command, "--random-weights is missing; no checkpoint is read");
    return CLI_DONE;
}

static const char *dtype_of(const cli_options *o) { return o->dtype ? o->dtype : "float32"; }
static const char *weights_of(const cli_options *o) { return o->weights ? o->weights : "bfloat16"; }

static tsr_status step(cli_session *session, void *user) {
    const tsr_bench_step_options *o = user;
    const cli_options *options = session->options;
    tsr_bench_step_options own = *o;
    tsr_bench_step_result measured = {0};
    cli_layout layout;
    tsr_status status = cli_layout_open(session, &layout);
    own.parallel = &layout.parallel;
    if (status == TSR_OK) status = tsr_bench_step(session->engine, &own, &measured);
    cli_layout_close(session, &layout);
    if (status != TSR_OK || tsr_engine_rank(session->engine) > 0) return status;
    row rows[MAX_ROWS];
    size_t n = make_rows(o, &measured, rows);
    (options->json ? print_json : print_table)(tsr_engine_device_description(session->engine), dtype_of(options),
                                               weights_of(options), rows, n);
    return TSR_OK;
}

static int bench_step(const cli_options *options) {
    int result = check_usage(options);
    if (result == CLI_DONE) result = cli_want_folder(options->config, CLI_COMPONENT);
    if (result != CLI_DONE) return result;
    tsr_bench_step_options o = TSR_BENCH_STEP_OPTIONS_INIT;
    o.config = options->config;
    o.tokens = options->tokens;
    o.text_tokens = options->text_tokens;
    o.layers = options->layers;
    o.other_layers = options->single_layers;
    o.dtype = tsr_dtype_from_name(dtype_of(options));
    o.weights = tsr_dtype_from_name(weights_of(options));
    if (options->repeats) o.repeats = (int)options->repeats;
    o.force = options->force;
    return cli_launch(options, step, &o);
}

int cli_bench(const cli_options *options) {
    if (strcmp(options->arguments[0], "load") == 0) return cli_bench_load(options);
    if (strcmp(options->arguments[0], "collectives") == 0) return cli_bench_collectives(options);
    return bench_step(options);
}
