/* Flux2Transformer2DModel (diffusers), FLUX.2 [dev] and [klein]. Shapes: B batch, S text tokens, L image tokens, D
 * width, M inner width of the feed-forward. */
#include "models/models.h"
#include "nn/attention.h"

/* diffusers' Flux2SwiGLU: silu(a) b of [a | b] */
typedef struct swiglu {
    tsr__module module;
    tsr__plain_module gate_fn;
} swiglu;

typedef struct modulation_layer {
    tsr__module module;
    tsr__linear linear;
    tsr__plain_module act_fn;
} modulation_layer;

typedef struct feed_forward {
    tsr__module module;
    tsr__linear linear_in, linear_out;
    swiglu act_fn;
} feed_forward;

typedef struct double_attention {
    tsr__module module;
    tsr__linear to_q, to_k, to_v, add_q_proj, add_k_proj, add_v_proj, to_add_out;
    tsr__norm norm_q, norm_k, norm_added_q, norm_added_k;
    tsr__linear_item to_out;
} double_attention;

typedef struct double_block {
    tsr__module module;
    tsr__norm norm1, norm1_context, norm2, norm2_context;
    double_attention attn;
    feed_forward ff, ff_context;
} double_block;

typedef struct single_attention {
    tsr__module module;
    tsr__linear to_qkv_mlp_proj, to_out;
    tsr__norm norm_q, norm_k;
    swiglu mlp_act_fn;
} single_attention;

typedef struct single_block {
    tsr__module module;
    tsr__norm norm;
    single_attention attn;
} single_block;

typedef struct flux2 {
    tsr__module module;
    tsr__plain_module pos_embed;
    struct {
        tsr__module module;
        tsr__plain_module time_proj;
        tsr__timestep_embedding timestep_embedder, guidance_embedder;
    } time_guidance_embed;
    modulation_layer double_stream_modulation_img, double_stream_modulation_txt, single_stream_modulation;
    tsr__linear x_embedder, context_embedder;
    tsr__module_list transformer_blocks, single_transformer_blocks;
    double_block *double_blocks;
    single_block *single_blocks;
    struct {
        tsr__module module;
        tsr__plain_module silu;
        tsr__linear linear;
        tsr__norm norm;
    } norm_out;
    tsr__linear proj_out;
    int64_t in_channels, joint_attention_dim, dim, mlp_dim, head_dim, timestep_channels;
    int64_t axes_dims_rope[TSR__MAX_ROPE_AXES];
    double rope_theta, eps;
    bool guidance_embeds;
} flux2;

/* --- declaration --- */

static void declare_modulation(flux2 *self, modulation_layer *m, const char *name, int64_t parts) {
    tsr__module_add(&self->module, &m->module, name);
    TSR__LINEAR(m, linear, self->dim, parts * self->dim, TSR__NO_BIAS);
    TSR__CHILD(m, act_fn);
}

static void declare_feed_forward(const flux2 *self, tsr__module *parent, feed_forward *ff, const char *name) {
    tsr__module_add(parent, &ff->module, name);
    TSR__LINEAR(ff, linear_in, self->dim, 2 * self->mlp_dim, TSR__NO_BIAS);
    TSR__CHILD(ff, act_fn);
    TSR__CHILD(&ff->act_fn, gate_fn);
    TSR__LINEAR(ff, linear_out, self->mlp_dim, self->dim, TSR__NO_BIAS);
}

static void declare_double_attention(const flux2 *self, double_block *block) {
    double_attention *a = &block->attn;
    int64_t D = self->dim;
    TSR__CHILD(block, attn);
    TSR__LINEAR(a, to_q, D, D, TSR__NO_BIAS);
    TSR__LINEAR(a, to_k, D, D, TSR__NO_BIAS);
    TSR__LINEAR(a, to_v, D, D, TSR__NO_BIAS);
    TSR__RMS_NORM(a, norm_q, self->head_dim, self->eps);
    TSR__RMS_NORM(a, norm_k, self->head_dim, self->eps);
    TSR__LINEAR_ITEM(a, to_out, D, D, TSR__NO_BIAS);
    TSR__RMS_NORM(a, norm_added_q, self->head_dim, self->eps);
    TSR__RMS_NORM(a, norm_added_k, self->head_dim, self->eps);
    TSR__LINEAR(a, add_q_proj, D, D, TSR__NO_BIAS);
    TSR__LINEAR(a, add_k_proj, D, D, TSR__NO_BIAS);
    TSR__LINEAR(a, add_v_proj, D, D, TSR__NO_BIAS);
    TSR__LINEAR(a, to_add_out, D, D, TSR__NO_BIAS);
}

