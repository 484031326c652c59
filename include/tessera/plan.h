/* What each rank would hold, read, compute and send, found from configs and file headers alone. */
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
    size_t bytes;                   /* of a rank's part */
} tsr_plan_weight;

/* What a rank has of a component, in bytes; zeroed where the component is on other ranks alone. */
typedef struct tsr_plan_rank {
    size_t weight_bytes, activation_bytes, bytes_to_read;
} tsr_plan_rank;

/* Collective calls of one forward that are alike. */
typedef struct tsr_plan_collective {
    const char *op;   /* "allreduce", "allgather", "alltoall", "sendreceive" or "broadcast" */
    const char *axis; /* of the mesh: "tp" */
    int ranks;        /* that take part */
    uint64_t count;   /* calls */
    uint64_t bytes;   /* payload of one call on one rank; of allgather the whole result */
} tsr_plan_collective;

/* What the rank that needs most has of a component if there are so many ranks. */
typedef struct tsr_plan_size {
    int ranks, tp_degree; /* a text encoder may be split less than the transformer; a VAE is whole */
    size_t weight_bytes, activation_bytes;
    bool fits; /* in memory_per_rank, or that was not given */
} tsr_plan_size;

enum { TSR_MAX_DEGREES = 16 };

/* One component. */
typedef struct tsr_plan {
    const char *component, *class_name;                                /* "transformer", "Flux2Transformer2DModel" */
    int tp_degree;                                                     /* the first ranks share it */
    int64_t height, width, max_sequence_length, num_images_per_prompt; /* that were counted with */
    size_t whole_bytes;                                                /* of all weights */
    size_t replicated_bytes; /* of what a rank holds: weights that the plan leaves whole */
    size_t n_weights;
    tsr_plan_weight *weights;
    size_t n_ranks;
    tsr_plan_rank *ranks;
    /* One forward of rank 0, and how many there are: of a transformer in a step and of a text encoder in all, 2 under
     * classifier-free guidance; of a VAE one a picture. */
    size_t n_collectives;
    tsr_plan_collective *collectives;
    uint64_t bytes_sent_per_rank; /* by the ring algorithm: of n ranks 2(n-1)/n of an allreduce's payload, (n-1)/n of an
                                     allgather's and an alltoall's, all of a sendreceive's and a broadcast's */
    double flops_per_rank;        /* of matrix products, convolutions and attention */
    int passes;
    size_t n_degrees;
    int degrees[TSR_MAX_DEGREES]; /* up to 16 that would work for this component */
    size_t n_sizes;
    tsr_plan_size sizes[TSR_MAX_DEGREES]; /* by the numbers of ranks that would work for the transformer */
    size_t n_problems;
    char **problems; /* sentences: what would not work when run */
} tsr_plan;

typedef struct tsr_plan_options {
    size_t size;
    const tsr_parallel_config *parallel; /* the ranks to plan for; NULL: one. Of a mesh only the sizes count */
    /* One prompt's pictures. 0: of a pipeline folder what generate takes; of a component 1024, 1024, 512 and 1. */
    int64_t height, width, max_sequence_length, num_images_per_prompt;
    size_t memory_per_rank; /* in bytes, to compare with; 0: not given */
} tsr_plan_options;
#define TSR_PLAN_OPTIONS_INIT                                                                                          \
    { sizeof(tsr_plan_options), NULL, 0, 0, 0, 0, 0 }

/* Plans of a component (a folder with config.json, or the file) or of the models of a pipeline folder, whose components
 * are in memory one after another. Where there are no weights yet, bfloat16 is counted. Activations, collectives and
 * operations come from runs on shapes alone, as each of the ranks asked for. In a pipeline a class without a plan is
 * whole on rank 0 (the VAE); by itself it is refused at a degree above 1. options may be NULL. Local: the ranks are
 * imagined; no weight is read. Errors: as tsr_model_from_pretrained; SHAPE also where modules that a plan splits do not
 * fit each other (names them). *plans [*n]: the caller's (tsr_plans_free). */
TSR_API TSR_NODISCARD tsr_status tsr_plan_make(tsr_engine *engine, const char *path, const tsr_plan_options *options,
                                               tsr_plan **plans, size_t *n);
/* Ends plans. NULL is allowed. Local. */
TSR_API void tsr_plans_free(tsr_engine *engine, tsr_plan *plans, size_t n);

#ifdef __cplusplus
}
#endif
#endif
