/* Convolution by oneDNN in NHWC (with plain NCHW it falls back to im2col), and upsampling. */
#include "device/cpu/cpu.h"

#include <omp.h>
#include <string.h>

enum { CHUNK = 4096 };

/* What the primitive wants, and the operands in that form. */
typedef struct conv {
    const tsr__device *device;
    const tsr__op *op;
    dnnl_data_type_t type; /* of image and weights: f32, or bf16 where rounding is allowed and pays */
    dnnl_memory_desc_t image, plain, bias, out;
    dnnl_primitive_desc_t desc;
    const dnnl_memory_desc_t *weights, *scratchpad; /* owned by desc */
    void *image_copy, *weights_copy, *weights_blocked, *scratchpad_memory;
    const float *bias_data;
} conv;

static bool native(const tsr__device *device, const tsr__op *op) {
    return tsr__cpu_of(device)->bf16_matmul && op->param.matmul.round_inputs == TSR_BF16 &&
           op->in[1]->dtype == TSR_BF16;
}

static dnnl_status_t describe(conv *c) {
    const int64_t *x = c->op->in[0]->shape, *w = c->op->in[1]->shape;
    bool rows = w[2] == 1 && w[3] == 1; /* as images of their own: oneDNN's 1x1 tries out every number of pixels */
    int64_t n = rows ? x[0] * x[1] : x[0], height = rows ? 1 : x[1];
    dnnl_dims_t image = {n, x[3], height, x[2]}, kernel = {w[0], w[1], w[2], w[3]};
    dnnl_dims_t out = {n, w[0], height, x[2]}, bias = {w[0]}, strides = {1, 1}, pad = {w[2] / 2, w[3] / 2};
    dnnl_memory_desc_t any;
    dnnl_convolution_desc_t desc;
    if (height * x[2] > INT32_MAX)
        return dnnl_unimplemented; /* oneDNN 2.6 counts pixels in an int, and divides by it */
    dnnl_primitive_attr_t attributes = tsr__dnnl_attributes();
    if (!attributes) return dnnl_out_of_memory;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&c->image, 4, image, c->type, dnnl_nhwc);
    if (!status) status = dnnl_memory_desc_init_by_tag(&c->plain, 4, kernel, c->type, dnnl_oihw);
    if (!status) status = dnnl_memory_desc_init_by_tag(&any, 4, kernel, c->type, dnnl_format_tag_any);
    if (!status) status = dnnl_memory_desc_init_by_tag(&c->bias, 1, bias, dnnl_f32, dnnl_a);
    if (!status) status = dnnl_memory_desc_init_by_tag(&c->out, 4, out, dnnl_f32, dnnl_nhwc);
    if (!status)
        status = dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct, &c->image,
                                                    &any, c->op->in[2] ? &c->bias : NULL, &c->out, strides, pad, pad);
    if (!status) status = dnnl_primitive_desc_create(&c->desc, &desc, attributes, tsr__cpu_of(c->device)->engine, NULL);
    (void)dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Fails or fills *c, whose desc the caller destroys; takes from scratch what the operands need. */
static tsr_status plan(const tsr__device *device, const tsr__op *op, tsr__scratch *scratch, conv *c) {
    *c = (conv){.device = device, .op = op, .type = native(device, op) ? dnnl_bf16 : dnnl_f32};
    omp_set_num_threads(device->threads);
    TSR__TRY(tsr__dnnl_check(device, describe(c), "prepare a convolution"));
    c->weights = dnnl_primitive_desc_query_md(c->desc, dnnl_query_weights_md, 0);
    c->scratchpad = dnnl_primitive_desc_query_md(c->desc, dnnl_query_scratchpad_md, 0);
    if (op->in[2]) c->bias_data = tsr__cpu_vector(device, op->in[2], op->in[1]->shape[0], 0.0f, scratch);
    if (c->type == dnnl_bf16 || !tsr__view_is_dense(op->in[0]))
        c->image_copy = tsr__scratch_take(scratch, dnnl_memory_desc_get_size(&c->image));
    if (c->type == dnnl_f32 && op->in[1]->dtype != TSR_F32)
        c->weights_copy = tsr__scratch_take(scratch, dnnl_memory_desc_get_size(&c->plain));
    c->weights_blocked = tsr__scratch_take(scratch, dnnl_memory_desc_get_size(c->weights));
    c->scratchpad_memory = tsr__scratch_take(scratch, dnnl_memory_desc_get_size(c->scratchpad));
    return TSR_OK;
}

