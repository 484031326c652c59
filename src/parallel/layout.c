#include "parallel/layout.h"

#include "parallel/context_parallel.h"

static const char *const axes[] = {"ring", "ulysses", "tp"}; /* the first varies slowest */
enum { N_AXES = TSR__COUNT(axes), TP = N_AXES - 1 };

/* The configs with defaults for what is not there. */
typedef struct configs {
    tsr_tensor_parallel_config tp;
    tsr_context_parallel_config cp;
    bool has_tp, has_cp;
    const tsr_device_mesh *mesh; /* that they bring, or NULL */
} configs;

static tsr_status take(tsr_engine *engine, const tsr_parallel_config *config, configs *out) {
    configs c = {TSR_TENSOR_PARALLEL_CONFIG_INIT, TSR_CONTEXT_PARALLEL_CONFIG_INIT, false, false, NULL};
    tsr_parallel_config given = TSR_PARALLEL_CONFIG_INIT;
    tsr__take_options(&given, sizeof given, config);
    tsr__take_options(&c.tp, sizeof c.tp, given.tensor_parallel);
    tsr__take_options(&c.cp, sizeof c.cp, given.context_parallel);
    c.has_tp = given.tensor_parallel != NULL;
    c.has_cp = given.context_parallel != NULL;
    c.mesh = c.has_cp ? c.cp.mesh : c.tp.mesh;
    if (c.has_cp && c.has_tp && c.tp.mesh != c.cp.mesh)
        return tsr__fail(engine, TSR_ARG, "tensor and context parallelism must be given the same mesh");
    if (c.has_tp && c.tp.mesh && !tsr__mesh_has(c.tp.mesh, "tp"))
        return tsr__fail(engine, TSR_ARG, "the mesh has no axis \"tp\", which tensor parallelism needs");
    if (c.has_cp) TSR__TRY(tsr__context_config_check(engine, &c.cp));
    *out = c;
    return TSR_OK;
}

/* The axes of a mesh of its own, from the first on. */
static int read_sizes(const configs *c, int sizes[N_AXES]) {
    const int degrees[N_AXES] = {c->cp.ring_degree, c->cp.ulysses_degree, c->tp.tp_degree};
    for (int i = 0; i < N_AXES; i++) sizes[i] = c->mesh ? tsr_device_mesh_size(c->mesh, axes[i]) : degrees[i];
    return c->has_cp ? 0 : TP;
}

static tsr_status open_sequence(const tsr_device_mesh *mesh, const configs *c, tsr__layout *layout) {
    static const tsr__axes both = {axes, TP, "ring,ulysses"};
    tsr_engine *engine = layout->engine;
    int n = tsr_device_mesh_size(mesh, "ring") * tsr_device_mesh_size(mesh, "ulysses");
    tsr__sequence *s = tsr__calloc(engine, 1, sizeof *s + (size_t)n * sizeof *s->place);
    layout->sequence = s;
    TSR__TRY(tsr_status_agree(engine, s ? TSR_OK : TSR_NOMEM));
    int *place = (int *)(void *)(s + 1);
    *s = (tsr__sequence){.ring = tsr__mesh_comm(mesh, "ring"),
                         .ulysses = tsr__mesh_comm(mesh, "ulysses"),
                         .place = place,
                         .rotate_method = c->cp.rotate_method,
                         .uneven_lengths = c->cp.ring_anything || c->cp.ulysses_anything,
                         .uneven_heads = c->cp.ulysses_anything};
    return tsr_status_agree(engine, tsr__mesh_join(mesh, &both, place, &s->all));
}

/* The layout of a mesh; own: the same if it was made here. */
static tsr_status lay_out(tsr_engine *engine, const configs *c, const tsr_device_mesh *mesh, tsr_device_mesh *own,
                          tsr__layout *out) {
    tsr__layout layout = {.engine = engine, .own = own};
    layout.tp = c->has_tp ? tsr__mesh_comm(mesh, "tp") : NULL; /* else its axis holds replicas as any other */
    layout.tp_degree = layout.tp ? tsr_device_mesh_size(mesh, "tp") : 1;
    layout.tp_rank = layout.tp ? tsr_device_mesh_rank(mesh, "tp") : 0;
    tsr_status status = c->has_cp ? open_sequence(mesh, c, &layout) : TSR_OK;
    if (status != TSR_OK) {
        tsr__layout_close(&layout);
        return status;
    }
    *out = layout;
    return TSR_OK;
}

tsr_status tsr__layout_open(tsr_engine *engine, const tsr_parallel_config *config, tsr__layout *out) {
    configs c = {.mesh = NULL};
    int sizes[N_AXES];
    tsr_device_mesh *own = NULL;
    TSR__TRY(tsr_status_agree(engine, take(engine, config, &c)));
    int first = read_sizes(&c, sizes);
    if (!c.mesh) TSR__TRY(tsr_device_mesh_create(engine, sizes + first, axes + first, N_AXES - first, &own));
    return lay_out(engine, &c, c.mesh ? c.mesh : own, own, out);
}

tsr_status tsr__layout_imagine(tsr_engine *engine, const tsr_parallel_config *config, int rank, tsr__layout *out) {
    configs c = {.mesh = NULL};
    int sizes[N_AXES];
    tsr_device_mesh *own = NULL;
    TSR__TRY(take(engine, config, &c));
    int first = read_sizes(&c, sizes);
    TSR__TRY(tsr__device_mesh_imagine(engine, sizes + first, axes + first, N_AXES - first, rank, &own));
    return lay_out(engine, &c, own, own, out);
}

void tsr__layout_close(tsr__layout *layout) {
    if (layout->sequence) {
        tsr__comm_destroy(layout->sequence->all);
        tsr__free(layout->engine, layout->sequence);
    }
    tsr_device_mesh_destroy(layout->own);
    *layout = (tsr__layout){.tp_degree = 1};
}
