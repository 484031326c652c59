#include "transformer.h"

#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 12, TEXT = 8, ODD_TOKENS = 13, ODD_TEXT = 7, UNIT = 16 };

tsr_status rank_open_part(tsr_engine *engine, const char *part, const tsr_parallel_config *config, bool meta,
                          tsr_model **out) {
    const char *source = getenv("TESSERA_SOURCE");
    char folder[2048];
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    snprintf(folder, sizeof folder, "%s/tests/fixtures/klein", source ? source : ".");
    how.subfolder = part;
    how.parallel = config;
    how.meta = meta;
    return tsr_model_from_pretrained(engine, folder, &how, out);
}

/* Numbers that are the same on every rank; the caller frees the data. odd: lengths that divide over nothing. */
static size_t make_inputs(const tsr_model *model, bool odd, tsr_tensor *inputs) {
    int64_t shapes[TSR__MAX_ARGUMENTS][TSR_MAX_DIMS] = {{0}};
    size_t n = 0;
    const tsr__picture picture = {.height = UNIT * (odd ? ODD_TOKENS : TOKENS),
                                  .width = UNIT,
                                  .unit = UNIT,
                                  .text_tokens = odd ? ODD_TEXT : TEXT,
                                  .rows = BATCH,
                                  .passes = 1};
    model->desc->input_shapes(model->self, &picture, shapes);
    for (int i = 0; model->desc->inputs[i].name; i++) {
        const tsr__argument *a = &model->desc->inputs[i];
        if (!shapes[i][0]) continue;
        tsr_tensor t = {.name = a->name, .dtype = TSR_F32, .ndim = a->ndim};
        if (!a->batched) shapes[i][0] = BATCH;
        memcpy(t.shape, shapes[i], sizeof t.shape);
        float *data = malloc(tsr_tensor_bytes(&t));
        for (int64_t k = 0; data && k < tsr_tensor_elements(&t); k++) {
            uint64_t random = rank_random(7, (uint64_t)i, (uint64_t)k);
            data[k] = a->dtype == TSR_I64 ? (float)(random % 11) : (float)(random % 1000) / 500 - 1;
        }
        t.data = data;
        inputs[n++] = t;
    }
    return n;
}

tsr_status rank_forward(tsr_engine *engine, tsr_model *model, bool odd, float *out, size_t *n) {
    tsr_tensor inputs[TSR__MAX_ARGUMENTS], *outputs = NULL;
    size_t n_inputs = make_inputs(model, odd, inputs), n_outputs = 0;
    tsr_status status = tsr_model_forward(model, inputs, n_inputs, &outputs, &n_outputs);
    *n = status == TSR_OK ? (size_t)tsr_tensor_elements(outputs) : 0;
    if (*n && *n <= RANK_FLOATS) memcpy(out, outputs->data, *n * sizeof *out);
    tsr_tensors_free(engine, outputs, n_outputs);
    for (size_t i = 0; i < n_inputs; i++) free(inputs[i].data);
    return status;
}

tsr_status rank_open_mesh(tsr_engine *engine, const rank_axis *axes, tsr_device_mesh **out) {
    const char *names[RANK_AXES];
    int shape[RANK_AXES], n = 0;
    for (; n < RANK_AXES && axes[n].name; n++) {
        names[n] = axes[n].name;
        shape[n] = axes[n].size == RANK_ALL ? tsr_engine_size(engine) : axes[n].size;
    }
    return n ? tsr_device_mesh_create(engine, shape, names, n, out) : TSR_OK;
}
