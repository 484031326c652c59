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
    /* rowwise whose input is whole on every rank: each takes its own slice of the features first */                   \
    X(ROWWISE_SPLIT_INPUT, "rowwise_split_input")                                                                      \
    /* colwise and rowwise for fused projections: each block is split by itself */                                     \
    X(PACKED_COLWISE, "packed_colwise")                                                                                \
    X(PACKED_ROWWISE, "packed_rowwise")                                                                                \
    /* colwise whose output is gathered: whole on every rank */                                                        \
    X(COLWISE_GATHER_OUTPUT, "colwise_gather_output")

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

/* A plan. FULL: the rows of the class's _tp_plan in diffusers, and rows for what those leave whole on every rank
 * (modulation, embedders, final projection), as far as the degree divides it. REFERENCE: the first alone. RULES: rows
 * of the caller's own. */
typedef enum tsr_tp_plan_kind { TSR_TP_PLAN_FULL, TSR_TP_PLAN_REFERENCE, TSR_TP_PLAN_RULES } tsr_tp_plan_kind;
typedef struct tsr_tp_plan {
    tsr_tp_plan_kind kind;
    const tsr_tp_rule *rules; /* [n], of RULES */
    size_t n;
} tsr_tp_plan;

/* "full", "reference", or a JSON file that maps module globs to styles, packed styles to their blocks:
 * {"blocks.*.to_q": "colwise", "blocks.*.ff": {"packed_colwise": [1, 1]}} ([]: the sizes that the model declares).
 * Whether the rules fit a model is found when they are applied. Local. Errors: IO, FORMAT (not such a file; an unknown
 * style), NOMEM. Owner of *out: the caller (tsr_tp_plan_free). */
TSR_API TSR_NODISCARD tsr_status tsr_tp_plan_read(tsr_engine *engine, const char *name_or_file, tsr_tp_plan **out);
TSR_API void tsr_tp_plan_free(tsr_engine *engine, tsr_tp_plan *plan); /* NULL is allowed */

/* diffusers' TensorParallelConfig. mesh: NULL, or a mesh with an axis "tp", whose size then counts instead of
 * tp_degree. */
typedef struct tsr_tensor_parallel_config {
    size_t size;
    int tp_degree;
    const tsr_device_mesh *mesh;
} tsr_tensor_parallel_config;
#define TSR_TENSOR_PARALLEL_CONFIG_INIT                                                                                \
    { sizeof(tsr_tensor_parallel_config), 1, NULL }

/* How keys and values go round a ring. ALLGATHER: every rank gathers all of them, and attends once. ALLTOALL: they
 * travel from rank to rank, so that each holds its own and two that are under way at most; the next is on its way while
 * a rank computes. */
typedef enum tsr_rotate_method { TSR_ROTATE_ALLGATHER, TSR_ROTATE_ALLTOALL, TSR_N_ROTATE_METHODS } tsr_rotate_method;

/* diffusers' ContextParallelConfig: the sequence is split over ring_degree x ulysses_degree ranks. ulysses trades
 * tokens for heads before attention, and back; ring lets keys and values come round. Both: ulysses inside, ring
 * outside. The options "anything" allow lengths, and under ulysses numbers of heads, that do not divide. */
typedef struct tsr_context_parallel_config {
    size_t size;
    int ring_degree, ulysses_degree;
    bool
        convert_to_fp32; /* partial results always merge in float32, in which Tessera computes: false changes nothing */
    tsr_rotate_method rotate_method;
    const tsr_device_mesh *mesh; /* NULL, or a mesh with axes "ring" and "ulysses", whose sizes then count instead of
                                    the degrees; other axes hold replicas */
    bool ulysses_anything, ring_anything;
} tsr_context_parallel_config;
#define TSR_CONTEXT_PARALLEL_CONFIG_INIT                                                                               \
    { sizeof(tsr_context_parallel_config), 1, 1, true, TSR_ROTATE_ALLGATHER, NULL, false, false }

/* A row of a context plan that splits: an input of a module, by the name of the forward's argument, or one of its
 * outputs (argument NULL). module: a path or glob as in tsr_tp_rule, "" for the model. expected_dims: how many
 * dimensions the value must have. Source: ContextParallelInput; split_output is argument == NULL. */
typedef struct tsr_cp_input {
    const char *module, *argument;
    int output;
    int split_dim, expected_dims;
} tsr_cp_input;

/* A row that gathers an output of a module. Source: ContextParallelOutput. */
typedef struct tsr_cp_output {
    const char *module;
    int output;
    int gather_dim, expected_dims;
} tsr_cp_output;

/* diffusers' _cp_plan. */
typedef struct tsr_cp_plan {
    const tsr_cp_input *inputs; /* [n_inputs] */
    size_t n_inputs;
    const tsr_cp_output *outputs; /* [n_outputs] */
    size_t n_outputs;
} tsr_cp_plan;

/* diffusers' ParallelConfig. */
typedef struct tsr_parallel_config {
    size_t size;
    const tsr_tensor_parallel_config *tensor_parallel; /* NULL: none */
    int text_encoder_tp; /* degree of text encoders; 0: the largest that their plan allows, at most the number of ranks
                          */
    const tsr_tp_plan *tp_plan;                          /* of the transformer, or of the model alone; NULL: full */
    const tsr_context_parallel_config *context_parallel; /* NULL: none. With tensor_parallel: both, on one mesh */
} tsr_parallel_config;
#define TSR_PARALLEL_CONFIG_INIT                                                                                       \
    { sizeof(tsr_parallel_config), NULL, 0, NULL, NULL }

/* A pointer to a config of one kind alone as a whole one, in C: tsr_model_enable_parallelism(model, TSR_PARALLEL(&tp))
 * with a tsr_tensor_parallel_config or a tsr_context_parallel_config. Lives as long as the block that it stands in. */
#define TSR_PARALLEL(config)                                                                                           \
    (&(const tsr_parallel_config){                                                                                     \
        sizeof(tsr_parallel_config),                                                                                   \
        _Generic((config), tsr_tensor_parallel_config * : (config), const tsr_tensor_parallel_config * : (config),     \
                 default : NULL),                                                                                      \
        0, NULL,                                                                                                       \
        _Generic((config), tsr_context_parallel_config * : (config), const tsr_context_parallel_config * : (config),   \
                 default : NULL)})

#ifdef __cplusplus
}
#endif
#endif
