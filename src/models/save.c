/* tsr_model_save_pretrained. A tensor is written by one rank, its owner. In each round every owner gets the parts of
 * one tensor from the memory of the ranks that hold them; then all owners write at once. */
#include "models/save.h"

#include "io/file.h"

#include <stdio.h>
#include <string.h>

/* A part of the tensor in work. */
typedef struct part {
    int rank;                           /* that gives it */
    const char *data;                   /* what of it is to be written next */
    size_t bytes, run[TSR__MAX_RANGES]; /* of all; of each block in a row */
} part;

typedef struct writing {
    const tsr__saving *saving;
    tsr_engine *engine;
    tsr_model *model;
    const tsr__sharded *sharded;
    char *folder;
    tsr__shard_writer writer;
    tsr__param **params;    /* [tensors of the checkpoint]; NULL: the tree has no such weight */
    tsr__shard_spec *specs; /* [tensors of the checkpoint] of these weights, as those know them who hold them */
    struct holding {
        int place, degree; /* which of `degree` parts of each weight; degree 0: nothing */
    } own, *holdings;      /* [ranks] */
    int degree, *first;    /* [degree]: the first rank that holds a part */
    part *parts;           /* [n_parts] of the tensor in work, in order */
    size_t n_parts, n_runs, rows;
    size_t *send, *recv; /* [ranks] bytes */
    char *whole;         /* the parts of the tensor that this rank writes */
    char *staging;       /* this rank's part, where the host does not see the device's memory */
    tsr_progress progress;
} writing;

/* --- who holds what --- */

static tsr_status find_param(void *user, tsr__param *param) {
    writing *w = user;
    char path[TSR__PATH_BYTES];
    const tsr_tensor_info *info = tsr_checkpoint_find(w->model->checkpoint, tsr__param_path(param, path, sizeof path));
    if (info) w->params[info - w->model->checkpoint->tensors] = param;
    if (w->own.degree && param->owner->tp.degree > 1)
        w->own = (struct holding){param->owner->tp.rank, param->owner->tp.degree};
    return TSR_OK;
}

static size_t index_of(const writing *w, const tsr__placed_tensor *t) {
    return (size_t)(t->info - w->model->checkpoint->tensors);
}

static tsr__param *param_of(const writing *w, const tsr__placed_tensor *t) { return w->params[index_of(w, t)]; }

static tsr_status gather_holdings(writing *w) {
    TSR__TRY(tsr__all_gather_equal(tsr__world(w->engine), &w->own, sizeof w->own, w->holdings));
    for (int i = w->engine->size - 1; i >= 0; i--) {
        if (!w->holdings[i].degree) continue;
        w->degree = w->holdings[i].degree;
        w->first[w->holdings[i].place] = i;
    }
    for (size_t i = 0; i < w->sharded->n; i++)
        if (w->params[i]) w->specs[i] = w->params[i]->spec;
    return tsr__broadcast(tsr__world(w->engine), w->specs, w->sharded->n * sizeof *w->specs, w->first[0]);
}

/* The rank that gives a part to `owner`: itself if it can. place -1: any part will do. */
static int giver(const writing *w, int place, int owner) {
    const struct holding *h = &w->holdings[owner];
    if (h->degree && (place < 0 || h->place == place)) return owner;
    return w->first[place < 0 ? 0 : place];
}

/* Adds the part of these ranges of a tensor seen as [rows, dimension that is split, ..]. */
static void add_part(writing *w, const tsr_tensor_info *info, int rank, const tsr_range *ranges, int dim) {
    part *p = &w->parts[w->n_parts++];
    *p = (part){.rank = rank};
    size_t row = (size_t)info->size / w->rows, index = row / (size_t)info->shape[dim];
    for (size_t b = 0; b < w->n_runs; b++) {
        p->run[b] = (size_t)(ranges[b].end - ranges[b].begin) * index;
        p->bytes += p->run[b] * w->rows;
    }
}

