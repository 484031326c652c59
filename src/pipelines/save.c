/* A pipeline back into a folder, one component in memory at a time. */
#include "models/save.h"
#include "pipelines/pipeline.h"

typedef struct job {
    tsr_pipeline *p;
    tsr__sharded sharded[TSR__N_MODELS];
    tsr__contents *contents; /* rank 0's */
    tsr__saving saving;
} job;

static tsr_status list_contents(job *j) {
    const char *components[TSR__N_MODELS + 1] = {NULL};
    for (int i = 0; i < TSR__N_MODELS; i++) components[i] = j->p->models[i]->component;
    TSR__TRY(tsr__contents_create(j->p->engine, &j->contents));
    TSR__TRY(tsr__contents_add(j->contents, j->p->folder, "", components));
    for (int i = 0; i < TSR__N_MODELS; i++)
        TSR__TRY(tsr__contents_add(j->contents, j->p->models[i]->folder, components[i], NULL));
    return TSR_OK;
}

/* What is known without the other ranks. */
static tsr_status plan(job *j, uint64_t max_shard_size) {
    for (int i = 0; i < TSR__N_MODELS; i++)
        TSR__TRY(tsr__sharded_plan(j->p->models[i]->checkpoint, max_shard_size, &j->sharded[i]));
    return j->p->engine->rank == 0 ? list_contents(j) : TSR_OK;
}

static uint64_t largest_tensor(const tsr__sharded *sharded) {
    uint64_t largest = 0;
    for (size_t i = 0; i < sharded->n; i++)
        if (sharded->tensors[i].info->size > largest) largest = sharded->tensors[i].info->size;
    return largest;
}

/* Does this rank load its part of a component for the save? */
static bool loads(const tsr_pipeline *p, int role) { return p->part[role] && !p->borrowed[role]; }

static tsr_status check_memory(const job *j) {
    for (int i = 0; i < TSR__N_MODELS; i++) {
        const tsr_model *model = j->p->models[i];
        size_t weights = loads(j->p, i) ? model->weight_bytes : 0;
        TSR__TRY(tsr__memory_check(j->p->engine, model->component, weights, (size_t)largest_tensor(&j->sharded[i]),
                                   tsr__model_has_plan(model), j->p->force));
    }
    return TSR_OK;
}

static tsr_status save_component(job *j, int role) {
    tsr_model *model = j->p->models[role];
    tsr__rank_phase(j->p->engine, model->component);
    tsr_status status = tsr_status_agree(j->p->engine, loads(j->p, role) ? tsr__model_load(model) : TSR_OK);
    if (status == TSR_OK)
        status = tsr__model_write(&j->saving, model, &j->sharded[role], model->component, j->p->part[role]);
    if (!j->p->borrowed[role]) tsr__model_unload(model);
    return status;
}

static tsr_status save(job *j, const char *folder, uint64_t max_shard_size) {
    uint64_t bytes = 0;
    TSR__TRY(tsr_status_agree(j->p->engine, plan(j, max_shard_size)));
    TSR__TRY(check_memory(j));
    for (int i = 0; i < TSR__N_MODELS; i++) bytes += j->sharded[i].bytes;
    tsr_status status = tsr__saving_begin(j->p->engine, folder, j->contents, bytes, TSR_OK, &j->saving);
    for (int i = 0; i < TSR__N_MODELS && status == TSR_OK; i++) status = save_component(j, i);
    return tsr__saving_end(&j->saving, status);
}

tsr_status tsr_pipeline_save_pretrained(tsr_pipeline *p, const char *folder, const tsr_save_options *options) {
    job j = {.p = p};
    tsr_status status = save(&j, folder, tsr__max_shard_size(options));
    tsr__contents_free(j.contents);
    for (int i = 0; i < TSR__N_MODELS; i++) tsr__sharded_free(&j.sharded[i]);
    return status;
}
