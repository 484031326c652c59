/* Running a model: host tensors in, host tensors out. */
#include "base/machine.h"
#include "models/outputs.h"

#include <stdlib.h>
#include <string.h>

/* What the ranks of this host need together, and the least that any of them sees available. */
static tsr_status add_up_host(tsr_engine *engine, size_t need[2], size_t *available) {
    size_t own[3] = {need[0], need[1], *available}, all[TSR__MAX_RANKS][3];
    tsr__comm *host = NULL;
    tsr_status status = tsr_status_agree(engine, tsr__comm_split_host(tsr__world(engine), &host));
    int n = host ? host->size : 1;
    if (status == TSR_OK) status = tsr__all_gather_equal(host, own, sizeof own, all);
    tsr__comm_destroy(host);
    if (status != TSR_OK) return status;
    need[0] = need[1] = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++)
            if (!tsr__add(need[k], all[i][k], &need[k])) need[k] = SIZE_MAX;
        if (all[i][2] < *available) *available = all[i][2];
    }
    return TSR_OK;
}

static tsr_status compare_memory(tsr_engine *engine, const char *what, const size_t need[2], size_t available,
                                 bool splits, bool force) {
    const double mb = 1e6;
    size_t sum = 0;
    if (!tsr__add(need[0], need[1], &sum)) sum = SIZE_MAX;
    tsr__log(engine, TSR_LOG_INFO, "%s: %.1f MB of weights and %.1f MB of activations; %.1f MB are available", what,
             (double)need[0] / mb, (double)need[1] / mb, (double)available / mb);
    if (sum <= available) return TSR_OK;
    if (force) {
        tsr__log(engine, TSR_LOG_WARNING, "%s needs %.1f MB, but the machine has %.1f MB available; going on as asked",
                 what, (double)sum / mb, (double)available / mb);
        return TSR_OK;
    }
    return tsr__fail(engine, TSR_NOMEM,
                     "%s needs %.1f MB of memory (%.1f MB weights, %.1f MB activations), but the machine has %.1f MB "
                     "available; draw smaller%s, or go on with --force",
                     what, (double)sum / mb, (double)need[0] / mb, (double)need[1] / mb, (double)available / mb,
                     splits ? ", split it over more ranks" : "");
}

tsr_status tsr__memory_check(tsr_engine *engine, const char *what, size_t weights, size_t activations, bool splits,
                             bool force) {
    size_t available = tsr__memory_available(""), need[2] = {weights, activations};
    TSR__TRY(add_up_host(engine, need, &available));
    return tsr_status_agree(engine, compare_memory(engine, what, need, available, splits, force));
}

/* --- one forward --- */

void tsr__model_forward(tsr__exec *x, const tsr_model *model, const tsr__value *in, tsr__value *out) {
    const tsr_model_desc *desc = model->desc;
    tsr__module *root = model->self;
    tsr__value arguments[TSR__MAX_ARGUMENTS];
    for (int i = 0; desc->inputs[i].name; i++)
        arguments[i] = tsr__port_in(x, root, desc->inputs[i].name, in[i], desc->inputs[i].batched);
    desc->forward(x, root, arguments, out);
    for (int i = 0; desc->outputs[i]; i++) out[i] = tsr__port_out(x, root, i, out[i]);
    if (!tsr__exec_stopped(x)) tsr__cp_check_used(x, root);
}

void tsr__call_forward(tsr__exec *x, void *context) {
    tsr__call *call = context;
    const tsr_model_desc *desc = call->model->desc;
    tsr__value in[TSR__MAX_ARGUMENTS], out[TSR__MAX_RESULTS];
    for (int i = 0; i < TSR__MAX_ARGUMENTS; i++) {
        const tsr_tensor *t = &call->inputs[i];
        bool given = desc->inputs[i].name && t->ndim > 0;
        in[i] = given ? tsr__upload(x, t->dtype, t->ndim, t->shape, t->data) : tsr__none();
    }
    for (int i = 0; i < TSR__MAX_RESULTS; i++) out[i] = tsr__none();
    tsr__model_forward(x, call->model, in, out);
    for (int i = 0; desc->outputs[i] && !tsr__exec_stopped(x); i++) {
        tsr_tensor *t = &call->outputs[i];
        *t = (tsr_tensor){.name = desc->outputs[i], .dtype = TSR_F32, .ndim = out[i].ndim, .data = t->data};
        memcpy(t->shape, out[i].shape, sizeof t->shape);
        tsr__download(x, out[i], t->data);
    }
}

