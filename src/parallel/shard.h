/* Which part of a weight a rank holds. */
#ifndef TSR_PARALLEL_SHARD_H
#define TSR_PARALLEL_SHARD_H

#include "nn/module.h"

enum { TSR__MAX_RANGES = TSR_MAX_BLOCKS };

/* The ranges of dimension spec->dim that rank r of `degree` holds, in order; returns how many (0: the spec is
 * replicated, all of it). One function for the file reader, the in-memory sharder and `plan`. Each block of spec is cut
 * into equal parts; with g groups over n > g ranks, rank r holds group floor(r g / n) of the only block. */
size_t tsr__shard_ranges(const tsr__shard_spec *spec, int rank, int degree, tsr_range *ranges);
/* The shape of that part: that of the whole with dimension spec->dim replaced. */
void tsr__shard_shape(const tsr__shard_spec *spec, int rank, int degree, int ndim, const int64_t *whole,
                      int64_t *local);

#endif
