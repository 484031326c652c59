/* Plans without ranks: what the components of a folder would be on each of them. */
#include "pipelines/plan.h"

#include "io/file.h"
#include "pipelines/pipeline.h"
#include "tokenizers/tokenizer.h"

#include <string.h>

/* --- components --- */

static tsr_status look_for(tsr_engine *engine, const char *folder, const char *name, bool *found) {
    char *path = tsr__path_join(engine, folder, name);
    if (!path) return TSR_NOMEM;
    *found = tsr__path_exists(path);
    tsr__free(engine, path);
    return TSR_OK;
}

static tsr_status look_for_weights(tsr_engine *engine, const char *folder, bool *found) {
    static const char *const names[] = {"diffusion_pytorch_model.safetensors.index.json",
                                        "diffusion_pytorch_model.safetensors", "model.safetensors.index.json",
                                        "model.safetensors"};
    *found = false;
    for (size_t i = 0; i < TSR__COUNT(names) && !*found; i++) TSR__TRY(look_for(engine, folder, names[i], found));
    return TSR_OK;
}

static tsr_status open_component(tsr_engine *engine, const char *path, tsr_model **out) {
    const int64_t layers[2] = {-1, -1};
    if (!tsr__path_is_folder(path)) return tsr__model_from_config(engine, path, TSR_BF16, layers, out);
    bool weights = false;
    TSR__TRY(look_for_weights(engine, path, &weights));
    if (weights) return tsr__model_open(engine, path, "model", NULL, out);
    char *config = tsr__path_join(engine, path, "config.json");
    if (!config) return TSR_NOMEM;
    tsr_status status = tsr__model_from_config(engine, config, TSR_BF16, layers, out);
    tsr__free(engine, config);
    return status;
}

static void take_tp_plan(const tsr__planning *p, tsr_model *model) {
    if (p->parallel.tp_plan) model->tp_plan = *p->parallel.tp_plan;
}

/* A side in pixels: of tokens of 16, as all released models have. */
static tsr_status take_side(tsr_engine *engine, const char *name, int64_t given, int64_t *out) {
    enum { UNIT = 16, USUAL = 1024, MOST = 65536 };
    int64_t asked = given ? given : USUAL, side = asked / UNIT * UNIT;
    if (asked < UNIT || asked > MOST)
        return tsr__fail(engine, TSR_ARG, "%s %lld: give a multiple of %d from %d to %d pixels", name, (long long)asked,
                         UNIT, UNIT, MOST);
    if (side != asked)
        tsr__log(engine, TSR_LOG_WARNING, "%s must be a multiple of %d: counting with %lld", name, UNIT,
                 (long long)side);
    *out = side;
    return TSR_OK;
}

static tsr_status usual_picture(tsr__planning *p) {
    const tsr_plan_options *o = &p->options;
    p->picture = (tsr__picture){.unit = 16, .passes = 1};
    p->picture.text_tokens = o->max_sequence_length ? o->max_sequence_length : 512;
    p->picture.rows = o->num_images_per_prompt ? o->num_images_per_prompt : 1;
    TSR__TRY(take_side(p->engine, "height", o->height, &p->picture.height));
    return take_side(p->engine, "width", o->width, &p->picture.width);
}

static tsr_status plan_model(tsr__planning *p, tsr_model *model, tsr_plan *plan) {
    model->component = model->desc->component;
    take_tp_plan(p, model);
    TSR__TRY(usual_picture(p));
    TSR__TRY(tsr__plan_degrees(model, p->counts, &p->n_counts));
    return tsr__plan_component(p, model, plan);
}

static tsr_status plan_alone(tsr__planning *p, const char *path, tsr_plan *plan) {
    tsr_model *model = NULL;
    TSR__TRY(open_component(p->engine, path, &model));
    tsr_status status = plan_model(p, model, plan);
    tsr_model_destroy(model);
    return status;
}

/* --- pipelines --- */

static tsr_status open_model(tsr_pipeline *pipeline, tsr__role role) {
    const char *name = tsr__role_folders[role], *wanted = pipeline->desc->models[role];
    char *path = tsr__path_join(pipeline->engine, pipeline->folder, name);
    tsr_status status = path ? open_component(pipeline->engine, path, &pipeline->models[role]) : TSR_NOMEM;
    tsr__free(pipeline->engine, path);
    TSR__TRY(status);
    tsr_model *model = pipeline->models[role];
    model->component = name;
    if (strcmp(model->desc->class_name, wanted) == 0) return TSR_OK;
    return tsr__fail(pipeline->engine, TSR_FORMAT, "%s/%s: the class is %s, but model_index.json says %s",
                     pipeline->folder, name, model->desc->class_name, wanted);
}

/* From its config alone: a folder need not have the tokenizer itself. */
static tsr_status read_max_length(tsr_pipeline *pipeline) {
    char *folder = tsr__path_join(pipeline->engine, pipeline->folder, "tokenizer");
    if (!folder) return TSR_NOMEM;
    tsr_status status = tsr__tokenizer_max_length(pipeline->engine, folder, &pipeline->model_max_length);
    tsr__free(pipeline->engine, folder);
    return status;
}

