/* Qwen3ForCausalLM (transformers) as a text encoder. Shapes: B batch, S tokens, D hidden size. */
#include "models/models.h"
#include "nn/attention.h"

#include <stdlib.h>
#include <string.h>

/* hidden_states[k] that FLUX.2 [klein] takes (text_encoder_out_layers): the state after k layers. */
static const int64_t taps[] = {9, 18, 27};
enum { N_TAPS = TSR__COUNT(taps) };

typedef struct layer {
    tsr__module module;
    struct {
        tsr__module module;
        tsr__linear q_proj, k_proj, v_proj, o_proj;
        tsr__norm q_norm, k_norm;
    } self_attn;
    struct {
        tsr__module module;
        tsr__linear gate_proj, up_proj, down_proj;
        tsr__plain_module act_fn;
    } mlp;
    tsr__norm input_layernorm, post_attention_layernorm;
} layer;

typedef struct qwen3 {
    tsr__module module;
    struct {
        tsr__module module;
        tsr__embedding_layer embed_tokens;
        tsr__module_list layers;
        tsr__norm norm;
        tsr__plain_module rotary_emb;
    } model;
    layer *items;
    int64_t vocab_size, hidden_size, intermediate_size, heads, kv_heads, head_dim;
    double eps, rope_theta;
    tsr__bias bias;
    int64_t layers; /* of the whole model */
} qwen3;

/* Is the last tap behind the last layer, where transformers has applied the norm? */
static bool has_final_norm(const qwen3 *self) { return self->layers == taps[N_TAPS - 1]; }

/* --- declaration --- */

static void declare_layer(const qwen3 *self, layer *l) {
    int64_t D = self->hidden_size, d = self->head_dim;
    TSR__CHILD(l, self_attn);
    TSR__LINEAR(&l->self_attn, q_proj, D, self->heads * d, self->bias);
    TSR__LINEAR(&l->self_attn, k_proj, D, self->kv_heads * d, self->bias);
    TSR__LINEAR(&l->self_attn, v_proj, D, self->kv_heads * d, self->bias);
    TSR__LINEAR(&l->self_attn, o_proj, self->heads * d, D, self->bias);
    TSR__HEADS(&l->self_attn, q_proj, self->heads, false);
    TSR__HEADS(&l->self_attn, k_proj, self->kv_heads, true);
    TSR__HEADS(&l->self_attn, v_proj, self->kv_heads, true);
    TSR__RMS_NORM(&l->self_attn, q_norm, d, self->eps);
    TSR__RMS_NORM(&l->self_attn, k_norm, d, self->eps);
    TSR__CHILD(l, mlp);
    TSR__LINEAR(&l->mlp, gate_proj, D, self->intermediate_size, TSR__NO_BIAS);
    TSR__LINEAR(&l->mlp, up_proj, D, self->intermediate_size, TSR__NO_BIAS);
    TSR__LINEAR(&l->mlp, down_proj, self->intermediate_size, D, TSR__NO_BIAS);
    TSR__CHILD(&l->mlp, act_fn);
    TSR__RMS_NORM(l, input_layernorm, D, self->eps);
    TSR__RMS_NORM(l, post_attention_layernorm, D, self->eps);
}

static const tsr__known known[] = {
    {"hidden_act", {"\"silu\"", "\"swish\""}},   {"use_sliding_window", {"false"}},
    {"layer_types", {"\"full_attention\""}},     {"rope_parameters.rope_type", {"\"default\""}},
    {"rope_scaling.rope_type", {"\"default\""}}, {"rope_scaling.type", {"\"default\""}}};

