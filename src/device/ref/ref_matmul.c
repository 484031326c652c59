#include "device/ref/ref.h"

tsr_status tsr__ref_matmul(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *x = op->in[0], *w = op->in[1];
    float *out = op->out[0]->data;
    int64_t rows = tsr__ref_rows(x), width = tsr__ref_width(x);
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < w->shape[0]; n++) {
            int64_t xm = tsr__ref_row(x, m), wn = tsr__ref_row(w, n);
            double sum = tsr__ref_optional(op->in[2], n, 0.0);
            for (int64_t k = 0; k < width; k++)
                sum += (double)tsr__ref_load(x, xm + k) * (double)tsr__ref_load(w, wn + k);
            *out++ = (float)sum;
        }
    return TSR_OK;
}
