#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

enum { LENGTH_BYTES = 8, PEEK_BYTES = 64 };
static const int64_t max_integer = (int64_t)1 << 53;

typedef unsigned long long ull;

bool tsr__tensor_size(tsr_dtype dtype, int ndim, const int64_t *shape, size_t *bytes) {
    size_t bits = tsr_dtype_bits(dtype);
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || !tsr__mul(bits, (size_t)shape[i], &bits)) return false;
    if (!tsr_dtype_bits(dtype) || bits % 8) return false;
    *bytes = bits / 8;
    return true;
}

/* Not blocking: a pipe in place of a file would be waited for. */
static tsr_status open_file(tsr__safetensors *f, uint64_t *size) {
    struct stat at;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &at) != 0) {
        const char *hint = errno == EMFILE ? "; raise `ulimit -n`" : "";
        return tsr__fail(f->engine, TSR_IO, "%s: cannot be opened: %m%s", f->path, hint);
    }
    if (!S_ISREG(at.st_mode)) return tsr__fail(f->engine, TSR_IO, "%s: is not a regular file", f->path);
    *size = (uint64_t)at.st_size;
    return TSR_OK;
}

static uint64_t little_endian(const unsigned char bytes[LENGTH_BYTES]) {
    uint64_t value = 0;
    for (int i = LENGTH_BYTES; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

/* The length of the header. One that cannot be right may be the start of something else: that is said first. */
static tsr_status read_length(tsr__safetensors *f, uint64_t size, uint64_t *length) {
    unsigned char start[PEEK_BYTES];
    size_t n = size < sizeof start ? (size_t)size : sizeof start;
    TSR__TRY(tsr__file_read_at(f->engine, f->fd, f->path, 0, start, n));
    uint64_t value = n < LENGTH_BYTES ? UINT64_MAX : little_endian(start);
    bool plausible = n > LENGTH_BYTES && value <= size - LENGTH_BYTES && strchr("{ \t\r\n", start[LENGTH_BYTES]);
    if (!plausible) TSR__TRY(tsr__file_refuse_impostor(f->engine, f->path, (const char *)start, n));
    if (n < LENGTH_BYTES)
        return tsr__fail(f->engine, TSR_FORMAT,
                         "%s: is too short to be a safetensors file: expected at least %d bytes, has %llu (incomplete "
                         "download?); download it again",
                         f->path, LENGTH_BYTES, (ull)size);
    if (value > TSR__SAFETENSORS_MAX_HEADER && start[0] == '{')
        return tsr__fail(f->engine, TSR_FORMAT,
                         "%s: is not a safetensors file, but JSON; give the file with the tensors, or the folder",
                         f->path);
    if (value > TSR__SAFETENSORS_MAX_HEADER)
        return tsr__fail(f->engine, TSR_FORMAT,
                         "%s: is not a safetensors file: it announces a header of %llu bytes, more than the %d allowed",
                         f->path, (ull)value, TSR__SAFETENSORS_MAX_HEADER);
    if (value > size - LENGTH_BYTES)
        return tsr__fail(f->engine, TSR_FORMAT,
                         "%s: is too short: its header alone needs %llu bytes, it has %llu (incomplete download?); "
                         "download it again",
                         f->path, (ull)value + LENGTH_BYTES, (ull)size);
    *length = value;
    return TSR_OK;
}

static tsr_status read_header(tsr__safetensors *f, uint64_t length, json_t **out) {
    json_t *root = NULL;
    char *text = tsr__alloc(f->engine, length);
    if (!text) return TSR_NOMEM;
    tsr_status status = tsr__file_read_at(f->engine, f->fd, f->path, LENGTH_BYTES, text, length);
    if (status == TSR_OK) status = tsr__json_parse(f->engine, f->path, text, length, &root);
    tsr__free(f->engine, text);
    if (status == TSR_OK && !json_is_object(root)) {
        json_decref(root);
        status = tsr__fail(f->engine, TSR_FORMAT, "%s: its header is a list, but must be an object", f->path);
    }
    if (status == TSR_OK) *out = root;
    return status;
}

static tsr_status refuse_field(tsr_engine *engine, const char *field, const json_t *value, const char *wanted) {
    char found[TSR__JSON_DESCRIPTION_BYTES];
    tsr__json_describe(value, found);
    return tsr__fail(engine, TSR_FORMAT, "%s is %s, but must be %s", field, found, wanted);
}

static tsr_status parse_dtype(tsr_engine *engine, const json_t *value, tsr_dtype *out) {
    const char *name = json_string_value(value);
    if (name && strlen(name) == json_string_length(value))
        for (int i = 1; i < TSR_DTYPE_COUNT; i++)
            if (strcmp(name, tsr_dtype_name((tsr_dtype)i)) == 0) {
                *out = (tsr_dtype)i;
                return TSR_OK;
            }
    return refuse_field(engine, "dtype", value, "a dtype of safetensors that Tessera knows, such as \"BF16\"");
}

static tsr_status parse_naturals(tsr_engine *engine, const char *field, const json_t *list, size_t n, int64_t *out) {
    for (size_t i = 0; i < n; i++)
        if (!tsr__json_integer(json_array_get(list, i), 0, max_integer, &out[i]))
            return refuse_field(engine, field, json_array_get(list, i), "integers from 0 to 2^53");
    return TSR_OK;
}

static tsr_status parse_fields(tsr_engine *engine, const json_t *fields, tsr_tensor_info *info) {
    const json_t *shape = json_object_get(fields, "shape"), *offsets = json_object_get(fields, "data_offsets");
    int64_t span[2];
    size_t bytes = 0;
    if (!json_is_object(fields)) return refuse_field(engine, "the entry", fields, "an object");
    TSR__TRY(parse_dtype(engine, json_object_get(fields, "dtype"), &info->dtype));
    if (!json_is_array(shape)) return refuse_field(engine, "shape", shape, "a list");
    if (json_array_size(shape) > TSR_MAX_DIMS)
        return tsr__fail(engine, TSR_FORMAT, "shape has %zu dimensions; Tessera handles up to %d",
                         json_array_size(shape), TSR_MAX_DIMS);
    info->ndim = (int)json_array_size(shape);
    TSR__TRY(parse_naturals(engine, "shape", shape, json_array_size(shape), info->shape));
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return refuse_field(engine, "data_offsets", offsets, "a list of two integers");
    TSR__TRY(parse_naturals(engine, "data_offsets", offsets, 2, span));
    if (span[1] < span[0]) return tsr__fail(engine, TSR_FORMAT, "data_offsets end before they begin");
    info->offset = (uint64_t)span[0];
    info->size = (uint64_t)(span[1] - span[0]);
    if (!tsr__tensor_size(info->dtype, info->ndim, info->shape, &bytes))
        return tsr__fail(engine, TSR_FORMAT, "shape times %s is too large or no whole number of bytes",
                         tsr_dtype_name(info->dtype));
    if (bytes != info->size)
        return tsr__fail(engine, TSR_FORMAT, "shape and dtype %s need %zu bytes, but data_offsets span %llu",
                         tsr_dtype_name(info->dtype), bytes, (ull)info->size);
    return TSR_OK;
}

static tsr_status parse_metadata(tsr__safetensors *f, json_t *root) {
    const char *key;
    json_t *value, *metadata = json_object_get(root, "__metadata__");
    if (!metadata || json_is_null(metadata)) return TSR_OK;
    bool strings = json_is_object(metadata);
    json_object_foreach(metadata, key, value) strings = strings && json_is_string(value);
    if (!strings) return tsr__fail(f->engine, TSR_FORMAT, "%s: __metadata__ must be an object of strings", f->path);
    f->metadata = json_incref(metadata);
    return TSR_OK;
}

static tsr_status parse_tensors(tsr__safetensors *f, json_t *root) {
    const char *key;
    json_t *value;
    size_t name_bytes = 0;
    json_object_foreach(root, key, value) name_bytes += strlen(key) + 1;
    char *name = f->names = tsr__alloc(f->engine, name_bytes);
    f->tensors = tsr__calloc(f->engine, json_object_size(root), sizeof *f->tensors);
    if (!f->names || !f->tensors) return TSR_NOMEM;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "__metadata__") == 0) continue;
        tsr_tensor_info *info = &f->tensors[f->n++];
        tsr_status status = parse_fields(f->engine, value, info);
        if (status != TSR_OK) return tsr__context(f->engine, status, "%s: tensor '%.200s'", f->path, key);
        info->name = strcpy(name, key);
        info->file = f->path;
        name += strlen(key) + 1;
    }
    return TSR_OK;
}

