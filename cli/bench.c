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
    static const char *const later[] = {"collectives", "image"};
    const char *what = o->arguments[0];
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(what, later[i]) == 0) return cli_usage(o->command, "bench '%s' is not in this version", what);
    }
    if (strcmp(what, "step") != 0)
        return cli_usage(o->command, "unknown measurement '%s'; there are 'step' and 'load'", what);
    if (o->n_arguments > 1) return cli_usage(o->command, "too much: '%s'", o->arguments[1]);
    if (o->tp > 1) return cli_usage(o->command, "bench step runs on one rank in this version");
    if (o->cold || o->mode) return cli_usage(o->command, "--cold and --mode belong to bench load");
    if (!o->config) return cli_usage(o->command, "--config FILE is missing");
    if (!o->random) return cli_usage(o->command, "--random-weights is missing; no checkpoint is read");
    return CLI_DONE;
}

int cli_bench(const cli_options *options) {
    if (strcmp(options->arguments[0], "load") == 0) return cli_bench_load(options);
    int result = check_usage(options);
    if (tsr_launcher_rank() > 0) return result;
    cli_session session;
    if (result == CLI_DONE) result = cli_session_open(options, &session);
    if (result != CLI_DONE) return result;
    cli_catch_signals();
    tsr_bench_step_options o = TSR_BENCH_STEP_OPTIONS_INIT;
    const char *dtype = options->dtype ? options->dtype : "float32";
    const char *weights = options->weights ? options->weights : "bfloat16";
    o.config = options->config;
    o.tokens = options->tokens;
    o.text_tokens = options->text_tokens;
    o.layers = options->layers;
    o.other_layers = options->single_layers;
    o.dtype = tsr_dtype_from_name(dtype);
    o.weights = tsr_dtype_from_name(weights);
    if (options->repeats) o.repeats = (int)options->repeats;
    o.force = options->force;
    tsr_bench_step_result measured = {0};
    tsr_status status = tsr_bench_step(session.engine, &o, &measured);
    if (status == TSR_OK) {
        row rows[MAX_ROWS];
        size_t n = make_rows(&o, &measured, rows);
        const char *device = tsr_engine_device_description(session.engine);
        (options->json ? print_json : print_table)(device, dtype, weights, rows, n);
    } else {
        result = cli_session_error(&session, NULL, status);
    }
    cli_session_close(&session);
    return result;
}
