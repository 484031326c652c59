/* Measurements. */
#ifndef TESSERA_BENCH_H
#define TESSERA_BENCH_H

#include <tessera/tensor.h>

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
} tsr_bench_step_options;
#define TSR_BENCH_STEP_OPTIONS_INIT                                                                                    \
    { sizeof(tsr_bench_step_options), NULL, 1024, 512, -1, -1, TSR_F32, TSR_BF16, 3, false }

typedef struct tsr_bench_step_result {
    double seconds;          /* the best of the repeats */
    double flops;            /* of matmuls and attention in one step */
    double yardstick_gflops; /* best of three float32 GEMMs M=1536 K=3072 N=9216, before the weights were made */
    double ratio;            /* seconds / (flops / yardstick) */
    size_t weight_bytes;     /* in memory */
    size_t activation_bytes; /* as the meta run predicted */
} tsr_bench_step_result;

/* One forward of a transformer with random weights. Local. Errors as tsr_model_from_pretrained and tsr_model_forward.
 */
TSR_API TSR_NODISCARD tsr_status tsr_bench_step(tsr_engine *engine, const tsr_bench_step_options *options,
                                                tsr_bench_step_result *out);

#ifdef __cplusplus
}
#endif
#endif
