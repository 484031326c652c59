#include "parallel/layout.h"

tsr_status tsr__layout_open(tsr_engine *engine, const tsr_parallel_config *config, tsr__layout *out) {
    static const char *const names[] = {"tp"};
    const tsr_tensor_parallel_config *tp = config ? config->tensor_parallel : NULL;
    tsr__layout layout = {NULL, NULL, 0, 1};
    const tsr_device_mesh *mesh = tp ? tp->mesh : NULL;
    int degree = tp ? tp->tp_degree : 1;
    if (!mesh) TSR__TRY(tsr_device_mesh_create(engine, &degree, names, 1, &layout.own));
    if (!mesh) mesh = layout.own;
    layout.tp = tsr__mesh_comm(mesh, "tp");
    layout.tp_degree = tsr_device_mesh_size(mesh, "tp");
    layout.tp_rank = tsr_device_mesh_rank(mesh, "tp");
    *out = layout;
    return TSR_OK;
}

void tsr__layout_close(tsr__layout *layout) {
    tsr_device_mesh_destroy(layout->own);
    layout->own = NULL;
}
