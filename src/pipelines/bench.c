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

static uint64_t bytes_sent(const tsr_engine *engine) {
    tsr_traffic traffic[TSR_N_TRAFFIC];
    uint64_t sum = 0;
    tsr_engine_traffic(engine, traffic);
    for (int i = 0; i < TSR_N_TRAFFIC; i++) sum += traffic[i].bytes_sent;
    return sum;
}

static tsr_status measure(tsr__exec *x, tsr_model *model, tsr__call *call, const tsr_bench_step_options *o,
                          tsr_bench_step_result *result) {
    tsr__graph *graph = NULL;
    TSR__TRY(tsr_status_agree(model->engine, tsr__exec_record(x, tsr__call_forward, call, &graph)));
    result->flops = tsr__graph_flops(graph);
    result->weight_bytes = model->weight_bytes;
    result->activation_bytes = tsr__exec_activation_bytes(x);
    TSR__TRY(tsr__memory_check(model->engine, model->desc->class_name, result->weight_bytes, result->activation_bytes,
                               tsr__model_has_plan(model), o->force));
    TSR__TRY(tsr_status_agree(model->engine, tsr__model_load(model)));
    tsr_status status = tsr__exec_reserve(x);
    if (status == TSR_OK) status = make_outputs(model, call);
    TSR__TRY(tsr_status_agree(model->engine, status));
    double begin = tsr__seconds();
    for (int i = 0; i < o->repeats; i++) {
        uint64_t sent = bytes_sent(model->engine);
        double start = tsr__seconds();
        tsr_status ran = tsr__exec_run(x, graph, call);
        result->bytes_sent = bytes_sent(model->engine) - sent;
        TSR__TRY(tsr_status_agree(model->engine, ran));
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
    status = tsr_status_agree(engine, status);
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

/* What a rank does by itself before the others are met. */
static tsr_status open_model(tsr_engine *engine, const tsr_bench_step_options *o, const tsr__layout *layout,
                             tsr_model **out) {
    const int64_t layers[2] = {o->layers, o->other_layers};
    TSR__TRY(check_options(engine, o));
    char *path = tsr__path_is_folder(o->config) ? tsr__path_join(engine, o->config, "config.json")
                                                : tsr__strdup(engine, o->config);
    tsr_status status = path ? tsr__model_from_config(engine, path, o->weights, layers, out) : TSR_NOMEM;
    tsr__free(engine, path);
    return status == TSR_OK ? tsr__model_lay_out(*out, layout) : status;
}

static tsr_status measure_yardstick(tsr_engine *engine, double *gflops) {
    return engine->device->ops->gemm_yardstick(engine->device, YARDSTICK_M, YARDSTICK_K, YARDSTICK_N, YARDSTICK_RUNS,
                                               gflops);
}

tsr_status tsr_bench_step(tsr_engine *engine, const tsr_bench_step_options *options, tsr_bench_step_result *out) {
    tsr_bench_step_options o = TSR_BENCH_STEP_OPTIONS_INIT;
    tsr__take_options(&o, sizeof o, options);
    tsr_bench_step_result result = {0};
    tsr_model *model = NULL;
    tsr__layout layout = {.tp_degree = 1};
    if (o.parallel) TSR__TRY(tsr__layout_open(engine, o.parallel, &layout));
    tsr_status status = tsr_status_agree(engine, open_model(engine, &o, &layout, &model));
    if (status == TSR_OK) status = tsr_status_agree(engine, measure_yardstick(engine, &result.yardstick_gflops));
    if (status == TSR_OK && model) status = run(engine, model, &o, &result);
    tsr_model_destroy(model);
    tsr__layout_close(&layout);
    if (status == TSR_OK) *out = result;
    return status;
}
