/* AutoencoderKLFlux2 (diffusers), the decoder. Inside images are [B, H, W, C]; at the border [B, C, H, W]. */
#include "models/models.h"
#include "nn/attention.h"

enum { MAX_LEVELS = 16 };
static const double norm_eps = 1e-6; /* resnet_eps of diffusers' Decoder */

typedef struct resnet {
    tsr__module module;
    tsr__group_norm_layer norm1, norm2;
    tsr__conv2d_layer conv1, conv2, conv_shortcut;
    tsr__plain_module nonlinearity;
} resnet;

typedef struct mid_attention {
    tsr__module module;
    tsr__group_norm_layer group_norm;
    tsr__linear to_q, to_k, to_v;
    tsr__linear_item to_out;
} mid_attention;

typedef struct upsampler {
    tsr__module module;
    tsr__conv2d_layer conv;
} upsampler;

typedef struct up_block {
    tsr__module module;
    tsr__module_list resnets, upsamplers;
    resnet *resnet_items;
    upsampler *upsampler; /* NULL in the last block */
} up_block;

typedef struct decoder {
    tsr__module module;
    tsr__conv2d_layer conv_in, conv_out;
    struct {
        tsr__module module;
        tsr__module_list attentions, resnets;
        mid_attention *attention; /* NULL: none */
        resnet *resnet_items;
    } mid_block;
    tsr__module_list up_blocks;
    up_block *up_items;
    tsr__group_norm_layer conv_norm_out;
    tsr__plain_module conv_act;
} decoder;

typedef struct autoencoder {
    tsr__module module;
    tsr__conv2d_layer post_quant_conv;
    decoder decoder;
    struct {
        tsr__module module;
        tsr__param running_mean, running_var;
    } bn;
    int64_t latent_channels, groups, levels, layers_per_block, patch, sample_size;
    int64_t channels[MAX_LEVELS]; /* of the up blocks, in their order */
    double batch_norm_eps;
    bool mid_attention, post_quant;
} autoencoder;

/* --- declaration --- */

static void declare_resnet(const autoencoder *self, resnet *r, int64_t in, int64_t out) {
    TSR__GROUP_NORM(r, norm1, in, self->groups, norm_eps);
    TSR__CONV2D(r, conv1, in, out, 3);
    TSR__GROUP_NORM(r, norm2, out, self->groups, norm_eps);
    TSR__CONV2D(r, conv2, out, out, 3);
    TSR__CHILD(r, nonlinearity);
    if (in != out) TSR__CONV2D(r, conv_shortcut, in, out, 1);
}

static void declare_mid_block(tsr__tree *tree, autoencoder *self, int64_t channels) {
    decoder *d = &self->decoder;
    TSR__CHILD(d, mid_block);
    if (self->mid_attention && TSR__LIST(tree, &d->mid_block, attentions, 1, d->mid_block.attention)) {
        mid_attention *a = d->mid_block.attention;
        TSR__GROUP_NORM(a, group_norm, channels, self->groups, norm_eps);
        TSR__LINEAR(a, to_q, channels, channels, TSR__BIAS);
        TSR__LINEAR(a, to_k, channels, channels, TSR__BIAS);
        TSR__LINEAR(a, to_v, channels, channels, TSR__BIAS);
        TSR__LINEAR_ITEM(a, to_out, channels, channels, TSR__BIAS);
    }
    if (!TSR__LIST(tree, &d->mid_block, resnets, 2, d->mid_block.resnet_items)) return;
    for (int i = 0; i < 2; i++) declare_resnet(self, &d->mid_block.resnet_items[i], channels, channels);
}

static void declare_up_block(tsr__tree *tree, const autoencoder *self, up_block *b, int64_t level) {
    int64_t in = self->channels[level > 0 ? level - 1 : 0], out = self->channels[level];
    if (!TSR__LIST(tree, b, resnets, self->layers_per_block + 1, b->resnet_items)) return;
    for (int64_t i = 0; i < b->resnets.n; i++) declare_resnet(self, &b->resnet_items[i], i ? out : in, out);
    if (level == self->levels - 1 || !TSR__LIST(tree, b, upsamplers, 1, b->upsampler)) return;
    TSR__CONV2D(b->upsampler, conv, out, out, 3);
}

/* The channels of the up blocks: decoder_block_out_channels where set, else block_out_channels; largest level first. */
static void read_channels(autoencoder *self, tsr__config *c) {
    enum { MOST = 1 << 16 };
    const char *key =
        tsr__config_has(c, "decoder_block_out_channels") ? "decoder_block_out_channels" : "block_out_channels";
    int64_t given[MAX_LEVELS] = {128, 256, 512, 512};
    int n = tsr__config_ints(c, key, given, MAX_LEVELS, 1, MOST);
    self->levels = n ? n : 4;
    for (int64_t i = 0; i < self->levels; i++) {
        self->channels[i] = given[self->levels - 1 - i];
        if (c->status == TSR_OK && self->channels[i] % self->groups != 0)
            c->status =
                tsr__fail(c->engine, TSR_FORMAT, "%s: norm_num_groups %lld does not divide the %lld channels of %s",
                          c->path, (long long)self->groups, (long long)self->channels[i], key);
    }
}

