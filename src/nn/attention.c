#include "nn/attention.h"

tsr__value tsr__attention(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options) {
    tsr__value out = tsr__sdpa(x, q, k, v, options, NULL);
    return tsr__reshape(x, out, TSR__SHAPE(out.shape[0], out.shape[1], -1));
}
