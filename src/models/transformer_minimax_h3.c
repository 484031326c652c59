/* MiniMaxH3Transformer3DModel (diffusers): text, video and audio as rows of one packed sequence. Shapes: B batch, S
 * rows of the sequence, N rows of text, T distinct timesteps, H width of a row, E width of the timestep embedding, M
 * inner width of the feed-forward. */
#include "models/models.h"
#include "nn/attention.h"

enum { MODALITIES = 3 }; /* of a row: 0 video, 1 text, 2 audio; each has modulations of its own */

/* diffusers' SwiGLU: u silu(g) of [u | g] = proj h. The gate is the second half. */
typedef struct swiglu {
    tsr__module module;
    tsr__linear proj;
    tsr__plain_module activation;
} swiglu;

/* diffusers' FeedForward: net is a list, whose item 1 is a dropout */
typedef struct feed_forward {
    tsr__module module;
    tsr__module_list net;
    swiglu net_0;
    tsr__linear net_2;
} feed_forward;

typedef struct attention {
    tsr__module module;
    tsr__linear to_q, to_k, to_v;
    tsr__norm norm_q, norm_k;
    tsr__linear_item to_out;
} attention;

typedef struct refiner_block {
    tsr__module module;
    tsr__norm norm1, norm2;
    attention attn;
    feed_forward ff;
} refiner_block;

typedef struct adaln {
    tsr__module module;
    tsr__linear linear;
} adaln;

typedef struct block {
    tsr__module module;
    tsr__norm norm1, norm2;
    attention attn;
    feed_forward ff;
    adaln adaln_proj;
} block;

typedef struct minimax_h3 {
    tsr__module module;
    tsr__linear proj_in, audio_proj_in, context_embedder;
    tsr__plain_module time_proj, rope;
    tsr__timestep_embedding time_embedder;
    struct {
        tsr__module module;
        tsr__module_list refiner_blocks;
        tsr__norm final_norm;
    } token_refiner;
    tsr__module_list transformer_blocks;
    refiner_block *refiner_blocks;
    block *blocks;
    struct {
        tsr__module module;
        tsr__norm norm;
        tsr__linear linear;
    } norm_out;
    tsr__linear proj_out, audio_proj_out;
    int64_t heads, head_dim, hidden_size, ffn_dim, video_channels, audio_channels, text_dim;
    int64_t freq_dim, time_hidden_dim, time_embed_dim, rope_freq_dim;
    double rope_theta, norm_eps, qk_norm_eps, final_norm_eps;
} minimax_h3;

/* --- declaration --- */

static void declare_attention(const minimax_h3 *self, attention *a) {
    int64_t H = self->hidden_size, inner = self->heads * self->head_dim; /* inner is not H */
    TSR__LINEAR(a, to_q, H, inner, TSR__NO_BIAS);
    TSR__LINEAR(a, to_k, H, inner, TSR__NO_BIAS);
    TSR__LINEAR(a, to_v, H, inner, TSR__NO_BIAS);
    TSR__RMS_NORM(a, norm_q, self->head_dim, self->qk_norm_eps);
    TSR__RMS_NORM(a, norm_k, self->head_dim, self->qk_norm_eps);
    TSR__LINEAR_ITEM(a, to_out, inner, H, TSR__NO_BIAS);
}

static void declare_feed_forward(const minimax_h3 *self, feed_forward *ff) {
    int64_t H = self->hidden_size, M = self->ffn_dim;
    TSR__CHILD(ff, net);
    ff->net.module.kind = TSR__LIST_OF_MODULES;
    tsr__module_add(&ff->net.module, &ff->net_0.module, "0");
    TSR__LINEAR(&ff->net_0, proj, H, 2 * M, TSR__NO_BIAS);
    TSR__BLOCKS(&ff->net_0, proj, M, M);
    TSR__CHILD(&ff->net_0, activation);
    tsr__linear_add(&ff->net.module, &ff->net_2, "2", M, H, TSR__NO_BIAS);
}

