/* bench load: a component's weights in three ways. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *key, *label;
    size_t offset;
} parts[] = {
    {"plain", "plain read", offsetof(tsr_bench_load_result, plain)},
    {"streamed", "streamed", offsetof(tsr_bench_load_result, streamed)},
    {"whole", "whole, then cut", offsetof(tsr_bench_load_result, whole)},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static const tsr_bench_load_part *part_of(const tsr_bench_load_result *r, size_t i) {
    return (const tsr_bench_load_part *)(const void *)((const char *)r + parts[i].offset);
}

/* Bytes beyond the rank's part. */
static size_t beyond(const tsr_bench_load_result *r, const tsr_bench_load_part *p) {
    return p->peak > r->weight_bytes ? p->peak - r->weight_bytes : 0;
}

static void print_part(const tsr_bench_load_result *r, size_t i) {
    const tsr_bench_load_part *p = part_of(r, i);
    char read[32], over[32], resident[32];
    if (p->seconds <= 0) return;
    cli_size_text((double)p->bytes_read, read);
    cli_size_text((double)beyond(r, p), over);
    cli_size_text((double)p->peak_resident, resident);
    printf("%4d  %-15s %9.3f s  %8.3f  %10s  %7.2f GB/s  %10s  %10s\n", r->rank, parts[i].label, p->seconds,
           p->seconds / r->plain.seconds, read, (double)p->bytes_read / p->seconds / 1e9, over, resident);
}

static void print_table(const cli_options *o, const tsr_bench_load_result *results, size_t n) {
    char size[32];
    cli_size_text((double)results[0].weight_bytes, size);
    printf("%s: a rank's part is %s; page cache %s, the best of %" PRId64 "\n\n", o->arguments[1], size,
           o->cold ? "dropped before each" : "warm", o->repeats);
    printf("rank  %-15s %11s  %8s  %10s  %12s  %10s  %10s\n", "way", "time", "of plain", "read", "rate", "beyond",
           "resident");
    for (size_t i = 0; i < N_PARTS; i++)
        for (size_t r = 0; r < n; r++) print_part(&results[r], i);
    puts("\ntime: until the slowest rank was done; beyond: most allocated at a time beyond the rank's part;\n"
         "resident: most of the whole process");
}

static void print_json(const cli_options *o, const tsr_bench_load_result *results, size_t n) {
    fputs("{\"folder\": ", stdout);
    cli_print_json_string(o->arguments[1]);
    printf(", \"page_cache\": \"%s\", \"repeats\": %" PRId64 ", \"ranks\": [", o->cold ? "cold" : "warm", o->repeats);
    for (size_t r = 0; r < n; r++) {
        printf("%s{\"rank\": %d, \"weight_bytes\": %zu", r ? ", " : "", results[r].rank, results[r].weight_bytes);
        for (size_t i = 0; i < N_PARTS; i++) {
            const tsr_bench_load_part *p = part_of(&results[r], i);
            printf(", \"%s\": ", parts[i].key);
            if (p->seconds > 0)
                printf("{\"seconds\": %.9g, \"ratio\": %.6g, \"bytes_read\": %" PRIu64
                       ", \"peak_bytes\": %zu, \"beyond_bytes\": %zu, \"peak_resident_bytes\": %zu}",
                       p->seconds, p->seconds / results[r].plain.seconds, p->bytes_read, p->peak,
                       beyond(&results[r], p), p->peak_resident);
            else
                fputs("null", stdout);
        }
        putchar('}');
    }
    puts("]}");
}

static tsr_bench_load_mode mode_of(const char *name) {
    if (name && strcmp(name, "streamed") == 0) return TSR_LOAD_STREAMED;
    return name && strcmp(name, "whole") == 0 ? TSR_LOAD_WHOLE : TSR_LOAD_BOTH;
}

static tsr_status load(cli_session *session, void *user) {
    const cli_options *o = session->options;
    size_t n = (size_t)o->tp;
    tsr_bench_load_result *results = user;
    tsr_bench_load_result *own = cli_alloc(n, sizeof *own);
    tsr_bench_load_options wanted = TSR_BENCH_LOAD_OPTIONS_INIT;
    wanted.folder = o->arguments[1];
    wanted.tp_degree = (int)(o->as_rank >= 0 ? o->of : o->tp);
    wanted.as_rank = (int)o->as_rank;
    wanted.force = o->force;
    wanted.cold = o->cold;
    wanted.repeats = (int)o->repeats;
    wanted.mode = mode_of(o->mode);
    tsr_status status = tsr_bench_load(session->engine, &wanted, own);
    if (status == TSR_OK && tsr_engine_rank(session->engine) == 0) memcpy(results, own, n * sizeof *own);
    free(own);
    return status;
}

int cli_bench_load(const cli_options *options) {
    if (options->n_arguments < 2 || !*options->arguments[1])
        return cli_usage(options->command, "bench load FOLDER: the folder is missing");
    if (cli_want_folder(options->arguments[1], CLI_COMPONENT) != CLI_DONE) return CLI_FAILED;
    cli_options layout = *options; /* a rank that is imagined is alone */
    if (options->as_rank >= 0) layout.tp = 1;
    if (!options->repeats) layout.repeats = 5;
    size_t n = (size_t)layout.tp;
    tsr_bench_load_result *results = cli_alloc(n, sizeof *results);
    int result = cli_launch(&layout, load, results);
    if (result == CLI_DONE && tsr_launcher_rank() == 0) (options->json ? print_json : print_table)(&layout, results, n);
    free(results);
    return result;
}
