#include "layouts.h"

static tsr_status open_one(tsr_engine *engine, int ring, bool swapped, bool anything, rank_layouts *l) {
    const char *const names[] = {"ring", "ulysses", "ring"};
    const int ulysses = tsr_engine_size(engine) / ring, shape[] = {ring, ulysses, ring};
    tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    int i = l->n++;
    TSR__TRY(tsr_device_mesh_create(engine, shape + swapped, names + swapped, 2, &l->mesh[i]));
    cp.mesh = l->mesh[i];
    cp.ring_anything = anything && ring > 1;
    cp.ulysses_anything = anything && ulysses > 1;
    config.context_parallel = &cp;
    return tsr__layout_open(engine, &config, &l->layout[i]);
}

tsr_status rank_layouts_open(tsr_engine *engine, bool anything, rank_layouts *l) {
    int size = tsr_engine_size(engine);
    *l = (rank_layouts){.n = 0};
    for (int ring = 1; ring <= size && size > 1; ring++)
        for (int swapped = 0; swapped < 2 && size % ring == 0; swapped++)
            TSR__TRY(open_one(engine, ring, swapped, anything, l));
    return TSR_OK;
}

void rank_layouts_close(rank_layouts *l) {
    for (int i = 0; i < l->n; i++) {
        tsr__layout_close(&l->layout[i]);
        tsr_device_mesh_destroy(l->mesh[i]);
    }
}

tsr__split rank_split(const tsr__sequence *sequence, int dim, int64_t length) {
    tsr__split split = {.dim = dim, .n_parts = 1, .parts = {length}, .sequence = sequence};
    split.comm = sequence ? sequence->all : NULL;
    split.pieces = sequence ? sequence->all->size : 1;
    return split;
}

tsr_status rank_run(tsr_engine *engine, tsr__forward forward, void *context) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    TSR__TRY(tsr__exec_create(engine, TSR_F32, &x));
    tsr_status status = tsr__exec_record(x, forward, context, &graph);
    if (status == TSR_OK) status = tsr__exec_reserve(x);
    if (status == TSR_OK) status = tsr__exec_run(x, graph, context);
    tsr__exec_destroy(x);
    return status;
}
