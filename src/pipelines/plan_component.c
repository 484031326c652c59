/* The plan of one component: its tree split as each rank would have it, and the meta run of its forward there. */
#include "pipelines/plan.h"

#include "base/text.h"

#include <string.h>

/* Are the ranks those of the transformer, or of a component alone? Others of a pipeline have a layout of their own. */
static bool has_all_ranks(const tsr__planning *p, const tsr_model *model) {
    return !p->is_pipeline || strcmp(model->component, "transformer") == 0;
}

/* --- a model as one rank would have it --- */

typedef struct trial {
    tsr__layout layout;
    tsr__exec *exec;
    tsr__graph *graph;
    tsr_plan_rank needs;
} trial;

static void end(trial *t) {
    tsr__exec_destroy(t->exec);
    tsr__layout_close(&t->layout);
}

static tsr_status make_whole(tsr_model *model) {
    TSR__TRY(tsr__model_unsplit(model));
    return tsr__model_has_plan(model) ? tsr__model_mark(model) : TSR_OK;
}

/* What a pipeline keeps beside a forward: the text of each pass, and latents, which a further pass adds its prediction
 * to. */
static size_t kept_bytes(const tsr__planning *p, const tsr__call *call) {
    size_t bytes = 0;
    if (!p->is_pipeline || strcmp(call->model->component, "transformer") != 0) return 0;
    for (int i = 0; i < TSR__MAX_ARGUMENTS; i++) {
        const tsr_tensor *t = &call->inputs[i];
        if (t->ndim == 3) bytes += tsr_tensor_bytes(t) * (size_t)p->picture.passes;
    }
    return bytes;
}

static tsr_status record(const tsr__planning *p, const tsr_model *model, trial *t) {
    tsr__call call = tsr__call_for_picture(model, &p->picture);
    TSR__TRY(tsr__exec_create(p->engine, model->dtype, &t->exec));
    TSR__TRY(tsr__exec_record(t->exec, tsr__call_forward, &call, &t->graph));
    size_t activations = tsr__exec_activation_bytes(t->exec) + kept_bytes(p, &call);
    t->needs = (tsr_plan_rank){model->weight_bytes, activations, model->weight_bytes};
    return TSR_OK;
}

/* Rank `rank` of those that share the model, tp `degree` of them its weights. The model is theirs until the next trial.
 */
static tsr_status begin(const tsr__planning *p, tsr_model *model, int rank, int degree, trial *out) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    trial t = {.exec = NULL};
    tensor.tp_degree = degree;
    parallel.tensor_parallel = &tensor;
    if (has_all_ranks(p, model)) parallel.context_parallel = p->parallel.context_parallel;
    TSR__TRY(make_whole(model));
    TSR__TRY(tsr__layout_imagine(p->engine, &parallel, rank, &t.layout));
    tsr_status status = tsr__model_lay_out(model, &t.layout);
    if (status == TSR_OK) status = record(p, model, &t);
    if (status != TSR_OK) {
        end(&t);
        return status;
    }
    *out = t;
    return TSR_OK;
}

/* --- degrees --- */

tsr_status tsr__plan_degrees(tsr_model *model, int counts[TSR_MAX_DEGREES], size_t *n) {
    TSR__TRY(make_whole(model));
    tsr__tp_plan tp = tsr__model_tp_plan(model);
    size_t found = 0;
    for (int d = 1; d <= TSR_MAX_DEGREES; d++)
        if (d == 1 || (tsr__model_has_plan(model) && tsr__tp_degree_fits(model->self, &tp, d))) counts[found++] = d;
    *n = found;
    return TSR_OK;
}

/* How many of `ranks` ranks share the weights of a marked component. */
static int degree_among(const tsr__planning *p, tsr_model *model, int ranks) {
    int asked = p->parallel.text_encoder_tp;
    if (has_all_ranks(p, model)) return ranks / p->context;
    if (!tsr__model_has_plan(model)) return 1;
    return asked && asked <= ranks ? asked : tsr__model_largest_degree(model, ranks);
}

/* --- weights --- */

typedef struct listing {
    tsr_engine *engine;
    tsr_plan *plan;
} listing;

static tsr_status count_weight(void *user, tsr__param *param) {
    (void)param;
    ++*(size_t *)user;
    return TSR_OK;
}

