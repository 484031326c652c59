/* A component's weights read by slices, against read whole and then cut. */
#include "io/checkpoint.h"
#include "io/file.h"
#include "models/models.h"

#include <tessera/bench.h>

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCK = 4 << 20 };

typedef struct bench {
    tsr_engine *engine;
    const tsr_bench_load_options *o;
    int rank, degree;
    tsr_bench_load_result result;
} bench;

/* --- a part is measured --- */

static tsr_status drop_from_page_cache(bench *b) {
    tsr_checkpoint *checkpoint = NULL;
    TSR__TRY(tsr_checkpoint_open(b->engine, b->o->folder, &checkpoint));
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        (void)fdatasync(checkpoint->files[i].fd); /* pages that are not written yet cannot be dropped */
        (void)posix_fadvise(checkpoint->files[i].fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    tsr_checkpoint_close(checkpoint);
    return TSR_OK;
}

static size_t peak_resident(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* Collective: no rank drops what another one is reading. */
static tsr_status measure(bench *b, tsr_status (*load)(bench *b, uint64_t *bytes), tsr_bench_load_part *out) {
    tsr_bench_load_part part = {0};
    TSR__TRY(tsr_status_agree(b->engine, drop_from_page_cache(b)));
    tsr__memory_peak_reset(b->engine);
    double start = tsr__seconds();
    tsr_status status = load(b, &part.bytes_read);
    part.seconds = tsr__seconds() - start;
    part.peak = tsr_engine_memory_peak(b->engine);
    part.peak_resident = peak_resident();
    TSR__TRY(tsr_status_agree(b->engine, status));
    *out = part;
    return TSR_OK;
}

/* --- the three ways --- */

/* From `from` to the end of the file, until *bytes are as many as wanted. */
static tsr_status read_file(const tsr__safetensors *file, uint64_t from, uint64_t wanted, char *memory,
                            uint64_t *bytes) {
    uint64_t size = (uint64_t)lseek(file->fd, 0, SEEK_END);
    while (from < size && *bytes < wanted) {
        uint64_t n = size - from < BLOCK ? size - from : BLOCK;
        if (n > wanted - *bytes) n = wanted - *bytes;
        TSR__TRY(tsr__file_read_at(file->engine, file->fd, file->path, from, memory + *bytes, (size_t)n));
        from += n;
        *bytes += n;
    }
    return TSR_OK;
}

/* Ranks begin at different places, so that none finds in the page cache what another one has just read. */
static tsr_status read_plain(const bench *b, const tsr_checkpoint *checkpoint, char *memory, uint64_t *bytes) {
    uint64_t wanted = b->result.weight_bytes, total = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++) total += (uint64_t)lseek(checkpoint->files[i].fd, 0, SEEK_END);
    uint64_t skip = total ? (uint64_t)b->rank * wanted % total : 0;
    for (size_t i = 0; i < 2 * checkpoint->n_files; i++) {
        const tsr__safetensors *file = &checkpoint->files[i % checkpoint->n_files];
        uint64_t size = (uint64_t)lseek(file->fd, 0, SEEK_END), from = skip < size ? skip : size;
        skip -= from;
        TSR__TRY(read_file(file, from, wanted, memory, bytes));
    }
    return TSR_OK;
}

/* Into memory of the same size: touching fresh memory costs about as much as reading a cached file, and every way of
 * loading has to do it. */
static tsr_status load_plain(bench *b, uint64_t *bytes) {
    tsr__device *device = b->engine->device;
    tsr_checkpoint *checkpoint = NULL;
    char *memory = device->ops->alloc(device, b->result.weight_bytes);
    tsr_status status = memory ? tsr_checkpoint_open(b->engine, b->o->folder, &checkpoint) : TSR_NOMEM;
    if (status == TSR_OK) status = read_plain(b, checkpoint, memory, bytes);
    tsr_checkpoint_close(checkpoint);
    device->ops->free(device, memory);
    return status;
}

static tsr_status open_part(const bench *b, tsr_model **out) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__model_open(b->engine, b->o->folder, "model", NULL, &model));
    tsr_status status = tsr__model_split(model, NULL, b->rank, b->degree);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

static tsr_status load_streamed(bench *b, uint64_t *bytes) {
    tsr_model *model = NULL;
    TSR__TRY(open_part(b, &model));
    tsr_status status = tsr__model_load(model);
    *bytes = tsr_checkpoint_bytes_read(model->checkpoint);
    tsr_model_destroy(model);
    return status;
}

/* The part of a whole weight [outer, length, inner bytes] that `part` is to hold. */
static void cut(const tsr__param *part, const char *whole, char *dst, int rank, int degree) {
    tsr_range ranges[TSR__MAX_RANGES];
    size_t n = tsr__shard_ranges(&part->spec, rank, degree, ranges), outer = 1, length = 1;
    size_t inner = tsr_dtype_bits(part->view.dtype) / 8;
    int dim = n ? part->spec.dim : 0;
    for (int i = 0; i < part->view.ndim; i++) {
        size_t size = (size_t)part->whole[i];
        *(i < dim ? &outer : i == dim ? &length : &inner) *= size;
    }
    if (!n) ranges[n++] = (tsr_range){0, (int64_t)length};
    for (size_t o = 0; o < outer; o++)
        for (size_t r = 0; r < n; r++) {
            size_t bytes = (size_t)(ranges[r].end - ranges[r].begin) * inner;
            memcpy(dst, whole + (o * length + (size_t)ranges[r].begin) * inner, bytes);
            dst += bytes;
        }
}

/* Two trees of one class, walked in step: the parameters of `from` in an array, those of the part one by one. */
typedef struct cutting {
    bench *b;
    tsr__param **whole; /* [n] */
    size_t n, next;
} cutting;

