/* The device seam. A device is a table of functions with every slot filled; nothing above this header knows which
 * device is in use. Implementations: meta/ (shapes only), ref/ (plain C, the oracle), cpu/ (fast).
 *
 * An operation is one tsr__op: its kind, input and output views, and parameters. The executor has inferred and checked
 * all shapes before it calls a slot, so a slot only computes. A slot never allocates: what it needs beside its operands
 * is `scratch`, of the size that the slot `scratch_bytes` gave for the same operation. */
#ifndef TSR_DEVICE_DEVICE_H
#define TSR_DEVICE_DEVICE_H

#include "base/engine.h"

/* A strided view of device memory. Strides are in elements. Unless an operation says otherwise the last dimension of
 * every operand is dense (stride 1), and outputs are dense altogether. data is NULL on the meta device. */
typedef struct tsr__view {
    void *data;
    tsr_dtype dtype;
    int ndim;
    int64_t shape[TSR_MAX_DIMS];
    int64_t stride[TSR_MAX_DIMS];
} tsr__view;

/* The operations: X(slot, what it computes). Activations are F32; weights are F32, BF16 or F16 as the checkpoint stores
 * them. "in place" marks those whose output may be the very memory of in[0] (same shape). */
#define TSR__OP_LIST(X)                                                                                                \
    /* out [.., N] = in0 [.., K] W^T + b;  in1 = W [N, K] weight, in2 = b [N] weight or none */                        \
    X(matmul)                                                                                                          \
    /* out [B, H, W, O] = "same" convolution, stride 1, of in0 [B, H, W, I];  in1 = [O, I, k, k] weight, in2 = [O] */  \
    X(conv2d)                                                                                                          \
    /* softmax(q k^T scale + mask) v: in0 q [B, S, H, D], in1 k and in2 v [B, T, G, D], H a multiple of G (query head  \
     * h reads key head h / (H/G)), in3 key mask [B, T] I64 (0 = hidden) or none; params attention. A row without a    \
     * visible key is 0. out0 [B, S, H, D]; out1 [B, S, H, 2] the greatest score and the sum of exp(score - greatest)  \
     * (-inf and 0 for such a row), or none */                                                                         \
    X(attention)                                                                                                       \
    /* Two attentions of the same queries over different keys become that over all of them: in0, in2 [B, S, H, D]      \
     * outputs, in1, in3 [B, S, H, 2] as above -> out0 (in place of in0), out1 */                                      \
    X(attention_merge)                                                                                                 \
    /* out = in0 / sqrt(mean(in0^2) + eps) * in1 over the last dimension;  in1 [D] weight or none. In place */         \
    X(rms_norm)                                                                                                        \
    /* out = (in0 - mean) / sqrt(var + eps) * in1 + in2 over the last dimension;  in1, in2 [D] or none. In place */    \
    X(layer_norm)                                                                                                      \
    /* in0 [B, H, W, C], statistics over H, W and C/groups channels; in1, in2 [C];  params group_norm. In place */     \
    X(group_norm)                                                                                                      \
    /* out = in0 * sqrt(in2 + eps) + in1 over the last dimension: mean in1, variance in2, [D] weights. In place */     \
    X(batch_denorm)                                                                                                    \
    /* out = in0 (1 + in1) + in2;  in0 [B, S, D], in1 (scale) and in2 (shift) [B, D], a row for each image; or with    \
     * in3 [S] I64 tables [V, D], of which the rows s of all images read row in3[s]. In place */                       \
    X(modulate)                                                                                                        \
    /* out = in0 + in1 in2;  in0 and in2 [B, S, D], in1 (gate) [B, D], or [V, D] with in3 as in modulate. In place */  \
    X(gated_add)                                                                                                       \
    /* elementwise of equal shapes. In place */                                                                        \
    X(add)                                                                                                             \
    X(sub)                                                                                                             \
    /* out = in0 + scalar * in1. In place */                                                                           \
    X(axpy)                                                                                                            \
    X(silu)                                                                                                            \
    /* out = silu(in0) in1 (the gate is in0). In place */                                                              \
    X(swiglu)                                                                                                          \
    /* out [n] I64 = 0, 1, .. n-1 */                                                                                   \
    X(arange)                                                                                                          \
    /* out [n] I64 = in0 params.size + in1, both [n] I64: where row in0, column in1 of a table of that many columns    \
     * lies. A column outside it is an error */                                                                        \
    X(flat_index)                                                                                                      \
    /* out = 0 */                                                                                                      \
    X(zeros)                                                                                                           \
    /* out [B, n, D] = the rows in1 [n] I64 of in0 [B, S, D] */                                                        \
    X(index_select)                                                                                                    \
    /* out [B, S, D] = in0, with row i of in2 [B, n, D] in the place of row in1[i], in1 [n] I64; of equal ones the     \
     * last stays. In place */                                                                                         \
    X(index_copy)                                                                                                      \
    /* out [.., D] = rows of in1 [V, D] weight named by in0 [..] I64;  params embedding */                             \
    X(embedding)                                                                                                       \
    /* out [B, n] = [cos(t a) | sin(t a)], a_i = exp(-ln(10000) i / (n/2)), t = scalar * in0 [B] */                    \
    X(sinusoid)                                                                                                        \
    /* in0 positions [S, axes], I64 or (fractional) F32 -> out0 cos, out1 sin [S, sum of axes_dims];  params           \
     * rope_table */                                                                                                   \
    X(rope_table)                                                                                                      \
    /* rotate the first R channels of in0 [B, S, H, D] by in1 cos, in2 sin [S, R];  params rope: which of them are a   \
     * pair. In place */                                                                                               \
    X(rope)                                                                                                            \
    /* out [B, 2H, 2W, C]: nearest neighbour of in0 [B, H, W, C] */                                                    \
    X(upsample_nearest2x)                                                                                              \
    /* out = in0 made dense;  in0 may have any strides, any dtype, up to TSR_MAX_DIMS dimensions, and here also out    \
     * may have strides */                                                                                             \
    X(copy)                                                                                                            \
    /* out = in0 and in1 joined along dimension params.axis */                                                         \
    X(concat)

