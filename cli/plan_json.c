/* A plan for programs. */
#include "plan.h"

#include <inttypes.h>

static void print_weight(const tsr_plan_weight *w) {
    char text[CLI_PLAN_TEXT];
    fputs("{\"name\": ", stdout);
    cli_print_json_string(w->name);
    printf(", \"style\": \"%s\", \"dtype\": \"%s\"", tsr_tp_style_name(w->style), tsr_dtype_name(w->dtype));
    printf(", \"shape\": %s", cli_plan_list(w->shape, (size_t)w->ndim, text));
    if (w->dim < 0)
        fputs(", \"dim\": null", stdout);
    else
        printf(", \"dim\": %d", w->dim);
    printf(", \"block_sizes\": %s", cli_plan_list(w->blocks, w->n_blocks, text));
    printf(", \"local_shape\": %s}", cli_plan_list(w->local_shape, (size_t)w->ndim, text));
}

static void print_ranks(const tsr_plan *plan, const cli_options *o) {
    size_t first = o->as_rank >= 0 ? (size_t)o->as_rank : 0, end = o->as_rank >= 0 ? first + 1 : plan->n_ranks;
    for (size_t i = first; i < end; i++) {
        const tsr_plan_rank *r = &plan->ranks[i];
        printf("%s{\"rank\": %zu, \"weight_bytes\": %zu, \"activation_bytes\": %zu, \"bytes_to_read\": %zu}",
               i > first ? ", " : "", i, r->weight_bytes, r->activation_bytes, r->bytes_to_read);
    }
}

/* All forwards of a step. */
static void print_step(const tsr_plan *plan) {
    uint64_t passes = (uint64_t)plan->passes;
    printf("{\"passes\": %d, \"collectives\": [", plan->passes);
    for (size_t i = 0; i < plan->n_collectives; i++) {
        const tsr_plan_collective *c = &plan->collectives[i];
        printf("%s{\"op\": \"%s\", \"axis\": \"%s\", \"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", i ? ", " : "",
               c->op, c->axis, c->count * passes, c->bytes);
    }
    printf("], \"bytes_sent_per_rank\": %" PRIu64 ", \"flops_per_rank\": %.0f}", plan->bytes_sent_per_rank * passes,
           plan->flops_per_rank * plan->passes);
}

static void print_sizes(const tsr_plan *plan, const cli_options *o) {
    for (size_t i = 0; i < plan->n_sizes; i++) {
        const tsr_plan_size *s = &plan->sizes[i];
        printf("%s{\"ranks\": %d, \"tp\": %d, \"weight_bytes\": %zu, \"activation_bytes\": %zu, \"fits\": %s}",
               i ? ", " : "", s->ranks, s->tp_degree, s->weight_bytes, s->activation_bytes,
               !o->memory_per_rank ? "null"
               : s->fits           ? "true"
                                   : "false");
    }
}

static void print_plan(const tsr_plan *plan, const cli_options *o) {
    printf("{\"component\": \"%s\", \"class\": \"%s\", ", plan->component, plan->class_name);
    printf("\"mesh\": {\"ring\": 1, \"ulysses\": 1, \"tp\": %d},\n", plan->tp_degree);
    printf(" \"height\": %" PRId64 ", \"width\": %" PRId64 ", \"max_sequence_length\": %" PRId64
           ", \"num_images_per_prompt\": %" PRId64 ",\n \"ranks\": [",
           plan->height, plan->width, plan->max_sequence_length, plan->num_images_per_prompt);
    print_ranks(plan, o);
    fputs("],\n \"weights\": [", stdout);
    for (size_t i = 0; i < plan->n_weights; i++) {
        if (i) fputs(",\n  ", stdout);
        print_weight(&plan->weights[i]);
    }
    printf("],\n \"whole_bytes\": %zu, \"replicated_bytes\": %zu,\n \"step\": ", plan->whole_bytes,
           plan->replicated_bytes);
    print_step(plan);
    fputs(",\n \"sizes\": [", stdout);
    print_sizes(plan, o);
    fputs("],\n \"tp_degrees\": [", stdout);
    for (size_t i = 0; i < plan->n_degrees; i++) printf("%s%d", i ? ", " : "", plan->degrees[i]);
    fputs("], \"problems\": [", stdout);
    for (size_t i = 0; i < plan->n_problems; i++) {
        if (i) fputs(", ", stdout);
        cli_print_json_string(plan->problems[i]);
    }
    fputs("]}", stdout);
}

void cli_plan_print_json(const tsr_plan *plans, size_t n, const cli_options *options) {
    if (n > 1) putchar('[');
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(",\n", stdout);
        print_plan(&plans[i], options);
    }
    puts(n > 1 ? "]" : "");
}