size_t tsr__cpu_conv2d_scratch(const tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {NULL, 0};
    conv c;
    if (tsr__view_elements(op->out[0]) == 0 || plan(device, op, &scratch, &c) != TSR_OK) return 0;
    (void)dnnl_primitive_desc_destroy(c.desc);
    return scratch.used;
}

/* The image as the primitive wants it: dense, in its type. */
static const void *image_data(const conv *c) {
    const tsr__view *in = c->op->in[0];
    if (!c->image_copy) return in->data;
    if (c->type == dnnl_f32) {
        tsr__view dense = tsr__view_dense(c->image_copy, TSR_F32, in->ndim, in->shape);
        tsr__cpu_copy_view(c->device, in, &dense);
        return c->image_copy;
    }
    tsr__rows x = tsr__rows_of(in);
#pragma omp parallel for num_threads(tsr__cpu_threads(c->device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++)
        tsr__kernels_of(c->device)->f32_to_bf16(tsr__row(&x, r), (uint16_t *)c->image_copy + r * x.width, x.width);
    return c->image_copy;
}

static const void *plain_weights(const conv *c) {
    const tsr__view *w = c->op->in[1];
    if (!c->weights_copy) return w->data;
    int64_t n = tsr__view_elements(w);
#pragma omp parallel for num_threads(tsr__cpu_threads(c->device, n))
    for (int64_t i = 0; i < n; i += CHUNK)
        tsr__cpu_to_f32(c->device, w->dtype, (const uint16_t *)w->data + i, (float *)c->weights_copy + i,
                        n - i < CHUNK ? n - i : CHUNK);
    return c->weights_copy;
}

static tsr_status block_weights(const conv *c) {
    dnnl_primitive_desc_t reorder = NULL;
    dnnl_engine_t engine = tsr__cpu_of(c->device)->engine;
    TSR__TRY(tsr__dnnl_check(c->device,
                             dnnl_reorder_primitive_desc_create(&reorder, &c->plain, engine, c->weights, engine, NULL),
                             "prepare the weights of a convolution"));
    const tsr__dnnl_arg args[] = {{DNNL_ARG_FROM, &c->plain, plain_weights(c)},
                                  {DNNL_ARG_TO, c->weights, c->weights_blocked}};
    tsr_status status = tsr__dnnl_run(c->device, reorder, args, 2);
    (void)dnnl_primitive_desc_destroy(reorder);
    return status;
}

tsr_status tsr__cpu_conv2d(tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {op->scratch, 0};
    conv c;
    if (tsr__view_elements(op->out[0]) == 0) return TSR_OK;
    TSR__TRY(plan(device, op, &scratch, &c));
    tsr_status status = block_weights(&c);
    if (status == TSR_OK) {
        const tsr__dnnl_arg args[] = {{DNNL_ARG_SRC, &c.image, image_data(&c)},
                                      {DNNL_ARG_WEIGHTS, c.weights, c.weights_blocked},
                                      {DNNL_ARG_DST, &c.out, op->out[0]->data},
                                      {DNNL_ARG_SCRATCHPAD, c.scratchpad, c.scratchpad_memory},
                                      {DNNL_ARG_BIAS, &c.bias, c.bias_data}};
        status = tsr__dnnl_run(device, c.desc, args, op->in[2] ? 5 : 4);
    }
    (void)dnnl_primitive_desc_destroy(c.desc);
    tsr__cpu_tile_done(device);
    return status;
}

tsr_status tsr__cpu_upsample_nearest2x(tsr__device *device, const tsr__op *op) {
    const tsr__view *in = op->in[0], *to = op->out[0];
    int64_t height = to->shape[1], width = to->shape[2], channels = to->shape[3];
#pragma omp parallel for num_threads(tsr__cpu_threads(device, tsr__view_elements(to)))
    for (int64_t r = 0; r < to->shape[0] * height; r++) {
        const float *from = (const float *)in->data + r / height * in->stride[0] + r % height / 2 * in->stride[1];
        float *out = (float *)to->data + r * width * channels;
        for (int64_t x = 0; x < width; x++, out += channels)
            memcpy(out, from + x / 2 * in->stride[2], (size_t)channels * sizeof *out);
    }
    return TSR_OK;
}
