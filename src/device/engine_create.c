/* An engine owns a device, so it is made here and not in base. */
#include "device/device.h"

tsr_status tsr_engine_create(const tsr_engine_options *options, tsr_engine **out) {
    tsr_engine_options given = TSR_ENGINE_OPTIONS_INIT;
    tsr__take_options(&given, sizeof given, options);
    const tsr__device_ops *ops = tsr__device_find(given.device);
    if (!ops || given.threads < 0) return TSR_ARG;
    tsr_engine bootstrap = {.options = given, .size = 1};
    atomic_init(&bootstrap.allocator.fail_at, -1);
    tsr_engine *engine = tsr__calloc(&bootstrap, 1, sizeof *engine);
    if (!engine) return TSR_NOMEM;
    engine->options = given;
    engine->size = 1;
    atomic_init(&engine->allocator.fail_at, -1);
    tsr_status status = tsr__device_create(engine, ops, given.threads, &engine->device);
    if (status != TSR_OK) {
        tsr__log(engine, TSR_LOG_ERROR, "%s", engine->message);
        tsr__free(&bootstrap, engine);
        return status;
    }
    *out = engine;
    return TSR_OK;
}

void tsr_engine_destroy(tsr_engine *engine) {
    if (!engine) return;
    tsr__device_destroy(engine->device);
    tsr_engine bootstrap = {.options = engine->options};
    tsr__free(&bootstrap, engine); /* it was counted before it existed */
}

const char *tsr_engine_device_description(const tsr_engine *engine) { return engine->device->description; }