/* The parts that make up a tensor of the tree: from the ranks that hold them, or from one that holds all of it. */
static void list_parts(writing *w, const tsr__placed_tensor *t, int owner) {
    const tsr__shard_spec *spec = &w->specs[index_of(w, t)];
    const tsr_tensor_info *info = t->info;
    tsr_range ranges[TSR__MAX_RANGES];
    int64_t last = -1;
    w->rows = 1;
    w->n_parts = 0;
    w->n_runs = tsr__shard_ranges(spec, 0, w->degree, ranges);
    if (w->n_runs == 0) {
        w->parts[w->n_parts++] = (part){giver(w, -1, owner), NULL, (size_t)info->size, {(size_t)info->size}};
        w->n_runs = 1;
        return;
    }
    for (int i = 0; i < spec->dim; i++) w->rows *= (size_t)info->shape[i];
    for (int p = 0; p < w->degree; p++) {
        (void)tsr__shard_ranges(spec, p, w->degree, ranges);
        if (ranges[0].begin != last) add_part(w, info, giver(w, p, owner), ranges, spec->dim);
        last = ranges[0].begin; /* of key/value heads, several ranks in a row may hold the same one */
    }
}

static bool comes_from_others(const writing *w, int owner) { return w->n_parts > 1 || w->parts[0].rank != owner; }

/* --- memory --- */

static void *host_pointer(const writing *w, const tsr__param *param) {
    return w->engine->device->ops->host_pointer(w->engine->device, param->view.data);
}

/* Tensor i of the list is written by this rank. */
static int owner_of(const writing *w, size_t i) { return w->saving->owners[i % (size_t)w->saving->n_owners]; }

static tsr_status make_buffers(writing *w) {
    size_t whole = 0, staging = 0;
    for (size_t i = 0; i < w->sharded->n; i++) {
        const tsr__placed_tensor *t = &w->sharded->tensors[i];
        tsr__param *param = param_of(w, t);
        if (!param) continue;
        list_parts(w, t, owner_of(w, i));
        bool gathers = owner_of(w, i) == w->engine->rank && comes_from_others(w, w->engine->rank);
        if (gathers && t->info->size > whole) whole = (size_t)t->info->size;
        if (w->own.degree && !host_pointer(w, param) && tsr__view_bytes(&param->view) > staging)
            staging = tsr__view_bytes(&param->view);
    }
    w->whole = tsr__alloc(w->engine, whole);
    w->staging = tsr__alloc(w->engine, staging);
    return w->whole && w->staging ? TSR_OK : TSR_NOMEM;
}

/* What a rank does by itself before the holdings are known. */
static tsr_status prepare(writing *w, const char *to) {
    size_t ranks = (size_t)w->engine->size;
    w->folder = *to ? tsr__path_join(w->engine, w->saving->folder, to) : tsr__strdup(w->engine, w->saving->folder);
    w->params = tsr__calloc(w->engine, w->sharded->n, sizeof *w->params);
    w->specs = tsr__calloc(w->engine, w->sharded->n, sizeof *w->specs);
    w->holdings = tsr__calloc(w->engine, ranks, sizeof *w->holdings);
    w->first = tsr__calloc(w->engine, ranks, sizeof *w->first);
    w->parts = tsr__calloc(w->engine, ranks, sizeof *w->parts);
    w->send = tsr__calloc(w->engine, ranks, sizeof *w->send);
    w->recv = tsr__calloc(w->engine, ranks, sizeof *w->recv);
    if (!w->folder || !w->params || !w->specs || !w->holdings || !w->first || !w->parts || !w->send || !w->recv)
        return TSR_NOMEM;
    TSR__TRY(tsr__module_visit_params(w->model->self, find_param, w));
    return w->engine->rank == 0 ? tsr__sharded_create(w->sharded, w->folder) : TSR_OK;
}

static bool is_owner(const writing *w) {
    for (int i = 0; i < w->saving->n_owners; i++)
        if (w->saving->owners[i] == w->engine->rank) return true;
    return false;
}

static tsr_status open_writer(writing *w) {
    TSR__TRY(make_buffers(w));
    return is_owner(w) ? tsr__shard_writer_open(w->sharded, w->folder, &w->writer) : TSR_OK;
}

static void free_writing(writing *w) {
    void *const arrays[] = {w->folder, w->params, w->specs, w->holdings, w->first,
                            w->parts,  w->send,   w->recv,  w->whole,    w->staging};
    for (size_t i = 0; i < TSR__COUNT(arrays); i++) tsr__free(w->engine, arrays[i]);
}

