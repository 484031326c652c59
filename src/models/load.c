/* Weights into device memory, and out of it again. */
#include "models/model.h"

#include <math.h>

typedef struct loading {
    tsr_model *model;
    tsr_progress progress;
    double start;
    uint64_t random; /* state of the generator of random weights */
} loading;

static tsr_status read_weight(loading *l, const tsr__param *param, void *host) {
    char path[TSR__PATH_BYTES];
    tsr_checkpoint *checkpoint = l->model->checkpoint;
    const tsr_tensor_info *info = tsr_checkpoint_find(checkpoint, tsr__param_path(param, path, sizeof path));
    const tsr__tp *tp = &param->owner->tp;
    tsr_range ranges[TSR__MAX_RANGES];
    size_t n = tp->degree > 1 ? tsr__shard_ranges(&param->spec, tp->rank, tp->degree, ranges) : 0;
    return tsr_checkpoint_read(checkpoint, info, param->spec.dim, ranges, n, host, tsr__view_bytes(&param->view));
}

/* Uniform of variance 1/fan_in: xorshift64*, for timing only. */
static tsr_status make_weight(loading *l, const tsr__param *param, void *host) {
    int64_t n = tsr__view_elements(&param->view);
    int64_t fan_in = param->view.ndim > 1 ? n / param->view.shape[0] : 1;
    float width = sqrtf(12.0f / (float)(fan_in > 0 ? fan_in : 1)), block[256];
    size_t size = tsr_dtype_bits(param->view.dtype) / 8;
    for (int64_t i = 0; i < n; i += 256) {
        int64_t m = n - i < 256 ? n - i : 256;
        for (int64_t j = 0; j < m; j++) {
            l->random ^= l->random >> 12;
            l->random ^= l->random << 25;
            l->random ^= l->random >> 27;
            block[j] = width * ((float)(l->random >> 40) * 0x1p-24f - 0.5f);
        }
        tsr_convert_from_f32(param->view.dtype, block, (char *)host + (size_t)i * size, (size_t)m);
    }
    return TSR_OK;
}

static tsr_status fill(loading *l, tsr__param *param) {
    tsr__device *device = l->model->engine->device;
    size_t bytes = tsr__view_bytes(&param->view);
    void *host = device->ops->host_pointer(device, param->view.data);
    void *staging = host ? NULL : tsr__alloc(l->model->engine, bytes);
    if (!host && !(host = staging)) return TSR_NOMEM;
    tsr_status status = l->model->checkpoint ? read_weight(l, param, host) : make_weight(l, param, host);
    if (status == TSR_OK && staging) status = device->ops->upload(device, param->view.data, staging, bytes);
    tsr__free(l->model->engine, staging);
    return status;
}

static tsr_status load_param(void *user, tsr__param *param) {
    loading *l = user;
    tsr__device *device = l->model->engine->device;
    param->view.data = device->ops->alloc(device, tsr__view_bytes(&param->view));
    if (!param->view.data) return TSR_NOMEM;
    TSR__TRY(fill(l, param));
    l->progress.done += tsr__view_bytes(&param->view);
    l->progress.seconds = tsr__seconds() - l->start;
    return tsr__progress(l->model->engine, &l->progress);
}

static tsr_status load_all(tsr_model *model) {
    loading l = {.model = model, .start = tsr__seconds(), .random = 0x9e3779b97f4a7c15u};
    l.progress = (tsr_progress){TSR_PHASE_LOAD, model->component, 0, model->weight_bytes, 0.0};
    TSR__TRY(tsr__progress(model->engine, &l.progress));
    return tsr__module_visit_params(model->self, load_param, &l);
}

static tsr_status unload_param(void *user, tsr__param *param) {
    tsr__device *device = user;
    device->ops->free(device, param->view.data);
    param->view.data = NULL;
    return TSR_OK;
}

/* --- weights that threads of one process share --- */

static void borrow_nothing(tsr__module *own) {
    for (tsr__param *p = own->params; p; p = p->next) p->view.data = NULL;
    for (tsr__module *child = own->first_child; child; child = child->next) borrow_nothing(child);
}

/* Lets the weights below `own` be those of another tree of the same structure. */
static void borrow(tsr__module *own, const tsr__module *from) {
    const tsr__param *q = from->params;
    for (tsr__param *p = own->params; p; p = p->next, q = q->next) p->view.data = q->view.data;
    const tsr__module *other = from->first_child;
    for (tsr__module *child = own->first_child; child; child = child->next, other = other->next) borrow(child, other);
}

bool tsr__model_borrows(const tsr_model *model) { return model->sharers && model->sharers->rank > 0; }

tsr_status tsr__model_share(tsr_model *model) {
    tsr_model *first = model;
    if (!model->sharers) return TSR_OK;
    if (tsr__model_borrows(model)) (void)!tsr__module_visit_params(model->self, unload_param, model->engine->device);
    TSR__TRY(tsr__broadcast(model->sharers, &first, sizeof first, 0));
    if (first != model) borrow(model->self, first->self);
    return TSR_OK;
}

/* The first of the sharers frees what all of them use, when all of them have come here. */
static void end_sharing(tsr_model *model) {
    float nothing = 0.0f;
    if (!model->sharers) return;
    (void)!tsr__all_reduce(model->sharers, &nothing, 1); /* it fails where another has ended, and uses nothing more */
    if (tsr__model_borrows(model)) borrow_nothing(model->self);
}

/* --- loading --- */

tsr_status tsr__model_load(tsr_model *model) {
    model->loaded = true;
    tsr_status status = tsr__model_borrows(model) ? TSR_OK : load_all(model);
    tsr_status shared = tsr__model_share(model); /* also after a failure: the others are there */
    return status != TSR_OK ? status : shared;
}

void tsr__model_unload(tsr_model *model) {
    if (!model->loaded) return;
    end_sharing(model);
    model->loaded = tsr__module_visit_params(model->self, unload_param, model->engine->device) != TSR_OK;
}
