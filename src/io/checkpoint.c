#include "io/checkpoint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

static int by_name(const void *a, const void *b) {
    return strcmp(((const tsr_tensor_info *)a)->name, ((const tsr_tensor_info *)b)->name);
}

/* Opens a file and takes its tensors over. */
static tsr_status open_file(tsr_checkpoint *c, const char *path) {
    tsr__safetensors *file = &c->files[c->n_files];
    TSR__TRY(tsr__safetensors_open(c->engine, path, file));
    c->n_files++; /* from here on close() sees it */
    tsr_tensor_info *all = tsr__realloc(c->engine, c->tensors, (c->n + file->n) * sizeof *all);
    if (!all) return TSR_NOMEM;
    memcpy(all + c->n, file->tensors, file->n * sizeof *all);
    c->tensors = all;
    c->n += file->n;
    tsr__free(c->engine, file->tensors);
    file->tensors = NULL;
    return TSR_OK;
}

tsr_status tsr__checkpoint_open_files(tsr_checkpoint *c, char *const *paths, size_t n) {
    c->files = tsr__calloc(c->engine, n, sizeof *c->files);
    if (!c->files) return TSR_NOMEM;
    for (size_t i = 0; i < n; i++) TSR__TRY(open_file(c, paths[i]));
    qsort(c->tensors, c->n, sizeof *c->tensors, by_name);
    return TSR_OK;
}

static tsr_status open_single(tsr_checkpoint *c, const char *path) {
    char *copy = tsr__strdup(c->engine, path);
    tsr_status status = copy ? tsr__checkpoint_open_files(c, &copy, 1) : TSR_NOMEM;
    tsr__free(c->engine, copy);
    return status;
}

tsr_status tsr_checkpoint_open(tsr_engine *engine, const char *path, tsr_checkpoint **out) {
    tsr_checkpoint *c = tsr__calloc(engine, 1, sizeof *c);
    if (!c) return TSR_NOMEM;
    c->engine = engine;
    tsr_status status = tsr__path_is_folder(path) ? tsr__checkpoint_open_folder(c, path) : open_single(c, path);
    if (status == TSR_OK)
        *out = c;
    else
        tsr_checkpoint_close(c);
    return status;
}

void tsr_checkpoint_close(tsr_checkpoint *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_files; i++) tsr__safetensors_close(&c->files[i]);
    tsr__free(c->engine, c->files);
    tsr__free(c->engine, c->tensors);
    tsr__free(c->engine, c);
}

size_t tsr_checkpoint_count(const tsr_checkpoint *c) { return c->n; }
const tsr_tensor_info *tsr_checkpoint_at(const tsr_checkpoint *c, size_t i) { return i < c->n ? &c->tensors[i] : NULL; }
uint64_t tsr_checkpoint_bytes_read(const tsr_checkpoint *c) { return c->bytes_read; }

const tsr_tensor_info *tsr_checkpoint_find(const tsr_checkpoint *c, const char *name) {
    tsr_tensor_info wanted = {.name = name};
    return c->n ? bsearch(&wanted, c->tensors, c->n, sizeof wanted, by_name) : NULL;
}

const char *tsr_checkpoint_metadata(const tsr_checkpoint *c, const char *key) {
    return json_string_value(json_object_get(c->files[0].metadata, key));
}

/* Bytes of the file that are wanted but not yet read, and where they go. They grow while what follows is adjacent. */
typedef struct run {
    uint64_t offset;
    size_t length;
    char *dst;
} run;

static tsr_status flush(tsr_checkpoint *c, const tsr__safetensors *file, const run *wanted) {
    TSR__TRY(tsr__file_read_at(c->engine, file->fd, file->path, wanted->offset, wanted->dst, wanted->length));
    c->bytes_read += wanted->length;
    return TSR_OK;
}

/* A tensor seen as [outer, length of the dimension, inner bytes]. */
typedef struct layout {
    size_t outer, length, inner;
} layout;

/* Many short reads with gaps look random to the kernel, which then reads ahead too little: 2.4 times the time of a
 * plain read was seen. So it is told what comes, in pieces of its usual read-ahead (it takes no more at a time), up to
 * a window in front. Advice costs nothing where the file is in the page cache. */
static uint64_t announce(const tsr__safetensors *file, uint64_t announced, uint64_t at, uint64_t end) {
    enum { WINDOW = 8 << 20, PIECE = 128 << 10 };
    uint64_t until = end - at < WINDOW ? end : at + WINDOW;
    if (announced < at) announced = at;
    if (announced > at + WINDOW / 2) return announced;
    for (; announced < until; announced += PIECE)
        (void)posix_fadvise(file->fd, (off_t)announced, PIECE, POSIX_FADV_WILLNEED);
    return announced;
}

