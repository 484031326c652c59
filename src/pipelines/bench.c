/* A full-size step without a checkpoint. */
#include "io/file.h"
#include "models/models.h"

#include <tessera/bench.h>

#include <string.h>

enum { YARDSTICK_M = 1536, YARDSTICK_K = 3072, YARDSTICK_N = 9216, YARDSTICK_RUNS = 3 };

static tsr_status make_inputs(const tsr_model *model, const tsr_bench_step_options *o, tsr__call *call) {
    const tsr__picture picture = {o->tokens, 1, 1, o->text_tokens, 1, 1}; /* a token for each pixel */
    if (strcmp(model->desc->component, "transformer") != 0)
        return tsr__fail(model->engine, TSR_UNSUPPORTED, "%s is no transformer to be measured",
                         model->desc->class_name);
    *call = tsr__call_for_picture(model, &picture);
    for (int i = 0; model->desc->inputs[i].name; i++) {
        tsr_tensor *t = &call->inputs[i];
        if (!t->ndim) continue;
        t->data = tsr__calloc(model->engine, 1, tsr_tensor_bytes(t));
        if (!t->data) return TSR_NOMEM;
        if (t->dtype != TSR_F32) continue;
        float *values = t->data; /* anything but zeros, which some machines multiply faster */
        for (int64_t j = 0; j < tsr_tensor_elements(t); j++) values[j] = (float)(j * 7919 % 2003) / 1001.5f - 1.0f;
    }
    return TSR_OK;
}

static tsr_status make_outputs(const tsr_model *model, tsr__call *call) {
    for (int i = 0; model->desc->outputs[i]; i++) {
        call->outputs[i].data = tsr__alloc(model->engine, tsr_tensor_bytes(&call->outputs[i]));
        if (!call->outputs[i].data) return TSR_NOMEM;
    }
    return TSR_OK;
}

static tsr_status measure(tsr__exec *x, tsr_model *model, tsr__call *call, const tsr_bench_step_options *o,
                          tsr_bench_step_result *result) {
    tsr__graph *graph = NULL;
    TSR__TRY(tsr__exec_record(x, tsr__call_forward, call, &graph));
    result->flops = tsr__graph_flops(graph);
    result->weight_bytes = model->weight_bytes;
    result->activation_bytes = tsr__exec_activation_bytes(x);
    TSR__TRY(tsr__memory_check(model->engine, model->desc->class_name, result->weight_bytes, result->activation_bytes,
                               o->force));
    TSR__TRY(tsr__model_load(model));
    TSR__TRY(tsr__exec_reserve(x));
    TSR__TRY(make_outputs(model, call));
    double begin = tsr__seconds();
    for (int i = 0; i < o->repeats; i++) {
        double start = tsr__seconds();
        TSR__TRY(tsr__exec_run(x, graph, call));
        double seconds = tsr__seconds() - start;
        if (i == 0 || seconds < result->seconds) result->seconds = seconds;
        tsr_progress now = {TSR_PHASE_DENOISE, "transformer", (uint64_t)i + 1, (uint64_t)o->repeats,
                            tsr__seconds() - begin};
        TSR__TRY(tsr__progress(model->engine, &now));
    }
    result->ratio = result->seconds * result->yardstick_gflops * 1e9 / result->flops;
    return TSR_OK;
}

static tsr_status run(tsr_engine *engine, tsr_model *model, const tsr_bench_step_options *o,
                      tsr_bench_step_result *result) {
    tsr__call call = {.model = model};
    tsr__exec *x = NULL;
    tsr_status status = make_inputs(model, o, &call);
    if (status == TSR_OK) status = tsr__exec_create(engine, o->dtype, &x);
    if (status == TSR_OK) status = measure(x, model, &call, o, result);
    tsr__exec_destroy(x);
    for (int i = 0; i < TSR__MAX_ARGUMENTS; i++) tsr__free(engine, call.inputs[i].data);
    for (int i = 0; i < TSR__MAX_RESULTS; i++) tsr__free(engine, call.outputs[i].data);
    return status;
}

static tsr_status check_options(tsr_engine *engine, const tsr_bench_step_options *o) {
    bool weights = o->weights == TSR_BF16 || o->weights == TSR_F16 || o->weights == TSR_F32;
    if (o->config && o->tokens > 0 && o->text_tokens > 0 && o->repeats > 0 && weights) return TSR_OK;
    return tsr__fail(engine, TSR_ARG,
                     "bench step needs a config, tokens, text_tokens and repeats above 0, and weights in "
                     "bfloat16, float16 or float32");
}

tsr_status tsr_bench_step(tsr_engine *engine, const tsr_bench_step_options *options, tsr_bench_step_result *out) {
    tsr_bench_step_options o = TSR_BENCH_STEP_OPTIONS_INIT;
    tsr__take_options(&o, sizeof o, options);
    TSR__TRY(check_options(engine, &o));
    char *path =
        tsr__path_is_folder(o.config) ? tsr__path_join(engine, o.config, "config.json") : tsr__strdup(engine, o.config);
    if (!path) return TSR_NOMEM;
    tsr_bench_step_result result = {0};
    tsr_model *model = NULL;
    const int64_t layers[2] = {o.layers, o.other_layers};
    tsr_status status = tsr__model_from_config(engine, path, o.weights, layers, &model);
    if (status == TSR_OK)
        status = engine->device->ops->gemm_yardstick(engine->device, YARDSTICK_M, YARDSTICK_K, YARDSTICK_N,
                                                     YARDSTICK_RUNS, &result.yardstick_gflops);
    if (status == TSR_OK) status = run(engine, model, &o, &result);
    tsr_model_destroy(model);
    tsr__free(engine, path);
    if (status == TSR_OK) *out = result;
    return status;
}