static tsr_status count_param(void *user, tsr__param *param) {
    cutting *c = user;
    if (c->whole) c->whole[c->n] = param;
    c->n++;
    return TSR_OK;
}

/* By way of the host, where the device has memory of its own. */
static tsr_status cut_elsewhere(const bench *b, const tsr__param *whole, const tsr__param *part) {
    tsr__device *device = b->engine->device;
    void *from = tsr__alloc(b->engine, tsr__view_bytes(&whole->view)),
         *to = tsr__alloc(b->engine, tsr__view_bytes(&part->view));
    tsr_status status = from && to ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) status = device->ops->download(device, from, whole->view.data, tsr__view_bytes(&whole->view));
    if (status == TSR_OK) cut(part, from, to, b->rank, b->degree);
    if (status == TSR_OK) status = device->ops->upload(device, part->view.data, to, tsr__view_bytes(&part->view));
    tsr__free(b->engine, from);
    tsr__free(b->engine, to);
    return status;
}

static tsr_status cut_param(void *user, tsr__param *part) {
    cutting *c = user;
    tsr__device *device = c->b->engine->device;
    const tsr__param *whole = c->whole[c->next++];
    part->view.data = device->ops->alloc(device, tsr__view_bytes(&part->view));
    if (!part->view.data) return TSR_NOMEM;
    const void *from = device->ops->host_pointer(device, whole->view.data);
    void *to = device->ops->host_pointer(device, part->view.data);
    if (!from || !to) return cut_elsewhere(c->b, whole, part);
    cut(part, from, to, c->b->rank, c->b->degree);
    return TSR_OK;
}

static tsr_status cut_model(bench *b, tsr_model *whole, tsr_model *part) {
    cutting c = {.b = b};
    TSR__TRY(tsr__module_visit_params(whole->self, count_param, &c));
    c.whole = tsr__calloc(b->engine, c.n, sizeof *c.whole);
    c.n = 0;
    if (!c.whole) return TSR_NOMEM;
    part->loaded = true;
    tsr_status status = tsr__module_visit_params(whole->self, count_param, &c);
    if (status == TSR_OK) status = tsr__module_visit_params(part->self, cut_param, &c);
    tsr__free(b->engine, c.whole);
    return status;
}

static tsr_status load_whole(bench *b, uint64_t *bytes) {
    tsr_model *whole = NULL, *part = NULL;
    tsr_status status = tsr__model_open(b->engine, b->o->folder, "model", NULL, &whole);
    if (status == TSR_OK) status = tsr__model_load(whole);
    if (status == TSR_OK) *bytes = tsr_checkpoint_bytes_read(whole->checkpoint);
    if (status == TSR_OK) status = open_part(b, &part);
    if (status == TSR_OK) status = cut_model(b, whole, part);
    tsr_model_destroy(whole);
    tsr_model_destroy(part);
    return status;
}

/* --- all of it --- */

/* Sizes, before any weight is read. *whole: of all weights. */
static tsr_status size_up(bench *b, size_t *whole) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__model_open(b->engine, b->o->folder, "model", NULL, &model));
    *whole = model->weight_bytes;
    tsr_status status = tsr__model_split(model, NULL, b->rank, b->degree);
    b->result.weight_bytes = model->weight_bytes;
    tsr_model_destroy(model);
    return status;
}

static tsr_status run(bench *b) {
    size_t whole = 0, part = 0;
    TSR__TRY(tsr_status_agree(b->engine, size_up(b, &whole)));
    part = b->result.weight_bytes;
    TSR__TRY(tsr__memory_check(b->engine, "the streamed load", part, 0, b->o->force));
    TSR__TRY(measure(b, load_plain, &b->result.plain));
    TSR__TRY(measure(b, load_streamed, &b->result.streamed));
    tsr_status status = tsr__memory_check(b->engine, "the load of everything", whole + part, 0, b->o->force);
    if (status == TSR_OK) return measure(b, load_whole, &b->result.whole);
    if (status != TSR_NOMEM) return status;
    tsr__log(b->engine, TSR_LOG_WARNING, "left out: %s", b->engine->message);
    return TSR_OK;
}

static tsr_status resolve(bench *b) {
    int size = b->engine->size;
    b->degree = b->o->tp_degree ? b->o->tp_degree : size;
    b->rank = b->o->as_rank >= 0 ? b->o->as_rank : b->engine->rank;
    if (!b->o->folder) return tsr__fail(b->engine, TSR_ARG, "bench load needs a folder");
    if (b->o->as_rank >= 0 && (size != 1 || b->rank >= b->degree))
        return tsr__fail(b->engine, TSR_ARG, "rank %d of %d can be imagined by one rank only, but there are %d",
                         b->rank, b->degree, size);
    if (b->o->as_rank < 0 && b->degree != size)
        return tsr__fail(b->engine, TSR_ARG, "tp %d needs as many ranks, but there are %d", b->degree, size);
    return TSR_OK;
}

tsr_status tsr_bench_load(tsr_engine *engine, const tsr_bench_load_options *options, tsr_bench_load_result *results) {
    tsr_bench_load_options o = TSR_BENCH_LOAD_OPTIONS_INIT;
    size_t bytes[TSR__MAX_RANKS];
    tsr__take_options(&o, sizeof o, options);
    bench b = {.engine = engine, .o = &o};
    TSR__TRY(resolve(&b));
    b.result.rank = b.rank;
    TSR__TRY(run(&b));
    for (int i = 0; i < engine->size; i++) bytes[i] = sizeof b.result;
    return tsr__all_gather(tsr__world(engine), &b.result, bytes, results);
}
