/* The checkpoint object, shared by the two files that open one. */
#ifndef TSR_IO_CHECKPOINT_H
#define TSR_IO_CHECKPOINT_H

#include "io/safetensors.h"

struct tsr_checkpoint {
    tsr_engine *engine;
    tsr__safetensors *files; /* [n_files]; their own lists of tensors have moved into this one */
    size_t n_files;
    tsr_tensor_info *tensors; /* [n] of all files, in order of name */
    size_t n;
    uint64_t bytes_read;
    const char *stem; /* of a folder: what the names of its weights begin with, a string constant */
};

/* Opens the n files at `paths` and gathers their tensors. Called once. After a failure tsr_checkpoint_close frees what
 * was opened. Errors: those of tsr__safetensors_open. */
TSR_NODISCARD tsr_status tsr__checkpoint_open_files(tsr_checkpoint *checkpoint, char *const *paths, size_t n);
/* The same for the weights in a folder: an index and its shards, or a single file. Errors: also UNSUPPORTED (pickles
 * only), IO (no weights), FORMAT (index and shards do not agree). Source: diffusers, ModelMixin.from_pretrained. */
TSR_NODISCARD tsr_status tsr__checkpoint_open_folder(tsr_checkpoint *checkpoint, const char *folder);

/* Reads n bytes of a tensor's data from byte `offset` of it on. Errors: IO. */
TSR_NODISCARD tsr_status tsr__checkpoint_read_bytes(tsr_checkpoint *checkpoint, const tsr_tensor_info *info,
                                                    uint64_t offset, void *dst, size_t n);

#endif
