/* How a model is spread over ranks: tensor-parallel plans and configs. */
#ifndef TESSERA_PARALLEL_H
#define TESSERA_PARALLEL_H

#include <tessera/mesh.h>
#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Styles of a module (a linear unless said otherwise), as X(name in plans, what every rank holds and does). */
#define TSR_TP_STYLE_LIST(X)                                                                                           \
    /* all of it */                                                                                                    \
    X(REPLICATED, "replicated")                                                                                        \
    /* a part of the rows of the weight and of the bias: a part of the output features */                              \
    X(COLWISE, "colwise")                                                                                              \
    /* a part of the columns: the outputs are summed over ranks, then the bias is added once. An embedding: a part of  \
     * its rows, the other ids give zeros */                                                                           \
    X(ROWWISE, "rowwise")                                                                                              \
    /* colwise and rowwise for fused projections: each block is split by itself */                                     \
    X(PACKED_COLWISE, "packed_colwise")                                                                                \
    X(PACKED_ROWWISE, "packed_rowwise")

typedef enum tsr_tp_style {
#define TSR_TP_STYLE_ENUM(name, text) TSR_##name,
    TSR_TP_STYLE_LIST(TSR_TP_STYLE_ENUM)
#undef TSR_TP_STYLE_ENUM
        TSR_TP_STYLE_COUNT
} tsr_tp_style;

TSR_API const char *tsr_tp_style_name(tsr_tp_style style); /* "packed_colwise" */

enum { TSR_MAX_BLOCKS = 8 };

/* A row of a plan. glob: a path from the model in which at most one part is "*", any index of a module list. blocks: of
 * packed styles, proportions whose sum divides the dimension, ended by 0; none: the sizes that the model declares for
 * the module. */
typedef struct tsr_tp_rule {
    const char *glob;
    tsr_tp_style style;
    int64_t blocks[TSR_MAX_BLOCKS];
} tsr_tp_rule;

/* diffusers' TensorParallelConfig. mesh: NULL, or a mesh with an axis "tp", whose size then counts instead of
 * tp_degree. */
typedef struct tsr_tensor_parallel_config {
    size_t size;
    int tp_degree;
    const tsr_device_mesh *mesh;
} tsr_tensor_parallel_config;
#define TSR_TENSOR_PARALLEL_CONFIG_INIT                                                                                \
    { sizeof(tsr_tensor_parallel_config), 1, NULL }

/* diffusers' ParallelConfig. */
typedef struct tsr_parallel_config {
    size_t size;
    const tsr_tensor_parallel_config *tensor_parallel; /* NULL: none */
    int text_encoder_tp; /* degree of text encoders; 0: the largest that their plan allows, at most the number of ranks
                          */
} tsr_parallel_config;
#define TSR_PARALLEL_CONFIG_INIT                                                                                       \
    { sizeof(tsr_parallel_config), NULL, 0 }

#ifdef __cplusplus
}
#endif
#endif