typedef enum tsr__op_kind {
#define TSR__OP_ENUM(name) TSR__OP_##name,
    TSR__OP_LIST(TSR__OP_ENUM)
#undef TSR__OP_ENUM
        TSR__OP_COUNT
} tsr__op_kind;

typedef enum tsr__rope_style {
    TSR__ROPE_INTERLEAVED, /* pairs (2j, 2j+1); tables repeat each angle twice in a row */
    TSR__ROPE_HALF,        /* pairs (j, j + D/2); tables hold all angles, then all again */
} tsr__rope_style;

enum { TSR__MAX_INPUTS = 4, TSR__MAX_OUTPUTS = 2, TSR__MAX_ROPE_AXES = 4 };

typedef struct tsr__op {
    tsr__op_kind kind;
    const tsr__view *in[TSR__MAX_INPUTS];   /* NULL: none */
    const tsr__view *out[TSR__MAX_OUTPUTS]; /* NULL: not wanted */
    void *scratch;                          /* aligned to 64 bytes */
    union {
        struct {
            tsr_dtype round_inputs; /* BF16 or F16: inputs may be rounded to it where that is native; F32: never */
        } matmul;                   /* and conv2d */
        struct {
            float scale;
            bool causal; /* key j is visible to query i only if j <= i */
        } attention;
        struct {
            float eps;
            int groups; /* group_norm */
        } norm;         /* rms_norm, layer_norm, group_norm, batch_denorm */
        struct {
            int axes;
            int64_t dims[TSR__MAX_ROPE_AXES]; /* channels of each axis, even */
            double theta;                     /* angle = id * theta^(-2i/dim), in float64 if f64, else float32 */
            bool f64;
            tsr__rope_style style;
        } rope_table;
        tsr__rope_style rope;
        struct {
            int64_t first; /* the id of the table's first row */
            bool partial;  /* ids outside the table give zeros; else they are an error */
        } embedding;
        float scalar; /* axpy, sinusoid */
        int axis;     /* concat */
        int64_t size; /* flat_index */
    } param;
} tsr__op;

/* Called between tiles of a long operation, so that communication can move while a device computes. */
typedef void (*tsr__on_tile)(void *user);

typedef struct tsr__device tsr__device;

typedef struct tsr__device_ops {
    const char *name;
    /* Lets the calling thread run on all cores of the process again, where the device's runtime has bound it to fewer
     * before main. NULL: no runtime does. */
    void (*free_cores)(void);
    tsr_status (*create)(tsr_engine *engine, tsr__device *device); /* fills state and description */
    void (*destroy)(tsr__device *device);
    void *(*alloc)(tsr__device *device, size_t bytes); /* NULL on failure, message set */
    void (*free)(tsr__device *device, void *pointer);
    /* The same memory as the host sees it, so that files are read straight into it; NULL where it does not. */
    void *(*host_pointer)(tsr__device *device, void *device_memory);
    /* Host to device and back, dense. */
    tsr_status (*upload)(tsr__device *device, void *dst, const void *src, size_t bytes);
    tsr_status (*download)(tsr__device *device, void *dst, const void *src, size_t bytes);
    size_t (*scratch_bytes)(tsr__device *device, const tsr__op *op); /* views may lack data */
    tsr_status (*run[TSR__OP_COUNT])(tsr__device *device, const tsr__op *op);
    /* What bench step compares with: GFLOP/s of the best of `runs` plain float32 GEMMs [m, k] x [n, k]^T. */
    tsr_status (*gemm_yardstick)(tsr__device *device, int64_t m, int64_t k, int64_t n, int runs, double *gflops);
} tsr__device_ops;

struct tsr__device {
    const tsr__device_ops *ops;
    tsr_engine *engine;
    int threads;
    tsr__on_tile on_tile; /* may be NULL */
    void *on_tile_user;
    void *state;
    char description[256];
};

extern const tsr__device_ops tsr__device_meta, tsr__device_ref, tsr__device_cpu;

/* Makes a device of the table. Owner: the caller, who ends it with tsr__device_destroy. */
TSR_NODISCARD tsr_status tsr__device_create(tsr_engine *engine, const tsr__device_ops *ops, int threads,
                                            tsr__device **out);
void tsr__device_destroy(tsr__device *device);
/* The table of that name ("meta", "ref", "cpu") or NULL. name NULL: the default. */
const tsr__device_ops *tsr__device_find(const char *name);
const char *tsr__op_name(tsr__op_kind kind);

int64_t tsr__view_elements(const tsr__view *view);
size_t tsr__view_bytes(const tsr__view *view); /* of so many elements, dense */
bool tsr__view_is_dense(const tsr__view *view);
tsr__view tsr__view_dense(void *data, tsr_dtype dtype, int ndim, const int64_t *shape);

#endif