/* --- rounds --- */

static tsr_status own_part(const writing *w, const tsr__param *param, const char **out) {
    tsr__device *device = w->engine->device;
    *out = host_pointer(w, param);
    if (*out) return TSR_OK;
    *out = w->staging;
    return device->ops->download(device, w->staging, param->view.data, tsr__view_bytes(&param->view));
}

/* Brings the parts of a tensor to its owner, unless that has them. Every rank takes part, also after a failure of its
 * own. */
static tsr_status exchange(writing *w, const tsr__placed_tensor *t, int owner) {
    const tsr__param *param = param_of(w, t);
    const char *mine = NULL;
    tsr_status status = TSR_OK;
    if (!param) return TSR_OK;
    list_parts(w, t, owner);
    if (!comes_from_others(w, owner)) return TSR_OK;
    memset(w->send, 0, (size_t)w->engine->size * sizeof *w->send);
    memset(w->recv, 0, (size_t)w->engine->size * sizeof *w->recv);
    for (size_t p = 0; p < w->n_parts; p++) {
        if (w->parts[p].rank == w->engine->rank) w->send[owner] = w->parts[p].bytes;
        if (owner == w->engine->rank) w->recv[w->parts[p].rank] = w->parts[p].bytes;
    }
    if (w->send[owner]) status = own_part(w, param, &mine);
    tsr_status sent = tsr__all_to_all(tsr__world(w->engine), mine, w->send, w->whole, w->recv);
    return status == TSR_OK ? sent : status;
}

/* Where each part begins: in `whole` they lie in order of the ranks that gave them. */
static tsr_status find_parts(writing *w, const tsr__param *param) {
    if (!comes_from_others(w, w->engine->rank)) return own_part(w, param, &w->parts[0].data);
    for (size_t p = 0; p < w->n_parts; p++) {
        w->parts[p].data = w->whole;
        for (size_t q = 0; q < w->n_parts; q++)
            if (w->parts[q].rank < w->parts[p].rank) w->parts[p].data += w->parts[q].bytes;
    }
    return TSR_OK;
}

/* Row by row and block by block, a piece of each part in turn. */
static tsr_status write_tensor(writing *w, const tsr__placed_tensor *t) {
    const tsr__param *param = param_of(w, t);
    TSR__TRY(tsr__shard_writer_seek(&w->writer, t));
    if (!param) return tsr__shard_writer_copy(&w->writer, w->model->checkpoint, t->info);
    list_parts(w, t, w->engine->rank);
    TSR__TRY(find_parts(w, param));
    for (size_t row = 0; row < w->rows; row++)
        for (size_t run = 0; run < w->n_runs; run++)
            for (part *p = w->parts; p < w->parts + w->n_parts; p++) {
                TSR__TRY(tsr__shard_writer_put(&w->writer, p->data, p->run[run]));
                p->data += p->run[run];
            }
    return TSR_OK;
}

/* Tensors first .. end - 1 of the list, one for each owner. */
static tsr_status run_round(writing *w, size_t first, size_t end) {
    const tsr__placed_tensor *own = NULL, *tensors = w->sharded->tensors;
    tsr_status status = TSR_OK;
    for (size_t i = first; i < end; i++) {
        tsr_status brought = exchange(w, &tensors[i], owner_of(w, i));
        if (status == TSR_OK) status = brought;
        if (owner_of(w, i) == w->engine->rank) own = &tensors[i];
        w->progress.done += tensors[i].info->size;
    }
    if (status == TSR_OK && own) status = write_tensor(w, own);
    return status;
}

static tsr_status run_rounds(writing *w) {
    double start = tsr__seconds();
    size_t n = w->sharded->n, step = (size_t)w->saving->n_owners;
    for (size_t first = 0; first < n; first += step) {
        tsr_status status = run_round(w, first, n - first < step ? n : first + step);
        w->progress.seconds = tsr__seconds() - start;
        if (status == TSR_OK) status = tsr__progress(w->engine, &w->progress);
        TSR__TRY(tsr_status_agree(w->engine, status));
    }
    return TSR_OK;
}