static tsr_status read_ranges(tsr_checkpoint *c, const tsr__safetensors *file, const tsr_tensor_info *info,
                              const layout *view, const tsr_range *ranges, size_t n, char *dst) {
    run wanted = {.offset = info->offset, .dst = dst};
    uint64_t announced = 0;
    for (size_t outer = 0; outer < view->outer; outer++)
        for (size_t r = 0; r < n; r++) {
            uint64_t at = info->offset + (outer * view->length + (size_t)ranges[r].begin) * view->inner;
            size_t length = (size_t)(ranges[r].end - ranges[r].begin) * view->inner;
            if (at != wanted.offset + wanted.length && length) {
                announced = announce(file, announced, at, info->offset + info->size);
                TSR__TRY(flush(c, file, &wanted));
                wanted = (run){.offset = at, .dst = wanted.dst + wanted.length};
            }
            wanted.length += length;
        }
    return flush(c, file, &wanted);
}

/* Checks the ranges; *sum: how many indices they hold together. */
static tsr_status check_ranges(tsr_engine *engine, const tsr_tensor_info *info, int dim, const tsr_range *ranges,
                               size_t n, size_t *sum) {
    size_t all = 0;
    if (dim < 0 || dim >= info->ndim)
        return tsr__fail(engine, TSR_ARG, "%s: tensor '%.200s' of %d dimensions has no dimension %d", info->file,
                         info->name, info->ndim, dim);
    for (size_t i = 0; i < n; i++) {
        long long begin = ranges[i].begin, end = ranges[i].end, length = info->shape[dim];
        if (begin < 0 || begin > end || end > length || !tsr__add(all, (size_t)(end - begin), &all))
            return tsr__fail(engine, TSR_SHAPE,
                             "%s: range %lld to %lld lies outside dimension %d (0 to %lld) of '%.200s'", info->file,
                             begin, end, dim, length, info->name);
    }
    if (tsr_dtype_bits(info->dtype) % 8 && !(n == 1 && ranges[0].end - ranges[0].begin == info->shape[dim]))
        return tsr__fail(engine, TSR_UNSUPPORTED, "%s: tensor '%.200s' is %s and can only be read whole", info->file,
                         info->name, tsr_dtype_name(info->dtype));
    *sum = all;
    return TSR_OK;
}

static const tsr__safetensors *file_of(const tsr_checkpoint *c, const tsr_tensor_info *info) {
    for (size_t i = 0; info && i < c->n_files; i++)
        if (c->files[i].path == info->file) return &c->files[i];
    return NULL;
}

tsr_status tsr__checkpoint_read_bytes(tsr_checkpoint *c, const tsr_tensor_info *info, uint64_t offset, void *dst,
                                      size_t n) {
    return flush(c, file_of(c, info), &(run){info->offset + offset, n, dst});
}

static tsr_status check_bytes(tsr_engine *engine, const tsr_tensor_info *info, size_t need, size_t have) {
    if (need == have) return TSR_OK;
    return tsr__fail(engine, TSR_ARG, "%s: this part of tensor '%.200s' has %zu bytes, the memory for it %zu",
                     info->file, info->name, need, have);
}

tsr_status tsr_checkpoint_read(tsr_checkpoint *c, const tsr_tensor_info *info, int dim, const tsr_range *ranges,
                               size_t n_ranges, void *dst, size_t dst_bytes) {
    const tsr__safetensors *file = file_of(c, info);
    if (!file) return tsr__fail(c->engine, TSR_ARG, "a tensor can only be read through the checkpoint that it is in");
    layout view = {.outer = 1, .length = 1, .inner = (size_t)info->size};
    size_t sum = 1, need = 0;
    if (n_ranges) TSR__TRY(check_ranges(c->engine, info, dim, ranges, n_ranges, &sum));
    bool whole = n_ranges == 0 || tsr_dtype_bits(info->dtype) % 8; /* the range of a sub-byte tensor is all of it */
    if (whole) sum = 1;
    for (int i = 0; i < dim && !whole; i++) view.outer *= (size_t)info->shape[i];
    if (!whole) view.length = (size_t)info->shape[dim];
    if (info->size) view.inner = (size_t)info->size / view.outer / view.length;
    if (!tsr__mul(sum, view.outer, &need) || !tsr__mul(need, view.inner, &need)) need = SIZE_MAX;
    TSR__TRY(check_bytes(c->engine, info, need, dst_bytes));
    if (need == 0) return TSR_OK;
    static const tsr_range everything = {0, 1};
    return read_ranges(c, file, info, &view, whole ? &everything : ranges, whole ? 1 : n_ranges, dst);
}