static void declare_refiner_block(const minimax_h3 *self, refiner_block *b) {
    TSR__RMS_NORM(b, norm1, self->hidden_size, self->norm_eps);
    TSR__CHILD(b, attn);
    declare_attention(self, &b->attn);
    TSR__RMS_NORM(b, norm2, self->hidden_size, self->norm_eps);
    TSR__CHILD(b, ff);
    declare_feed_forward(self, &b->ff);
}

static void declare_block(const minimax_h3 *self, block *b) {
    TSR__RMS_NORM(b, norm1, self->hidden_size, self->norm_eps);
    TSR__CHILD(b, attn);
    declare_attention(self, &b->attn);
    TSR__RMS_NORM(b, norm2, self->hidden_size, self->norm_eps);
    TSR__CHILD(b, ff);
    declare_feed_forward(self, &b->ff);
    TSR__CHILD(b, adaln_proj);
    TSR__LINEAR(&b->adaln_proj, linear, self->time_embed_dim, MODALITIES * 6 * self->hidden_size, TSR__BIAS);
}

static void declare_embeddings(minimax_h3 *self) {
    int64_t H = self->hidden_size;
    TSR__LINEAR(self, proj_in, self->video_channels, H, TSR__BIAS);
    TSR__LINEAR(self, audio_proj_in, self->audio_channels, H, TSR__BIAS);
    TSR__LINEAR(self, context_embedder, self->text_dim, H, TSR__BIAS);
    TSR__CHILD(self, time_proj);
    TSR__CHILD(self, time_embedder);
    TSR__LINEAR(&self->time_embedder, linear_1, self->freq_dim, self->time_hidden_dim, TSR__BIAS);
    TSR__CHILD(&self->time_embedder, act);
    TSR__LINEAR(&self->time_embedder, linear_2, self->time_hidden_dim, self->time_embed_dim, TSR__BIAS);
    TSR__CHILD(self, rope);
}

static void declare_outputs(minimax_h3 *self) {
    int64_t H = self->hidden_size;
    TSR__CHILD(self, norm_out);
    TSR__RMS_NORM(&self->norm_out, norm, H, self->final_norm_eps);
    TSR__LINEAR(&self->norm_out, linear, self->time_embed_dim, 2 * H, TSR__BIAS);
    TSR__LINEAR(self, proj_out, H, self->video_channels, TSR__BIAS);
    TSR__LINEAR(self, audio_proj_out, H, self->audio_channels, TSR__BIAS);
}

/* Elements of a patch of video (t, h, w). */
static int64_t patch_elements(tsr__config *c) {
    int64_t patch[3] = {1, 2, 2};
    int n = tsr__config_ints(c, "patch_size", patch, 3, 1, 64);
    if (c->status == TSR_OK && n != 0 && n != 3)
        c->status = tsr__fail(c->engine, TSR_FORMAT, "%s: patch_size has %d numbers instead of 3", c->path, n);
    return patch[0] * patch[1] * patch[2];
}

