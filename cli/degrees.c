/* How many ranks a command line asks for. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MAX_DEGREE = 1024 };

/* "name=N" of n letters at `axis`. *degree: where that axis is kept. */
static bool read_axis(const char *axis, size_t n, cli_options *o, int64_t **degree, int64_t *value) {
    const struct {
        const char *name;
        int64_t *at;
    } axes[] = {{"tp=", &o->tp}, {"ring=", &o->ring}, {"ulysses=", &o->ulysses}};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        size_t length = strlen(axes[i].name);
        if (n <= length || strncmp(axis, axes[i].name, length) != 0) continue;
        char *end;
        errno = 0;
        *value = strtoll(axis + length, &end, 10);
        *degree = axes[i].at;
        return end == axis + n && axis[length] >= '0' && axis[length] <= '9' && errno == 0;
    }
    return false;
}

static int read_mesh(cli_options *o) {
    const int64_t *seen[3];
    size_t n_seen = 0;
    for (const char *axis = o->mesh, *next; axis; axis = next) {
        size_t n = strcspn(axis, ",");
        int64_t *degree = NULL, value = 0;
        next = axis[n] ? axis + n + 1 : NULL;
        if (!read_axis(axis, n, o, &degree, &value) || value < 1 || value > MAX_DEGREE)
            return cli_usage(o->command,
                             "--mesh takes axes like ring=1,ulysses=1,tp=2 with sizes from 1 to %d, not '%s'",
                             MAX_DEGREE, o->mesh);
        for (size_t i = 0; i < n_seen; i++)
            if (seen[i] == degree)
                return cli_usage(o->command, "--mesh %s: '%.*s' names an axis again", o->mesh, (int)n, axis);
        seen[n_seen++] = degree;
        if (*degree && *degree != value)
            return cli_usage(o->command, "--mesh %s: '%.*s' contradicts a size given before", o->mesh, (int)n, axis);
        *degree = value;
    }
    return CLI_DONE;
}

/* --as-rank R --of N: the layout is that of N ranks. */
static int read_as_rank(cli_options *o) {
    if (o->as_rank < 0 && !o->of) return CLI_DONE;
    if (o->as_rank < 0 || !o->of) return cli_usage(o->command, "--as-rank R and --of N belong together");
    if (o->as_rank >= o->of)
        return cli_usage(o->command, "--as-rank %" PRId64 " --of %" PRId64 ": ranks count from 0 to %" PRId64,
                         o->as_rank, o->of, o->of - 1);
    if (o->tp && o->tp != o->of)
        return cli_usage(o->command, "--tp %" PRId64 " and --of %" PRId64 " contradict each other", o->tp, o->of);
    o->tp = o->of;
    return CLI_DONE;
}

int64_t cli_n_ranks(const cli_options *o) { return o->ring * o->ulysses * o->tp; }

/* Options that say how ranks share a sequence. */
static int check_sharing(const cli_options *o) {
    const struct {
        const char *option, *axis;
        bool given;
        int64_t degree;
    } rows[] = {{"rotate-method", "ring", o->rotate_method, o->ring},
                {"ring-anything", "ring", o->ring_anything, o->ring},
                {"ulysses-anything", "ulysses", o->ulysses_anything, o->ulysses}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].given && rows[i].degree == 1)
            return cli_usage(o->command, "--%s needs --%s N with N above 1", rows[i].option, rows[i].axis);
    return CLI_DONE;
}

static int check_encoder(const cli_options *o) {
    int64_t n = cli_n_ranks(o), asked = o->text_encoder_tp;
    if (asked <= n) return CLI_DONE;
    return cli_usage(o->command,
                     "--text-encoder-tp %" PRId64 ": there %s %" PRId64 " rank%s; give at most so many, or more ranks "
                     "(for example --tp %" PRId64 ")",
                     asked, n == 1 ? "is" : "are", n, n == 1 ? "" : "s", asked);
}

int cli_degrees_resolve(cli_options *o) {
    int status = read_mesh(o);
    if (status == CLI_DONE) status = read_as_rank(o);
    if (status != CLI_DONE) return status;
    if (!o->ring) o->ring = 1;
    if (!o->ulysses) o->ulysses = 1;
    if (!o->tp) o->tp = 1;
    status = check_sharing(o);
    return status == CLI_DONE ? check_encoder(o) : status;
}