/* The encoder's down_block_types may be any: it is not built. */
static const tsr__known known[] = {{"act_fn", {"\"silu\"", "\"swish\""}}, {"up_block_types", {"\"UpDecoderBlock2D\""}}};

static void read_config(autoencoder *self, tsr__config *c) {
    int64_t patch[2] = {2, 2};
    tsr__config_check_known(c, known, TSR__COUNT(known));
    self->latent_channels = tsr__config_int(c, "latent_channels", 32, 1, 1 << 16);
    self->groups = tsr__config_int(c, "norm_num_groups", 32, 1, 1 << 16);
    self->layers_per_block = tsr__config_int(c, "layers_per_block", 2, 0, 64);
    self->sample_size = tsr__config_int(c, "sample_size", 1024, 1, 1 << 16);
    self->batch_norm_eps = tsr__config_double(c, "batch_norm_eps", 1e-4, 0.0, 1.0);
    self->mid_attention = tsr__config_bool(c, "mid_block_add_attention", true);
    self->post_quant = tsr__config_bool(c, "use_post_quant_conv", true);
    (void)tsr__config_ints(c, "patch_size", patch, 2, 1, 16);
    self->patch = patch[0];
    if (c->status == TSR_OK && patch[0] != patch[1])
        c->status = tsr__fail(c->engine, TSR_UNSUPPORTED, "%s: patch_size is not square", c->path);
    read_channels(self, c);
}

static void autoencoder_declare(tsr__tree *tree, void *model, tsr__config *c) {
    autoencoder *self = model;
    decoder *d = &self->decoder;
    read_config(self, c);
    int64_t out_channels = tsr__config_int(c, "out_channels", 3, 3, 3);
    if (c->status != TSR_OK) return;
    if (self->post_quant) TSR__CONV2D(self, post_quant_conv, self->latent_channels, self->latent_channels, 1);
    TSR__CHILD(self, decoder);
    TSR__CONV2D(d, conv_in, self->latent_channels, self->channels[0], 3);
    declare_mid_block(tree, self, self->channels[0]);
    if (!TSR__LIST(tree, d, up_blocks, self->levels, d->up_items)) return;
    for (int64_t i = 0; i < self->levels; i++) declare_up_block(tree, self, &d->up_items[i], i);
    int64_t last = self->channels[self->levels - 1];
    TSR__GROUP_NORM(d, conv_norm_out, last, self->groups, norm_eps);
    TSR__CHILD(d, conv_act);
    TSR__CONV2D(d, conv_out, last, out_channels, 3);
    TSR__CHILD(self, bn);
    int64_t packed = self->latent_channels * self->patch * self->patch;
    TSR__PARAM(&self->bn, running_mean, packed);
    TSR__PARAM(&self->bn, running_var, packed);
}

/* --- forward --- */

/* silu(GroupNorm(h)) */
static tsr__value activated(tsr__exec *x, const tsr__group_norm_layer *norm, const tsr__plain_module *act,
                            tsr__value h) {
    return tsr__tapped_image(x, &act->module, tsr__silu(x, tsr__group_norm_forward(x, norm, h)));
}

/* shortcut(h) + conv2(silu(GN(conv1(silu(GN(h)))))) */
static tsr__value resnet_forward(tsr__exec *x, const resnet *r, tsr__value h) {
    tsr__value branch = tsr__conv2d_forward(x, &r->conv1, activated(x, &r->norm1, &r->nonlinearity, h));
    branch = tsr__conv2d_forward(x, &r->conv2, activated(x, &r->norm2, &r->nonlinearity, branch));
    tsr__value shortcut = r->conv_shortcut.module.name ? tsr__conv2d_forward(x, &r->conv_shortcut, h) : h;
    return tsr__tapped_image(x, &r->module, tsr__add_values(x, shortcut, branch));
}

/* Pixels attend to each other as tokens, in one head of all channels. */
static tsr__value mid_attention_forward(tsr__exec *x, const mid_attention *a, tsr__value image) {
    int64_t B = image.shape[0], tokens = image.shape[1] * image.shape[2], C = image.shape[3];
    tsr__value weight = tsr__param_value(x, &a->group_norm.weight), bias = tsr__param_value(x, &a->group_norm.bias);
    tsr__value normed = tsr__group_norm(x, image, weight, bias, a->group_norm.groups, a->group_norm.eps);
    tsr__value h = tsr__reshape(x, normed, TSR__SHAPE(B, tokens, C));
    tsr__tapped(x, &a->group_norm.module,
                tsr__permute(x, h, TSR__ORDER(0, 2, 1))); /* diffusers has [B, C, tokens] here */
    tsr__value q = tsr__split_heads(x, tsr__linear_forward(x, &a->to_q, h), C);
    tsr__value k = tsr__split_heads(x, tsr__linear_forward(x, &a->to_k, h), C);
    tsr__value v = tsr__split_heads(x, tsr__linear_forward(x, &a->to_v, h), C);
    h = tsr__attention(x, q, k, v, (tsr__attention_options){.key_mask = tsr__none()});
    h = tsr__reshape(x, tsr__linear_forward(x, &a->to_out.item, h), image.ndim, image.shape);
    return tsr__tapped_image(x, &a->module, tsr__add_values(x, image, h));
}