static tsr_status write_all(writing *w, const char *to) {
    TSR__TRY(tsr_status_agree(w->engine, prepare(w, to)));
    TSR__TRY(gather_holdings(w));
    TSR__TRY(tsr_status_agree(w->engine, open_writer(w)));
    return run_rounds(w);
}

tsr_status tsr__model_write(const tsr__saving *saving, tsr_model *model, const tsr__sharded *sharded, const char *to,
                            bool holds) {
    writing w = {.saving = saving, .engine = saving->engine, .model = model, .sharded = sharded};
    w.own = (struct holding){0, holds ? 1 : 0};
    w.progress = (tsr_progress){TSR_PHASE_SAVE, model->component, 0, sharded->data_bytes, 0.0};
    tsr__rank_phase(w.engine, "save");
    tsr_status status = write_all(&w, to), closed = tsr__shard_writer_close(&w.writer, status);
    free_writing(&w);
    return status == TSR_OK ? tsr_status_agree(saving->engine, closed) : status;
}

/* --- the folder --- */

uint64_t tsr__max_shard_size(const tsr_save_options *options) {
    tsr_save_options given = TSR_SAVE_OPTIONS_INIT;
    tsr__take_options(&given, sizeof given, options);
    return given.max_shard_size ? given.max_shard_size : 5000000000u;
}

tsr_status tsr__saving_begin(tsr_engine *engine, const char *path, const tsr__contents *contents, uint64_t weight_bytes,
                             tsr_status own, tsr__saving *s) {
    s->engine = engine;
    s->owners = tsr__calloc(engine, (size_t)engine->size, sizeof *s->owners);
    if (own == TSR_OK && !s->owners) own = TSR_NOMEM;
    if (own == TSR_OK && engine->rank == 0)
        own = tsr__output_folder_open(engine, path, contents, weight_bytes, &s->output);
    if (s->output) snprintf(s->folder, sizeof s->folder, "%s", tsr__output_folder_path(s->output));
    TSR__TRY(tsr_status_agree(engine, own));
    TSR__TRY(tsr__broadcast(tsr__world(engine), s->folder, sizeof s->folder, 0));
    int sees = tsr__path_is_folder(s->folder);
    TSR__TRY(tsr__all_gather_equal(tsr__world(engine), &sees, sizeof sees, s->owners));
    for (int i = 0; i < engine->size; i++)
        if (s->owners[i]) s->owners[s->n_owners++] = i;
    return TSR_OK;
}

tsr_status tsr__saving_end(tsr__saving *s, tsr_status status) {
    tsr__free(s->engine, s->owners);
    if (status != TSR_OK) {
        tsr__output_folder_discard(s->output);
        return status;
    }
    return tsr_status_agree(s->engine, s->output ? tsr__output_folder_commit(s->output) : TSR_OK);
}

/* What is known without the other ranks. */
static tsr_status plan(tsr_model *model, const tsr_save_options *options, tsr__sharded *sharded,
                       tsr__contents **contents) {
    if (!model->loaded)
        return tsr__fail(model->engine, TSR_ARG, "%s has no weights in memory that could be saved; load them first",
                         model->desc->class_name);
    TSR__TRY(tsr__sharded_plan(model->checkpoint, tsr__max_shard_size(options), sharded));
    if (model->engine->rank > 0) return TSR_OK;
    TSR__TRY(tsr__contents_create(model->engine, contents));
    return tsr__contents_add(*contents, model->folder, "", NULL);
}

tsr_status tsr_model_save_pretrained(tsr_model *model, const char *folder, const tsr_save_options *options) {
    tsr__sharded sharded = {0};
    tsr__contents *contents = NULL;
    tsr__saving saving = {0};
    tsr_status status = plan(model, options, &sharded, &contents);
    status = tsr__saving_begin(model->engine, folder, contents, sharded.bytes, status, &saving);
    if (status == TSR_OK) status = tsr__model_write(&saving, model, &sharded, "", true);
    status = tsr__saving_end(&saving, status);
    tsr__contents_free(contents);
    tsr__sharded_free(&sharded);
    return status;
}
