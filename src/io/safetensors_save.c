#include <string.h>

#include "io/file.h"
#include "io/safetensors.h"

/* Anything wrong is the caller's: name, dtype, shape. *bytes: the size of the data. */
static tsr_status check_tensor(tsr_engine *engine, const tsr_tensor *tensor, size_t *bytes) {
    const char *name = tensor->name, *fault = NULL;
    if (!name || strcmp(name, "__metadata__") == 0)
        return tsr__fail(engine, TSR_ARG, "a tensor to be saved must have a name other than __metadata__");
    if (tensor->ndim < 0 || tensor->ndim > TSR_MAX_DIMS)
        fault = "has a wrong number of dimensions";
    else if (!tsr__tensor_size(tensor->dtype, tensor->ndim, tensor->shape, bytes))
        fault = "has no valid dtype, shape and size";
    return fault ? tsr__fail(engine, TSR_ARG, "tensor '%.200s' cannot be saved: it %s", name, fault) : TSR_OK;
}

/* Adds value under a key that is not there yet; takes the value. */
static tsr_status add(tsr_engine *engine, json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key)) {
        json_decref(value);
        return tsr__fail(engine, TSR_ARG, "'%.200s' would be saved twice; names must differ", key);
    }
    if (value && json_object_set_new(object, key, value) == 0) return TSR_OK;
    return tsr__fail(engine, TSR_ARG, "'%.200s' or its value is not UTF-8 and cannot be saved", key);
}

static json_t *entry(const tsr_tensor *tensor, size_t begin, size_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < tensor->ndim; i++) json_array_append_new(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", tsr_dtype_name(tensor->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

static tsr_status fill_header(tsr_engine *engine, const tsr_tensor *tensors, size_t n, const char *const *metadata,
                              json_t *root) {
    size_t end = 0;
    if (metadata && metadata[0]) {
        json_t *strings = json_object();
        TSR__TRY(add(engine, root, "__metadata__", strings));
        for (; metadata[0]; metadata += 2) TSR__TRY(add(engine, strings, metadata[0], json_string(metadata[1])));
    }
    for (size_t i = 0; i < n; i++) {
        size_t begin = end, bytes = 0;
        TSR__TRY(check_tensor(engine, &tensors[i], &bytes));
        if (!tsr__add(begin, bytes, &end)) return tsr__fail(engine, TSR_ARG, "the tensors to be saved are too large");
        TSR__TRY(add(engine, root, tensors[i].name, entry(&tensors[i], begin, end)));
    }
    return TSR_OK;
}

/* The length as 8 bytes, little end first, and the header, padded with blanks to a multiple of 8. */
static tsr_status frame_header(tsr_engine *engine, const char *text, size_t length, char **out, size_t *n) {
    size_t padded = (length + 7) / 8 * 8;
    if (padded > TSR__SAFETENSORS_MAX_HEADER)
        return tsr__fail(engine, TSR_ARG, "names and shapes take %zu bytes, a safetensors header holds %d", padded,
                         TSR__SAFETENSORS_MAX_HEADER);
    char *bytes = tsr__alloc(engine, 8 + padded);
    if (!bytes) return TSR_NOMEM;
    for (size_t i = 0; i < 8; i++) bytes[i] = (char)(padded >> (8 * i) & 255);
    memset(bytes + 8, ' ', padded);
    memcpy(bytes + 8, text, length);
    *out = bytes;
    *n = 8 + padded;
    return TSR_OK;
}

tsr_status tsr__safetensors_header(tsr_engine *engine, const tsr_tensor *tensors, size_t n, const char *const *metadata,
                                   char **out, size_t *bytes) {
    json_t *root = json_object();
    char *text = NULL;
    size_t length = 0;
    tsr_status status = root ? fill_header(engine, tensors, n, metadata, root)
                             : tsr__fail(engine, TSR_NOMEM, "no memory for the header of the file to be saved");
    if (status == TSR_OK) status = tsr__json_dump(engine, root, JSON_COMPACT, &text, &length);
    json_decref(root);
    if (status == TSR_OK) status = frame_header(engine, text, length, out, bytes);
    tsr__free(engine, text);
    return status;
}

static tsr_status write_file(tsr_engine *engine, const char *path, const char *header, size_t header_bytes,
                             const tsr_tensor *tensors, size_t n) {
    tsr__output *output = NULL;
    TSR__TRY(tsr__output_open(engine, path, &output));
    tsr_status status = tsr__output_write(output, header, header_bytes);
    for (size_t i = 0; i < n && status == TSR_OK; i++)
        status = tsr__output_write(output, tensors[i].data, tsr_tensor_bytes(&tensors[i]));
    if (status == TSR_OK) return tsr__output_commit(output);
    tsr__output_discard(output);
    return status;
}

tsr_status tsr_safetensors_save(tsr_engine *engine, const char *path, const tsr_tensor *tensors, size_t n,
                                const char *const *metadata) {
    char *header = NULL;
    size_t bytes = 0;
    TSR__TRY(tsr__safetensors_header(engine, tensors, n, metadata, &header, &bytes));
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < n && status == TSR_OK; i++)
        if (!tensors[i].data && tsr_tensor_bytes(&tensors[i]))
            status = tsr__fail(engine, TSR_ARG, "tensor '%.200s' cannot be saved: it has no data", tensors[i].name);
    if (status == TSR_OK) status = write_file(engine, path, header, bytes, tensors, n);
    tsr__free(engine, header);
    return status;
}
