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

static tsr_status allocate_param(void *user, tsr__param *param) {
    tsr__device *device = user;
    param->view.data = device->ops->alloc(device, tsr__view_bytes(&param->view));
    return param->view.data ? TSR_OK : TSR_NOMEM;
}

static tsr_status load_param(void *user, tsr__param *param) {
    loading *l = user;
    TSR__TRY(fill(l, param));
    l->progress.done += tsr__view_bytes(&param->view);
    l->progress.seconds = tsr__seconds() - l->start;
    return tsr__progress(l->model->engine, &l->progress);
}

static tsr_status load_all(tsr_model *model) {
    loading l = {.model = model, .start = tsr__seconds(), .random = 0x9e3779b97f4a7c15u};
    l.progress = (tsr_progress){TSR_PHASE_LOAD, model->component, 0, model->weight_bytes, 0.0};
    TSR__TRY(tsr__progress(model->engine, &l.progress));
    TSR__TRY(tsr__module_visit_params(model->self, allocate_param, model->engine->device));
    return tsr__module_visit_params(model->self, load_param, &l);
}

static tsr_status unload_param(void *user, tsr__param *param) {
    tsr__device *device = user;
    device->ops->free(device, param->view.data);
    param->view.data = NULL;
    return TSR_OK;
}

/* --- weights that threads of one process share --- */

/* The last of the sharers frees them, so that none has to wait for another: one may have failed and never come. The
 * device is that of the rank that loaded them; the engines of a launch outlive its bodies. */
struct tsr__shared_weights {
    tsr__device *device;
    atomic_int users;
    size_t n;
    void *data[]; /* [n], in the order of tsr__module_visit_params */
};

static tsr_status count_param(void *user, tsr__param *param) {
    (void)param;
    ++*(size_t *)user;
    return TSR_OK;
}

static tsr_status list_param(void *user, tsr__param *param) {
    tsr__shared_weights *shared = user;
    shared->data[shared->n++] = param->view.data;
    return TSR_OK;
}

static tsr__shared_weights *list_weights(const tsr_model *model) {
    size_t n = 0;
    (void)!tsr__module_visit_params(model->self, count_param, &n);
    tsr__shared_weights *shared = tsr__calloc(model->engine, 1, sizeof *shared + n * sizeof *shared->data);
    if (!shared) return NULL;
    shared->device = model->engine->device;
    atomic_init(&shared->users, model->sharers->size);
    (void)!tsr__module_visit_params(model->self, list_param, shared);
    return shared;
}

static tsr_status borrow_param(void *user, tsr__param *param) {
    void ***next = user;
    param->view.data = *(*next)++;
    return TSR_OK;
}

static tsr_status forget_param(void *user, tsr__param *param) {
    (void)user;
    param->view.data = NULL;
    return TSR_OK;
}

bool tsr__model_borrows(const tsr_model *model) { return model->sharers && model->sharers->rank > 0; }

/* A broadcast among threads ends on all of them alike, so that after it each is a user, or none. */
tsr_status tsr__model_share(tsr_model *model) {
    if (!model->sharers) return TSR_OK;
    bool borrows = tsr__model_borrows(model);
    tsr__shared_weights *own = borrows ? NULL : list_weights(model), *shared = own;
    if (borrows) (void)!tsr__module_visit_params(model->self, unload_param, model->engine->device);
    tsr_status status = tsr__broadcast(model->sharers, (void *)&shared, sizeof shared, 0);
    if (status != TSR_OK) {
        tsr__free(model->engine, own);
        return status;
    }
    model->shared = shared;
    if (!shared) return borrows ? TSR_OK : TSR_NOMEM; /* the first says what was missing */
    void **next = shared->data;
    return borrows ? tsr__module_visit_params(model->self, borrow_param, (void *)&next) : TSR_OK;
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
    tsr__shared_weights *shared = model->shared;
    tsr__device *device = shared ? shared->device : model->engine->device;
    bool last = !shared || atomic_fetch_sub(&shared->users, 1) == 1; /* if not, *shared may be gone by now */
    (void)!tsr__module_visit_params(model->self, last ? unload_param : forget_param, device);
    if (last && shared) tsr__free(device->engine, shared);
    model->shared = NULL;
    model->loaded = false;
}
