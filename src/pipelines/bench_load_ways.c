/* The three ways of `bench load`: a plain read, the streamed load, everything and then the part. */
#include "pipelines/bench_load.h"

#include "device/host.h"
#include "io/checkpoint.h"
#include "io/file.h"

#include <string.h>
#include <unistd.h>

enum { BLOCK = 8 << 20 };

tsr_status tsr__bench_load_open(const tsr__bench_load *b, tsr_model **out) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__model_open(b->engine, b->folder, "model", NULL, &model));
    tsr_status status = tsr__model_split(model, NULL, b->rank, b->degree);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

/* --- plain --- */

static uint64_t size_of(const tsr__safetensors *file) { return (uint64_t)lseek(file->fd, 0, SEEK_END); }

/* From `from` to the end of the file, until *bytes are as many as wanted. */
static tsr_status read_file(const tsr__safetensors *file, uint64_t from, uint64_t wanted, char *memory,
                            uint64_t *bytes) {
    uint64_t size = size_of(file);
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
static tsr_status read_plain(const tsr__bench_load *b, const tsr_checkpoint *checkpoint, char *memory,
                             uint64_t *bytes) {
    uint64_t wanted = b->weight_bytes, total = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++) total += size_of(&checkpoint->files[i]);
    uint64_t skip = total ? (uint64_t)b->rank * wanted % total : 0;
    for (size_t i = 0; i < 2 * checkpoint->n_files; i++) {
        const tsr__safetensors *file = &checkpoint->files[i % checkpoint->n_files];
        uint64_t size = size_of(file), from = skip < size ? skip : size;
        skip -= from;
        TSR__TRY(read_file(file, from, wanted, memory, bytes));
    }
    return TSR_OK;
}

tsr_status tsr__bench_load_plain(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr__device *device = b->engine->device;
    tsr_checkpoint *checkpoint = NULL;
    char *memory = tsr__host_alloc(device, b->weight_bytes);
    tsr_status status = memory ? tsr_checkpoint_open(b->engine, b->folder, &checkpoint) : TSR_NOMEM;
    if (status == TSR_OK) status = read_plain(b, checkpoint, memory, &out->bytes_read);
    out->seconds = tsr__seconds() - start;
    tsr_checkpoint_close(checkpoint);
    tsr__host_free(device, memory);
    return status;
}

/* --- streamed --- */

tsr_status tsr__bench_load_streamed(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__bench_load_open(b, &model));
    tsr_status status = tsr__model_load(model);
    out->seconds = tsr__seconds() - start;
    out->bytes_read = tsr_checkpoint_bytes_read(model->checkpoint);
    tsr_model_destroy(model);
    return status;
}

/* --- whole, then cut --- */

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
    const tsr__bench_load *b;
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
static tsr_status cut_elsewhere(const tsr__bench_load *b, const tsr__param *whole, const tsr__param *part) {
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

static tsr_status cut_model(const tsr__bench_load *b, tsr_model *whole, tsr_model *part) {
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

tsr_status tsr__bench_load_whole(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr_model *whole = NULL, *part = NULL;
    tsr_status status = tsr__model_open(b->engine, b->folder, "model", NULL, &whole);
    if (status == TSR_OK) status = tsr__model_load(whole);
    if (status == TSR_OK) out->bytes_read = tsr_checkpoint_bytes_read(whole->checkpoint);
    if (status == TSR_OK) status = tsr__bench_load_open(b, &part);
    if (status == TSR_OK) status = cut_model(b, whole, part);
    tsr_model_destroy(whole);
    out->seconds = tsr__seconds() - start;
    tsr_model_destroy(part);
    return status;
}
