#include "parallel/layout.h"

#include "parallel/context_parallel.h"

/* The configs with defaults for what is not there. */
typedef struct configs {
    tsr_tensor_parallel_config tp;
    tsr_context_parallel_config cp;
    bool has_tp, has_cp;
} configs;

static configs take(const tsr_parallel_config *config) {
    configs c = {TSR_TENSOR_PARALLEL_CONFIG_INIT, TSR_CONTEXT_PARALLEL_CONFIG_INIT, false, false};
    tsr_parallel_config given = TSR_PARALLEL_CONFIG_INIT;
    tsr__take_options(&given, sizeof given, config);
    tsr__take_options(&c.tp, sizeof c.tp, given.tensor_parallel);
    tsr__take_options(&c.cp, sizeof c.cp, given.context_parallel);
    c.has_tp = given.tensor_parallel != NULL;
    c.has_cp = given.context_parallel != NULL;
    return c;
}

/* The mesh that the configs bring, or one of their degrees. */
static tsr_status open_mesh(tsr_engine *engine, const configs *c, tsr__layout *layout, const tsr_device_mesh **out) {
    static const char *const names[] = {"ring", "ulysses", "tp"};
    const int shape[] = {c->cp.ring_degree, c->cp.ulysses_degree, c->tp.tp_degree};
    int first = c->has_cp ? 0 : 2;
    if (c->tp.mesh && c->cp.mesh && c->tp.mesh != c->cp.mesh)
        return tsr__fail(engine, TSR_ARG, "tensor and context parallelism must be given the same mesh");
    *out = c->cp.mesh ? c->cp.mesh : c->tp.mesh;
    if (c->has_cp && *out && !c->cp.mesh)
        return tsr__fail(engine, TSR_ARG, "a mesh for tensor parallelism must be given to context parallelism too");
    if (*out) return TSR_OK;
    TSR__TRY(tsr_device_mesh_create(engine, shape + first, names + first, 3 - first, &layout->own));
    *out = layout->own;
    return TSR_OK;
}

static tsr_status open_sequence(const tsr_device_mesh *mesh, const tsr_context_parallel_config *cp,
                                tsr__layout *layout) {
    static const char *const names[] = {"ring", "ulysses"};
    tsr_engine *engine = layout->engine;
    int n = tsr_device_mesh_size(mesh, "ring") * tsr_device_mesh_size(mesh, "ulysses");
    tsr__sequence *s = tsr__calloc(engine, 1, sizeof *s + (size_t)n * sizeof *s->place);
    layout->sequence = s;
    TSR__TRY(tsr_status_agree(engine, s ? TSR_OK : TSR_NOMEM));
    int *place = (int *)(void *)(s + 1);
    *s = (tsr__sequence){.ring = tsr__mesh_comm(mesh, "ring"),
                         .ulysses = tsr__mesh_comm(mesh, "ulysses"),
                         .place = place,
                         .rotate_method = cp->rotate_method,
                         .uneven_lengths = cp->ring_anything || cp->ulysses_anything,
                         .uneven_heads = cp->ulysses_anything};
    return tsr_status_agree(engine, tsr__mesh_join(mesh, names, 2, place, &s->all));
}

tsr_status tsr__layout_open(tsr_engine *engine, const tsr_parallel_config *config, tsr__layout *out) {
    const configs c = take(config);
    const tsr_device_mesh *mesh = NULL;
    tsr__layout layout = {.engine = engine};
    tsr_status status = c.has_cp ? tsr__context_config_check(engine, &c.cp) : TSR_OK;
    TSR__TRY(tsr_status_agree(engine, status));
    TSR__TRY(open_mesh(engine, &c, &layout, &mesh));
    layout.tp = c.has_tp ? tsr__mesh_comm(mesh, "tp") : NULL; /* else its axis holds replicas as any other */
    layout.tp_degree = layout.tp ? tsr_device_mesh_size(mesh, "tp") : 1;
    layout.tp_rank = layout.tp ? tsr_device_mesh_rank(mesh, "tp") : 0;
    if (c.has_cp) status = open_sequence(mesh, &c.cp, &layout);
    if (status != TSR_OK) {
        tsr__layout_close(&layout);
        return status;
    }
    *out = layout;
    return TSR_OK;
}

void tsr__layout_close(tsr__layout *layout) {
    if (layout->sequence) {
        tsr__comm_destroy(layout->sequence->all);
        tsr__free(layout->engine, layout->sequence);
    }
    tsr_device_mesh_destroy(layout->own);
    *layout = (tsr__layout){.tp_degree = 1};
}
