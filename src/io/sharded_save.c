#include "io/sharded_save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

/* --- which tensor goes where --- */

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

/* Before the layout, `file` and `offset` are those of the source. An empty tensor lies where the next one begins. */
static int by_source(const void *a, const void *b) {
    const tsr__placed_tensor *x = a, *y = b;
    if (x->file != y->file) return compare(x->file, y->file);
    if (x->offset != y->offset) return compare(x->offset, y->offset);
    if (x->info->size != y->info->size) return compare(x->info->size, y->info->size);
    return strcmp(x->info->name, y->info->name);
}

static int by_place(const void *a, const void *b) {
    const tsr__placed_tensor *x = a, *y = b;
    unsigned x_bits = tsr_dtype_bits(x->info->dtype), y_bits = tsr_dtype_bits(y->info->dtype);
    if (x->file != y->file) return compare(x->file, y->file);
    if (x_bits != y_bits) return compare(y_bits, x_bits);
    return compare(x->order, y->order);
}

static void list_in_source_order(const tsr_checkpoint *c, tsr__placed_tensor *tensors) {
    for (size_t i = 0; i < c->n; i++) {
        tensors[i] = (tsr__placed_tensor){.info = &c->tensors[i], .offset = c->tensors[i].offset};
        while (c->files[tensors[i].file].path != c->tensors[i].file) tensors[i].file++;
    }
    qsort(tensors, c->n, sizeof *tensors, by_source);
}

/* Fills one file after the other; returns how many there are. */
static size_t assign_files(tsr__placed_tensor *tensors, size_t n, uint64_t max_bytes) {
    size_t file = 0;
    uint64_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = tensors[i].info->size;
        if (filled && (filled > max_bytes || size > max_bytes - filled)) {
            file++;
            filled = 0;
        }
        filled += size;
        tensors[i].file = file;
        tensors[i].order = i;
    }
    qsort(tensors, n, sizeof *tensors, by_place);
    return file + 1;
}

/* --- headers and index --- */

/* Header and offsets of file f, whose n tensors begin at `first`; list [n] is for use here. */
static tsr_status lay_out_file(tsr__sharded *s, size_t f, tsr__placed_tensor *first, size_t n, tsr_tensor *list) {
    static const char *const metadata[] = {"format", "pt", NULL};
    tsr__sharded_file *file = &s->files[f];
    for (size_t i = 0; i < n; i++) {
        const tsr_tensor_info *info = first[i].info;
        list[i] = (tsr_tensor){.name = info->name, .dtype = info->dtype, .ndim = info->ndim};
        memcpy(list[i].shape, info->shape, sizeof list[i].shape);
    }
    TSR__TRY(tsr__safetensors_header(s->engine, list, n, metadata, &file->header, &file->header_bytes));
    file->bytes = file->header_bytes;
    for (size_t i = 0; i < n; i++) {
        first[i].offset = file->bytes;
        file->bytes += first[i].info->size;
        s->data_bytes += first[i].info->size;
    }
    s->bytes += file->bytes;
    return TSR_OK;
}

static tsr_status lay_out_files(tsr__sharded *s, const char *stem) {
    tsr_tensor *list = tsr__calloc(s->engine, s->n, sizeof *list);
    tsr_status status = list ? TSR_OK : TSR_NOMEM;
    for (size_t f = 0, first = 0, end = 0; f < s->n_files && status == TSR_OK; f++, first = end) {
        tsr__sharded_file *file = &s->files[f];
        if (s->n_files == 1)
            snprintf(file->name, sizeof file->name, "%s.safetensors", stem);
        else
            snprintf(file->name, sizeof file->name, "%s-%05zu-of-%05zu.safetensors", stem, f + 1, s->n_files);
        while (end < s->n && s->tensors[end].file == f) end++;
        status = lay_out_file(s, f, s->tensors + first, end - first, list);
    }
    tsr__free(s->engine, list);
    return status;
}

static tsr_status write_index(tsr__sharded *s) {
    json_t *map = json_object();
    bool whole = map != NULL;
    for (size_t i = 0; i < s->n && whole; i++)
        whole = json_object_set_new(map, s->tensors[i].info->name, json_string(s->files[s->tensors[i].file].name)) == 0;
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)s->data_bytes, "weight_map", map);
    tsr_status status =
        whole && root ? tsr__json_dump(s->engine, root, JSON_INDENT(2) | JSON_SORT_KEYS, &s->index, &s->index_bytes)
                      : tsr__fail(s->engine, TSR_NOMEM, "no memory for an index of %zu tensors", s->n);
    json_decref(root);
    if (status == TSR_OK) s->index[s->index_bytes++] = '\n'; /* in place of the NUL */
    s->bytes += s->index_bytes;
    return status;
}

tsr_status tsr__sharded_plan(tsr_checkpoint *c, uint64_t max_bytes, tsr__sharded *out) {
    tsr__sharded s = {.engine = c->engine, .n = c->n};
    tsr_status status = TSR_OK;
    s.tensors = tsr__calloc(c->engine, c->n, sizeof *s.tensors);
    if (!s.tensors) return TSR_NOMEM;
    list_in_source_order(c, s.tensors);
    s.n_files = assign_files(s.tensors, c->n, max_bytes);
    s.files = tsr__calloc(c->engine, s.n_files, sizeof *s.files);
    status = s.files ? lay_out_files(&s, c->stem) : TSR_NOMEM;
    snprintf(s.index_name, sizeof s.index_name, "%s.safetensors.index.json", c->stem);
    if (status == TSR_OK && s.n_files > 1) status = write_index(&s);
    if (status == TSR_OK)
        *out = s;
    else
        tsr__sharded_free(&s);
    return status;
}

void tsr__sharded_free(tsr__sharded *s) {
    if (!s->engine) return;
    for (size_t i = 0; s->files && i < s->n_files; i++) tsr__free(s->engine, s->files[i].header);
    tsr__free(s->engine, s->index);
    tsr__free(s->engine, s->files);
    tsr__free(s->engine, s->tensors);
    *s = (tsr__sharded){.engine = NULL};
}

/* --- files --- */

static tsr_status create_file(const tsr__sharded *s, const tsr__sharded_file *file, const char *folder) {
    char *path = tsr__path_join(s->engine, folder, file->name);
    int fd = -1;
    tsr_status status = path ? tsr__file_create(s->engine, path, file->bytes, &fd) : TSR_NOMEM;
    if (status == TSR_OK) {
        status = tsr__file_write_at(s->engine, fd, path, 0, file->header, file->header_bytes);
        status = tsr__file_finish(s->engine, fd, path, status);
    }
    tsr__free(s->engine, path);
    return status;
}

tsr_status tsr__sharded_create(const tsr__sharded *s, const char *folder) {
    for (size_t i = 0; i < s->n_files; i++) TSR__TRY(create_file(s, &s->files[i], folder));
    if (!s->index) return TSR_OK;
    char *path = tsr__path_join(s->engine, folder, s->index_name);
    tsr_status status = path ? tsr__file_put(s->engine, path, s->index, s->index_bytes) : TSR_NOMEM;
    tsr__free(s->engine, path);
    return status;
}
