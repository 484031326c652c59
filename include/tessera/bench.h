/* Measurements. */
#ifndef TESSERA_BENCH_H
#define TESSERA_BENCH_H

#include <tessera/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_bench_step_options {
    size_t size;
    const char *config;           /* path of a config.json, or of a folder with one */
    int64_t tokens, text_tokens;  /* of the image, of the prompt; batch 1 */
    int64_t layers, other_layers; /* first and second kind of block; -1: as many as the config says */
    tsr_dtype dtype;              /* arithmetic, as tsr_model_options */
    tsr_dtype weights;            /* dtype of the random weights: BF16 or F32 */
    int repeats;
    bool force;
    const tsr_parallel_config *parallel; /* NULL: one rank */
} tsr_bench_step_options;
#define TSR_BENCH_STEP_OPTIONS_INIT                                                                                    \
    { sizeof(tsr_bench_step_options), NULL, 1024, 512, -1, -1, TSR_F32, TSR_BF16, 3, false, NULL }

typedef struct tsr_bench_step_result {
    double seconds;          /* the best of the repeats */
    double flops;            /* of matmuls and attention in one step, on this rank */
    double yardstick_gflops; /* best of three float32 GEMMs M=1536 K=3072 N=9216, before the weights were made */
    double ratio;            /* seconds / (flops / yardstick) */
    size_t weight_bytes;     /* in memory */
    size_t activation_bytes; /* as the meta run predicted */
    uint64_t bytes_sent;     /* by this rank to others in one step, as tsr_engine_traffic counts */
} tsr_bench_step_result;

/* One forward of a transformer with random weights. Collective over all ranks. Errors as tsr_model_from_pretrained and
 * tsr_model_forward. */
TSR_API TSR_NODISCARD tsr_status tsr_bench_step(tsr_engine *engine, const tsr_bench_step_options *options,
                                                tsr_bench_step_result *out);

typedef enum tsr_bench_load_mode { TSR_LOAD_BOTH, TSR_LOAD_STREAMED, TSR_LOAD_WHOLE } tsr_bench_load_mode;

typedef struct tsr_bench_load_options {
    size_t size;
    const char *folder; /* a component: config.json and weights */
    int tp_degree;      /* 0: the number of ranks */
    int as_rank; /* negative: the ranks there are. Else this engine alone does what that rank of tp_degree would */
    bool force;
    bool cold;                /* drop the files from the page cache before each load; else a first round fills it */
    int repeats;              /* rounds of all ways, one after another; the best of each counts */
    tsr_bench_load_mode mode; /* which ways are measured beside the plain read */
} tsr_bench_load_options;
#define TSR_BENCH_LOAD_OPTIONS_INIT                                                                                    \
    { sizeof(tsr_bench_load_options), NULL, 0, -1, false, false, 5, TSR_LOAD_BOTH }

/* A way of getting a rank's weights into memory. Zeroed: it was not measured. */
typedef struct tsr_bench_load_part {
    double seconds; /* from the common start until the slowest rank was done; the best of the repeats */
    uint64_t bytes_read;
    size_t peak;          /* most bytes allocated at a time by this rank, of all repeats */
    size_t peak_resident; /* most resident memory of this rank's process meanwhile, other ranks in it included; since
                             its start where the system cannot count anew */
} tsr_bench_load_part;

typedef struct tsr_bench_load_result {
    int rank;
    size_t weight_bytes;       /* of this rank's part */
    tsr_bench_load_part plain; /* pread of as many bytes, in file order, 8 MiB at a time, into as much fresh memory */
    tsr_bench_load_part streamed; /* only this rank's slices, into the memory that it computes from */
    tsr_bench_load_part whole;    /* everything, then its part copied and the rest released */
} tsr_bench_load_result;

/* Loads a component's weights over and over: each round the plain read, streamed, whole, as the mode says. Before each
 * load all ranks meet, free memory goes back to the system, and with `cold` the files are dropped from the page cache
 * (posix_fadvise; a file system in memory keeps them). Otherwise one more round, which does not count, comes first.
 * Collective over all ranks; with as_rank >= 0 local to the only one. Errors: ARG (no folder, repeats below 1, a degree
 * that is not the number of ranks), those of tsr_model_from_pretrained; where the memory does for the streamed load
 * only, a warning says so and `whole` stays zeroed. results: of all ranks on each rank [tsr_engine_size], or [1]. */
TSR_API TSR_NODISCARD tsr_status tsr_bench_load(tsr_engine *engine, const tsr_bench_load_options *options,
                                                tsr_bench_load_result *results);

typedef struct tsr_bench_collectives_options {
    size_t size;
    size_t bytes; /* payload of a call */
    int repeats;  /* the best counts */
} tsr_bench_collectives_options;
#define TSR_BENCH_COLLECTIVES_OPTIONS_INIT                                                                             \
    { sizeof(tsr_bench_collectives_options), 32 << 20, 5 }

enum { TSR_BENCH_N_COLLECTIVES = 5 };

typedef struct tsr_bench_collective {
    const char *name; /* "all_reduce" */
    double latency;   /* seconds of a call with 64 bytes a rank */
    double seconds;   /* of a call with `bytes` */
} tsr_bench_collective;

typedef struct tsr_bench_collectives_result {
    size_t bytes;
    tsr_bench_collective collectives[TSR_BENCH_N_COLLECTIVES];
    /* Passing `bytes` on to the next rank; matrix products that take three times as long; both at once. hidden: the
     * share of the exchange that goes on behind the work, (exchange + work - both) / exchange. */
    double exchange_seconds, work_seconds, both_seconds, hidden;
} tsr_bench_collectives_result;

/* Exchanges between all ranks; times are those of the slowest. Collective over all ranks. Errors: ARG (one rank),
 * NOMEM, COMM. */
TSR_API TSR_NODISCARD tsr_status tsr_bench_collectives(tsr_engine *engine, const tsr_bench_collectives_options *options,
                                                       tsr_bench_collectives_result *out);

#ifdef __cplusplus
}
#endif
#endif
