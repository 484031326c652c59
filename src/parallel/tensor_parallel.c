#include "parallel/tensor_parallel.h"

#include <stdio.h>
#include <string.h>

/* --- which dimension of which weight a style splits --- */

static const struct {
    tsr__module_kind kind;
    tsr_tp_style style;
    const char *param;
    int dim;
} splits[] = {
    {TSR__LINEAR_LAYER, TSR_COLWISE, "weight", 0},
    {TSR__LINEAR_LAYER, TSR_COLWISE, "bias", 0},
    {TSR__LINEAR_LAYER, TSR_PACKED_COLWISE, "weight", 0},
    {TSR__LINEAR_LAYER, TSR_PACKED_COLWISE, "bias", 0},
    {TSR__LINEAR_LAYER, TSR_COLWISE_GATHER_OUTPUT, "weight", 0},
    {TSR__LINEAR_LAYER, TSR_COLWISE_GATHER_OUTPUT, "bias", 0},
    {TSR__LINEAR_LAYER, TSR_ROWWISE, "weight", 1},
    {TSR__LINEAR_LAYER, TSR_PACKED_ROWWISE, "weight", 1},
    {TSR__LINEAR_LAYER, TSR_ROWWISE_SPLIT_INPUT, "weight", 1},
    {TSR__EMBEDDING_LAYER, TSR_ROWWISE, "weight", 0},
};

static int split_dim(const tsr__module *module, tsr_tp_style style, const char *param) {
    for (size_t i = 0; i < TSR__COUNT(splits); i++)
        if (splits[i].kind == module->kind && splits[i].style == style && strcmp(splits[i].param, param) == 0)
            return splits[i].dim;
    return -1;
}

static bool is_packed(tsr_tp_style style) { return style == TSR_PACKED_COLWISE || style == TSR_PACKED_ROWWISE; }
static bool is_colwise(tsr_tp_style style) {
    return style == TSR_COLWISE || style == TSR_PACKED_COLWISE || style == TSR_COLWISE_GATHER_OUTPUT;
}

/* --- a rule over the tree --- */

typedef struct matching {
    tsr_engine *engine;
    const tsr_tp_rule *rule;
    bool optional;
    size_t matches;
} matching;

static tsr_status refuse(const matching *m, const char *why) {
    return tsr__fail(m->engine, TSR_ARG, "plan rule \"%s\" (%s): %s", m->rule->glob, tsr_tp_style_name(m->rule->style),
                     why);
}

/* Blocks of a packed dimension of `size`: proportions of the rule, or the sizes that the model declares. */
static tsr_status set_blocks(const matching *m, const tsr__module *module, int64_t size, tsr__shard_spec *spec) {
    const int64_t *given = m->rule->blocks[0] ? m->rule->blocks : module->tp.blocks;
    int64_t sum = 0;
    for (size_t i = 0; i < TSR_MAX_BLOCKS && given[i] > 0; i++) sum += given[i];
    if (!sum) return refuse(m, "a packed style needs blocks, and the model declares none for this module");
    if (size % sum != 0) return refuse(m, "its blocks do not add up to a divisor of the dimension");
    for (; spec->n_blocks < TSR_MAX_BLOCKS && given[spec->n_blocks] > 0; spec->n_blocks++)
        spec->blocks[spec->n_blocks] = given[spec->n_blocks] * (size / sum);
    return TSR_OK;
}

static tsr_status set_spec(const matching *m, tsr__module *module, tsr__param *param) {
    int dim = split_dim(module, m->rule->style, param->name);
    tsr__shard_spec spec = {.style = dim < 0 ? TSR_REPLICATED : m->rule->style, .dim = dim < 0 ? 0 : dim};
    if (dim >= 0 && is_packed(spec.style)) TSR__TRY(set_blocks(m, module, param->whole[dim], &spec));
    if (dim >= 0 && !is_packed(spec.style)) {
        spec.n_blocks = 1;
        spec.blocks[0] = param->whole[dim];
        spec.groups = is_colwise(spec.style) && module->tp.groups_may_repeat ? module->tp.groups : 0;
    }
    param->spec = spec;
    return TSR_OK;
}

static tsr_status mark(void *user, tsr__module *module) {
    matching *m = user;
    char path[TSR__PATH_BYTES];
    if (split_dim(module, m->rule->style, "weight") < 0) return refuse(m, "the style does not fit this kind of module");
    if (module->tp.style != TSR_REPLICATED)
        return tsr__fail(m->engine, TSR_ARG, "plan rule \"%s\": %s is named by an earlier rule too", m->rule->glob,
                         tsr__module_path(module, path, sizeof path));
    module->tp.style = m->rule->style;
    module->tp.optional = m->optional;
    m->matches++;
    for (tsr__param *p = module->params; p; p = p->next) TSR__TRY(set_spec(m, module, p));
    return TSR_OK;
}