static void read_config(qwen3 *self, tsr__config *c) {
    enum { MOST = 1 << 20 };
    self->vocab_size = tsr__config_int(c, "vocab_size", 151936, 1, 1 << 24);
    self->hidden_size = tsr__config_int(c, "hidden_size", 4096, 1, MOST);
    self->intermediate_size = tsr__config_int(c, "intermediate_size", 22016, 1, MOST);
    self->heads = tsr__config_int(c, "num_attention_heads", 32, 1, 4096);
    self->kv_heads = tsr__config_int(c, "num_key_value_heads", self->heads, 1, 4096);
    self->head_dim = tsr__config_int(c, "head_dim", 128, 2, 4096);
    self->eps = tsr__config_double(c, "rms_norm_eps", 1e-6, 0.0, 1.0);
    self->bias = tsr__config_bool(c, "attention_bias", false) ? TSR__BIAS : TSR__NO_BIAS;
    /* transformers 5 keeps the rope in rope_parameters, transformers 4 in rope_theta and rope_scaling. */
    double flat = tsr__config_double(c, "rope_theta", 10000.0, 1.0, 1e12);
    self->rope_theta = tsr__config_double(c, "rope_parameters.rope_theta", flat, 1.0, 1e12);
    tsr__config_check_known(c, known, TSR__COUNT(known));
    if (c->status == TSR_OK && (self->heads % self->kv_heads != 0 || self->head_dim % 2 != 0))
        c->status = tsr__fail(c->engine, TSR_FORMAT,
                              "%s: %lld attention heads of %lld channels over %lld key/value heads do not divide",
                              c->path, (long long)self->heads, (long long)self->head_dim, (long long)self->kv_heads);
}

static void qwen3_declare(tsr__tree *tree, void *model, tsr__config *c) {
    qwen3 *self = model;
    read_config(self, c);
    int64_t used = taps[N_TAPS - 1];
    self->layers = tsr__config_int(c, "num_hidden_layers", 32, used, 1000);
    if (c->status != TSR_OK) return;
    TSR__CHILD(self, model);
    TSR__EMBEDDING(&self->model, embed_tokens, self->vocab_size, self->hidden_size);
    if (!TSR__LIST(tree, &self->model, layers, used, self->items)) return;
    for (int64_t i = 0; i < used; i++) declare_layer(self, &self->items[i]);
    if (has_final_norm(self)) TSR__RMS_NORM(&self->model, norm, self->hidden_size, self->eps);
    TSR__CHILD(&self->model, rotary_emb);
}

/* Query heads over ranks, each with the key/value head that its queries read. */
/* clang-format off */
static const tsr_tp_rule qwen3_tp_plan[] = {
    {"model.embed_tokens",              TSR_ROWWISE, {0}},
    {"model.layers.*.self_attn.q_proj", TSR_COLWISE, {0}},
    {"model.layers.*.self_attn.k_proj", TSR_COLWISE, {0}},
    {"model.layers.*.self_attn.v_proj", TSR_COLWISE, {0}},
    {"model.layers.*.self_attn.o_proj", TSR_ROWWISE, {0}},
    {"model.layers.*.mlp.gate_proj",    TSR_COLWISE, {0}},
    {"model.layers.*.mlp.up_proj",      TSR_COLWISE, {0}},
    {"model.layers.*.mlp.down_proj",    TSR_ROWWISE, {0}},
};
/* clang-format on */

static int64_t qwen3_heads(const void *model) { return ((const qwen3 *)model)->heads; }

/* --- forward --- */

static tsr__value attention_forward(tsr__exec *x, const qwen3 *self, const layer *l, tsr__value h, tsr__value mask,
                                    tsr__rope rope) {
    int64_t d = self->head_dim;
    tsr__value q = tsr__split_heads(x, tsr__linear_forward(x, &l->self_attn.q_proj, h), d);
    tsr__value k = tsr__split_heads(x, tsr__linear_forward(x, &l->self_attn.k_proj, h), d);
    tsr__value v = tsr__split_heads(x, tsr__linear_forward(x, &l->self_attn.v_proj, h), d);
    q = tsr__rotate(x, tsr__rms_norm_forward(x, &l->self_attn.q_norm, q), rope);
    k = tsr__rotate(x, tsr__rms_norm_forward(x, &l->self_attn.k_norm, k), rope);
    tsr__value out = tsr__attention(x, q, k, v, (tsr__attention_options){.key_mask = mask, .causal = true});
    return tsr__tapped(x, &l->self_attn.module, tsr__linear_forward(x, &l->self_attn.o_proj, out));
}

/* down(silu(gate h) up h) */
static tsr__value mlp_forward(tsr__exec *x, const layer *l, tsr__value h) {
    tsr__value gate = tsr__linear_forward(x, &l->mlp.gate_proj, h), up = tsr__linear_forward(x, &l->mlp.up_proj, h);
    return tsr__tapped(x, &l->mlp.module,
                       tsr__linear_forward(x, &l->mlp.down_proj, tsr__gated(x, &l->mlp.act_fn, gate, up)));
}

