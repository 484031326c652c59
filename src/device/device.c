#include "device/device.h"

#include <string.h>

const char *tsr__op_name(tsr__op_kind kind) {
    static const char *const names[] = {
#define NAME(name) #name,
        TSR__OP_LIST(NAME)
#undef NAME
    };
    return (size_t)kind < TSR__OP_COUNT ? names[kind] : "?";
}

const tsr__device_ops *tsr__device_find(const char *name) {
    /* the first is the default */
    static const tsr__device_ops *const all[] = {
#ifndef TSR__NO_CPU_DEVICE
        &tsr__device_cpu,
#endif
        &tsr__device_ref, &tsr__device_meta};
    for (size_t i = 0; i < TSR__COUNT(all); i++)
        if (!name || strcmp(name, all[i]->name) == 0) return all[i];
    return NULL;
}

tsr_status tsr__device_create(tsr_engine *engine, const tsr__device_ops *ops, int threads, tsr__device **out) {
    tsr__device *device = tsr__calloc(engine, 1, sizeof *device);
    if (!device) return TSR_NOMEM;
    *device = (tsr__device){.ops = ops, .engine = engine, .threads = threads};
    tsr_status status = ops->create(engine, device);
    if (status != TSR_OK) {
        tsr__free(engine, device);
        return status;
    }
    *out = device;
    return TSR_OK;
}

void tsr__device_destroy(tsr__device *device) {
    if (!device) return;
    device->ops->destroy(device);
    tsr__free(device->engine, device);
}

int64_t tsr__view_elements(const tsr__view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->ndim; i++) n *= view->shape[i];
    return n;
}

size_t tsr__view_bytes(const tsr__view *view) {
    return (size_t)tsr__view_elements(view) * tsr_dtype_bits(view->dtype) / 8;
}

tsr__view tsr__view_dense(void *data, tsr_dtype dtype, int ndim, const int64_t *shape) {
    tsr__view view = {.data = data, .dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        view.shape[i] = shape[i];
        view.stride[i] = stride;
        stride *= shape[i];
    }
    return view;
}

bool tsr__view_is_dense(const tsr__view *view) {
    int64_t stride = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        if (view->shape[i] != 1 && view->stride[i] != stride) return false;
        stride *= view->shape[i];
    }
    return true;
}
