/* Operands for tests of operations: views over random memory, and running an operation with scratch of the exact size.
 */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include "device/device.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX_BLOCKS = 256 };

/* Memory of one case, all freed by ops_free. */
typedef struct ops_pool {
    void *blocks[OPS_MAX_BLOCKS];
    int n;
    float scale; /* of random numbers, where not 0 */
} ops_pool;

/* How the elements of a view lie. */
typedef enum ops_layout {
    OPS_DENSE,
    OPS_GAP,     /* 3 unused elements after each row, 2 rows after each matrix, as slices have */
    OPS_SWAPPED, /* the two dimensions before the last are swapped in memory; rows dense */
} ops_layout;

static inline void *ops_memory(ops_pool *pool, size_t bytes) {
    assert_true(pool->n < OPS_MAX_BLOCKS);
    void **block = &pool->blocks[pool->n++];
    assert_int_equal(posix_memalign(block, 64, bytes ? bytes : 1), 0);
    return memset(*block, 0xff, bytes); /* NaN, in every dtype */
}

static inline void ops_free(ops_pool *pool) {
    while (pool->n > 0) free(pool->blocks[--pool->n]);
}

/* Uniform in (-1, 1), the same in every run. */
static inline float ops_random(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state * 0x1p-31f;
}

static inline void ops_strides(tsr__view *view, ops_layout layout) {
    int n = view->ndim;
    if (layout == OPS_SWAPPED && n >= 3) {
        view->stride[n - 2] = view->shape[n - 3] * view->shape[n - 1];
        view->stride[n - 3] = view->shape[n - 1];
    }
    if (layout == OPS_GAP && n >= 2) {
        view->stride[n - 2] = view->shape[n - 1] + 3;
        for (int i = n - 3; i >= 0; i--) view->stride[i] = view->stride[i + 1] * (view->shape[i + 1] + 2);
    }
}

/* Elements from the first to behind the last. */
static inline size_t ops_span(const tsr__view *view) {
    size_t span = 1;
    for (int i = 0; i < view->ndim; i++) span += (size_t)((view->shape[i] - 1) * view->stride[i]);
    return tsr__view_elements(view) ? span : 0;
}

/* A view of random numbers; of 0 or 1 where the dtype is I64. The memory ends with the last element. */
static inline tsr__view ops_view(ops_pool *pool, tsr_dtype dtype, ops_layout layout, int ndim, const int64_t *shape) {
    tsr__view view = tsr__view_dense(NULL, dtype, ndim, shape);
    ops_strides(&view, layout);
    size_t n = ops_span(&view);
    view.data = ops_memory(pool, n * tsr_dtype_bits(dtype) / 8);
    for (size_t i = 0; i < n; i++) {
        float value = ops_random() * (pool->scale != 0.0f ? pool->scale : 1.0f);
        if (dtype == TSR_I64)
            ((int64_t *)view.data)[i] = value > 0.0f;
        else
            assert_true(tsr_convert_from_f32(dtype, &value, (char *)view.data + i * tsr_dtype_bits(dtype) / 8, 1));
    }
    return view;
}

#define OPS_VIEW(pool, dtype, layout, ...)                                                                             \
    ops_view(pool, dtype, layout, (int)TSR__COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})

/* Runs the operation with scratch of exactly the size that the device asks for. */
static inline void ops_run(tsr_engine *engine, ops_pool *pool, tsr__op op) {
    op.scratch = ops_memory(pool, engine->device->ops->scratch_bytes(engine->device, &op));
    assert_ok(engine, engine->device->ops->run[op.kind](engine->device, &op));
}

#endif
