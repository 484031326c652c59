/* A plan for people. */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = CLI_PLAN_TEXT };

/* ---- rows of weights ---- */

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

/* A weight, and how many there are that differ from it in an index alone, itself included. */
typedef struct row {
    const tsr_plan_weight *weight;
    size_t count, bytes;
    char name[TEXT];
} row;

/* The rows of a plan, in its order; `each`: a row for every weight. free(3) */
static row *make_rows(const tsr_plan *plan, bool each, size_t *n) {
    row *rows = cli_alloc(plan->n_weights, sizeof *rows);
    *n = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const tsr_plan_weight *w = &plan->weights[i];
        size_t r = each ? *n : 0;
        while (r < *n && !same_row(rows[r].weight, w)) r++;
        if (r == *n) rows[(*n)++].weight = w;
        rows[r].bytes += w->bytes;
        if (rows[r].count++)
            glob_of(w->name, rows[r].name);
        else
            snprintf(rows[r].name, TEXT, "%s", w->name);
    }
    return rows;
}

static void print_row(const row *r) {
    const tsr_plan_weight *w = r->weight;
    char shape[TEXT], local[TEXT], blocks[TEXT] = "";
    if (w->n_blocks > 1) cli_plan_list(w->blocks, w->n_blocks, blocks);
    printf("  %-58s %4zu  %-21s %-15s %-15s %s\n", r->name, r->count, tsr_tp_style_name(w->style),
           cli_plan_list(w->shape, (size_t)w->ndim, shape), cli_plan_list(w->local_shape, (size_t)w->ndim, local),
           blocks);
}

static int larger_first(const void *a, const void *b) {
    const row *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What the plan leaves whole, the largest first. rows [n] are sorted. */
static void print_replicated(const tsr_plan *plan, row *rows, size_t n) {
    enum { SHOWN = 3 };
    char size[32];
    size_t shown = 0, more = 0;
    cli_size_text((double)plan->replicated_bytes, size);
    printf("  whole on every rank: %s, %.2f %% of what it holds", size,
           100.0 * (double)plan->replicated_bytes / (double)plan->ranks[0].weight_bytes);
    qsort(rows, n, sizeof *rows, larger_first);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].weight->style != TSR_REPLICATED) continue;
        if (shown == SHOWN) {
            more++;
            continue;
        }
        cli_size_text((double)rows[i].bytes, size);
        printf("%s%s (%s)", shown++ ? ", " : ": ", rows[i].name, size);
    }
    if (more) printf(", and %zu more (--verbose)", more);
    putchar('\n');
}

/* What is split; what is not is summed up, but for --verbose. */
static void print_weights(const tsr_plan *plan, const cli_options *o) {
    size_t n = 0;
    if (plan->tp_degree == 1 && !o->verbose) return; /* every weight is whole */
    row *rows = make_rows(plan, o->verbose, &n);
    printf("  %-58s %4s  %-21s %-15s %-15s %s\n", "weight", "", "style", "shape", "of a rank", "blocks");
    for (size_t i = 0; i < n; i++)
        if (o->verbose || rows[i].weight->style != TSR_REPLICATED) print_row(&rows[i]);
    if (plan->tp_degree > 1) print_replicated(plan, rows, n);
    free(rows);
}

/* ---- a component ---- */

/* "each of the first 2 ranks holds" */
static void name_holders(const tsr_plan *plan, const cli_options *o, char *who, size_t size) {
    size_t holders = 0;
    for (size_t i = 0; i < plan->n_ranks; i++) holders += plan->ranks[i].weight_bytes > 0;
    if (o->as_rank >= 0)
        snprintf(who, size, "rank %" PRId64 " of %" PRId64 " holds", o->as_rank, o->of);
    else if (holders == plan->n_ranks)
        snprintf(who, size, "%s", holders == 1 ? "the rank holds" : "each rank holds");
    else
        snprintf(who, size, holders == 1 ? "rank 0 alone holds" : "each of the first %zu ranks holds", holders);
}

static void print_summary(const tsr_plan *plan, const cli_options *o) {
    const tsr_plan_rank *r = &plan->ranks[o->as_rank >= 0 ? o->as_rank : 0];
    char whole[32], part[32], who[64];
    cli_size_text((double)plan->whole_bytes, whole);
    cli_size_text((double)r->bytes_to_read, part);
    name_holders(plan, o, who, sizeof who);
    printf("%s: %s, ", plan->component, plan->class_name);
    if (plan->ring_degree > 1) printf("ring %d x ", plan->ring_degree);
    if (plan->ulysses_degree > 1) printf("ulysses %d x ", plan->ulysses_degree);
    printf("tp %d, %s and reads %s of %s; possible degrees: ", plan->tp_degree, who, part, whole);
    for (size_t i = 0; i < plan->n_degrees; i++) printf("%s%d", i ? ", " : "", plan->degrees[i]);
    putchar('\n');
}