static tsr__value up_block_forward(tsr__exec *x, const up_block *b, tsr__value h) {
    for (int64_t i = 0; i < b->resnets.n; i++) h = resnet_forward(x, &b->resnet_items[i], h);
    if (b->upsampler) {
        h = tsr__conv2d_forward(x, &b->upsampler->conv, tsr__upsample_nearest2x(x, h));
        h = tsr__tapped_image(x, &b->upsampler->module, h);
    }
    return tsr__tapped_image(x, &b->module, h);
}

static tsr__value decoder_forward(tsr__exec *x, const decoder *d, tsr__value z) {
    tsr__value h = tsr__conv2d_forward(x, &d->conv_in, z);
    h = resnet_forward(x, &d->mid_block.resnet_items[0], h);
    if (d->mid_block.attention) h = mid_attention_forward(x, d->mid_block.attention, h);
    h = tsr__tapped_image(x, &d->mid_block.module, resnet_forward(x, &d->mid_block.resnet_items[1], h));
    for (int64_t i = 0; i < d->up_blocks.n; i++) h = up_block_forward(x, &d->up_items[i], h);
    h = tsr__conv2d_forward(x, &d->conv_out, activated(x, &d->conv_norm_out, &d->conv_act, h));
    return tsr__tapped_image(x, &d->module, h);
}

static void autoencoder_forward(tsr__exec *x, const void *model, const tsr__value *in, tsr__value *out) {
    const autoencoder *self = model;
    tsr__value z = tsr__contiguous(x, tsr__permute(x, in[0], TSR__ORDER(0, 2, 3, 1)));
    if (self->post_quant) z = tsr__conv2d_forward(x, &self->post_quant_conv, z);
    tsr__value image = decoder_forward(x, &self->decoder, z);
    out[0] = tsr__contiguous(x, tsr__permute(x, image, TSR__ORDER(0, 3, 1, 2)));
}

/* The encoder, and a counter for training. */
static bool autoencoder_is_unread(const void *model, const char *name) {
    static const char *const patterns[] = {"encoder.*", "quant_conv.*", "bn.num_batches_tracked"};
    (void)model;
    return tsr__name_matches(name, patterns, TSR__COUNT(patterns));
}

static int64_t scale_factor(const autoencoder *self) { return (int64_t)1 << (self->levels - 1); }

static void autoencoder_input_shapes(const void *model, const tsr__picture *picture, int64_t (*shapes)[TSR_MAX_DIMS]) {
    const autoencoder *self = model;
    shapes[0][0] = 1;
    shapes[0][1] = self->latent_channels;
    shapes[0][2] = picture->height / scale_factor(self);
    shapes[0][3] = picture->width / scale_factor(self);
}

const tsr_model_desc tsr__autoencoder_kl_flux2 = {
    .class_name = "AutoencoderKLFlux2",
    .component = "vae",
    .self_size = sizeof(autoencoder),
    .declare = autoencoder_declare,
    .inputs = {{.name = "z", .dtype = TSR_F32, .ndim = 4}},
    .outputs = {"sample"},
    .forward = autoencoder_forward,
    .input_shapes = autoencoder_input_shapes,
    .is_unread = autoencoder_is_unread,
};

tsr__value tsr__flux2_unpack_latents(tsr__exec *x, const tsr_model *vae, tsr__value latents, int64_t height,
                                     int64_t width) {
    const autoencoder *self = vae->self;
    int64_t B = latents.shape[0], C = self->latent_channels, p = self->patch;
    tsr__value mean = tsr__param_value(x, &self->bn.running_mean), var = tsr__param_value(x, &self->bn.running_var);
    tsr__value z = tsr__batch_denorm(x, latents, mean, var, (float)self->batch_norm_eps);
    z = tsr__reshape(x, z, TSR__SHAPE(B, height, width, C, p, p));
    z = tsr__contiguous(x, tsr__permute(x, z, TSR__ORDER(0, 3, 1, 4, 2, 5)));
    return tsr__reshape(x, z, TSR__SHAPE(B, C, height * p, width * p));
}

int64_t tsr__flux2_vae_latent_channels(const tsr_model *vae) {
    return ((const autoencoder *)vae->self)->latent_channels;
}
int64_t tsr__flux2_vae_scale_factor(const tsr_model *vae) { return scale_factor(vae->self); }
int64_t tsr__flux2_vae_sample_size(const tsr_model *vae) { return ((const autoencoder *)vae->self)->sample_size; }
int64_t tsr__flux2_vae_patch(const tsr_model *vae) { return ((const autoencoder *)vae->self)->patch; }
