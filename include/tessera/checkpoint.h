/* Safetensors checkpoints: one file, or a folder with an index and shards. Whole headers are validated before a
 * function returns; tensor data are read only when asked for, and only the part that is asked for. */
#ifndef TESSERA_CHECKPOINT_H
#define TESSERA_CHECKPOINT_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_checkpoint tsr_checkpoint;

/* Where a tensor lies. Owned by the checkpoint. */
typedef struct tsr_tensor_info {
    const char *name;
    tsr_dtype dtype;
    int ndim;
    int64_t shape[TSR_MAX_DIMS];
    const char *file;      /* path of the safetensors file */
    uint64_t offset, size; /* of the data, in bytes from the start of the file */
} tsr_tensor_info;

/* A half-open range of indices. */
typedef struct tsr_range {
    int64_t begin, end;
} tsr_range;

/* Opens `path`: a .safetensors file, or a folder that holds diffusion_pytorch_model.safetensors, model.safetensors, or
 * an index of either with its shards (the index goes before the single file). Symbolic links are followed. Local.
 * Errors: IO (cannot open; names the file), FORMAT (header broken, Git LFS pointer, HTML page, pickle file; shard or
 * tensor named by the index missing, tensor of a shard not named by it; sizes that do not match, with expected and real
 * size), UNSUPPORTED (a folder with .bin weights only), NOMEM.
 * Owner: the caller, who ends it with tsr_checkpoint_close. */
TSR_API TSR_NODISCARD tsr_status tsr_checkpoint_open(tsr_engine *engine, const char *path, tsr_checkpoint **out);
TSR_API void tsr_checkpoint_close(tsr_checkpoint *checkpoint);

/* How many tensors there are, in all shards. Local. */
TSR_API size_t tsr_checkpoint_count(const tsr_checkpoint *checkpoint);
/* The i-th tensor in order of name, and the tensor of that name or NULL. */
TSR_API const tsr_tensor_info *tsr_checkpoint_at(const tsr_checkpoint *checkpoint, size_t i);
TSR_API const tsr_tensor_info *tsr_checkpoint_find(const tsr_checkpoint *checkpoint, const char *name);

/* A value of the __metadata__ of the first file, or NULL. */
TSR_API const char *tsr_checkpoint_metadata(const tsr_checkpoint *checkpoint, const char *key);

/* Reads the parts `ranges` of dimension `dim`, in the order given, into dst, densely (the result has the tensor's shape
 * with dimension dim replaced by the sum of the ranges). n_ranges 0: the whole tensor. dst_bytes must be the exact
 * size. Reads nothing but these bytes; adjacent ones in one go. Dtypes of less than a byte can be read whole only.
 * Local. Errors: ARG, SHAPE (a range outside the tensor), UNSUPPORTED (part of a sub-byte tensor), IO (short read,
 * names file). */
TSR_API TSR_NODISCARD tsr_status tsr_checkpoint_read(tsr_checkpoint *checkpoint, const tsr_tensor_info *info, int dim,
                                                     const tsr_range *ranges, size_t n_ranges, void *dst,
                                                     size_t dst_bytes);

/* Bytes of tensor data read through this checkpoint so far. */
TSR_API uint64_t tsr_checkpoint_bytes_read(const tsr_checkpoint *checkpoint);

/* Writes tensors as one safetensors file: aside, then renamed, so that an existing file survives a failure. metadata:
 * key, value, key, value, ..., NULL; or NULL. Local. Errors: ARG (duplicate name, name not UTF-8, invalid tensor), IO,
 * NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_safetensors_save(tsr_engine *engine, const char *path, const tsr_tensor *tensors,
                                                      size_t n, const char *const *metadata);

/* Whether a file can be written at `path`, asked before the work whose result goes there; leaves no trace. Local.
 * Errors: IO (folder missing, is a folder, not writable: with the system's reason), ARG (empty path), NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_output_check(tsr_engine *engine, const char *path);

#ifdef __cplusplus
}
#endif
#endif
