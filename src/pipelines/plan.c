/* Plans without ranks: the trees of a folder, marked and split as they would be. */
#include <tessera/plan.h>

#include "base/text.h"
#include "io/file.h"
#include "pipelines/pipeline.h"

#include <string.h>

/* --- a component --- */

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
    memcpy(w->shape, param->whole, sizeof w->shape);
    memcpy(w->local_shape, param->view.shape, sizeof w->local_shape);
    if (!split) return TSR_OK;
    w->style = spec->style;
    w->dim = spec->dim;
    w->n_blocks = spec->n_blocks;
    memcpy(w->blocks, spec->blocks, sizeof w->blocks);
    return TSR_OK;
}

static void list_degrees(const tsr_model *model, tsr_plan *plan) {
    tsr__tp_plan tp = tsr__model_tp_plan(model);
    for (int d = 1; d <= TSR_MAX_DEGREES; d++)
        if (d == 1 || (tp.rules.n && tsr__tp_degree_fits(model->self, &tp, d))) plan->degrees[plan->n_degrees++] = d;
}

/* Fills plan from a model that is open; leaves what it has allocated in it, also after a failure. */
static tsr_status fill(tsr_model *model, int degree, tsr_plan *plan) {
    listing l = {model->engine, plan};
    size_t n = 0;
    plan->class_name = model->desc->class_name;
    plan->whole_bytes = model->weight_bytes;
    plan->tp_degree = degree;
    TSR__TRY(tsr__module_visit_params(model->self, count_weight, &n));
    plan->weights = tsr__calloc(model->engine, n, sizeof *plan->weights);
    if (!plan->weights) return TSR_NOMEM;
    if (model->desc->tp_plan.n) TSR__TRY(tsr__model_mark(model));
    TSR__TRY(tsr__model_split(model, NULL, 0, degree));
    plan->rank_bytes = model->weight_bytes;
    list_degrees(model, plan);
    return tsr__module_visit_params(model->self, add_weight, &l);
}

static bool has_weights(tsr_engine *engine, const char *folder) {
    static const char *const names[] = {"diffusion_pytorch_model.safetensors.index.json",
                                        "diffusion_pytorch_model.safetensors", "model.safetensors.index.json",
                                        "model.safetensors"};
    bool found = false;
    for (size_t i = 0; i < TSR__COUNT(names) && !found; i++) {
        char *path = tsr__path_join(engine, folder, names[i]);
        found = path && tsr__path_exists(path);
        tsr__free(engine, path);
    }
    return found;
}

static tsr_status open_component(tsr_engine *engine, const char *path, const char *component, tsr_model **out) {
    const int64_t layers[2] = {-1, -1};
    if (!tsr__path_is_folder(path)) return tsr__model_from_config(engine, path, TSR_BF16, layers, out);
    if (has_weights(engine, path)) return tsr__model_open(engine, path, component, NULL, out);
    char *config = tsr__path_join(engine, path, "config.json");
    if (!config) return TSR_NOMEM;
    tsr_status status = tsr__model_from_config(engine, config, TSR_BF16, layers, out);
    tsr__free(engine, config);
    return status;
}

/* --- a pipeline --- */

static const char *const components[] = {"text_encoder", "transformer", "vae"};

/* The degree that a component of a pipeline runs at. */
static int degree_in_pipeline(tsr_model *model, const char *component, int tp, int encoder_tp) {
    tsr__tp_plan plan = tsr__model_tp_plan(model);
    if (!plan.rules.n || tsr__model_mark(model) != TSR_OK) return 1;
    if (strcmp(component, "text_encoder") != 0) return tp;
    int degree = encoder_tp ? encoder_tp : tp;
    while (!encoder_tp && !tsr__tp_degree_fits(model->self, &plan, degree)) degree--;
    return degree;
}

static tsr_status plan_component(tsr_engine *engine, const char *folder, const char *component, const int degrees[2],
                                 tsr_plan *plan) {
    char *path = tsr__path_join(engine, folder, component);
    tsr_model *model = NULL;
    tsr_status status = path ? open_component(engine, path, component, &model) : TSR_NOMEM;
    plan->component = component;
    if (status == TSR_OK) status = fill(model, degree_in_pipeline(model, component, degrees[0], degrees[1]), plan);
    tsr_model_destroy(model);
    tsr__free(engine, path);
    return status;
}

static tsr_status plan_alone(tsr_engine *engine, const char *path, int degree, tsr_plan *plan) {
    tsr_model *model = NULL;
    TSR__TRY(open_component(engine, path, "model", &model));
    plan->component = model->desc->component;
    tsr_status status = fill(model, degree, plan);
    tsr_model_destroy(model);
    return status;
}

static bool is_pipeline(tsr_engine *engine, const char *path) {
    char *index = tsr__path_join(engine, path, "model_index.json");
    bool found = index && tsr__path_exists(index);
    tsr__free(engine, index);
    return found;
}

static tsr_status make_plans(tsr_engine *engine, const char *path, const int degrees[2], tsr_plan *plans, size_t n) {
    if (n == 1) return plan_alone(engine, path, degrees[0], plans);
    for (size_t i = 0; i < n; i++) TSR__TRY(plan_component(engine, path, components[i], degrees, &plans[i]));
    return TSR_OK;
}

tsr_status tsr_plan_make(tsr_engine *engine, const char *path, int tp, int encoder_tp, tsr_plan **plans, size_t *n) {
    const int degrees[2] = {tp, encoder_tp};
    if (tp < 1 || encoder_tp < 0) return tsr__fail(engine, TSR_ARG, "degrees are at least 1, but tp is %d", tp);
    char *folder = NULL;
    if (tsr__path_exists(path))
        folder = tsr__strdup(engine, path);
    else
        TSR__TRY(tsr__hub_resolve(engine, path, &folder));
    if (!folder) return TSR_NOMEM;
    size_t count = is_pipeline(engine, folder) ? TSR__COUNT(components) : 1;
    tsr_plan *made = tsr__calloc(engine, count, sizeof *made);
    tsr_status status = made ? make_plans(engine, folder, degrees, made, count) : TSR_NOMEM;
    tsr__free(engine, folder);
    if (status != TSR_OK) {
        tsr_plans_free(engine, made, count);
        return status;
    }
    *plans = made;
    *n = count;
    return TSR_OK;
}

void tsr_plans_free(tsr_engine *engine, tsr_plan *plans, size_t n) {
    for (size_t i = 0; plans && i < n; i++) {
        for (size_t w = 0; w < plans[i].n_weights; w++) tsr__free(engine, (char *)(uintptr_t)plans[i].weights[w].name);
        tsr__free(engine, plans[i].weights);
    }
    tsr__free(engine, plans);
}