tsr__call tsr__call_for_picture(const tsr_model *model, const tsr__picture *picture) {
    int64_t shapes[TSR__MAX_ARGUMENTS][TSR_MAX_DIMS] = {{0}};
    tsr__call call = {.model = model};
    model->desc->input_shapes(model->self, picture, shapes);
    for (int i = 0; model->desc->inputs[i].name; i++) {
        const tsr__argument *a = &model->desc->inputs[i];
        if (!shapes[i][0]) continue;
        call.inputs[i] = (tsr_tensor){.name = a->name, .dtype = a->dtype, .ndim = a->ndim};
        memcpy(call.inputs[i].shape, shapes[i], sizeof shapes[i]);
    }
    return call;
}

/* --- named tensors --- */

static bool convert(const tsr_tensor *from, tsr_dtype to, void *data, size_t n) {
    if (from->dtype == to) {
        memcpy(data, from->data, tsr_tensor_bytes(from));
        return true;
    }
    float *f32 = data;
    if (to == TSR_F32) return tsr_convert_to_f32(from->dtype, from->data, f32, n);
    if (from->dtype == TSR_I32) {
        for (size_t i = 0; i < n; i++) ((int64_t *)data)[i] = ((const int32_t *)from->data)[i];
        return true;
    }
    for (size_t i = 0; i < n; i++) { /* ids that somebody stored as floats */
        float value = 0.0f;
        const char *at = (const char *)from->data + i * tsr_dtype_bits(from->dtype) / 8;
        if (!tsr_convert_to_f32(from->dtype, at, &value, 1)) return false;
        ((int64_t *)data)[i] = (int64_t)value;
    }
    return true;
}

/* A copy of `given` in the argument's dtype and number of dimensions. */
static tsr_status take_input(tsr_engine *engine, const tsr__argument *argument, const tsr_tensor *given,
                             tsr_tensor *out) {
    tsr_tensor t = *given;
    while (t.ndim > argument->ndim && (t.shape[0] == 1 || (argument->batched && t.ndim == argument->ndim + 1))) {
        memmove(t.shape, t.shape + 1, (size_t)(TSR_MAX_DIMS - 1) * sizeof *t.shape);
        t.ndim--;
    }
    size_t n = (size_t)tsr_tensor_elements(&t);
    if (t.ndim != argument->ndim || n == 0)
        return tsr__fail(engine, TSR_SHAPE,
                         "input \"%s\" has %d dimensions and %zu elements, but must have %d dimensions", argument->name,
                         given->ndim, n, argument->ndim);
    void *data = tsr__alloc(engine, n * tsr_dtype_bits(argument->dtype) / 8);
    if (!data) return TSR_NOMEM;
    if (!convert(&t, argument->dtype, data, n)) {
        tsr__free(engine, data);
        return tsr__fail(engine, TSR_UNSUPPORTED, "input \"%s\" is stored as %s, which cannot be converted",
                         argument->name, tsr_dtype_name(given->dtype));
    }
    t.dtype = argument->dtype;
    t.data = data;
    *out = t;
    return TSR_OK;
}

static tsr_status take_inputs(tsr_model *model, const tsr_tensor *inputs, size_t n, tsr__call *call) {
    for (int i = 0; model->desc->inputs[i].name; i++) {
        const tsr__argument *argument = &model->desc->inputs[i];
        const tsr_tensor *given = NULL;
        for (size_t j = 0; j < n && !given; j++)
            if (strcmp(inputs[j].name, argument->name) == 0) given = &inputs[j];
        if (given)
            TSR__TRY(take_input(model->engine, argument, given, &call->inputs[i]));
        else if (!argument->optional)
            return tsr__fail(model->engine, TSR_ARG, "%s needs the input \"%s\", which was not given",
                             model->desc->class_name, argument->name);
    }
    return TSR_OK;
}

