/* The tensors of a checkpoint laid out anew in files of at most a size, and a writer that fills in one tensor after the
 * other, in any order and from any number of ranks at once. */
#ifndef TSR_IO_SHARDED_SAVE_H
#define TSR_IO_SHARDED_SAVE_H

#include "io/checkpoint.h"

typedef struct tsr__placed_tensor {
    const tsr_tensor_info *info; /* in the source checkpoint */
    size_t file, order;          /* which file; place in the source */
    uint64_t offset;             /* of the data, from the start of the file */
} tsr__placed_tensor;

typedef struct tsr__sharded_file {
    char name[96];
    char *header;
    size_t header_bytes;
    uint64_t bytes; /* of the whole file */
} tsr__sharded_file;

typedef struct tsr__sharded {
    tsr_engine *engine;
    tsr__placed_tensor *tensors; /* [n] in order of file and offset */
    tsr__sharded_file *files;    /* [n_files] */
    size_t n, n_files;
    char index_name[64], *index; /* NULL where one file is all there is */
    size_t index_bytes;
    uint64_t data_bytes, bytes; /* of the tensors; of all that will be written */
} tsr__sharded;

/* Lays out all tensors of a checkpoint that was opened as a folder, in its order: a file is full when the next tensor
 * would carry it above max_bytes of data; a larger tensor is alone. Inside a file wider dtypes come first, so that all
 * data are aligned. Names and index are those of diffusers or transformers, whichever the source has. Local; writes
 * nothing. Errors: NOMEM, ARG. Owner: the caller (tsr__sharded_free); the checkpoint must outlive it.
 * Source: huggingface_hub, split_state_dict_into_shards_factory; safetensors, prepare. */
TSR_NODISCARD tsr_status tsr__sharded_plan(tsr_checkpoint *checkpoint, uint64_t max_bytes, tsr__sharded *out);
void tsr__sharded_free(tsr__sharded *sharded);
/* Makes the files in `folder`, with headers and room for the data, and the index. Errors: IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__sharded_create(const tsr__sharded *sharded, const char *folder);

/* Writes tensors into files that are there. Each writer has one file open and gathers short pieces in a buffer. */
typedef struct tsr__shard_writer {
    const tsr__sharded *sharded;
    const char *folder;
    size_t file;
    int fd; /* -1: none */
    char *path, *buffer;
    size_t used;
    uint64_t at; /* where the buffer's first byte belongs */
} tsr__shard_writer;

/* Errors: NOMEM. Owner: the caller (tsr__shard_writer_close). */
TSR_NODISCARD tsr_status tsr__shard_writer_open(const tsr__sharded *sharded, const char *folder,
                                                tsr__shard_writer *out);
/* What is put from now on is the data of this tensor, from its first byte on. Errors: IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__shard_writer_seek(tsr__shard_writer *writer, const tsr__placed_tensor *tensor);
TSR_NODISCARD tsr_status tsr__shard_writer_put(tsr__shard_writer *writer, const void *bytes, size_t n);
/* Puts all data of a tensor as the source has them, a block at a time. Errors: IO. */
TSR_NODISCARD tsr_status tsr__shard_writer_copy(tsr__shard_writer *writer, tsr_checkpoint *source,
                                                const tsr_tensor_info *info);
/* Ends the writer; unless `status` is a failure already, all is on the disk then. Returns the first failure. */
TSR_NODISCARD tsr_status tsr__shard_writer_close(tsr__shard_writer *writer, tsr_status status);

#endif