static void read_config(minimax_h3 *self, tsr__config *c) {
    enum { MOST = 1 << 20 }; /* of any width: products of two stay far from overflow */
    self->heads = tsr__config_int(c, "num_attention_heads", 56, 1, 4096);
    self->head_dim = tsr__config_int(c, "attention_head_dim", 128, 2, 4096);
    self->hidden_size = tsr__config_int(c, "hidden_size", 5376, 1, MOST);
    self->ffn_dim = tsr__config_int(c, "ffn_dim", 14336, 1, MOST);
    self->video_channels = tsr__config_int(c, "in_channels", 24, 1, MOST) * patch_elements(c);
    self->audio_channels = tsr__config_int(c, "audio_in_channels", 32, 1, MOST);
    self->text_dim = tsr__config_int(c, "text_dim", 5120, 1, MOST);
    self->freq_dim = tsr__config_int(c, "freq_dim", 256, 2, MOST);
    self->time_hidden_dim = tsr__config_int(c, "time_embed_hidden_dim", 5376, 1, MOST);
    self->time_embed_dim = tsr__config_int(c, "time_embed_dim", 2688, 1, MOST);
    self->rope_freq_dim = tsr__config_int(c, "rope_freq_dim", 16, 1, 4096);
    self->rope_theta = tsr__config_double(c, "rope_theta", 10000.0, 1.0, 1e12);
    self->norm_eps = tsr__config_double(c, "norm_eps", 1e-5, 0.0, 1.0);
    self->qk_norm_eps = tsr__config_double(c, "qk_norm_eps", 1e-5, 0.0, 1.0);
    self->final_norm_eps = tsr__config_double(c, "final_norm_eps", 1e-5, 0.0, 1.0);
    if (c->status == TSR_OK && 6 * self->rope_freq_dim > self->head_dim)
        c->status = tsr__fail(c->engine, TSR_FORMAT,
                              "%s: a rope_freq_dim of %lld rotates %lld channels of a head, but attention_head_dim is "
                              "%lld",
                              c->path, (long long)self->rope_freq_dim, (long long)(6 * self->rope_freq_dim),
                              (long long)self->head_dim);
}

static void minimax_h3_declare(tsr__tree *tree, void *model, tsr__config *c) {
    minimax_h3 *self = model;
    read_config(self, c);
    int64_t n_blocks = tsr__config_int(c, "num_layers", 50, 0, 1000);
    int64_t n_refiner = tsr__config_int(c, "num_refiner_layers", 2, 0, 1000);
    if (c->status != TSR_OK) return;
    declare_embeddings(self);
    TSR__CHILD(self, token_refiner);
    if (!TSR__LIST(tree, &self->token_refiner, refiner_blocks, n_refiner, self->refiner_blocks)) return;
    for (int64_t i = 0; i < n_refiner; i++) declare_refiner_block(self, &self->refiner_blocks[i]);
    TSR__RMS_NORM(&self->token_refiner, final_norm, self->hidden_size, self->final_norm_eps);
    if (!TSR__LIST(tree, self, transformer_blocks, n_blocks, self->blocks)) return;
    for (int64_t i = 0; i < n_blocks; i++) declare_block(self, &self->blocks[i]);
    declare_outputs(self);
}

/* diffusers 0.42.1 has no plan for this class; 0.43 has one, of which this is a reading. The modulations of a block are
 * 40 % of its weights; their input is whole on every rank, and their output is one row a timestep. */
/* clang-format off */
static const tsr_tp_rule minimax_h3_tp_plan[] = {
    {"transformer_blocks.*.attn.to_q",                   TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_k",                   TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_v",                   TSR_COLWISE,        {0}},
    {"transformer_blocks.*.attn.to_out.0",               TSR_ROWWISE,        {0}},
    {"transformer_blocks.*.ff.net.0.proj",               TSR_PACKED_COLWISE, {1, 1}}, /* value | gate */
    {"transformer_blocks.*.ff.net.2",                    TSR_ROWWISE,        {0}},
    {"transformer_blocks.*.adaln_proj.linear",           TSR_ROWWISE_SPLIT_INPUT, {0}},
    {"token_refiner.refiner_blocks.*.attn.to_q",         TSR_COLWISE,        {0}},
    {"token_refiner.refiner_blocks.*.attn.to_k",         TSR_COLWISE,        {0}},
    {"token_refiner.refiner_blocks.*.attn.to_v",         TSR_COLWISE,        {0}},
    {"token_refiner.refiner_blocks.*.attn.to_out.0",     TSR_ROWWISE,        {0}},
    {"token_refiner.refiner_blocks.*.ff.net.0.proj",     TSR_PACKED_COLWISE, {1, 1}},
    {"token_refiner.refiner_blocks.*.ff.net.2",          TSR_ROWWISE,        {0}},
};
/* proj_in, audio_proj_in, proj_out and audio_proj_out stay whole: they have 0.01 % of the weights. */
static const tsr_tp_rule minimax_h3_tp_plan_more[] = {
    {"time_embedder.linear_1",                           TSR_COLWISE,        {0}},
    {"time_embedder.linear_2",                           TSR_ROWWISE,        {0}},
    {"context_embedder",                                 TSR_COLWISE_GATHER_OUTPUT, {0}},
    {"norm_out.linear",                                  TSR_ROWWISE_SPLIT_INPUT, {0}},
};
/* clang-format on */