/* The arena, and host memory for the outputs. */
static tsr_status make_room(tsr__exec *x, tsr__call *call) {
    TSR__TRY(tsr__exec_reserve(x));
    for (int i = 0; call->model->desc->outputs[i]; i++) {
        call->outputs[i].data = tsr__alloc(call->model->engine, tsr_tensor_bytes(&call->outputs[i]));
        if (!call->outputs[i].data) return TSR_NOMEM;
    }
    return TSR_OK;
}

static tsr_status run(tsr_model *model, tsr__exec *x, tsr__call *call) {
    tsr__graph *graph = NULL;
    tsr__outputs outputs = {.engine = model->engine};
    if (model->hook) tsr__outputs_add(&outputs, model->hook, model->hook_user, true);
    tsr__outputs_watch(&outputs, x, model);
    tsr__exec_explain(x, tsr__outputs_modules_wanted(&outputs));
    TSR__TRY(tsr_status_agree(model->engine, tsr__exec_record(x, tsr__call_forward, call, &graph)));
    TSR__TRY(tsr__memory_check(model->engine, model->desc->class_name, 0, tsr__exec_activation_bytes(x),
                               tsr__model_has_plan(model), false));
    if (!model->loaded) return TSR_OK; /* the shapes are all there is to know */
    TSR__TRY(tsr_status_agree(model->engine, make_room(x, call)));
    return tsr_status_agree(model->engine, tsr__exec_run(x, graph, call));
}

/* What the caller gets: the outputs, in a list that was allocated when all ranks could still agree on a failure. */
static size_t give_outputs(tsr__call *call, tsr_tensor *list) {
    size_t n = 0;
    while (call->model->desc->outputs[n]) n++;
    memcpy(list, call->outputs, n * sizeof *list);
    memset(call->outputs, 0, sizeof call->outputs);
    return n;
}

tsr_status tsr_model_forward(tsr_model *model, const tsr_tensor *inputs, size_t n_inputs, tsr_tensor **outputs,
                             size_t *n_outputs) {
    tsr__call call = {.model = model};
    tsr__exec *x = NULL;
    tsr_tensor *list = tsr__calloc(model->engine, TSR__MAX_RESULTS, sizeof *list);
    tsr_status status = list ? take_inputs(model, inputs, n_inputs, &call) : TSR_NOMEM;
    if (status == TSR_OK) status = tsr__exec_create(model->engine, model->dtype, &x);
    status = tsr_status_agree(model->engine, status);
    if (status == TSR_OK) status = run(model, x, &call);
    if (status == TSR_OK && list) {
        *n_outputs = give_outputs(&call, list);
        *outputs = list;
        list = NULL;
    }
    tsr__exec_destroy(x);
    tsr__free(model->engine, list);
    for (int i = 0; i < TSR__MAX_ARGUMENTS; i++) tsr__free(model->engine, call.inputs[i].data);
    for (int i = 0; i < TSR__MAX_RESULTS; i++) tsr__free(model->engine, call.outputs[i].data);
    return status;
}

void tsr_model_set_output_hook(tsr_model *model, tsr_output_hook hook, void *user) {
    model->hook = hook;
    model->hook_user = user;
}

bool tsr_model_has_input(const tsr_model *model, const char *name) {
    for (int i = 0; model->desc->inputs[i].name; i++)
        if (strcmp(model->desc->inputs[i].name, name) == 0) return true;
    return false;
}

void tsr_tensors_free(tsr_engine *engine, tsr_tensor *tensors, size_t n) {
    for (size_t i = 0; tensors && i < n; i++) tsr__free(engine, tensors[i].data);
    tsr__free(engine, tensors);
}
