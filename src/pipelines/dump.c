/* The stages of a call, kept for comparison. */
#include "io/file.h"
#include "pipelines/pipeline.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

tsr_status tsr__dump_open(tsr_engine *engine, const char *folder, tsr__dump *out) {
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tsr__fail(engine, TSR_IO, "%s: cannot make this folder for the dump: %s", folder, strerror(errno));
    tsr__dump dump = {.engine = engine, .path = tsr__path_join(engine, folder, "stages.safetensors")};
    if (!dump.path) return TSR_NOMEM;
    tsr_status status = tsr_output_check(engine, dump.path);
    if (status != TSR_OK) {
        tsr__free(engine, dump.path);
        return status;
    }
    *out = dump;
    return TSR_OK;
}

static bool make_room(tsr__dump *dump) {
    if (dump->n < dump->capacity) return true;
    size_t capacity = dump->capacity ? 2 * dump->capacity : 64;
    tsr_tensor *tensors = tsr__realloc(dump->engine, dump->tensors, capacity * sizeof *tensors);
    if (!tensors) return false;
    dump->tensors = tensors;
    dump->capacity = capacity;
    return true;
}

tsr_status tsr__dump_take(void *user, const tsr_tensor *output) {
    tsr__dump *dump = user;
    tsr_tensor t = *output;
    char *name = make_room(dump) ? tsr__strdup(dump->engine, output->name) : NULL;
    t.name = name;
    t.data = name ? tsr__alloc(dump->engine, tsr_tensor_bytes(&t)) : NULL;
    if (!t.data) {
        tsr__free(dump->engine, name);
        return TSR_NOMEM;
    }
    memcpy(t.data, output->data, tsr_tensor_bytes(&t));
    dump->tensors[dump->n++] = t;
    return TSR_OK;
}

tsr_status tsr__dump_save(tsr__dump *dump) {
    if (!dump->path) return TSR_OK;
    return tsr_safetensors_save(dump->engine, dump->path, dump->tensors, dump->n, NULL);
}

void tsr__dump_free(tsr__dump *dump) {
    for (size_t i = 0; i < dump->n; i++) {
        tsr__free(dump->engine, (char *)(uintptr_t)dump->tensors[i].name);
        tsr__free(dump->engine, dump->tensors[i].data);
    }
    tsr__free(dump->engine, dump->tensors);
    tsr__free(dump->engine, dump->path);
}
