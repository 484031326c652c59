/* One safetensors file: its header, validated as a whole before anything else is done with it. */
#ifndef TSR_IO_SAFETENSORS_H
#define TSR_IO_SAFETENSORS_H

#include <tessera/checkpoint.h>

#include "io/json.h"

enum { TSR__SAFETENSORS_MAX_HEADER = 100000000 };

typedef struct tsr__safetensors {
    tsr_engine *engine;
    char *path;
    int fd;
    json_t *metadata;         /* __metadata__, an object of strings; NULL: none */
    tsr_tensor_info *tensors; /* [n] in order of offset; names lie in `names`, file is `path` */
    size_t n;
    char *names;
} tsr__safetensors;

/* Opens a file and checks the header against itself and the file's size: lengths, dtypes, shapes, offsets that cover
 * the data exactly, no name twice. Errors: IO, FORMAT (with path and tensor), NOMEM.
 * Owner: the caller (tsr__safetensors_close). Source: safetensors 0.8, SafeTensors::read_metadata. */
TSR_NODISCARD tsr_status tsr__safetensors_open(tsr_engine *engine, const char *path, tsr__safetensors *out);
/* A zeroed struct is allowed. */
void tsr__safetensors_close(tsr__safetensors *file);

/* The first bytes of a file of these tensors, whose data follow one after another: the header and its length. metadata:
 * as tsr_safetensors_save; data may be NULL. Errors: ARG (duplicate name, name not UTF-8, invalid dtype or shape),
 * NOMEM. Owner of *out [*bytes]: the caller. */
TSR_NODISCARD tsr_status tsr__safetensors_header(tsr_engine *engine, const tsr_tensor *tensors, size_t n,
                                                 const char *const *metadata, char **out, size_t *bytes);

/* Bytes of a tensor; false where a dimension is negative, the size overflows or is no whole number of bytes. */
bool tsr__tensor_size(tsr_dtype dtype, int ndim, const int64_t *shape, size_t *bytes);

#endif
