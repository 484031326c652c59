#include "device/ref/ref.h"

#include <math.h>

/* out = (x - mean) / sqrt(variance + eps) w + b, a row at a time; RMS is the case of mean 0. */
static tsr_status norm_rows(const tsr__op *op, bool centre, const tsr__view *w, const tsr__view *b) {
    const tsr__view *x = op->in[0];
    float *out = op->out[0]->data;
    int64_t rows = tsr__ref_rows(x), width = tsr__ref_width(x);
    for (int64_t r = 0; r < rows; r++, out += width) {
        int64_t row = tsr__ref_row(x, r);
        double mean = 0.0, variance = 0.0;
        for (int64_t d = 0; centre && d < width; d++) mean += (double)tsr__ref_load(x, row + d) / (double)width;
        for (int64_t d = 0; d < width; d++)
            variance += pow((double)tsr__ref_load(x, row + d) - mean, 2) / (double)width;
        double scale = 1.0 / sqrt(variance + (double)op->param.norm.eps);
        for (int64_t d = 0; d < width; d++)
            out[d] = (float)(((double)tsr__ref_load(x, row + d) - mean) * scale * tsr__ref_optional(w, d, 1.0) +
                             tsr__ref_optional(b, d, 0.0));
    }
    return TSR_OK;
}

tsr_status tsr__ref_rms_norm(tsr__device *device, const tsr__op *op) {
    (void)device;
    return norm_rows(op, false, op->in[1], NULL);
}

tsr_status tsr__ref_layer_norm(tsr__device *device, const tsr__op *op) {
    (void)device;
    return norm_rows(op, true, op->in[1], op->in[2]);
}

/* Mean and 1 / sqrt(variance + eps) of channels [first, first + n) of image b. */
static void group_statistics(const tsr__op *op, int64_t b, int64_t first, int64_t n, double *mean, double *scale) {
    const tsr__view *x = op->in[0];
    int64_t pixels = x->shape[1] * x->shape[2];
    double sum = 0.0, squares = 0.0, count = (double)(pixels * n);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < n; c++) sum += (double)tsr__ref_load(x, tsr__ref_row(x, b * pixels + p) + first + c);
    *mean = sum / count;
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < n; c++)
            squares += pow((double)tsr__ref_load(x, tsr__ref_row(x, b * pixels + p) + first + c) - *mean, 2);
    *scale = 1.0 / sqrt(squares / count + (double)op->param.norm.eps);
}

tsr_status tsr__ref_group_norm(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *x = op->in[0];
    int64_t pixels = x->shape[1] * x->shape[2], channels = x->shape[3], n = channels / op->param.norm.groups;
    float *out = op->out[0]->data;
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t first = 0; first < channels; first += n) {
            double mean = 0.0, scale = 0.0;
            group_statistics(op, b, first, n, &mean, &scale);
            for (int64_t r = b * pixels; r < (b + 1) * pixels; r++)
                for (int64_t c = first; c < first + n; c++)
                    out[r * channels + c] = (float)(((double)tsr__ref_load(x, tsr__ref_row(x, r) + c) - mean) * scale *
                                                        tsr__ref_optional(op->in[1], c, 1.0) +
                                                    tsr__ref_optional(op->in[2], c, 0.0));
        }
    return TSR_OK;
}

tsr_status tsr__ref_batch_denorm(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *x = op->in[0];
    float *out = op->out[0]->data;
    int64_t rows = tsr__ref_rows(x), width = tsr__ref_width(x);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < width; d++) {
            double deviation = sqrt(tsr__ref_optional(op->in[2], d, 1.0) + (double)op->param.norm.eps);
            *out++ = (float)((double)tsr__ref_load(x, tsr__ref_row(x, r) + d) * deviation +
                             tsr__ref_optional(op->in[1], d, 0.0));
        }
    return TSR_OK;
}