static int by_offset(const void *a, const void *b) {
    const tsr_tensor_info *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The data must be covered exactly: each tensor begins where the one before it ends, the last ends with the file. */
static tsr_status check_coverage(tsr__safetensors *f, uint64_t data_begin, uint64_t size) {
    uint64_t end = 0;
    qsort(f->tensors, f->n, sizeof *f->tensors, by_offset);
    for (size_t i = 0; i < f->n; i++) {
        tsr_tensor_info *info = &f->tensors[i];
        if (info->offset < end)
            return tsr__fail(f->engine, TSR_FORMAT, "%s: tensor '%.200s' overlaps tensor '%.200s'", f->path, info->name,
                             f->tensors[i - 1].name);
        if (info->offset > end)
            return tsr__fail(f->engine, TSR_FORMAT, "%s: a hole of %llu bytes lies before tensor '%.200s'", f->path,
                             (ull)(info->offset - end), info->name);
        end += info->size;
        info->offset += data_begin;
    }
    if (data_begin + end == size) return TSR_OK;
    return tsr__fail(f->engine, TSR_FORMAT, "%s: is too %s: expected %llu bytes, has %llu; download it again", f->path,
                     size < data_begin + end ? "short (incomplete download?)" : "long (bytes behind the last tensor)",
                     (ull)(data_begin + end), (ull)size);
}

static tsr_status open_and_check(tsr__safetensors *f) {
    uint64_t size = 0, length = 0;
    json_t *root = NULL;
    TSR__TRY(open_file(f, &size));
    TSR__TRY(read_length(f, size, &length));
    TSR__TRY(read_header(f, length, &root));
    tsr_status status = parse_metadata(f, root);
    if (status == TSR_OK) status = parse_tensors(f, root);
    if (status == TSR_OK) status = check_coverage(f, LENGTH_BYTES + length, size);
    json_decref(root);
    return status;
}

tsr_status tsr__safetensors_open(tsr_engine *engine, const char *path, tsr__safetensors *out) {
    tsr__safetensors f = {.engine = engine, .fd = -1, .path = tsr__strdup(engine, path)};
    tsr_status status = f.path ? open_and_check(&f) : TSR_NOMEM;
    if (status == TSR_OK)
        *out = f;
    else
        tsr__safetensors_close(&f);
    return status;
}

void tsr__safetensors_close(tsr__safetensors *f) {
    if (!f->engine) return;
    if (f->fd >= 0) close(f->fd);
    json_decref(f->metadata);
    tsr__free(f->engine, f->tensors);
    tsr__free(f->engine, f->names);
    tsr__free(f->engine, f->path);
    *f = (tsr__safetensors){.fd = -1};
}
