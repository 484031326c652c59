/* What each rank would hold and read. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"

enum { TEXT = 320 };

/* "[64, 128]" */
static const char *list_text(const int64_t *numbers, size_t n, char text[TEXT]) {
    size_t at = (size_t)snprintf(text, TEXT, "[");
    for (size_t i = 0; i < n && at < TEXT; i++)
        at += (size_t)snprintf(text + at, TEXT - at, "%s%" PRId64, i ? ", " : "", numbers[i]);
    if (at < TEXT) snprintf(text + at, TEXT - at, "]");
    return text;
}

static void print_degrees(const tsr_plan *plan) {
    for (size_t i = 0; i < plan->n_degrees; i++) printf("%s%d", i ? ", " : "", plan->degrees[i]);
}

/* The first ranks share a component; the others hold nothing of it. */
static size_t bytes_of(const tsr_plan *plan, int64_t rank) { return rank < plan->tp_degree ? plan->rank_bytes : 0; }

/* ---- for programs ---- */

static void print_json_weight(const tsr_plan_weight *w) {
    char text[TEXT];
    fputs("{\"name\": ", stdout);
    cli_print_json_string(w->name);
    printf(", \"style\": \"%s\", \"dtype\": \"%s\"", tsr_tp_style_name(w->style), tsr_dtype_name(w->dtype));
    printf(", \"shape\": %s", list_text(w->shape, (size_t)w->ndim, text));
    if (w->dim < 0)
        fputs(", \"dim\": null", stdout);
    else
        printf(", \"dim\": %d", w->dim);
    printf(", \"block_sizes\": %s", list_text(w->blocks, w->n_blocks, text));
    printf(", \"local_shape\": %s}", list_text(w->local_shape, (size_t)w->ndim, text));
}

static void print_json_ranks(const tsr_plan *plan, const cli_options *o) {
    int64_t first = o->as_rank >= 0 ? o->as_rank : 0, last = o->as_rank >= 0 ? o->as_rank : o->tp - 1;
    for (int64_t rank = first; rank <= last; rank++)
        printf("%s{\"rank\": %" PRId64 ", \"weight_bytes\": %zu, \"bytes_to_read\": %zu}", rank > first ? ", " : "",
               rank, bytes_of(plan, rank), bytes_of(plan, rank));
}

static void print_json(const tsr_plan *plan, const cli_options *o) {
    printf("{\"component\": \"%s\", \"class\": \"%s\", ", plan->component, plan->class_name);
    printf("\"mesh\": {\"ring\": 1, \"ulysses\": 1, \"tp\": %d},\n \"ranks\": [", plan->tp_degree);
    print_json_ranks(plan, o);
    fputs("],\n \"weights\": [", stdout);
    for (size_t i = 0; i < plan->n_weights; i++) {
        if (i) fputs(",\n  ", stdout);
        print_json_weight(&plan->weights[i]);
    }
    fputs("],\n \"tp_degrees\": [", stdout);
    print_degrees(plan);
    fputs("], \"problems\": []}", stdout);
}

static void print_json_all(const tsr_plan *plans, size_t n, const cli_options *o) {
    if (n > 1) putchar('[');
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(",\n", stdout);
        print_json(&plans[i], o);
    }
    puts(n > 1 ? "]" : "");
}

/* ---- for people ---- */

/* The name with "*" for its first index, as plans write it. */
static void glob_of(const char *name, char glob[TEXT]) {
    const char *at = name;
    size_t digits = 0;
    while ((at = strchr(at, '.')) && !(digits = strspn(++at, "0123456789")))
        ;
    if (at)
        snprintf(glob, TEXT, "%.*s*%s", (int)(at - name), name, at + digits);
    else
        snprintf(glob, TEXT, "%s", name);
}

static bool same_row(const tsr_plan_weight *a, const tsr_plan_weight *b) {
    char left[TEXT], right[TEXT];
    if (a->style != b->style || a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0)
        return false;
    glob_of(a->name, left);
    glob_of(b->name, right);
    return strcmp(left, right) == 0;
}

/* A row for weight i and those that differ from it in an index alone; nothing where an earlier row has it. */
static void print_row(const tsr_plan *plan, size_t i, bool each) {
    const tsr_plan_weight *w = &plan->weights[i];
    char name[TEXT], shape[TEXT], local[TEXT], blocks[TEXT] = "";
    size_t count = 1;
    for (size_t k = 0; k < i && !each; k++)
        if (same_row(&plan->weights[k], w)) return;
    for (size_t k = i + 1; k < plan->n_weights && !each; k++) count += same_row(&plan->weights[k], w);
    if (count > 1)
        glob_of(w->name, name);
    else
        snprintf(name, sizeof name, "%s", w->name);
    if (w->n_blocks > 1) list_text(w->blocks, w->n_blocks, blocks);
    printf("  %-58s %4zu  %-15s %-15s %-15s %s\n", name, count, tsr_tp_style_name(w->style),
           list_text(w->shape, (size_t)w->ndim, shape), list_text(w->local_shape, (size_t)w->ndim, local), blocks);
}

static void print_summary(const tsr_plan *plan, const cli_options *o) {
    char whole[32], part[32], who[64];
    cli_size_text((double)plan->whole_bytes, whole);
    cli_size_text((double)(o->as_rank >= 0 ? bytes_of(plan, o->as_rank) : plan->rank_bytes), part);
    if (o->as_rank >= 0)
        snprintf(who, sizeof who, "rank %" PRId64 " of %" PRId64 " holds", o->as_rank, o->of);
    else if (plan->tp_degree == o->tp)
        snprintf(who, sizeof who, "%s", o->tp == 1 ? "the rank holds" : "each rank holds");
    else
        snprintf(who, sizeof who, plan->tp_degree == 1 ? "rank 0 alone holds" : "each of the first %d ranks holds",
                 plan->tp_degree);
    printf("%s: %s, tp %d, %s and reads %s of %s; possible degrees: ", plan->component, plan->class_name,
           plan->tp_degree, who, part, whole);
    print_degrees(plan);
    putchar('\n');
}

static void print_table(const tsr_plan *plan, const cli_options *o) {
    print_summary(plan, o);
    if (plan->tp_degree == 1 && !o->verbose) return; /* every weight is whole */
    printf("  %-58s %4s  %-15s %-15s %-15s %s\n", "weight", "", "style", "shape", "of a rank", "blocks");
    for (size_t i = 0; i < plan->n_weights; i++) print_row(plan, i, o->verbose);
}

int cli_plan(const cli_options *options) {
    cli_session session;
    int result = cli_session_open(options, &session);
    if (result != CLI_DONE) return result;
    tsr_plan *plans = NULL;
    size_t n = 0;
    tsr_status status = tsr_plan_make(session.engine, options->arguments[0], (int)options->tp,
                                      (int)options->text_encoder_tp, &plans, &n);
    if (status != TSR_OK)
        result = cli_session_error(&session, NULL, status);
    else if (options->json)
        print_json_all(plans, n, options);
    for (size_t i = 0; i < n && !options->json; i++) print_table(&plans[i], options);
    tsr_plans_free(session.engine, plans, n);
    cli_session_close(&session);
    return result;
}