/* x += attn(RMS x); x += mlp(RMS x) */
static tsr__value layer_forward(tsr__exec *x, const qwen3 *self, const layer *l, tsr__value h, tsr__value mask,
                                tsr__rope rope) {
    tsr__value normed = tsr__rms_norm_forward(x, &l->input_layernorm, h);
    h = tsr__add_values(x, h, attention_forward(x, self, l, normed, mask, rope));
    normed = tsr__rms_norm_forward(x, &l->post_attention_layernorm, h);
    return tsr__tapped(x, &l->module, tsr__add_values(x, h, mlp_forward(x, l, normed)));
}

enum { INPUT_IDS, ATTENTION_MASK };

static void qwen3_forward(tsr__exec *x, const void *model, const tsr__value *in, tsr__value *out) {
    const qwen3 *self = model;
    int64_t S = in[INPUT_IDS].shape[1];
    tsr__value positions = tsr__reshape(x, tsr__arange(x, S), TSR__SHAPE(S, 1));
    tsr__rope rope = tsr__rope_table(x, positions, &self->head_dim, self->rope_theta, false, TSR__ROPE_HALF);
    tsr__tapped_at(x, &self->model.rotary_emb.module, 0, tsr__reshape(x, rope.cos, TSR__SHAPE(1, S, self->head_dim)));
    tsr__tapped_at(x, &self->model.rotary_emb.module, 1, tsr__reshape(x, rope.sin, TSR__SHAPE(1, S, self->head_dim)));
    tsr__value h = tsr__embedding_forward(x, &self->model.embed_tokens, in[INPUT_IDS]);
    out[0] = tsr__none();
    for (int64_t i = 0, tap = 0; i < self->model.layers.n; i++) {
        h = layer_forward(x, self, &self->items[i], h, in[ATTENTION_MASK], rope);
        if (i + 1 != taps[tap]) continue;
        tsr__value state =
            tap == N_TAPS - 1 && has_final_norm(self) ? tsr__rms_norm_forward(x, &self->model.norm, h) : h;
        out[0] = tap++ ? tsr__concat(x, out[0], state, -1) : state;
    }
}

/* What lies behind the last tap, and rotary tables that old files hold. */
static bool qwen3_is_unread(const void *model, const char *name) {
    static const char layers[] = "model.layers.";
    static const char *const patterns[] = {"model.norm.*", "lm_head.*", "*.rotary_emb.inv_freq"};
    bool in_layer = strncmp(name, layers, strlen(layers)) == 0;
    int64_t number = in_layer ? strtoll(name + strlen(layers), NULL, 10) : -1;
    return number >= taps[N_TAPS - 1] ? number < ((const qwen3 *)model)->layers
                                      : tsr__name_matches(name, patterns, TSR__COUNT(patterns));
}

static void qwen3_input_shapes(const void *model, const tsr__picture *picture, int64_t (*shapes)[TSR_MAX_DIMS]) {
    (void)model;
    for (int i = INPUT_IDS; i <= ATTENTION_MASK; i++) {
        shapes[i][0] = 1;
        shapes[i][1] = picture->text_tokens;
    }
}

const tsr_model_desc tsr__qwen3 = {
    .class_name = "Qwen3ForCausalLM",
    .component = "text_encoder",
    .self_size = sizeof(qwen3),
    .declare = qwen3_declare,
    .inputs = {[INPUT_IDS] = {.name = "input_ids", .dtype = TSR_I64, .ndim = 2},
               [ATTENTION_MASK] = {.name = "attention_mask", .dtype = TSR_I64, .ndim = 2, .optional = true}},
    .outputs = {"prompt_embeds"},
    .forward = qwen3_forward,
    .input_shapes = qwen3_input_shapes,
    .tp_plan = TSR__TP_RULES(qwen3_tp_plan),
    .heads = qwen3_heads,
    .is_unread = qwen3_is_unread,
};

int64_t tsr__qwen3_embedding_dim(const tsr_model *model) { return N_TAPS * ((const qwen3 *)model->self)->hidden_size; }
int64_t tsr__qwen3_vocab_size(const tsr_model *model) { return ((const qwen3 *)model->self)->vocab_size; }