/* diffusers' _cp_plan. Text is refined before the sequence is split. Rows of all kinds are mixed, so each output is
 * gathered before rows are picked from it. */
/* clang-format off */
static const tsr_cp_input minimax_h3_cp_inputs[] = {
    {"rope",                 NULL,               0, 0, 2},
    {"rope",                 NULL,               1, 0, 2},
    {"transformer_blocks.0", "hidden_states",    0, 1, 3},
    {"transformer_blocks.*", "adaln_indices",    0, 0, 1},
    {"norm_out",             "timestep_indices", 0, 0, 1},
};
static const tsr_cp_output minimax_h3_cp_outputs[] = {
    {"proj_out",       0, 1, 3},
    {"audio_proj_out", 0, 1, 3},
};
/* clang-format on */
static const tsr_cp_plan minimax_h3_cp_plan = {minimax_h3_cp_inputs, TSR__COUNT(minimax_h3_cp_inputs),
                                               minimax_h3_cp_outputs, TSR__COUNT(minimax_h3_cp_outputs)};

static int64_t minimax_h3_heads(const void *model) { return ((const minimax_h3 *)model)->heads; }

/* --- forward --- */

/* net.2(u silu(g)), [u | g] = net.0.proj h */
static tsr__value feed_forward_forward(tsr__exec *x, const feed_forward *ff, tsr__value h) {
    tsr__value ug = tsr__linear_forward(x, &ff->net_0.proj, h);
    tsr__value u = tsr__chunk(x, ug, 0, 2), g = tsr__chunk(x, ug, 1, 2);
    tsr__value inner = tsr__tapped(x, &ff->net_0.module, tsr__gated(x, &ff->net_0.activation, g, u));
    return tsr__tapped(x, &ff->module, tsr__linear_forward(x, &ff->net_2, inner));
}

/* RMS-normalised heads of a projection, rotated if there is a rope: [B, S, H] -> [B, S, heads, head_dim] */
static tsr__value normed_heads(tsr__exec *x, const tsr__linear *proj, const tsr__norm *norm, tsr__value h,
                               int64_t head_dim, const tsr__rope *rope) {
    tsr__value heads = tsr__split_heads(x, tsr__linear_forward(x, proj, h), head_dim);
    heads = tsr__rms_norm_forward(x, norm, heads);
    return rope ? tsr__rotate(x, heads, *rope) : heads;
}

/* All rows attend to each other. rope: NULL for the text by itself */
static tsr__value attention_forward(tsr__exec *x, const attention *a, tsr__value h, int64_t head_dim,
                                    const tsr__rope *rope) {
    tsr__value q = normed_heads(x, &a->to_q, &a->norm_q, h, head_dim, rope);
    tsr__value k = normed_heads(x, &a->to_k, &a->norm_k, h, head_dim, rope);
    tsr__value v = tsr__split_heads(x, tsr__linear_forward(x, &a->to_v, h), head_dim);
    tsr__value out = tsr__attention(x, q, k, v, (tsr__attention_options){.key_mask = tsr__none()});
    return tsr__tapped(x, &a->module, tsr__linear_forward(x, &a->to_out.item, out));
}

