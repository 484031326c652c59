#include "tensors.h"

#include <stdlib.h>
#include <string.h>

#include <tessera/checkpoint.h>

/* The name without what files of saved inputs put in front. */
static const char *bare_name(const char *name) {
    static const char *const prefixes[] = {"transformer_in.", "in."};
    for (size_t i = 0; i < TSR__COUNT(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return name;
}

size_t test_tensors_read(tsr_engine *engine, const char *path, tsr_tensor *tensors, size_t most) {
    tsr_checkpoint *file = NULL;
    assert_ok(engine, tsr_checkpoint_open(engine, path, &file));
    size_t n = tsr_checkpoint_count(file);
    assert_true(n <= most);
    for (size_t i = 0; i < n; i++) {
        const tsr_tensor_info *info = tsr_checkpoint_at(file, i);
        tsr_tensor t = {.dtype = info->dtype, .ndim = info->ndim, .data = malloc(info->size + 1)};
        t.name = strdup(bare_name(info->name));
        assert_true(t.name && t.data);
        memcpy(t.shape, info->shape, sizeof info->shape);
        assert_ok(engine, tsr_checkpoint_read(file, info, 0, NULL, 0, t.data, info->size));
        tensors[i] = t;
    }
    tsr_checkpoint_close(file);
    return n;
}

tsr_tensor *test_tensors_find(tsr_tensor *tensors, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

void test_tensors_release(tsr_tensor *tensors, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free((char *)(uintptr_t)tensors[i].name);
        free(tensors[i].data);
    }
}
