#include "device/ref/ref.h"

/* One output pixel of channel o: the sum over the kernel's window, zeros outside the image. */
static double window(const tsr__op *op, int64_t b, int64_t y, int64_t x, int64_t o) {
    const tsr__view *image = op->in[0], *w = op->in[1];
    int64_t k = w->shape[2];
    double sum = tsr__ref_optional(op->in[2], o, 0.0);
    for (int64_t ky = 0; ky < k; ky++)
        for (int64_t kx = 0; kx < k; kx++) {
            int64_t iy = y + ky - k / 2, ix = x + kx - k / 2;
            if (iy < 0 || iy >= image->shape[1] || ix < 0 || ix >= image->shape[2]) continue;
            int64_t pixel = b * image->stride[0] + iy * image->stride[1] + ix * image->stride[2];
            int64_t tap = o * w->stride[0] + ky * w->stride[2] + kx * w->stride[3];
            for (int64_t i = 0; i < image->shape[3]; i++)
                sum += (double)tsr__ref_load(image, pixel + i) * (double)tsr__ref_load(w, tap + i * w->stride[1]);
        }
    return sum;
}

tsr_status tsr__ref_conv2d(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *image = op->in[0];
    float *out = op->out[0]->data;
    for (int64_t b = 0; b < image->shape[0]; b++)
        for (int64_t y = 0; y < image->shape[1]; y++)
            for (int64_t x = 0; x < image->shape[2]; x++)
                for (int64_t o = 0; o < op->in[1]->shape[0]; o++) *out++ = (float)window(op, b, y, x, o);
    return TSR_OK;
}

tsr_status tsr__ref_upsample_nearest2x(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *in = op->in[0], *to = op->out[0];
    float *out = to->data;
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t y = 0; y < to->shape[1]; y++)
            for (int64_t x = 0; x < to->shape[2]; x++)
                for (int64_t c = 0; c < to->shape[3]; c++)
                    *out++ = tsr__ref_load(in, b * in->stride[0] + y / 2 * in->stride[1] + x / 2 * in->stride[2] + c);
    return TSR_OK;
}