/* x += f(RMS(x)) for attention, then for the feed-forward; x [B, N, H] */
static tsr__value refiner_block_forward(tsr__exec *x, const refiner_block *b, tsr__value h, int64_t head_dim) {
    tsr__value branch = attention_forward(x, &b->attn, tsr__rms_norm_forward(x, &b->norm1, h), head_dim, NULL);
    h = tsr__add_values(x, h, branch);
    branch = feed_forward_forward(x, &b->ff, tsr__rms_norm_forward(x, &b->norm2, h));
    return tsr__tapped(x, &b->module, tsr__add_values(x, h, branch));
}

static tsr__value token_refiner_forward(tsr__exec *x, const minimax_h3 *self, tsr__value h) {
    for (int64_t i = 0; i < self->token_refiner.refiner_blocks.n; i++)
        h = refiner_block_forward(x, &self->refiner_blocks[i], h, self->head_dim);
    h = tsr__rms_norm_forward(x, &self->token_refiner.final_norm, h);
    return tsr__tapped(x, &self->token_refiner.module, h);
}

/* What all blocks read beside the sequence. */
typedef struct conditions {
    tsr__value temb;         /* silu of the timestep embeddings, [T, E] */
    tsr__value timestep;     /* of each row, [S]: a row of temb */
    tsr__value timestep_tag; /* of each row, [S]: the row of a table with one for each (timestep, modality) */
    tsr__rope rope;
} conditions;

/* Tables of shift, scale and gate, [T MODALITIES, H] each. */
typedef struct modulation {
    tsr__value shift, scale, gate;
} modulation;

/* The modulations of attention and feed-forward from a linear of silu(temb), [T, MODALITIES 6H]. */
static void adaln_forward(tsr__exec *x, const adaln *m, tsr__value temb, modulation out[2]) {
    tsr__value table = tsr__linear_forward(x, &m->linear, temb), part[6];
    int64_t width = table.ndim ? table.shape[1] / MODALITIES : 0;
    table = tsr__reshape(x, table, TSR__SHAPE(-1, width));
    for (int i = 0; i < 6; i++) {
        part[i] = tsr__chunk(x, table, i, 6);
        tsr__tapped_at(x, &m->module, i, part[i]);
    }
    for (int i = 0; i < 2; i++) out[i] = (modulation){part[3 * i], part[3 * i + 1], part[3 * i + 2]};
}

/* RMS(h) (1 + scale) + shift, with the scale and shift of each row of the sequence */
static tsr__value modulated(tsr__exec *x, const tsr__norm *norm, tsr__value h, modulation m, tsr__value index) {
    return tsr__modulate_rows(x, tsr__rms_norm_forward(x, norm, h), m.scale, m.shift, index);
}

/* x += gate f(RMS(x) (1 + scale) + shift) for attention, then for the feed-forward; x [B, S, H] */
static tsr__value block_forward(tsr__exec *x, const block *b, const conditions *c, tsr__value h, int64_t head_dim) {
    modulation m[2];
    adaln_forward(x, &b->adaln_proj, c->temb, m);
    h = tsr__port_in(x, &b->module, "hidden_states", h, false);
    tsr__value index = tsr__port_in(x, &b->module, "adaln_indices", c->timestep_tag, false);
    tsr__value branch = modulated(x, &b->norm1, h, m[0], index);
    branch = attention_forward(x, &b->attn, branch, head_dim, &c->rope);
    h = tsr__gated_add_rows(x, h, m[0].gate, branch, index);
    branch = feed_forward_forward(x, &b->ff, modulated(x, &b->norm2, h, m[1], index));
    return tsr__tapped(x, &b->module, tsr__gated_add_rows(x, h, m[1].gate, branch, index));
}

