/* What each rank would hold and read, found from configs and file headers alone. */
#ifndef TESSERA_PLAN_H
#define TESSERA_PLAN_H

#include <tessera/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One weight of a component. The strings belong to the plan. */
typedef struct tsr_plan_weight {
    const char *name;
    tsr_tp_style style;
    tsr_dtype dtype;
    int ndim;
    int64_t shape[TSR_MAX_DIMS], local_shape[TSR_MAX_DIMS]; /* of the whole; of a rank's part (equal on all ranks) */
    int dim;                                                /* that is split; -1 where replicated */
    size_t n_blocks;
    int64_t blocks[TSR_MAX_BLOCKS]; /* of that dimension, each split by itself */
} tsr_plan_weight;

enum { TSR_MAX_DEGREES = 16 };

/* One component. Every rank holds as much as the others. */
typedef struct tsr_plan {
    const char *component, *class_name; /* "transformer", "Flux2Transformer2DModel" */
    int tp_degree;
    size_t n_weights;
    tsr_plan_weight *weights;
    size_t whole_bytes, rank_bytes; /* of all weights; of a rank's part, which is also what it reads */
    size_t n_degrees;
    int degrees[TSR_MAX_DEGREES]; /* up to 16 that would work */
} tsr_plan;

/* Plans of a component (a folder with config.json, or the file) or of the models of a pipeline folder. Where there are
 * no weights yet, bfloat16 is counted. tp: degree of the transformer, or of the component; encoder_tp: of text
 * encoders, 0: the largest of at most tp that works. A class without a plan is whole at any degree in a pipeline (the
 * VAE), refused by itself. Local; no weight is read. Errors: as tsr_model_from_pretrained. *plans [*n]: the caller's
 * (tsr_plans_free). */
TSR_API TSR_NODISCARD tsr_status tsr_plan_make(tsr_engine *engine, const char *path, int tp, int encoder_tp,
                                               tsr_plan **plans, size_t *n);
/* Ends plans. NULL is allowed. Local. */
TSR_API void tsr_plans_free(tsr_engine *engine, tsr_plan *plans, size_t n);

#ifdef __cplusplus
}
#endif
#endif
