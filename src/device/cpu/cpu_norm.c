#include "device/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { BLOCK = 256 }; /* rows summed in float32 before the sum goes on in double */

/* The weight vectors of a row norm; a missing one is all ones or zeros, so that there is one loop. */
typedef struct affine {
    const float *w, *b;
} affine;

static affine affine_of(const tsr__device *device, const tsr__op *op, tsr__scratch *scratch) {
    int64_t width = op->in[0]->shape[op->in[0]->ndim - 1];
    affine a = {.w = tsr__cpu_vector(device, op->in[1], width, 1.0f, scratch)};
    a.b = tsr__cpu_vector(device, op->in[2], width, 0.0f, scratch);
    return a;
}

size_t tsr__cpu_norm_scratch(const tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {NULL, 0};
    (void)affine_of(device, op, &scratch);
    return scratch.used;
}

static tsr_status norm_rows(tsr__device *device, const tsr__op *op, bool centre) {
    const tsr__kernels *kernels = tsr__kernels_of(device);
    tsr__scratch scratch = {op->scratch, 0};
    affine a = affine_of(device, op, &scratch);
    tsr__rows x = tsr__rows_of(op->in[0]);
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++) {
        const float *row = tsr__row(&x, r);
        double n = (double)x.width;
        float mean = centre ? (float)(kernels->sum(row, x.width) / n) : 0.0f;
        double variance = kernels->sum_squares(row, mean, x.width) / n;
        float scale = (float)(1.0 / sqrt(variance + (double)op->param.norm.eps));
        kernels->norm(row, mean, scale, a.w, a.b, out + r * x.width, x.width);
    }
    return TSR_OK;
}

tsr_status tsr__cpu_rms_norm(tsr__device *device, const tsr__op *op) { return norm_rows(device, op, false); }
tsr_status tsr__cpu_layer_norm(tsr__device *device, const tsr__op *op) { return norm_rows(device, op, true); }

/* in1 is the mean, in2 the variance. Its one tensor is the latent: no kernel of its own. */
tsr_status tsr__cpu_batch_denorm(tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {op->scratch, 0};
    affine a = affine_of(device, op, &scratch);
    tsr__rows x = tsr__rows_of(op->in[0]);
    float *out = op->out[0]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
    for (int64_t r = 0; r < x.count; r++) {
        const float *row = tsr__row(&x, r);
        for (int64_t d = 0; d < x.width; d++)
            out[r * x.width + d] = row[d] * sqrtf(a.b[d] + op->param.norm.eps) + a.w[d];
    }
    return TSR_OK;
}

/* Scratch of group_norm: vectors over the channels, and partial sums of each thread. */
typedef struct group_norm {
    const tsr__device *device;
    const tsr__kernels *kernels;
    int64_t channels;
    int groups;
    double eps;
    affine affine;
    float *center, *scale; /* [C] */
    double *sums;          /* [threads, C] */
    float *parts;          /* [threads, C] */
} group_norm;

static group_norm group_norm_of(const tsr__device *device, const tsr__op *op, tsr__scratch *scratch) {
    size_t channels = (size_t)op->in[0]->shape[3], threads = (size_t)device->threads;
    group_norm g = {.device = device, .kernels = tsr__kernels_of(device), .channels = (int64_t)channels};
    g.groups = op->param.norm.groups;
    g.eps = (double)op->param.norm.eps;
    g.affine = affine_of(device, op, scratch);
    g.center = tsr__scratch_take(scratch, channels * sizeof(float));
    g.scale = tsr__scratch_take(scratch, channels * sizeof(float));
    g.sums = tsr__scratch_take(scratch, threads * channels * sizeof(double));
    g.parts = tsr__scratch_take(scratch, threads * channels * sizeof(float));
    return g;
}

size_t tsr__cpu_group_norm_scratch(const tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {NULL, 0};
    (void)group_norm_of(device, op, &scratch);
    return scratch.used;
}

/* Adds the rows [begin, end) of x to sum: themselves, or the squares of what they differ from the centre. */
static void add_block(const group_norm *g, const tsr__rows *x, int64_t begin, int64_t end, bool squares) {
    int64_t thread = omp_get_thread_num();
    float *part = g->parts + thread * g->channels;
    double *sum = g->sums + thread * g->channels;
    memset(part, 0, (size_t)g->channels * sizeof *part);
    for (int64_t r = begin; r < end; r++)
        if (squares)
            g->kernels->add_squares(tsr__row(x, r), g->center, part, g->channels);
        else
            g->kernels->axpy(part, tsr__row(x, r), 1.0f, part, g->channels);
    for (int64_t c = 0; c < g->channels; c++) sum[c] += (double)part[c];
}

/* sums[c], c < C: the sum over all rows. */
static void channel_sums(const group_norm *g, const tsr__rows *x, bool squares) {
    memset(g->sums, 0, (size_t)(g->device->threads * g->channels) * sizeof *g->sums);
#pragma omp parallel for num_threads(tsr__cpu_threads(g->device, x->count * x->width)) schedule(static)
    for (int64_t begin = 0; begin < x->count; begin += BLOCK)
        add_block(g, x, begin, begin + BLOCK < x->count ? begin + BLOCK : x->count, squares);
    for (int64_t c = g->channels; c < g->device->threads * g->channels; c++) g->sums[c % g->channels] += g->sums[c];
}

/* The mean over the channels [first, first + n) of what channel_sums left. */
static double group_mean(const group_norm *g, int64_t first, int64_t n, int64_t rows) {
    double total = 0.0;
    for (int64_t c = first; c < first + n; c++) total += g->sums[c];
    return total / (double)(n * rows);
}

static void statistics(const group_norm *g, const tsr__rows *x) {
    int64_t n = g->channels / g->groups;
    channel_sums(g, x, false);
    for (int64_t c = 0; c < g->channels; c++) g->center[c] = (float)group_mean(g, c / n * n, n, x->count);
    channel_sums(g, x, true);
    for (int64_t c = 0; c < g->channels; c++)
        g->scale[c] = g->affine.w[c] * (float)(1.0 / sqrt(group_mean(g, c / n * n, n, x->count) + g->eps));
}

tsr_status tsr__cpu_group_norm(tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {op->scratch, 0};
    group_norm g = group_norm_of(device, op, &scratch);
    if (!g.sums) return tsr__fail(device->engine, TSR_INTERNAL, "group_norm was called without its scratch memory");
    float *out = op->out[0]->data;
    tsr__view image = *op->in[0]; /* one of the batch */
    image.shape[0] = 1;
    for (int64_t b = 0; b < op->in[0]->shape[0]; b++) {
        image.data = (float *)op->in[0]->data + b * image.stride[0];
        tsr__rows x = tsr__rows_of(&image);
        statistics(&g, &x);
#pragma omp parallel for num_threads(tsr__cpu_threads(device, x.count *x.width))
        for (int64_t r = 0; r < x.count; r++)
            g.kernels->normalize(tsr__row(&x, r), g.center, g.scale, g.affine.b, out + r * x.width, x.width);
        out += x.count * x.width;
    }
    return TSR_OK;
}
