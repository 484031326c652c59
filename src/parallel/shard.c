#include "parallel/shard.h"

#include <string.h>

size_t tsr__shard_ranges(const tsr__shard_spec *spec, int rank, int degree, tsr_range *ranges) {
    int64_t parts = degree, part = rank, offset = 0;
    if (spec->style == TSR_REPLICATED || degree == 1) return 0;
    if (spec->groups && spec->groups < degree) {
        parts = spec->groups;
        part = rank * spec->groups / degree;
    }
    for (size_t b = 0; b < spec->n_blocks; b++) {
        int64_t size = spec->blocks[b] / parts;
        ranges[b] = (tsr_range){offset + part * size, offset + (part + 1) * size};
        offset += spec->blocks[b];
    }
    return spec->n_blocks;
}

void tsr__shard_shape(const tsr__shard_spec *spec, int rank, int degree, int ndim, const int64_t *whole,
                      int64_t *local) {
    tsr_range ranges[TSR__MAX_RANGES];
    size_t n = tsr__shard_ranges(spec, rank, degree, ranges);
    memcpy(local, whole, (size_t)ndim * sizeof *whole);
    if (n) local[spec->dim] = 0;
    for (size_t i = 0; i < n; i++) local[spec->dim] += ranges[i].end - ranges[i].begin;
}