static void declare_double_block(const flux2 *self, double_block *block) {
    TSR__LAYER_NORM(block, norm1, self->eps);
    TSR__LAYER_NORM(block, norm1_context, self->eps);
    declare_double_attention(self, block);
    TSR__LAYER_NORM(block, norm2, self->eps);
    declare_feed_forward(self, &block->module, &block->ff, "ff");
    TSR__LAYER_NORM(block, norm2_context, self->eps);
    declare_feed_forward(self, &block->module, &block->ff_context, "ff_context");
}

static void declare_single_block(const flux2 *self, single_block *block) {
    single_attention *a = &block->attn;
    int64_t D = self->dim, M = self->mlp_dim;
    TSR__LAYER_NORM(block, norm, self->eps);
    TSR__CHILD(block, attn);
    TSR__LINEAR(a, to_qkv_mlp_proj, D, 3 * D + 2 * M, TSR__NO_BIAS);
    TSR__BLOCKS(a, to_qkv_mlp_proj, D, D, D, M, M);
    TSR__CHILD(a, mlp_act_fn);
    TSR__CHILD(&a->mlp_act_fn, gate_fn);
    TSR__RMS_NORM(a, norm_q, self->head_dim, self->eps);
    TSR__RMS_NORM(a, norm_k, self->head_dim, self->eps);
    TSR__LINEAR(a, to_out, D + M, D, TSR__NO_BIAS);
    TSR__BLOCKS(a, to_out, D, M);
}

static void declare_embeddings(flux2 *self) {
    TSR__CHILD(self, pos_embed);
    TSR__CHILD(self, time_guidance_embed);
    TSR__CHILD(&self->time_guidance_embed, time_proj);
    TSR__TIMESTEP_EMBEDDING(&self->time_guidance_embed, timestep_embedder, self->timestep_channels, self->dim,
                            TSR__NO_BIAS);
    if (self->guidance_embeds)
        TSR__TIMESTEP_EMBEDDING(&self->time_guidance_embed, guidance_embedder, self->timestep_channels, self->dim,
                                TSR__NO_BIAS);
    declare_modulation(self, &self->double_stream_modulation_img, "double_stream_modulation_img", 6);
    declare_modulation(self, &self->double_stream_modulation_txt, "double_stream_modulation_txt", 6);
    declare_modulation(self, &self->single_stream_modulation, "single_stream_modulation", 3);
    TSR__LINEAR(self, x_embedder, self->in_channels, self->dim, TSR__NO_BIAS);
    TSR__LINEAR(self, context_embedder, self->joint_attention_dim, self->dim, TSR__NO_BIAS);
}

