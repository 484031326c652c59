/* A component by itself: opened from its folder, and spread over ranks as it is loaded or afterwards. */
#include "io/file.h"
#include "models/model.h"

#include <string.h>

/* --- from a folder --- */

/* What a rank does by itself: open, check, take its part. */
static tsr_status open_part(tsr_engine *engine, const char *folder, const tsr_model_options *options,
                            const tsr__layout *layout, tsr_model **out) {
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr__take_options(&parallel, sizeof parallel, options->parallel);
    TSR__TRY(tsr__arguments_check(engine, options->arguments));
    TSR__TRY(tsr__model_open(engine, folder, "model", NULL, out));
    (*out)->component = (*out)->desc->component;
    if (options->dtype != TSR_DTYPE_NONE) (*out)->dtype = options->dtype;
    (*out)->force = options->force;
    if (parallel.tp_plan) (*out)->tp_plan = *parallel.tp_plan;
    return tsr__model_lay_out(*out, layout);
}

/* Between two agreements a rank only does what needs no other. */
static tsr_status open_and_load(tsr_engine *engine, const char *folder, const tsr_model_options *options,
                                tsr_model **out) {
    tsr__layout layout = {.tp_degree = 1};
    if (options->parallel) TSR__TRY(tsr__layout_open(engine, options->parallel, &layout));
    tsr_model *model = NULL;
    tsr_status status = tsr_status_agree(engine, open_part(engine, folder, options, &layout, &model));
    if (!model) {
        tsr__layout_close(&layout);
        return status;
    }
    model->layout = layout;
    *out = model;
    return status == TSR_OK && !options->meta ? tsr_model_load_weights(model) : status;
}

