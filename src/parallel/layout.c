#include "parallel/layout.h"

static const char *const axes[] = {"tp"}; /* the first varies slowest */
enum { N_AXES = TSR__COUNT(axes) };

static const tsr_device_mesh *given_mesh(const tsr_parallel_config *config) {
    return config && config->tensor_parallel ? config->tensor_parallel->mesh : NULL;
}

/* The size of each axis that config asks for. */
static void read_sizes(const tsr_parallel_config *config, int sizes[N_AXES]) {
    const tsr_device_mesh *mesh = given_mesh(config);
    sizes[0] = config && config->tensor_parallel ? config->tensor_parallel->tp_degree : 1;
    for (int i = 0; mesh && i < N_AXES; i++) sizes[i] = tsr_device_mesh_size(mesh, axes[i]);
}

static tsr__layout layout_of(const tsr_device_mesh *mesh, tsr_device_mesh *own) {
    return (tsr__layout){.own = own,
                         .tp = tsr__mesh_comm(mesh, "tp"),
                         .tp_rank = tsr_device_mesh_rank(mesh, "tp"),
                         .tp_degree = tsr_device_mesh_size(mesh, "tp")};
}

tsr_status tsr__layout_open(tsr_engine *engine, const tsr_parallel_config *config, tsr__layout *out) {
    int sizes[N_AXES];
    tsr_device_mesh *own = NULL;
    const tsr_device_mesh *mesh = given_mesh(config);
    read_sizes(config, sizes);
    if (!mesh) TSR__TRY(tsr_device_mesh_create(engine, sizes, axes, N_AXES, &own));
    *out = layout_of(mesh ? mesh : own, own);
    return TSR_OK;
}

tsr_status tsr__layout_imagine(tsr_engine *engine, const tsr_parallel_config *config, int rank, tsr__layout *out) {
    int sizes[N_AXES];
    tsr_device_mesh *own = NULL;
    read_sizes(config, sizes);
    TSR__TRY(tsr__device_mesh_imagine(engine, sizes, axes, N_AXES, rank, &own));
    *out = layout_of(own, own);
    return TSR_OK;
}

void tsr__layout_close(tsr__layout *layout) {
    tsr_device_mesh_destroy(layout->own);
    layout->own = NULL;
}
