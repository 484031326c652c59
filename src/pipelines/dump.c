/* The stages of a call, kept for comparison. */
#include "base/text.h"
#include "io/file.h"
#include "pipelines/pipeline.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

tsr_status tsr__dump_open(tsr_engine *engine, const char *folder, bool blocks, tsr__dump *out) {
    tsr__dump dump = {.engine = engine, .blocks = blocks};
    if (folder) {
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return tsr__fail(engine, TSR_IO, "%s: cannot make this folder for the dump: %s", folder, strerror(errno));
        dump.path = tsr__path_join(engine, folder, "stages.safetensors");
        if (!dump.path) return TSR_NOMEM;
        tsr_status status = tsr_output_check(engine, dump.path);
        if (status != TSR_OK) {
            tsr__free(engine, dump.path);
            return status;
        }
    }
    *out = dump;
    return TSR_OK;
}

static bool has(const tsr__dump *dump, const char *name) {
    for (size_t i = 0; i < dump->n; i++)
        if (strcmp(dump->tensors[i].name, name) == 0) return true;
    return false;
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

/* Room for a new tensor of that name; NULL where there is no memory. */
static void *add_empty(tsr__dump *dump, const char *name, tsr_dtype dtype, int ndim, const int64_t *shape) {
    tsr_tensor t = {.dtype = dtype, .ndim = ndim};
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    char *copy = make_room(dump) ? tsr__strdup(dump->engine, name) : NULL;
    t.name = copy;
    t.data = copy ? tsr__alloc(dump->engine, tsr_tensor_bytes(&t)) : NULL;
    if (!t.data) {
        tsr__free(dump->engine, copy);
        dump->status = TSR_NOMEM;
        return NULL;
    }
    dump->tensors[dump->n++] = t;
    return t.data;
}

void tsr__dump_add(tsr__dump *dump, const char *name, tsr_dtype dtype, int ndim, const int64_t *shape,
                   const void *data) {
    if (!dump->path || dump->status != TSR_OK || has(dump, name)) return;
    void *copy = add_empty(dump, name, dtype, ndim, shape);
    if (copy) memcpy(copy, data, tsr_tensor_bytes(&dump->tensors[dump->n - 1]));
}

/* False where this output is not wanted. */
static bool name_output(const tsr__dump *dump, const tsr__module *module, int index, tsr__text *name) {
    const char *component = dump->tapped->component;
    char path[TSR__PATH_BYTES];
    if (module == dump->tapped->self) {
        tsr__text_format(name, "%s_out", component);
        if (has(dump, name->data)) {
            name->length = 0;
            tsr__text_format(name, "neg_%s_out", component);
        }
    } else if (dump->blocks) {
        tsr__text_format(name, "%s.%s#%d", component, tsr__module_path(module, path, sizeof path), index);
    }
    return name->length && !name->failed && !has(dump, name->data);
}

static void tap(void *user, tsr__exec *x, const void *owner, int index, tsr__value v) {
    tsr__dump *dump = user;
    tsr__text name = {.engine = dump->engine};
    if (dump->status == TSR_OK && name_output(dump, owner, index, &name)) {
        float *data = add_empty(dump, name.data, TSR_F32, v.ndim, v.shape);
        if (data) dump->status = tsr__exec_peek(x, v, data);
    }
    tsr__text_free(&name);
}

void tsr__dump_tap(tsr__dump *dump, tsr__exec *x, const tsr_model *model) {
    dump->tapped = model;
    tsr__exec_set_tap(x, dump->path && model ? tap : NULL, dump);
}

tsr_status tsr__dump_save(tsr__dump *dump) {
    if (!dump->path) return TSR_OK;
    TSR__TRY(dump->status);
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
