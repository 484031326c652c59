/* Attention as models call it. */
#ifndef TSR_NN_ATTENTION_H
#define TSR_NN_ATTENTION_H

#include "nn/module.h"

/* Scaled dot-product attention of q [B, S, H, D] over k, v [B, T, G, D], G dividing H -> [B, S, H D].
 * One call for every layout of a run: where q, k and v are not split over ranks it is plain.
 * Source: torch.nn.functional.scaled_dot_product_attention. */
tsr__value tsr__attention(tsr__exec *x, tsr__value q, tsr__value k, tsr__value v, tsr__attention_options options);

#endif