tsr_status tsr_model_from_pretrained(tsr_engine *engine, const char *folder, const tsr_model_options *options,
                                     tsr_model **out) {
    tsr_model_options given = TSR_MODEL_OPTIONS_INIT;
    tsr__take_options(&given, sizeof given, options);
    char *path = given.subfolder ? tsr__path_join(engine, folder, given.subfolder) : tsr__strdup(engine, folder);
    tsr_model *model = NULL;
    tsr_status status = tsr_status_agree(engine, path ? TSR_OK : TSR_NOMEM);
    if (status == TSR_OK) status = open_and_load(engine, path, &given, &model);
    tsr__free(engine, path);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

tsr_status tsr_model_load_weights(tsr_model *model) {
    tsr_engine *engine = model->engine;
    if (model->loaded)
        return tsr__fail(engine, TSR_ARG, "%s: its weights are in memory already", model->desc->class_name);
    size_t bytes = tsr__model_borrows(model) ? 0 : model->weight_bytes;
    TSR__TRY(tsr__memory_check(engine, model->desc->class_name, bytes, 0, tsr__model_has_plan(model), model->force));
    return tsr_status_agree(engine, tsr__model_load(model));
}

/* --- in memory --- */

/* Copies the ranges of dimension spec->dim of the whole weight, one after another. */
static void cut(const tsr__param *param, const tsr_range *ranges, size_t n, const char *whole, char *part) {
    size_t inner = tsr_dtype_bits(param->view.dtype) / 8;
    int64_t outer = 1;
    for (int d = 0; d < param->view.ndim; d++) {
        if (d < param->spec.dim) outer *= param->whole[d];
        if (d > param->spec.dim) inner *= (size_t)param->whole[d];
    }
    for (int64_t o = 0; o < outer; o++, whole += (size_t)param->whole[param->spec.dim] * inner)
        for (size_t i = 0; i < n; i++) {
            size_t bytes = (size_t)(ranges[i].end - ranges[i].begin) * inner;
            memcpy(part, whole + (size_t)ranges[i].begin * inner, bytes);
            part += bytes;
        }
}

/* The same between device memories that the host may not see. */
static tsr_status cut_on_device(tsr__device *device, const tsr__param *param, const tsr_range *ranges, size_t n,
                                void *part) {
    const tsr__device_ops *ops = device->ops;
    size_t bytes = tsr__view_bytes(&param->view), whole_bytes = tsr_dtype_bits(param->view.dtype) / 8;
    for (int d = 0; d < param->view.ndim; d++) whole_bytes *= (size_t)param->whole[d];
    const char *from = ops->host_pointer(device, param->view.data);
    char *to = ops->host_pointer(device, part);
    char *staging = from && to ? NULL : tsr__alloc(device->engine, whole_bytes + bytes);
    if (!(from && to) && !staging) return TSR_NOMEM;
    tsr_status status = TSR_OK;
    if (staging) status = ops->download(device, staging, param->view.data, whole_bytes);
    if (status == TSR_OK) cut(param, ranges, n, staging ? staging : from, staging ? staging + whole_bytes : to);
    if (status == TSR_OK && staging) status = ops->upload(device, part, staging + whole_bytes, bytes);
    tsr__free(device->engine, staging);
    return status;
}

static tsr_status keep_part(void *user, tsr__param *param) {
    tsr__device *device = user;
    const tsr__tp *tp = &param->owner->tp;
    tsr_range ranges[TSR__MAX_RANGES];
    size_t n = tsr__shard_ranges(&param->spec, tp->rank, tp->degree, ranges);
    if (!n) return TSR_OK;
    void *part = device->ops->alloc(device, tsr__view_bytes(&param->view));
    if (!part) return TSR_NOMEM;
    tsr_status status = cut_on_device(device, param, ranges, n, part);
    device->ops->free(device, status == TSR_OK ? param->view.data : part);
    if (status == TSR_OK) param->view.data = part;
    return status;
}

tsr_status tsr__model_keep_part(tsr_model *model) {
    return tsr__module_visit_params(model->self, keep_part, model->engine->device);
}

static tsr_status check_unsplit(const tsr_model *model, bool weights_already_sharded) {
    const char *name = model->desc->class_name;
    if (model->split)
        return tsr__fail(model->engine, TSR_ARG, "%s is split over ranks already; load it again to split it otherwise",
                         name);
    if (model->loaded == weights_already_sharded)
        return tsr__fail(model->engine, TSR_ARG,
                         model->loaded ? "%s: its weights are in memory, whole; weights_already_sharded must be false"
                                       : "%s has no weights in memory that could be cut; load them first, or give "
                                         "weights_already_sharded to load parts",
                         name);
    return TSR_OK;
}

/* As before the model was laid out, with its weights whole. */
static void take_back(tsr_model *model, const tsr_tp_plan *tp_plan, const tsr_cp_plan *cp_plan) {
    (void)!tsr__model_unsplit(model);
    tsr__layout_close(&model->layout);
    model->tp_plan = *tp_plan;
    model->cp_plan = cp_plan;
}

/* Lays out a model that is open; a refusal leaves it as it was. */
static tsr_status lay_out(tsr_model *model, const tsr_parallel_config *config, const tsr_cp_plan *cp_plan) {
    const tsr_tp_plan tp_plan_before = model->tp_plan;
    const tsr_cp_plan *cp_plan_before = model->cp_plan;
    tsr__layout_close(&model->layout); /* of one rank, which splits nothing */
    TSR__TRY(tsr__layout_open(model->engine, config, &model->layout));
    if (config->tp_plan) model->tp_plan = *config->tp_plan;
    if (cp_plan) model->cp_plan = cp_plan;
    tsr_status status = tsr_status_agree(model->engine, tsr__model_lay_out(model, &model->layout));
    if (status != TSR_OK) take_back(model, &tp_plan_before, cp_plan_before);
    return status;
}

static tsr_status spread(tsr_model *model, const tsr_parallel_config *config, const tsr_cp_plan *cp_plan,
                         bool weights_already_sharded) {
    tsr_engine *engine = model->engine;
    TSR__TRY(tsr_status_agree(engine, check_unsplit(model, weights_already_sharded)));
    TSR__TRY(lay_out(model, config, cp_plan));
    if (weights_already_sharded) return TSR_OK;
    tsr_status status = tsr_status_agree(engine, tsr__model_keep_part(model));
    if (status != TSR_OK) {
        model->sharers = NULL; /* each rank still has weights of its own */
        return status;
    }
    return tsr_status_agree(engine, tsr__model_share(model));
}

tsr_status tsr_apply_tensor_parallel(tsr_model *model, const tsr_tensor_parallel_config *config,
                                     const tsr_tp_plan *plan, bool weights_already_sharded) {
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    parallel.tensor_parallel = config;
    parallel.tp_plan = plan;
    return spread(model, &parallel, NULL, weights_already_sharded);
}

tsr_status tsr_apply_context_parallel(tsr_model *model, const tsr_context_parallel_config *config,
                                      const tsr_cp_plan *plan) {
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    parallel.context_parallel = config;
    return spread(model, &parallel, plan, !model->loaded);
}

tsr_status tsr_model_enable_parallelism(tsr_model *model, const tsr_parallel_config *config) {
    tsr_parallel_config given = TSR_PARALLEL_CONFIG_INIT;
    tsr__take_options(&given, sizeof given, config);
    return spread(model, &given, NULL, false);
}
