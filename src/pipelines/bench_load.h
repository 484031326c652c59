/* The ways of getting a rank's part of a component's weights into memory that `bench load` compares. */
#ifndef TSR_PIPELINES_BENCH_LOAD_H
#define TSR_PIPELINES_BENCH_LOAD_H

#include "models/models.h"

#include <tessera/bench.h>

typedef struct tsr__bench_load {
    tsr_engine *engine;
    const char *folder;
    int rank, degree;    /* whose part */
    size_t weight_bytes; /* of that part */
} tsr__bench_load;

/* Opens the folder's model and splits it; reads no weight. Local. Errors: those of tsr__model_open and
 * tsr__model_split. Owner: the caller (tsr_model_destroy). */
TSR_NODISCARD tsr_status tsr__bench_load_open(const tsr__bench_load *b, tsr_model **out);

/* A way: loads, and sets seconds (since `start`, when the part was there) and bytes_read; then releases what it loaded.
 * Local. Errors: those of the reading; NOMEM. */
typedef tsr_status (*tsr__bench_load_way)(const tsr__bench_load *b, double start, tsr_bench_load_part *out);
/* As many bytes as the part has, in file order, 8 MiB at a time, into fresh memory as the device's is. */
TSR_NODISCARD tsr_status tsr__bench_load_plain(const tsr__bench_load *b, double start, tsr_bench_load_part *out);
/* Only the part, as tsr_model_from_pretrained does. */
TSR_NODISCARD tsr_status tsr__bench_load_streamed(const tsr__bench_load *b, double start, tsr_bench_load_part *out);
/* The whole model, which is then cut in memory, as tsr_model_enable_parallelism does. */
TSR_NODISCARD tsr_status tsr__bench_load_whole(const tsr__bench_load *b, double start, tsr_bench_load_part *out);

#endif