static tsr_status apply_rule(tsr_engine *engine, tsr__module *root, const tsr_tp_rule *rule, bool optional) {
    matching m = {engine, rule, optional, 0};
    const char *star = strchr(rule->glob, '*');
    if (rule->style <= TSR_REPLICATED || rule->style >= TSR_TP_STYLE_COUNT) return refuse(&m, "unknown style");
    if (star && strchr(star + 1, '*')) return refuse(&m, "a rule may hold one \"*\" only");
    tsr__glob_found found = {false, false};
    TSR__TRY(tsr__module_match(root, rule->glob, mark, &m, &found));
    if (found.misplaced) return refuse(&m, "\"*\" stands where there is no list of modules");
    return m.matches || optional || found.no_items ? TSR_OK : refuse(&m, "it matches no module");
}

/* --- degrees --- */

typedef struct fitting {
    int degree;
    const tsr__param *culprit; /* the first that does not divide */
    int64_t size;              /* of its block, or how many heads */
} fitting;

/* Heads must stay whole; where they may repeat, more ranks than heads are fine too. */
static bool groups_fit(const tsr__tp *tp, int degree) {
    if (!tp->groups || tp->groups % degree == 0) return true;
    return tp->groups_may_repeat && degree % tp->groups == 0;
}

/* The size that `degree` does not divide, or 0. */
static int64_t obstacle(const tsr__param *param, int degree) {
    const tsr__shard_spec *spec = &param->spec;
    const tsr__tp *tp = &param->owner->tp;
    if (is_colwise(spec->style) && !groups_fit(tp, degree)) return tp->groups;
    int64_t parts = spec->groups && spec->groups < degree ? spec->groups : degree;
    for (size_t b = 0; b < spec->n_blocks; b++)
        if (spec->blocks[b] % parts != 0) return spec->blocks[b];
    return 0;
}

static tsr_status fit(void *user, tsr__param *param) {
    fitting *f = user;
    if (f->culprit || param->spec.style == TSR_REPLICATED || param->owner->tp.optional) return TSR_OK;
    f->size = obstacle(param, f->degree);
    if (f->size) f->culprit = param;
    return TSR_OK;
}

static fitting try_degree(tsr__module *root, int degree) {
    fitting f = {.degree = degree};
    (void)!tsr__module_visit_params(root, fit, &f);
    return f;
}

bool tsr__tp_degree_fits(tsr__module *root, const tsr__tp_plan *plan, int degree) {
    return degree >= 1 && plan->heads % degree == 0 && !try_degree(root, degree).culprit;
}

char *tsr__tp_degrees(tsr__module *root, const tsr__tp_plan *plan, char *text, size_t size) {
    size_t used = 0;
    for (int d = 1; d <= TSR__MAX_DEGREE && used < size; d++)
        if (tsr__tp_degree_fits(root, plan, d))
            used += (size_t)snprintf(text + used, size - used, used ? ", %d" : "%d", d);
    return text;
}

static tsr_status check_degree(tsr_engine *engine, tsr__module *root, const tsr__tp_plan *plan, int degree) {
    char degrees[128], path[TSR__PATH_BYTES];
    if (tsr__tp_degree_fits(root, plan, degree)) return TSR_OK;
    tsr__tp_degrees(root, plan, degrees, sizeof degrees);
    if (degree < 1 || plan->heads % degree != 0)
        return tsr__fail(engine, TSR_SHAPE,
                         "%s has %lld attention heads, which tp %d does not divide; degrees that work: %s",
                         plan->class_name, (long long)plan->heads, degree, degrees);
    fitting f = try_degree(root, degree);
    return tsr__fail(engine, TSR_SHAPE,
                     "%s: %s (%s) has a block of %lld, which tp %d does not divide; degrees that work: %s",
                     plan->class_name, tsr__param_path(f.culprit, path, sizeof path),
                     tsr_tp_style_name(f.culprit->spec.style), (long long)f.size, degree, degrees);
}

/* --- the parts of one rank --- */

typedef struct part {
    tsr__comm *comm;
    int rank, degree;
} part;

static tsr_status take_part(void *user, tsr__param *param) {
    const part *p = user;
    int64_t local[TSR_MAX_DIMS];
    tsr__tp *tp = &param->owner->tp;
    if (tp->optional && obstacle(param, p->degree)) {
        param->spec = (tsr__shard_spec){.style = TSR_REPLICATED};
        tp->style = TSR_REPLICATED;
    }
    tp->comm = p->comm;
    tp->rank = p->rank;
    tp->degree = p->degree;
    tsr__shard_shape(&param->spec, p->rank, p->degree, param->view.ndim, param->whole, local);
    param->view = tsr__view_dense(param->view.data, param->view.dtype, param->view.ndim, local);
    return TSR_OK;
}

tsr_status tsr__tp_mark(tsr_engine *engine, tsr__module *root, const tsr__tp_plan *plan) {
    for (size_t i = 0; i < plan->rules.n; i++) TSR__TRY(apply_rule(engine, root, &plan->rules.rules[i], false));
    for (size_t i = 0; i < plan->more.n; i++) TSR__TRY(apply_rule(engine, root, &plan->more.rules[i], true));
    return TSR_OK;
}

tsr_status tsr__tp_split(tsr_engine *engine, tsr__module *root, const tsr__tp_plan *plan, tsr__comm *comm, int rank,
                         int degree) {
    TSR__TRY(check_degree(engine, root, plan, degree));
    part p = {comm, rank, degree};
    return tsr__module_visit_params(root, take_part, &p);
}
