/* The device of shapes alone: every operation succeeds and computes nothing. */
#include "device/device.h"

#include <stdio.h>

static tsr_status meta_create(tsr_engine *engine, tsr__device *device) {
    (void)engine;
    snprintf(device->description, sizeof device->description, "meta: shapes only");
    return TSR_OK;
}

static void meta_destroy(tsr__device *device) { (void)device; }

/* Never read or written: any address that is not NULL. */
static void *meta_alloc(tsr__device *device, size_t bytes) {
    (void)bytes;
    return device;
}

static void meta_free(tsr__device *device, void *pointer) {
    (void)device;
    (void)pointer;
}

static void *meta_host_pointer(tsr__device *device, void *pointer) {
    (void)device;
    (void)pointer;
    return NULL;
}

static tsr_status meta_copy(tsr__device *device, void *dst, const void *src, size_t bytes) {
    (void)device;
    (void)dst;
    (void)src;
    (void)bytes;
    return TSR_OK;
}

static size_t meta_scratch_bytes(tsr__device *device, const tsr__op *op) {
    (void)device;
    (void)op;
    return 0;
}

static tsr_status meta_run(tsr__device *device, const tsr__op *op) {
    (void)device;
    (void)op;
    return TSR_OK;
}

static tsr_status meta_gemm_yardstick(tsr__device *device, int64_t m, int64_t k, int64_t n, int runs, double *gflops) {
    (void)m;
    (void)k;
    (void)n;
    (void)runs;
    (void)gflops;
    return tsr__fail(device->engine, TSR_UNSUPPORTED, "the meta device computes nothing; measure on the cpu device");
}

const tsr__device_ops tsr__device_meta = {
    .name = "meta",
    .create = meta_create,
    .destroy = meta_destroy,
    .alloc = meta_alloc,
    .free = meta_free,
    .host_pointer = meta_host_pointer,
    .upload = meta_copy,
    .download = meta_copy,
    .scratch_bytes = meta_scratch_bytes,
#define SLOT(name) [TSR__OP_##name] = meta_run,
    .run = {TSR__OP_LIST(SLOT)},
#undef SLOT
    .gemm_yardstick = meta_gemm_yardstick,
};
