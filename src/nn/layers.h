/* Layers: torch.nn's, with the members and names of their state dicts. `_add` declares a layer below `parent`; the rest
 * is the layer's forward. Shapes: B batch, S tokens, H W image, C D K N channels. */
#ifndef TSR_NN_LAYERS_H
#define TSR_NN_LAYERS_H

#include "nn/module.h"

#include <string.h>

/* A module without weights of its own: an activation, a table. */
typedef struct tsr__plain_module {
    tsr__module module;
} tsr__plain_module;

/* torch.nn.Linear: y = x W^T (+ b), W [N, K] */
typedef struct tsr__linear {
    tsr__module module;
    tsr__param weight, bias;
} tsr__linear;
typedef enum tsr__bias { TSR__NO_BIAS, TSR__BIAS } tsr__bias;
void tsr__linear_add(tsr__module *parent, tsr__linear *linear, const char *name, int64_t in, int64_t out,
                     tsr__bias bias);
#define TSR__LINEAR(parent, member, in, out, bias)                                                                     \
    tsr__linear_add(&(parent)->module, &(parent)->member, #member, in, out, bias)
/* Declares the fused parts of a linear for packed styles: of its outputs (colwise) or inputs (rowwise). */
#define TSR__BLOCKS(parent, member, ...)                                                                               \
    memcpy((parent)->member.module.tp.blocks, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}))
/* Declares that the outputs of a linear are `n` heads, and whether several ranks may hold the same one. */
#define TSR__HEADS(parent, member, n, repeat)                                                                          \
    ((parent)->member.module.tp.groups = (n), (parent)->member.module.tp.groups_may_repeat = (repeat))
tsr__value tsr__linear_forward(tsr__exec *x, const tsr__linear *linear, tsr__value in); /* [.., K] -> [.., N] */

/* torch.nn.LayerNorm with or without weight and bias, torch.nn.RMSNorm with or without weight. */
typedef struct tsr__norm {
    tsr__module module;
    tsr__param weight, bias;
    float eps;
} tsr__norm;
void tsr__layer_norm_add(tsr__module *parent, tsr__norm *norm, const char *name, double eps); /* no weight, no bias */
void tsr__rms_norm_add(tsr__module *parent, tsr__norm *norm, const char *name, int64_t channels, double eps);
#define TSR__LAYER_NORM(parent, member, eps) tsr__layer_norm_add(&(parent)->module, &(parent)->member, #member, eps)
#define TSR__RMS_NORM(parent, member, channels, eps)                                                                   \
    tsr__rms_norm_add(&(parent)->module, &(parent)->member, #member, channels, eps)
tsr__value tsr__layer_norm_forward(tsr__exec *x, const tsr__norm *norm, tsr__value in);
tsr__value tsr__rms_norm_forward(tsr__exec *x, const tsr__norm *norm, tsr__value in);

/* torch.nn.GroupNorm of an image [B, H, W, C] */
typedef struct tsr__group_norm_layer {
    tsr__module module;
    tsr__param weight, bias;
    int groups;
    float eps;
} tsr__group_norm_layer;
void tsr__group_norm_add(tsr__module *parent, tsr__group_norm_layer *norm, const char *name, int64_t channels,
                         int64_t groups, double eps);
#define TSR__GROUP_NORM(parent, member, channels, groups, eps)                                                         \
    tsr__group_norm_add(&(parent)->module, &(parent)->member, #member, channels, groups, eps)
tsr__value tsr__group_norm_forward(tsr__exec *x, const tsr__group_norm_layer *norm, tsr__value in);

/* torch.nn.Conv2d with bias, stride 1, padding kernel/2: [B, H, W, I] -> [B, H, W, O], W [O, I, k, k] */
typedef struct tsr__conv2d_layer {
    tsr__module module;
    tsr__param weight, bias;
} tsr__conv2d_layer;
void tsr__conv2d_add(tsr__module *parent, tsr__conv2d_layer *conv, const char *name, int64_t in, int64_t out,
                     int64_t kernel);
#define TSR__CONV2D(parent, member, in, out, kernel)                                                                   \
    tsr__conv2d_add(&(parent)->module, &(parent)->member, #member, in, out, kernel)
tsr__value tsr__conv2d_forward(tsr__exec *x, const tsr__conv2d_layer *conv, tsr__value in);

/* torch.nn.Embedding: ids [..] I64 -> [.., D], table [V, D] */
typedef struct tsr__embedding_layer {
    tsr__module module;
    tsr__param weight;
} tsr__embedding_layer;
void tsr__embedding_add(tsr__module *parent, tsr__embedding_layer *embedding, const char *name, int64_t n, int64_t dim);
#define TSR__EMBEDDING(parent, member, n, dim) tsr__embedding_add(&(parent)->module, &(parent)->member, #member, n, dim)
tsr__value tsr__embedding_forward(tsr__exec *x, const tsr__embedding_layer *embedding, tsr__value ids);

/* A list of one linear: diffusers' `to_out`, whose item 0 is the projection (item 1 is a dropout). */
typedef struct tsr__linear_item {
    tsr__module_list list;
    tsr__linear item;
} tsr__linear_item;
void tsr__linear_item_add(tsr__module *parent, tsr__linear_item *list, const char *name, int64_t in, int64_t out,
                          tsr__bias bias);
#define TSR__LINEAR_ITEM(parent, member, in, out, bias)                                                                \
    tsr__linear_item_add(&(parent)->module, &(parent)->member, #member, in, out, bias)

/* diffusers' TimestepEmbedding: linear_2(silu(linear_1 t)), [B, K] -> [B, N] */
typedef struct tsr__timestep_embedding {
    tsr__module module;
    tsr__linear linear_1, linear_2;
    tsr__plain_module act;
} tsr__timestep_embedding;
void tsr__timestep_embedding_add(tsr__module *parent, tsr__timestep_embedding *mlp, const char *name, int64_t in,
                                 int64_t out, tsr__bias bias);
#define TSR__TIMESTEP_EMBEDDING(parent, member, in, out, bias)                                                         \
    tsr__timestep_embedding_add(&(parent)->module, &(parent)->member, #member, in, out, bias)
tsr__value tsr__timestep_embedding_forward(tsr__exec *x, const tsr__timestep_embedding *mlp, tsr__value sinusoid);

/* silu(gate) value, with silu(gate) as the output of `act`, which is computed by itself only for taps. */
tsr__value tsr__gated(tsr__exec *x, const tsr__plain_module *act, tsr__value gate, tsr__value value);

/* [B, S, heads head_dim] -> [B, S, heads, head_dim]; the number of heads follows from the local width. */
tsr__value tsr__split_heads(tsr__exec *x, tsr__value v, int64_t head_dim);

#endif