static void read_config(flux2 *self, tsr__config *c) {
    enum { MOST = 1 << 20 }; /* of any width: products of two stay far from overflow */
    int64_t heads = tsr__config_int(c, "num_attention_heads", 48, 1, 4096);
    self->head_dim = tsr__config_int(c, "attention_head_dim", 128, 2, 4096);
    self->dim = heads * self->head_dim;
    self->mlp_dim = (int64_t)((double)self->dim * tsr__config_double(c, "mlp_ratio", 3.0, 0.01, 64.0));
    self->in_channels = tsr__config_int(c, "in_channels", 128, 1, MOST);
    self->joint_attention_dim = tsr__config_int(c, "joint_attention_dim", 15360, 1, MOST);
    self->timestep_channels = tsr__config_int(c, "timestep_guidance_channels", 256, 2, MOST) / 2 * 2;
    self->rope_theta = tsr__config_double(c, "rope_theta", 2000.0, 1.0, 1e12);
    self->eps = tsr__config_double(c, "eps", 1e-6, 0.0, 1.0);
    self->guidance_embeds = tsr__config_bool(c, "guidance_embeds", true);
    int axes = tsr__config_ints(c, "axes_dims_rope", self->axes_dims_rope, TSR__MAX_ROPE_AXES, 2, 4096);
    int64_t rotated = 0, odd = 0;
    for (int i = 0; i < TSR__MAX_ROPE_AXES; i++) {
        rotated += axes ? self->axes_dims_rope[i] : (self->axes_dims_rope[i] = 32);
        odd += self->axes_dims_rope[i] % 2;
    }
    if (c->status == TSR_OK && (rotated != self->head_dim || odd))
        c->status = tsr__fail(c->engine, TSR_FORMAT,
                              "%s: axes_dims_rope must be even numbers that add up to attention_head_dim, %lld; they "
                              "add up to %lld, %lld of them odd",
                              c->path, (long long)self->head_dim, (long long)rotated, (long long)odd);
    tsr__config_check_known(c, &(tsr__known){"patch_size", {"1"}}, 1);
}

static void flux2_declare(tsr__tree *tree, void *model, tsr__config *c) {
    flux2 *self = model;
    read_config(self, c);
    int64_t n_double = tsr__config_int(c, "num_layers", 8, 0, 1000);
    int64_t n_single = tsr__config_int(c, "num_single_layers", 48, 0, 1000);
    int64_t out_channels = tsr__config_int(c, "out_channels", self->in_channels, 1, 1 << 20);
    if (c->status != TSR_OK) return;
    declare_embeddings(self);
    if (!TSR__LIST(tree, self, transformer_blocks, n_double, self->double_blocks)) return;
    for (int64_t i = 0; i < n_double; i++) declare_double_block(self, &self->double_blocks[i]);
    if (!TSR__LIST(tree, self, single_transformer_blocks, n_single, self->single_blocks)) return;
    for (int64_t i = 0; i < n_single; i++) declare_single_block(self, &self->single_blocks[i]);
    TSR__CHILD(self, norm_out);
    TSR__CHILD(&self->norm_out, silu);
    TSR__LINEAR(&self->norm_out, linear, self->dim, 2 * self->dim, TSR__NO_BIAS);
    TSR__LAYER_NORM(&self->norm_out, norm, self->eps);
    TSR__LINEAR(self, proj_out, self->dim, out_channels, TSR__NO_BIAS);
}

