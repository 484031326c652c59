#include "device/ref/ref.h"

tsr_status tsr__ref_rope(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *x = op->in[0], *cosines = op->in[1], *sines = op->in[2];
    int64_t rows = tsr__ref_rows(x), width = tsr__ref_width(cosines), channels = tsr__ref_width(x);
    bool half = op->param.rope == TSR__ROPE_HALF;
    float *out = op->out[0]->data;
    for (int64_t r = 0; r < rows; r++, out += channels) {
        int64_t row = tsr__ref_row(x, r), s = r / x->shape[2] % x->shape[1];
        for (int64_t d = width; d < channels; d++) out[d] = tsr__ref_load(x, row + d);
        for (int64_t j = 0; j < width / 2; j++) {
            int64_t first = half ? j : 2 * j, second = half ? j + width / 2 : 2 * j + 1;
            int64_t cos_row = tsr__ref_row(cosines, s), sin_row = tsr__ref_row(sines, s);
            double a = (double)tsr__ref_load(x, row + first), b = (double)tsr__ref_load(x, row + second);
            out[first] = (float)(a * (double)tsr__ref_load(cosines, cos_row + first) -
                                 b * (double)tsr__ref_load(sines, sin_row + first));
            out[second] = (float)(b * (double)tsr__ref_load(cosines, cos_row + second) +
                                  a * (double)tsr__ref_load(sines, sin_row + second));
        }
    }
    return TSR_OK;
}
