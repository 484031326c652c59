#include "models/outputs.h"

#include <stdio.h>
#include <string.h>

void tsr__outputs_add(tsr__outputs *o, tsr_output_hook call, void *user, bool modules) {
    o->hooks[o->n].call = call;
    o->hooks[o->n].user = user;
    o->hooks[o->n++].modules = modules;
}

bool tsr__outputs_modules_wanted(const tsr__outputs *o) {
    bool wanted = false;
    for (size_t i = 0; i < o->n; i++) wanted |= o->hooks[i].modules;
    return wanted;
}

bool tsr__outputs_told(const tsr__outputs *o) { return o->n > 0 && o->engine->rank == 0; }

/* A hook that leaves no message of its own in the engine gets one. */
static void tell(tsr__outputs *o, const tsr_tensor *output, bool of_module) {
    for (size_t i = 0; i < o->n && o->status == TSR_OK; i++) {
        if (of_module && !o->hooks[i].modules) continue;
        *o->engine->message = '\0';
        o->status = o->hooks[i].call(o->hooks[i].user, output);
        if (o->status != TSR_OK && !*o->engine->message)
            (void)tsr__fail(o->engine, o->status, "the output hook ended the call at %s", output->name);
    }
}

void tsr__outputs_stage(tsr__outputs *o, const char *name, tsr_dtype dtype, int ndim, const int64_t *shape,
                        const void *data) {
    if (!tsr__outputs_told(o)) return;
    tsr_tensor t = {.name = name, .dtype = dtype, .ndim = ndim, .data = (void *)(uintptr_t)data};
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    tell(o, &t, false);
}

enum { NAME = TSR__PATH_BYTES + 64 };

/* False where nobody wants this output. A module that runs again, as in a second pass, is not told again. */
static bool name_output(const tsr__outputs *o, const tsr__module *module, int index, int nth, char name[NAME]) {
    const char *component = o->model->component;
    char path[TSR__PATH_BYTES];
    if (module == o->model->self) {
        snprintf(name, NAME, "%s%s_out", nth ? "neg_" : "", component);
        return nth < 2;
    }
    snprintf(name, NAME, "%s.%s#%d", component, tsr__module_path(module, path, sizeof path), index);
    return nth == 0 && tsr__outputs_modules_wanted(o);
}

static tsr_status tap(void *user, tsr__exec *x, const void *owner, int index, int nth, tsr__value v) {
    tsr__outputs *o = user;
    char name[NAME];
    if (!name_output(o, owner, index, nth, name)) return TSR_OK;
    tsr__value whole = tsr__whole_shape(x, v);
    tsr_tensor t = {.name = name, .dtype = TSR_F32, .ndim = whole.ndim};
    memcpy(t.shape, whole.shape, sizeof t.shape);
    t.data = tsr__alloc(o->engine, tsr_tensor_bytes(&t));
    bool complete = false;
    tsr_status status = tsr__exec_peek_whole(x, v, t.data, &complete);
    if (status == TSR_OK && complete && tsr__outputs_told(o)) {
        tell(o, &t, owner != o->model->self);
        status = o->status;
    }
    tsr__free(o->engine, t.data);
    return status;
}

void tsr__outputs_watch(tsr__outputs *o, tsr__exec *x, const tsr_model *model) {
    o->model = model;
    tsr__exec_set_tap(x, o->n && model ? tap : NULL, o);
}