static int more_bytes_first(const void *a, const void *b) {
    const tsr_plan_collective *x = a, *y = b;
    uint64_t left = x->count * x->bytes, right = y->count * y->bytes;
    return (left < right) - (left > right);
}

/* The collectives of a step, those that move most first. */
static void print_collectives(const tsr_plan *plan) {
    enum { SHOWN = 3 };
    size_t n = plan->n_collectives;
    uint64_t passes = (uint64_t)plan->passes;
    tsr_plan_collective *sorted = cli_alloc(n, sizeof *sorted);
    if (n) memcpy(sorted, plan->collectives, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, more_bytes_first);
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        char payload[32];
        cli_size_text((double)sorted[i].bytes, payload);
        printf("%s%" PRIu64 " %s (%s) of %s", i ? ", " : ": ", sorted[i].count * passes, sorted[i].op, sorted[i].axis,
               payload);
    }
    if (n > SHOWN) fputs(", and smaller ones", stdout);
    free(sorted);
}

/* All forwards of a step. */
static void print_step(const tsr_plan *plan, const cli_options *o) {
    const tsr_plan_rank *r = &plan->ranks[o->as_rank >= 0 ? o->as_rank : 0];
    char activations[32], sent[32];
    cli_size_text((double)r->activation_bytes, activations);
    cli_size_text((double)plan->bytes_sent_per_rank * plan->passes, sent);
    printf("  activations %s; a step: %d pass%s, %.4g TFLOP a rank", activations, plan->passes,
           plan->passes == 1 ? "" : "es", plan->flops_per_rank * plan->passes / 1e12);
    if (plan->n_collectives) printf(", sends %s", sent);
    print_collectives(plan);
    putchar('\n');
}

/* ---- the ranks' memory ---- */

static size_t needed(const tsr_plan_size *s) { return s->weight_bytes + s->activation_bytes; }

static const tsr_plan_size *size_at(const tsr_plan *plan, int ranks) {
    for (size_t i = 0; i < plan->n_sizes; i++)
        if (plan->sizes[i].ranks == ranks) return &plan->sizes[i];
    return NULL;
}

/* The component that needs most among so many ranks: they are in memory one after another. NULL where one of
 * them does not work. */
static const tsr_plan *largest(const tsr_plan *plans, size_t n, int ranks) {
    const tsr_plan *most = plans;
    for (size_t k = 0; k < n; k++) {
        const tsr_plan_size *size = size_at(&plans[k], ranks);
        if (!size) return NULL;
        if (needed(size) > needed(size_at(most, ranks))) most = &plans[k];
    }
    return most;
}

static void print_memory(const tsr_plan *plans, size_t n, const cli_options *o) {
    char size[32];
    cli_size_text((double)o->memory_per_rank, size);
    printf("memory that a rank needs, by the number of ranks%s%s:", o->memory_per_rank ? ", of " : "",
           o->memory_per_rank ? size : "");
    for (size_t i = 0; i < plans[0].n_sizes; i++) {
        int ranks = plans[0].sizes[i].ranks;
        const tsr_plan *most = largest(plans, n, ranks);
        if (!most) continue;
        cli_size_text((double)needed(size_at(most, ranks)), size);
        printf("%s %d: %s", i ? "," : "", ranks, size);
        if (n > 1) printf(" (%s)", most->component);
        if (o->memory_per_rank) fputs(size_at(most, ranks)->fits ? " fits" : " too much", stdout);
    }
    putchar('\n');
}

void cli_plan_print_table(const tsr_plan *plans, size_t n, const cli_options *o) {
    printf("for %" PRId64 "x%" PRId64 " pixels, %" PRId64 " text tokens, %" PRId64 " picture%s of a prompt\n",
           plans->width, plans->height, plans->max_sequence_length, plans->num_images_per_prompt,
           plans->num_images_per_prompt == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        print_summary(&plans[i], o);
        print_step(&plans[i], o);
        print_weights(&plans[i], o);
    }
    print_memory(plans, n, o);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < plans[i].n_problems; k++)
            printf("problem: %s: %s\n", plans[i].component, plans[i].problems[k]);
}