/* RMS(h) (1 + scale) + shift, [shift | scale] = linear(silu(temb)), one row for each timestep */
static tsr__value norm_out_forward(tsr__exec *x, const minimax_h3 *self, const conditions *c, tsr__value h) {
    tsr__value table = tsr__linear_forward(x, &self->norm_out.linear, c->temb);
    modulation m = {.shift = tsr__chunk(x, table, 0, 2), .scale = tsr__chunk(x, table, 1, 2)};
    tsr__value index = tsr__port_in(x, &self->norm_out.module, "timestep_indices", c->timestep, false);
    return tsr__tapped(x, &self->norm_out.module, modulated(x, &self->norm_out.norm, h, m, index));
}

/* MLP(sinusoid(t)), t unscaled: [T] -> [T, E] */
static tsr__value time_forward(tsr__exec *x, const minimax_h3 *self, tsr__value t) {
    tsr__value proj = tsr__tapped(x, &self->time_proj.module, tsr__sinusoid(x, t, 1.0f, self->freq_dim));
    return tsr__timestep_embedding_forward(x, &self->time_embedder, proj);
}

/* Of positions (t, h, w) [S, 3]: angles [t f | h f | w f] in pairs (j, j + 3R), R frequencies f for each axis. */
static tsr__rope rope_forward(tsr__exec *x, const minimax_h3 *self, tsr__value positions) {
    const int64_t R = self->rope_freq_dim, axes_dims[TSR__MAX_ROPE_AXES] = {2 * R, 2 * R, 2 * R};
    char text[128];
    if (positions.ndim != 2 || positions.shape[1] != 3)
        (void)tsr__exec_fail(x, TSR_SHAPE, "position_ids has shape %s, but must hold (t, h, w) of each row, [S, 3]",
                             tsr__shape_text(positions, text));
    tsr__rope rope = tsr__rope_table(x, positions, axes_dims, self->rope_theta, false, TSR__ROPE_HALF);
    rope.cos = tsr__tapped_at(x, &self->rope.module, 0, rope.cos);
    rope.sin = tsr__tapped_at(x, &self->rope.module, 1, rope.sin);
    return rope;
}

enum {
    HIDDEN_STATES,
    AUDIO_HIDDEN_STATES,
    ENCODER_HIDDEN_STATES,
    TIMESTEP,
    TIMESTEP_INDICES,
    TOKEN_TAGS,
    POSITION_IDS,
    VIDEO_INDICES,
    AUDIO_INDICES,
    TEXT_INDICES
};
enum { SAMPLE, AUDIO_SAMPLE };

/* Refined text, video and audio, each row in its place; rows that no index names are 0: [B, S, H] */
static tsr__value packed_sequence(tsr__exec *x, const minimax_h3 *self, const tsr__value *in) {
    tsr__value video = tsr__linear_forward(x, &self->proj_in, in[HIDDEN_STATES]);
    tsr__value audio = tsr__linear_forward(x, &self->audio_proj_in, in[AUDIO_HIDDEN_STATES]);
    tsr__value text = tsr__linear_forward(x, &self->context_embedder, in[ENCODER_HIDDEN_STATES]);
    text = token_refiner_forward(x, self, text);
    tsr__value h = tsr__zeros(x, TSR__SHAPE(text.shape[0], in[POSITION_IDS].shape[0], self->hidden_size));
    h = tsr__index_copy(x, h, in[TEXT_INDICES], text);
    h = tsr__index_copy(x, h, in[VIDEO_INDICES], video);
    return tsr__index_copy(x, h, in[AUDIO_INDICES], audio);
}

static void minimax_h3_forward(tsr__exec *x, const void *model, const tsr__value *in, tsr__value *out) {
    const minimax_h3 *self = model;
    conditions c = {.timestep = in[TIMESTEP_INDICES], .rope = rope_forward(x, self, in[POSITION_IDS])};
    tsr__value h = packed_sequence(x, self, in);
    c.temb = tsr__silu(x, time_forward(x, self, in[TIMESTEP]));
    c.timestep_tag = tsr__flat_index(x, c.timestep, in[TOKEN_TAGS], MODALITIES);
    for (int64_t i = 0; i < self->transformer_blocks.n; i++)
        h = block_forward(x, &self->blocks[i], &c, h, self->head_dim);
    h = norm_out_forward(x, self, &c, h);
    tsr__value video = tsr__linear_forward(x, &self->proj_out, h);
    tsr__value audio = tsr__linear_forward(x, &self->audio_proj_out, h);
    out[SAMPLE] = tsr__index_select(x, video, in[VIDEO_INDICES]);
    out[AUDIO_SAMPLE] = tsr__index_select(x, audio, in[AUDIO_INDICES]);
}