/* diffusers' _tp_plan. Not named, so whole on every rank: modulations, norms, embedders, norm_out, proj_out. */
/* clang-format off */
static const tsr_tp_rule flux2_tp_plan[] = {
    {"transformer_blocks.*.attn.to_q",                  TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_k",                  TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_v",                  TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_out.0",              TSR_ROWWISE,        {0}},
    {"transformer_blocks.*.attn.add_q_proj",            TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.add_k_proj",            TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.add_v_proj",            TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_add_out",            TSR_ROWWISE,        {0}},
    {"transformer_blocks.*.ff.linear_in",               TSR_PACKED_COLWISE, {1, 1}},
    {"transformer_blocks.*.ff.linear_out",              TSR_ROWWISE,        {0}},
    {"transformer_blocks.*.ff_context.linear_in",       TSR_PACKED_COLWISE, {1, 1}},
    {"transformer_blocks.*.ff_context.linear_out",      TSR_ROWWISE,        {0}},
    {"single_transformer_blocks.*.attn.to_qkv_mlp_proj", TSR_PACKED_COLWISE, {0}}, /* q | k | v | a | b */
    {"single_transformer_blocks.*.attn.to_out",         TSR_PACKED_ROWWISE, {0}}, /* attention | feed-forward */
};
/* What diffusers leaves whole, of FLUX.2 [dev] 5 of 64 GB. Outputs that are gathered are of one row a picture, or narrow,
 * or the text's. x_embedder stays whole: it has 0.002 % of the weights, and its output would be all image tokens. */
static const tsr_tp_rule flux2_tp_plan_more[] = {
    {"time_guidance_embed.timestep_embedder.linear_1",  TSR_COLWISE,        {0}},
    {"time_guidance_embed.timestep_embedder.linear_2",  TSR_ROWWISE,        {0}},
    {"time_guidance_embed.guidance_embedder.linear_1",  TSR_COLWISE,        {0}},
    {"time_guidance_embed.guidance_embedder.linear_2",  TSR_ROWWISE,        {0}},
    {"double_stream_modulation_img.linear",             TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"double_stream_modulation_txt.linear",             TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"single_stream_modulation.linear",                 TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"context_embedder",                                TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"norm_out.linear",                                 TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"proj_out",                                        TSR_COLWISE_GATHER_OUTPUT, {0}},
};
/* clang-format on */

/* diffusers' _cp_plan. Text and image are split each by itself, so that a rank holds a piece of either. */
/* clang-format off */
static const tsr_cp_input flux2_cp_inputs[] = {
    {"", "hidden_states",         0, 1, 3},
    {"", "encoder_hidden_states", 0, 1, 3},
    {"", "img_ids",               0, 1, 3},
    {"", "txt_ids",               0, 1, 3},
};
static const tsr_cp_output flux2_cp_outputs[] = {{"proj_out", 0, 1, 3}};
/* clang-format on */
static const tsr_cp_plan flux2_cp_plan = {flux2_cp_inputs, TSR__COUNT(flux2_cp_inputs), flux2_cp_outputs,
                                          TSR__COUNT(flux2_cp_outputs)};

static int64_t flux2_heads(const void *model) {
    const flux2 *self = model;
    return self->dim / self->head_dim;
}

/* --- forward --- */

/* shift, scale and gate of one sub-block, each [B, D] */
typedef struct modulation {
    tsr__value shift, scale, gate;
} modulation;

/* silu(temb) W^T = [B, parts D] */
static tsr__value modulation_forward(tsr__exec *x, const modulation_layer *m, tsr__value temb) {
    tsr__value activated = tsr__tapped(x, &m->act_fn.module, tsr__silu(x, temb));
    return tsr__tapped(x, &m->module, tsr__linear_forward(x, &m->linear, activated));
}

/* The i-th of n triples in [B, 3n D]. */
static modulation modulation_part(tsr__exec *x, tsr__value mod, int i, int n) {
    return (modulation){tsr__chunk(x, mod, 3 * i, 3 * n), tsr__chunk(x, mod, 3 * i + 1, 3 * n),
                        tsr__chunk(x, mod, 3 * i + 2, 3 * n)};
}

/* LN(h) (1 + scale) + shift */
static tsr__value modulated(tsr__exec *x, const tsr__norm *norm, tsr__value h, modulation m) {
    return tsr__modulate(x, tsr__layer_norm_forward(x, norm, h), m.scale, m.shift);
}

/* silu(a) b of [a | b] */
static tsr__value swiglu_forward(tsr__exec *x, const swiglu *act, tsr__value ab) {
    return tsr__tapped(x, &act->module, tsr__gated(x, &act->gate_fn, tsr__chunk(x, ab, 0, 2), tsr__chunk(x, ab, 1, 2)));
}

/* linear_out(silu(a) b), [a | b] = linear_in h */
static tsr__value feed_forward_forward(tsr__exec *x, const feed_forward *ff, tsr__value h) {
    tsr__value inner = swiglu_forward(x, &ff->act_fn, tsr__linear_forward(x, &ff->linear_in, h));
    return tsr__tapped(x, &ff->module, tsr__linear_forward(x, &ff->linear_out, inner));
}

/* RMS-normalised heads of a projection: [B, S, D] -> [B, S, heads, head_dim] */
static tsr__value normed_heads(tsr__exec *x, const tsr__linear *proj, const tsr__norm *norm, tsr__value h,
                               int64_t head_dim) {
    return tsr__rms_norm_forward(x, norm, tsr__split_heads(x, tsr__linear_forward(x, proj, h), head_dim));
}

/* The two streams of a double block: text [B, S, ..] and image [B, L, ..]. */
typedef struct streams {
    tsr__value txt, img;
} streams;

/* Text and image attend to each other as one sequence, text first. */
static streams double_attention_forward(tsr__exec *x, const flux2 *self, const double_attention *a, streams h,
                                        tsr__rope rope) {
    int64_t d = self->head_dim, S = h.txt.shape[1], L = h.img.shape[1];
    tsr__value q = normed_heads(x, &a->to_q, &a->norm_q, h.img, d);
    tsr__value k = normed_heads(x, &a->to_k, &a->norm_k, h.img, d);
    tsr__value v = tsr__split_heads(x, tsr__linear_forward(x, &a->to_v, h.img), d);
    tsr__value added_q = normed_heads(x, &a->add_q_proj, &a->norm_added_q, h.txt, d);
    tsr__value added_k = normed_heads(x, &a->add_k_proj, &a->norm_added_k, h.txt, d);
    tsr__value added_v = tsr__split_heads(x, tsr__linear_forward(x, &a->add_v_proj, h.txt), d);
    q = tsr__rotate(x, tsr__concat(x, added_q, q, 1), rope);
    k = tsr__rotate(x, tsr__concat(x, added_k, k, 1), rope);
    v = tsr__concat(x, added_v, v, 1);
    tsr__value out = tsr__attention(x, q, k, v, (tsr__attention_options){.key_mask = tsr__none()});
    tsr__value img = tsr__linear_forward(x, &a->to_out.item, tsr__slice(x, out, 1, S, S + L));
    tsr__value txt = tsr__linear_forward(x, &a->to_add_out, tsr__slice(x, out, 1, 0, S));
    img = tsr__tapped_at(x, &a->module, 0, img);
    txt = tsr__tapped_at(x, &a->module, 1, txt);
    return (streams){txt, img};
}

/* x += gate f(LN(x) (1 + scale) + shift) for attention, then for the feed-forward, in both streams; mod [B, 6D] each.
 */
static streams double_block_forward(tsr__exec *x, const flux2 *self, const double_block *b, streams mod, tsr__rope rope,
                                    streams s) {
    modulation attn_img = modulation_part(x, mod.img, 0, 2), ff_img = modulation_part(x, mod.img, 1, 2);
    modulation attn_txt = modulation_part(x, mod.txt, 0, 2), ff_txt = modulation_part(x, mod.txt, 1, 2);
    streams h = {.img = modulated(x, &b->norm1, s.img, attn_img)};
    h.txt = modulated(x, &b->norm1_context, s.txt, attn_txt);
    h = double_attention_forward(x, self, &b->attn, h, rope);
    s.img = tsr__gated_add(x, s.img, attn_img.gate, h.img);
    s.txt = tsr__gated_add(x, s.txt, attn_txt.gate, h.txt);
    h.img = feed_forward_forward(x, &b->ff, modulated(x, &b->norm2, s.img, ff_img));
    s.img = tsr__gated_add(x, s.img, ff_img.gate, h.img);
    h.txt = feed_forward_forward(x, &b->ff_context, modulated(x, &b->norm2_context, s.txt, ff_txt));
    s.txt = tsr__gated_add(x, s.txt, ff_txt.gate, h.txt);
    s.txt = tsr__tapped_at(x, &b->module, 0, s.txt);
    s.img = tsr__tapped_at(x, &b->module, 1, s.img);
    return s;
}

/* to_out([attention | silu(a) b]), one projection for q, k, v, a and b. Of a slice of it, q k v take the same part as
 * of the whole, 3D of 3D + 2M. */
static tsr__value single_attention_forward(tsr__exec *x, const flux2 *self, const single_attention *a, tsr__value h,
                                           tsr__rope rope) {
    tsr__value proj = tsr__linear_forward(x, &a->to_qkv_mlp_proj, h);
    int64_t width = proj.ndim ? proj.shape[2] : 0;
    int64_t qkv_width = width * 3 * self->dim / (3 * self->dim + 2 * self->mlp_dim);
    tsr__value qkv = tsr__slice(x, proj, -1, 0, qkv_width), ab = tsr__slice(x, proj, -1, qkv_width, width);
    tsr__value q = tsr__split_heads(x, tsr__chunk(x, qkv, 0, 3), self->head_dim);
    tsr__value k = tsr__split_heads(x, tsr__chunk(x, qkv, 1, 3), self->head_dim);
    tsr__value v = tsr__split_heads(x, tsr__chunk(x, qkv, 2, 3), self->head_dim);
    q = tsr__rotate(x, tsr__rms_norm_forward(x, &a->norm_q, q), rope);
    k = tsr__rotate(x, tsr__rms_norm_forward(x, &a->norm_k, k), rope);
    tsr__value out = tsr__attention(x, q, k, v, (tsr__attention_options){.key_mask = tsr__none()});
    tsr__value joined = tsr__concat(x, out, swiglu_forward(x, &a->mlp_act_fn, ab), -1);
    return tsr__tapped(x, &a->module, tsr__linear_forward(x, &a->to_out, joined));
}

static tsr__value single_block_forward(tsr__exec *x, const flux2 *self, const single_block *b, tsr__value mod,
                                       tsr__rope rope, tsr__value h) {
    modulation m = modulation_part(x, mod, 0, 1);
    tsr__value branch = single_attention_forward(x, self, &b->attn, modulated(x, &b->norm, h, m), rope);
    return tsr__tapped(x, &b->module, tsr__gated_add(x, h, m.gate, branch));
}

/* MLP_t(sinusoid(1000 t)) + MLP_g(sinusoid(1000 g)), [B, D] */
static tsr__value time_guidance_forward(tsr__exec *x, const flux2 *self, tsr__value t, tsr__value guidance) {
    tsr__value proj = tsr__sinusoid(x, t, 1000.0f, self->timestep_channels);
    proj = tsr__tapped(x, &self->time_guidance_embed.time_proj.module, proj);
    tsr__value temb = tsr__timestep_embedding_forward(x, &self->time_guidance_embed.timestep_embedder, proj);
    if (self->guidance_embeds && !tsr__is_none(guidance)) {
        proj = tsr__sinusoid(x, guidance, 1000.0f, self->timestep_channels);
        temb = tsr__add_values(x, temb,
                               tsr__timestep_embedding_forward(x, &self->time_guidance_embed.guidance_embedder, proj));
    }
    return tsr__tapped(x, &self->time_guidance_embed.module, temb);
}

static tsr__rope rope_forward(tsr__exec *x, const flux2 *self, tsr__value txt_ids, tsr__value img_ids) {
    tsr__rope img = tsr__rope_table(x, img_ids, self->axes_dims_rope, self->rope_theta, true, TSR__ROPE_INTERLEAVED);
    img.cos = tsr__tapped_at(x, &self->pos_embed.module, 0, img.cos);
    img.sin = tsr__tapped_at(x, &self->pos_embed.module, 1, img.sin);
    tsr__rope txt = tsr__rope_table(x, txt_ids, self->axes_dims_rope, self->rope_theta, true, TSR__ROPE_INTERLEAVED);
    tsr__value cos = tsr__concat(x, txt.cos, img.cos, 0), sin = tsr__concat(x, txt.sin, img.sin, 0);
    return (tsr__rope){cos, sin, TSR__ROPE_INTERLEAVED};
}

/* LN(h) (1 + scale) + shift, [scale | shift] = linear(silu(temb)): the scale comes first here. */
static tsr__value norm_out_forward(tsr__exec *x, const flux2 *self, tsr__value h, tsr__value temb) {
    tsr__value activated = tsr__tapped(x, &self->norm_out.silu.module, tsr__silu(x, temb));
    tsr__value mod = tsr__linear_forward(x, &self->norm_out.linear, activated);
    modulation m = {.scale = tsr__chunk(x, mod, 0, 2), .shift = tsr__chunk(x, mod, 1, 2)};
    return tsr__tapped(x, &self->norm_out.module, modulated(x, &self->norm_out.norm, h, m));
}

enum { HIDDEN_STATES, ENCODER_HIDDEN_STATES, TIMESTEP, GUIDANCE, IMG_IDS, TXT_IDS };

static void flux2_forward(tsr__exec *x, const void *model, const tsr__value *in, tsr__value *out) {
    const flux2 *self = model;
    tsr__value temb = time_guidance_forward(x, self, in[TIMESTEP], in[GUIDANCE]);
    streams mods = {.img = modulation_forward(x, &self->double_stream_modulation_img, temb)};
    mods.txt = modulation_forward(x, &self->double_stream_modulation_txt, temb);
    tsr__value mod = modulation_forward(x, &self->single_stream_modulation, temb);
    streams s = {.img = tsr__linear_forward(x, &self->x_embedder, in[HIDDEN_STATES])};
    s.txt = tsr__linear_forward(x, &self->context_embedder, in[ENCODER_HIDDEN_STATES]);
    tsr__rope rope = rope_forward(x, self, in[TXT_IDS], in[IMG_IDS]);
    for (int64_t i = 0; i < self->transformer_blocks.n; i++)
        s = double_block_forward(x, self, &self->double_blocks[i], mods, rope, s);
    int64_t S = s.txt.shape[1], L = s.img.shape[1];
    tsr__value h = tsr__concat(x, s.txt, s.img, 1);
    for (int64_t i = 0; i < self->single_transformer_blocks.n; i++)
        h = single_block_forward(x, self, &self->single_blocks[i], mod, rope, h);
    h = norm_out_forward(x, self, tsr__slice(x, h, 1, S, S + L), temb);
    out[0] = tsr__linear_forward(x, &self->proj_out, h);
}

static void flux2_input_shapes(const void *model, const tsr__picture *picture, int64_t (*shapes)[TSR_MAX_DIMS]) {
    const flux2 *self = model;
    int64_t B = picture->rows, L = tsr__picture_tokens(picture), S = picture->text_tokens;
    const int64_t wanted[][3] = {[HIDDEN_STATES] = {B, L, self->in_channels},
                                 [ENCODER_HIDDEN_STATES] = {B, S, self->joint_attention_dim},
                                 [TIMESTEP] = {B},
                                 [GUIDANCE] = {self->guidance_embeds ? B : 0},
                                 [IMG_IDS] = {L, 4},
                                 [TXT_IDS] = {S, 4}};
    for (size_t i = 0; i < TSR__COUNT(wanted); i++)
        for (int d = 0; d < 3; d++) shapes[i][d] = wanted[i][d];
}

const tsr_model_desc tsr__flux2_transformer = {
    .class_name = "Flux2Transformer2DModel",
    .component = "transformer",
    .self_size = sizeof(flux2),
    .declare = flux2_declare,
    .inputs = {[HIDDEN_STATES] = {.name = "hidden_states", .dtype = TSR_F32, .ndim = 3},
               [ENCODER_HIDDEN_STATES] = {.name = "encoder_hidden_states", .dtype = TSR_F32, .ndim = 3},
               [TIMESTEP] = {.name = "timestep", .dtype = TSR_F32, .ndim = 1},
               [GUIDANCE] = {.name = "guidance", .dtype = TSR_F32, .ndim = 1, .optional = true},
               [IMG_IDS] = {.name = "img_ids", .dtype = TSR_I64, .ndim = 2, .batched = true},
               [TXT_IDS] = {.name = "txt_ids", .dtype = TSR_I64, .ndim = 2, .batched = true}},
    .outputs = {"transformer_out"},
    .forward = flux2_forward,
    .input_shapes = flux2_input_shapes,
    .layer_keys = {"num_layers", "num_single_layers"},
    .tp_plan = TSR__TP_RULES(flux2_tp_plan),
    .tp_plan_more = TSR__TP_RULES(flux2_tp_plan_more),
    .heads = flux2_heads,
    .cp_plan = &flux2_cp_plan,
};

int64_t tsr__flux2_in_channels(const tsr_model *model) { return ((const flux2 *)model->self)->in_channels; }
int64_t tsr__flux2_joint_attention_dim(const tsr_model *model) {
    return ((const flux2 *)model->self)->joint_attention_dim;
}
