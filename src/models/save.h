/* Saving: a folder that all ranks write together. */
#ifndef TSR_MODELS_SAVE_H
#define TSR_MODELS_SAVE_H

#include "io/output_folder.h"
#include "io/sharded_save.h"
#include "models/model.h"

#include <limits.h>

typedef struct tsr__saving {
    tsr_engine *engine;
    tsr__output_folder *output; /* rank 0's */
    char folder[PATH_MAX];      /* the temporary one, in which weights go to subfolders that are there */
    int *owners;                /* [n_owners]: the ranks that see it, and write */
    int n_owners;
} tsr__saving;

/* options->max_shard_size, or the default. */
uint64_t tsr__max_shard_size(const tsr_save_options *options);

/* Rank 0 opens the output (tsr__output_folder_open); all learn of the temporary folder. `own`: what this rank ended
 * with before; a failure of any rank is everybody's, and nothing is written then. contents: rank 0's. Collective over
 * all ranks. Whatever it returns, tsr__saving_end must follow. */
TSR_NODISCARD tsr_status tsr__saving_begin(tsr_engine *engine, const char *path, const tsr__contents *contents,
                                           uint64_t weight_bytes, tsr_status own, tsr__saving *out);
/* Writes all tensors of the model's checkpoint into the subfolder `to` ("": none): those that the tree has from the
 * memory of the ranks, the others from the source files. holds: this rank has loaded its part; the others bring nothing
 * but their hands. Collective over all ranks. Errors: IO, CANCELLED, NOMEM, COMM. */
TSR_NODISCARD tsr_status tsr__model_write(const tsr__saving *saving, tsr_model *model, const tsr__sharded *sharded,
                                          const char *to, bool holds);
/* Puts the folder in its place, or after a failure leaves nothing of it. Returns status, or what went wrong here.
 * Collective over all ranks, which bring the same status. */
TSR_NODISCARD tsr_status tsr__saving_end(tsr__saving *saving, tsr_status status);

#endif