static tsr_status add_weight(void *user, tsr__param *param) {
    listing *l = user;
    char path[TSR__PATH_BYTES];
    const tsr__shard_spec *spec = &param->spec;
    bool split = l->plan->tp_degree > 1 && spec->style != TSR_REPLICATED;
    tsr_plan_weight *w = &l->plan->weights[l->plan->n_weights];
    *w = (tsr_plan_weight){.dtype = param->view.dtype, .ndim = param->view.ndim, .dim = -1};
    w->name = tsr__strdup(l->engine, tsr__param_path(param, path, sizeof path));
    if (!w->name) return TSR_NOMEM;
    l->plan->n_weights++;
    w->bytes = tsr__view_bytes(&param->view);
    memcpy(w->shape, param->whole, sizeof w->shape);
    memcpy(w->local_shape, param->view.shape, sizeof w->local_shape);
    if (!split) {
        l->plan->replicated_bytes += w->bytes;
        return TSR_OK;
    }
    w->style = spec->style;
    w->dim = spec->dim;
    w->n_blocks = spec->n_blocks;
    memcpy(w->blocks, spec->blocks, sizeof w->blocks);
    return TSR_OK;
}

static tsr_status list_weights(tsr_model *model, tsr_plan *plan) {
    listing l = {model->engine, plan};
    size_t n = 0;
    TSR__TRY(tsr__module_visit_params(model->self, count_weight, &n));
    plan->weights = tsr__calloc(model->engine, n, sizeof *plan->weights);
    return plan->weights ? tsr__module_visit_params(model->self, add_weight, &l) : TSR_NOMEM;
}

/* --- a forward --- */

/* What a rank sends by the ring algorithm, in parts of (n-1)/n of the payload; 0: the payload itself. */
static const struct {
    const char *name;
    uint64_t parts;
} operations[TSR__N_COMM_OPS] = {[TSR__ALL_REDUCE] = {"allreduce", 2},
                                 [TSR__ALL_GATHER] = {"allgather", 1},
                                 [TSR__ALL_TO_ALL] = {"alltoall", 1},
                                 [TSR__SEND_RECEIVE] = {"sendreceive", 0},
                                 [TSR__BROADCAST] = {"broadcast", 0}};

typedef struct tally {
    tsr_engine *engine;
    tsr_plan *plan;
    tsr_status status;
} tally;

/* The row for calls like this one, which may be new. */
static tsr_plan_collective *row_of(tally *t, const char *op, const tsr__comm *comm, uint64_t bytes) {
    tsr_plan *plan = t->plan;
    for (size_t i = 0; i < plan->n_collectives; i++) {
        tsr_plan_collective *c = &plan->collectives[i];
        if (c->op == op && c->bytes == bytes && c->ranks == comm->size && strcmp(c->axis, comm->axis) == 0) return c;
    }
    tsr_plan_collective *grown =
        tsr__realloc(t->engine, plan->collectives, (plan->n_collectives + 1) * sizeof *plan->collectives);
    if (!grown) return NULL;
    plan->collectives = grown;
    tsr_plan_collective *added = &grown[plan->n_collectives];
    *added = (tsr_plan_collective){op, tsr__strdup(t->engine, comm->axis), comm->size, 0, bytes};
    if (!added->axis) return NULL;
    plan->n_collectives++;
    return added;
}

static void add_collective(void *user, int kind, const tsr__comm *comm, size_t bytes) {
    tally *t = user;
    tsr_plan_collective *row = t->status == TSR_OK ? row_of(t, operations[kind].name, comm, bytes) : NULL;
    if (!row) {
        t->status = TSR_NOMEM;
        return;
    }
    uint64_t n = (uint64_t)comm->size, parts = operations[kind].parts;
    row->count++;
    t->plan->bytes_sent_per_rank += parts ? parts * (n - 1) * bytes / n : bytes;
}

static tsr_status describe(const tsr__planning *p, tsr_model *model, const trial *t, tsr_plan *plan) {
    const tsr__sequence *s = t->layout.sequence;
    plan->ring_degree = s && s->ring ? s->ring->size : 1;
    plan->ulysses_degree = s && s->ulysses ? s->ulysses->size : 1;
    tally all = {p->engine, plan, TSR_OK};
    plan->flops_per_rank = tsr__graph_flops(t->graph);
    plan->passes = strcmp(model->component, "vae") == 0 ? (int)p->picture.rows : p->picture.passes;
    tsr__graph_visit_collectives(t->graph, add_collective, &all);
    TSR__TRY(all.status);
    return list_weights(model, plan);
}

/* --- all of it --- */