static tsr_status open_pipeline(tsr__planning *p, tsr_pipeline *pipeline) {
    const char *prompt = "";
    tsr_generate_options what = TSR_GENERATE_OPTIONS_INIT;
    TSR__TRY(tsr__pipeline_open_index(pipeline));
    TSR__TRY(read_max_length(pipeline));
    for (int i = 0; i < TSR__N_MODELS; i++) TSR__TRY(open_model(pipeline, (tsr__role)i));
    for (int i = 0; i < TSR__N_MODELS; i++) pipeline->models[i]->dtype = pipeline->models[TSR__TEXT_ENCODER]->stored;
    take_tp_plan(p, pipeline->models[TSR__TRANSFORMER]);
    what.prompts = &prompt;
    what.n_prompts = 1;
    what.height = p->options.height;
    what.width = p->options.width;
    what.max_sequence_length = p->options.max_sequence_length;
    what.num_images_per_prompt = (int)p->options.num_images_per_prompt;
    TSR__TRY(pipeline->desc->picture(pipeline, &what, &p->picture));
    return tsr__plan_degrees(pipeline->models[TSR__TRANSFORMER], p->counts, &p->n_counts);
}

static tsr_status plan_pipeline(tsr__planning *p, const char *folder, tsr_plan *plans) {
    tsr_pipeline *pipeline = tsr__calloc(p->engine, 1, sizeof *pipeline);
    if (!pipeline) return TSR_NOMEM;
    *pipeline = (tsr_pipeline){.engine = p->engine, .folder = tsr__strdup(p->engine, folder)};
    tsr_status status = pipeline->folder ? open_pipeline(p, pipeline) : TSR_NOMEM;
    for (int i = 0; i < TSR__N_MODELS && status == TSR_OK; i++)
        status = tsr__plan_component(p, pipeline->models[i], &plans[i]);
    tsr_pipeline_destroy(pipeline);
    return status;
}

/* --- what is asked for --- */

/* The ranks that the degrees ask for, which must be some. */
static tsr_status take_parallel(tsr__planning *p) {
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr__layout layout;
    tsr__take_options(&parallel, sizeof parallel, p->options.parallel);
    TSR__TRY(tsr__layout_imagine(p->engine, &parallel, 0, &layout));
    p->parallel = parallel;
    p->context = layout.sequence ? layout.sequence->all->size : 1;
    p->ranks = layout.tp_degree * p->context;
    tsr__layout_close(&layout);
    if (parallel.text_encoder_tp >= 0 && parallel.text_encoder_tp <= p->ranks) return TSR_OK;
    return tsr__fail(p->engine, TSR_ARG, "the text encoder cannot be split over %d ranks: there are %d",
                     parallel.text_encoder_tp, p->ranks);
}

static tsr_status take_options(tsr__planning *p, const tsr_plan_options *options) {
    enum { MOST_TEXT = 1 << 20, MOST_IMAGES = 4096 };
    tsr_plan_options o = TSR_PLAN_OPTIONS_INIT;
    tsr__take_options(&o, sizeof o, options);
    p->options = o;
    if (o.max_sequence_length < 0 || o.max_sequence_length > MOST_TEXT)
        return tsr__fail(p->engine, TSR_ARG, "max_sequence_length %lld: give a number from 1 to %d",
                         (long long)o.max_sequence_length, MOST_TEXT);
    if (o.num_images_per_prompt < 0 || o.num_images_per_prompt > MOST_IMAGES)
        return tsr__fail(p->engine, TSR_ARG, "num_images_per_prompt %lld: give a number from 1 to %d",
                         (long long)o.num_images_per_prompt, MOST_IMAGES);
    return take_parallel(p);
}

static tsr_status make_plans(tsr__planning *p, const char *folder, tsr_plan **plans, size_t *n) {
    TSR__TRY(look_for(p->engine, folder, "model_index.json", &p->is_pipeline));
    size_t count = p->is_pipeline ? TSR__N_MODELS : 1;
    tsr_plan *made = tsr__calloc(p->engine, count, sizeof *made);
    if (!made) return TSR_NOMEM;
    tsr_status status = (p->is_pipeline ? plan_pipeline : plan_alone)(p, folder, made);
    if (status != TSR_OK) {
        tsr_plans_free(p->engine, made, count);
        return status;
    }
    *plans = made;
    *n = count;
    return TSR_OK;
}

tsr_status tsr_plan_make(tsr_engine *engine, const char *path, const tsr_plan_options *options, tsr_plan **plans,
                         size_t *n) {
    tsr__planning p = {.engine = engine};
    char *folder = NULL;
    TSR__TRY(take_options(&p, options));
    if (tsr__path_exists(path))
        folder = tsr__strdup(engine, path);
    else
        TSR__TRY(tsr_hub_resolve(engine, path, &folder));
    if (!folder) return TSR_NOMEM;
    tsr_status status = make_plans(&p, folder, plans, n);
    tsr__free(engine, folder);
    return status;
}

static void free_plan(tsr_engine *engine, tsr_plan *plan) {
    for (size_t i = 0; i < plan->n_weights; i++) tsr__free(engine, (char *)(uintptr_t)plan->weights[i].name);
    for (size_t i = 0; i < plan->n_collectives; i++) tsr__free(engine, (char *)(uintptr_t)plan->collectives[i].axis);
    for (size_t i = 0; i < plan->n_problems; i++) tsr__free(engine, plan->problems[i]);
    void *const arrays[] = {plan->weights, plan->ranks, plan->collectives, plan->problems};
    for (size_t i = 0; i < TSR__COUNT(arrays); i++) tsr__free(engine, arrays[i]);
}

void tsr_plans_free(tsr_engine *engine, tsr_plan *plans, size_t n) {
    for (size_t i = 0; plans && i < n; i++) free_plan(engine, &plans[i]);
    tsr__free(engine, plans);
}