/* tokens are rows of video. A step has few of audio beside them, at a noise level of their own. */
static void minimax_h3_input_shapes(const void *model, int64_t tokens, int64_t text_tokens,
                                    int64_t (*shapes)[TSR_MAX_DIMS]) {
    enum { AUDIO_TOKENS = 8, TIMESTEPS = 2 };
    const minimax_h3 *self = model;
    int64_t S = text_tokens + tokens + AUDIO_TOKENS;
    const int64_t wanted[][3] = {[HIDDEN_STATES] = {1, tokens, self->video_channels},
                                 [AUDIO_HIDDEN_STATES] = {1, AUDIO_TOKENS, self->audio_channels},
                                 [ENCODER_HIDDEN_STATES] = {1, text_tokens, self->text_dim},
                                 [TIMESTEP] = {TIMESTEPS},
                                 [TIMESTEP_INDICES] = {S},
                                 [TOKEN_TAGS] = {S},
                                 [POSITION_IDS] = {S, 3},
                                 [VIDEO_INDICES] = {tokens},
                                 [AUDIO_INDICES] = {AUDIO_TOKENS},
                                 [TEXT_INDICES] = {text_tokens}};
    for (size_t i = 0; i < TSR__COUNT(wanted); i++)
        for (int d = 0; d < 3; d++) shapes[i][d] = wanted[i][d];
}

const tsr_model_desc tsr__minimax_h3_transformer = {
    .class_name = "MiniMaxH3Transformer3DModel",
    .component = "transformer",
    .self_size = sizeof(minimax_h3),
    .declare = minimax_h3_declare,
    .inputs = {[HIDDEN_STATES] = {.name = "hidden_states", .dtype = TSR_F32, .ndim = 3},
               [AUDIO_HIDDEN_STATES] = {.name = "audio_hidden_states", .dtype = TSR_F32, .ndim = 3},
               [ENCODER_HIDDEN_STATES] = {.name = "encoder_hidden_states", .dtype = TSR_F32, .ndim = 3},
               [TIMESTEP] = {.name = "timestep", .dtype = TSR_F32, .ndim = 1},
               [TIMESTEP_INDICES] = {.name = "timestep_indices", .dtype = TSR_I64, .ndim = 1},
               [TOKEN_TAGS] = {.name = "token_tags", .dtype = TSR_I64, .ndim = 1},
               [POSITION_IDS] = {.name = "position_ids", .dtype = TSR_F32, .ndim = 2},
               [VIDEO_INDICES] = {.name = "video_indices", .dtype = TSR_I64, .ndim = 1},
               [AUDIO_INDICES] = {.name = "audio_indices", .dtype = TSR_I64, .ndim = 1},
               [TEXT_INDICES] = {.name = "text_indices", .dtype = TSR_I64, .ndim = 1}},
    .outputs = {[SAMPLE] = "sample", [AUDIO_SAMPLE] = "audio_sample"},
    .forward = minimax_h3_forward,
    .input_shapes = minimax_h3_input_shapes,
    .layer_keys = {"num_layers", "num_refiner_layers"},
    .tp_plan = TSR__TP_RULES(minimax_h3_tp_plan),
    .tp_plan_more = TSR__TP_RULES(minimax_h3_tp_plan_more),
    .heads = minimax_h3_heads,
    .cp_plan = &minimax_h3_cp_plan,
};