static tsr_status plan_ranks(const tsr__planning *p, tsr_model *model, tsr_plan *plan) {
    plan->ranks = tsr__calloc(p->engine, (size_t)p->ranks, sizeof *plan->ranks);
    if (!plan->ranks) return TSR_NOMEM;
    plan->n_ranks = (size_t)p->ranks;
    int sharing = has_all_ranks(p, model) ? p->ranks : plan->tp_degree;
    for (int rank = 0; rank < sharing; rank++) {
        trial t;
        TSR__TRY(begin(p, model, rank, plan->tp_degree, &t));
        plan->ranks[rank] = t.needs;
        tsr_status status = rank == 0 ? describe(p, model, &t, plan) : TSR_OK;
        end(&t);
        TSR__TRY(status);
    }
    return TSR_OK;
}

/* Takes over a text, which may be NULL. */
static tsr_status add_problem(tsr_engine *engine, tsr_plan *plan, char *text) {
    char **grown = text ? tsr__realloc(engine, plan->problems, (plan->n_problems + 1) * sizeof *grown) : NULL;
    if (!grown) {
        tsr__free(engine, text);
        return TSR_NOMEM;
    }
    plan->problems = grown;
    plan->problems[plan->n_problems++] = text;
    return TSR_OK;
}

static void drop_degree(tsr_plan *plan, int degree) {
    size_t kept = 0;
    for (size_t i = 0; i < plan->n_degrees; i++)
        if (plan->degrees[i] != degree) plan->degrees[kept++] = plan->degrees[i];
    plan->n_degrees = kept;
}

/* Rank 0 needs as much as any other. Not each degree that divides the weights works: beside those that share the
 * sequence it may not, which is nobody's fault; nor may a plan of the caller's own, which is a problem. */
static tsr_status plan_size(const tsr__planning *p, tsr_model *model, int ranks, tsr_plan *plan) {
    trial t;
    int degree = degree_among(p, model, ranks);
    tsr_status status = begin(p, model, 0, degree, &t);
    if (status == TSR_SHAPE) {
        drop_degree(plan, degree);
        if (p->context > 1) return TSR_OK;
        return add_problem(p->engine, plan, tsr__format(p->engine, "tp %d: %s", degree, p->engine->message));
    }
    TSR__TRY(status);
    size_t sum = 0, memory = p->options.memory_per_rank;
    bool fits = tsr__add(t.needs.weight_bytes, t.needs.activation_bytes, &sum) && (!memory || sum <= memory);
    plan->sizes[plan->n_sizes++] = (tsr_plan_size){ranks, degree, t.needs.weight_bytes, t.needs.activation_bytes, fits};
    end(&t);
    return TSR_OK;
}

static tsr_status compare_memory(const tsr__planning *p, tsr_plan *plan) {
    static const struct {
        double bytes;
        const char *name;
    } units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
    const tsr_plan_rank *first = &plan->ranks[0];
    size_t needed = first->weight_bytes + first->activation_bytes, u = 0;
    double memory = (double)p->options.memory_per_rank;
    tsr__text text = {.engine = p->engine};
    if (!p->options.memory_per_rank || needed <= p->options.memory_per_rank) return TSR_OK;
    while (u + 1 < TSR__COUNT(units) && memory < units[u].bytes) u++;
    tsr__text_format(&text, "rank 0 needs %.2f %s (%.2f weights, %.2f activations), but has %.2f; ",
                     (double)needed / units[u].bytes, units[u].name, (double)first->weight_bytes / units[u].bytes,
                     (double)first->activation_bytes / units[u].bytes, memory / units[u].bytes);
    const char *lead = "ranks that would do: ";
    for (size_t i = 0; i < plan->n_sizes; i++) {
        if (!plan->sizes[i].fits) continue;
        tsr__text_format(&text, "%s%d", lead, plan->sizes[i].ranks);
        lead = ", ";
    }
    if (*lead != ',') tsr__text_format(&text, "no number of ranks up to %d would do", TSR_MAX_DEGREES);
    if (!text.failed) return add_problem(p->engine, plan, text.data);
    tsr__text_free(&text);
    return TSR_NOMEM;
}

tsr_status tsr__plan_component(const tsr__planning *p, tsr_model *model, tsr_plan *plan) {
    plan->component = model->component;
    plan->class_name = model->desc->class_name;
    plan->whole_bytes = model->weight_bytes;
    plan->height = p->picture.height;
    plan->width = p->picture.width;
    plan->max_sequence_length = p->picture.text_tokens;
    plan->num_images_per_prompt = p->picture.rows;
    TSR__TRY(tsr__plan_degrees(model, plan->degrees, &plan->n_degrees));
    plan->tp_degree = degree_among(p, model, p->ranks);
    TSR__TRY(plan_ranks(p, model, plan));
    for (size_t i = 0; i < p->n_counts; i++) TSR__TRY(plan_size(p, model, p->counts[i] * p->context, plan));
    return compare_memory(p, plan);
}
