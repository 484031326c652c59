/* Each operation of the cpu device against ref, over tables of shapes, dtypes, strides and parameters. */
#include "ops.h"

#include "base/float16.h"
#include "device/cpu/cpu.h"

#include <stdio.h>

static tsr_engine *ref, *cpu;

static const tsr_dtype weight_dtypes[] = {TSR_F32, TSR_BF16, TSR_F16};
static const ops_layout layouts[] = {OPS_DENSE, OPS_GAP, OPS_SWAPPED};
static const double tolerance = 1e-5;

#define EACH(type, item, array)                                                                                        \
    for (const type *item = (array); item < (array) + TSR__COUNT(array); item++) /* NOLINT */

static bool in_place(tsr__op_kind kind) {
    switch (kind) {
    case TSR__OP_rms_norm:
    case TSR__OP_layer_norm:
    case TSR__OP_group_norm:
    case TSR__OP_batch_denorm:
    case TSR__OP_modulate:
    case TSR__OP_gated_add:
    case TSR__OP_add:
    case TSR__OP_sub:
    case TSR__OP_axpy:
    case TSR__OP_silu:
    case TSR__OP_swiglu:
    case TSR__OP_rope:
    case TSR__OP_index_copy:
        return true;
    default:
        return false;
    }
}

/* The operation with its first input as output too, on both devices, must give what it gave before. */
static void check_in_place(ops_pool *pool, tsr__op op, const float *expected, const char *what) {
    tsr_engine *const engines[] = {ref, cpu};
    size_t bytes = (size_t)tsr__view_elements(op.in[0]) * sizeof(float);
    for (size_t i = 0; i < TSR__COUNT(engines); i++) {
        tsr__view both = *op.in[0];
        both.data = memcpy(ops_memory(pool, bytes), op.in[0]->data, bytes);
        tsr__op same = op;
        same.in[0] = same.out[0] = &both;
        ops_run(engines[i], pool, same);
        assert_close(what, both.data, expected, bytes / sizeof(float), tolerance);
    }
}

/* Runs op on both devices with outputs of the shapes given by outs, compares, and does so again in place. */
static void check(ops_pool *pool, tsr__op op, tsr__view *outs, const char *what) {
    float *expected[TSR__MAX_OUTPUTS] = {0};
    for (int device = 0; device < 2; device++) {
        for (int i = 0; i < TSR__MAX_OUTPUTS && outs[i].ndim; i++) {
            outs[i].data = ops_memory(pool, (size_t)tsr__view_elements(&outs[i]) * sizeof(float));
            op.out[i] = &outs[i];
            if (device == 0) expected[i] = outs[i].data;
        }
        ops_run(device ? cpu : ref, pool, op);
    }
    for (int i = 0; i < TSR__MAX_OUTPUTS && outs[i].ndim; i++)
        assert_close(what, outs[i].data, expected[i], (size_t)tsr__view_elements(&outs[i]), tolerance);
    if (op.in[0] && in_place(op.kind) && tsr__view_is_dense(op.in[0])) check_in_place(pool, op, expected[0], what);
}

/* Weights as torch initialises them, so that sums of any length are of the size of one. */
static void scale_weights(ops_pool *pool, int64_t fan_in) { pool->scale = 1.0f / sqrtf((float)(fan_in ? fan_in : 1)); }

static tsr__view dense(int ndim, const int64_t *shape) { return tsr__view_dense(NULL, TSR_F32, ndim, shape); }

/* matmul */

typedef struct matmul_case {
    int64_t batch, rows, k, n;
} matmul_case;

static void check_matmul(const matmul_case *c, tsr_dtype dtype, ops_layout layout, bool bias) {
    char what[128];
    snprintf(what, sizeof what, "matmul [%d, %d, %d] x %d, %s, layout %d, bias %d", (int)c->batch, (int)c->rows,
             (int)c->k, (int)c->n, tsr_dtype_name(dtype), layout, bias);
    ops_pool pool = {.n = 0};
    tsr__view x = OPS_VIEW(&pool, TSR_F32, layout, c->batch, c->rows, c->k);
    scale_weights(&pool, c->k);
    tsr__view w = OPS_VIEW(&pool, dtype, layout, c->n, c->k), b = OPS_VIEW(&pool, dtype, OPS_DENSE, c->n);
    tsr__view out[TSR__MAX_OUTPUTS] = {dense(3, (int64_t[]){c->batch, c->rows, c->n})};
    tsr__op op = {.kind = TSR__OP_matmul, .in = {&x, &w, bias ? &b : NULL}};
    op.param.matmul.round_inputs = TSR_F32;
    check(&pool, op, out, what);
    ops_free(&pool);
}

static void matmul_matches(void **state) {
    (void)state;
    static const matmul_case cases[] = {
        {1, 1, 1, 1},    {1, 1, 3, 70},  {1, 2, 17, 5},  {2, 2, 33, 9}, {1, 4, 1030, 21}, {5, 1, 16, 16},
        {1, 5, 7, 1},    {2, 3, 70, 69}, {3, 7, 31, 64}, {1, 64, 1, 3}, {1, 70, 13, 67},  {2, 11, 1100, 6},
        {1, 6, 9, 1100}, {0, 7, 5, 3},   {1, 9, 5, 0},   {2, 3, 0, 4},  {1, 1, 0, 4},
    };
    EACH(matmul_case, c, cases)
    EACH(tsr_dtype, dtype, weight_dtypes)
    EACH(ops_layout, layout, layouts)
    for (int bias = 0; bias < 2; bias++) check_matmul(c, *dtype, *layout, bias);
}

static void matmul_matches_at_odd_sizes(void **state) {
    (void)state;
    for (int i = 0; i < 150; i++) {
        int64_t size[4];
        for (int d = 0; d < 4; d++) size[d] = 1 + (int64_t)(fabsf(ops_random()) * (d == 0 ? 2.99f : 69.99f));
        check_matmul(&(matmul_case){size[0], size[1], size[2], size[3]}, weight_dtypes[i % 3], layouts[i / 3 % 3],
                     i % 2);
    }
}

/* A view expanded over its rows (stride 0). */
static void matmul_of_expanded_rows_matches(void **state) {
    (void)state;
    ops_pool pool = {.n = 0};
    tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 20), w = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 8, 20);
    x.shape[0] = 9;
    x.stride[0] = 0;
    tsr__view out[TSR__MAX_OUTPUTS] = {dense(2, (int64_t[]){9, 8})};
    check(&pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w}}, out, "expanded rows");
    ops_free(&pool);
}

static double worst_error(const float *a, const float *b, int64_t n) {
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)(a[i] - b[i])) / (1.0 + fabs((double)b[i])));
    return worst;
}

static tsr__view rounded_to_bf16(ops_pool *pool, const tsr__view *x) {
    tsr__view rounded = *x;
    size_t n = ops_span(x);
    const float *from = x->data;
    float *to = rounded.data = ops_memory(pool, n * sizeof(float));
    for (size_t i = 0; i < n; i++) to[i] = tsr__bf16_to_f32(tsr__f32_to_bf16(from[i]));
    return rounded;
}

static const float *result_of(tsr_engine *engine, ops_pool *pool, tsr__op op, tsr__view out) {
    out.data = ops_memory(pool, (size_t)tsr__view_elements(&out) * sizeof(float));
    op.out[0] = &out;
    ops_run(engine, pool, op);
    return out.data;
}

/* An operation whose inputs may be rounded to bf16, by the native primitive even where float32 is faster: what ref
 * makes of rounded inputs, and not far from the result without rounding. */
static void check_rounded(ops_pool *pool, tsr__op op, tsr__view out, const char *what) {
    tsr__cpu *device = tsr__cpu_of(cpu->device);
    int64_t n = tsr__view_elements(&out);
    tsr__view rounded = rounded_to_bf16(pool, op.in[0]);
    tsr__op of_rounded = op;
    of_rounded.in[0] = &rounded;
    op.param.matmul.round_inputs = TSR_BF16;
    bool chosen = device->bf16_matmul;
    const float *exact = result_of(ref, pool, op, out), *expected = result_of(ref, pool, of_rounded, out);
    device->bf16_matmul = false;
    assert_close(what, result_of(cpu, pool, op, out), exact, (size_t)n, tolerance);
    device->bf16_matmul = device->bf16_available;
    const float *native = result_of(cpu, pool, op, out);
    double worst = worst_error(native, exact, n);
    if (device->bf16_available) {
        print_message("%s by native bf16: rounding changes it by %.2g\n", what, worst);
        assert_close(what, native, expected, (size_t)n, tolerance);
    }
    assert_true(worst <= 2e-2);
    device->bf16_matmul = chosen;
}

static void rounded_inputs_stay_close(void **state) {
    (void)state;
    ops_pool pool = {.n = 0};
    EACH(ops_layout, layout, layouts) {
        tsr__view x = OPS_VIEW(&pool, TSR_F32, *layout, 2, 19, 61), w = OPS_VIEW(&pool, TSR_BF16, *layout, 45, 61);
        tsr__view b = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 45), out = dense(3, (int64_t[]){2, 19, 45});
        check_rounded(&pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w, &b}}, out, "matmul");
        check_rounded(&pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&x, &w}}, out, "matmul without bias");
        tsr__view image = OPS_VIEW(&pool, TSR_F32, *layout, 2, 9, 7, 8), kernel, bias;
        kernel = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 17, 8, 3, 3);
        bias = OPS_VIEW(&pool, TSR_BF16, OPS_DENSE, 17);
        out = dense(4, (int64_t[]){2, 9, 7, 17});
        check_rounded(&pool, (tsr__op){.kind = TSR__OP_conv2d, .in = {&image, &kernel, &bias}}, out, "conv2d");
    }
    ops_free(&pool);
}

static void conv2d_matches(void **state) {
    (void)state;
    static const int64_t cases[][5] = {/* H, W, I, O, k */
                                       {1, 1, 1, 1, 1},  {1, 1, 3, 2, 3},   {5, 4, 3, 7, 3},   {8, 8, 16, 32, 3},
                                       {7, 9, 32, 3, 3}, {6, 5, 17, 33, 1}, {9, 3, 64, 16, 1}, {11, 13, 70, 5, 3},
                                       {2, 17, 8, 8, 3}, {4, 4, 48, 64, 3}, {0, 4, 3, 5, 3}};
    EACH(tsr_dtype, dtype, weight_dtypes)
    EACH(ops_layout, layout, layouts)
    for (size_t i = 0; i < 2 * TSR__COUNT(cases); i++) {
        const int64_t *c = cases[i / 2], batch = 1 + (int64_t)(i % 3);
        char what[128];
        snprintf(what, sizeof what, "conv2d case %zu, %s, layout %d", i, tsr_dtype_name(*dtype), *layout);
        ops_pool pool = {.n = 0};
        tsr__view x = OPS_VIEW(&pool, TSR_F32, *layout, batch, c[0], c[1], c[2]);
        scale_weights(&pool, c[2] * c[4] * c[4]);
        tsr__view w = OPS_VIEW(&pool, *dtype, OPS_DENSE, c[3], c[2], c[4], c[4]);
        tsr__view b = OPS_VIEW(&pool, *dtype, OPS_DENSE, c[3]);
        tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, (int64_t[]){batch, c[0], c[1], c[3]})};
        tsr__op op = {.kind = TSR__OP_conv2d, .in = {&x, &w, i % 2 ? &b : NULL}};
        op.param.matmul.round_inputs = TSR_F32;
        check(&pool, op, out, what);
        ops_free(&pool);
    }
}

/* attention */

typedef enum mask_kind { NO_MASK, RANDOM_MASK, LEFT_PADDED, ALL_HIDDEN } mask_kind;

typedef struct attention_case {
    int64_t batch, queries, keys, heads, groups, channels;
    mask_kind mask;
    bool causal;
} attention_case;

static tsr__view mask_of(ops_pool *pool, const attention_case *c, ops_layout layout) {
    tsr__view mask = OPS_VIEW(pool, TSR_I64, layout, c->batch, c->keys);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t j = 0; j < c->keys; j++) {
            int64_t *shown = (int64_t *)mask.data + b * mask.stride[0] + j;
            if (c->mask == LEFT_PADDED) *shown = j >= c->keys / 2 - b;
            if (c->mask == ALL_HIDDEN) *shown = b > 0;
        }
    return mask;
}

static void check_attention(const attention_case *c, ops_layout layout, const char *what) {
    ops_pool pool = {.n = 0};
    tsr__view q = OPS_VIEW(&pool, TSR_F32, layout, c->batch, c->queries, c->heads, c->channels);
    tsr__view k = OPS_VIEW(&pool, TSR_F32, layout, c->batch, c->keys, c->groups, c->channels);
    tsr__view v = OPS_VIEW(&pool, TSR_F32, layout, c->batch, c->keys, c->groups, c->channels);
    tsr__view mask = mask_of(&pool, c, layout);
    tsr__op op = {.kind = TSR__OP_attention, .in = {&q, &k, &v, c->mask == NO_MASK ? NULL : &mask}};
    op.param.attention.scale = 3.0f / sqrtf((float)c->channels);
    op.param.attention.causal = c->causal;
    tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, q.shape), dense(4, (int64_t[]){c->batch, c->queries, c->heads, 2})};
    check(&pool, op, out, what);
    out[1].ndim = 0; /* without maximum and sum */
    check(&pool, op, out, what);
    ops_free(&pool);
}

static void attention_matches(void **state) {
    (void)state;
    static const attention_case cases[] = {
        {1, 1, 1, 1, 1, 1, NO_MASK, false},         {1, 1, 70, 3, 3, 5, NO_MASK, false},
        {2, 7, 9, 4, 2, 16, NO_MASK, false},        {1, 67, 67, 2, 1, 33, NO_MASK, true},
        {2, 13, 13, 6, 3, 8, LEFT_PADDED, true},    {2, 13, 13, 3, 3, 8, RANDOM_MASK, false},
        {2, 11, 17, 2, 2, 4, ALL_HIDDEN, false},    {2, 17, 11, 2, 1, 4, ALL_HIDDEN, true},
        {1, 300, 520, 2, 1, 8, NO_MASK, false},     {1, 520, 300, 1, 1, 8, NO_MASK, true},
        {2, 270, 600, 2, 2, 4, LEFT_PADDED, false}, {1, 600, 600, 1, 1, 3, RANDOM_MASK, true},
        {1, 257, 256, 1, 1, 64, NO_MASK, false},    {1, 5, 0, 2, 2, 4, NO_MASK, false},
        {1, 0, 5, 2, 2, 4, NO_MASK, false},         {1, 5, 5, 8, 1, 128, LEFT_PADDED, true},
    };
    EACH(ops_layout, layout, layouts)
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        char what[64];
        snprintf(what, sizeof what, "attention case %zu, layout %d", i, *layout);
        check_attention(&cases[i], *layout, what);
    }
}

/* Scores of hundreds must neither overflow nor lose the sum. */
static void attention_of_large_scores_matches(void **state) {
    (void)state;
    ops_pool pool = {.n = 0};
    tsr__view q = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 9, 2, 16),
              k = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 700, 2, 16);
    tsr__view v = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 700, 2, 16);
    for (int i = 0; i < 9 * 32; i++) ((float *)q.data)[i] *= 16.0f;
    tsr__op op = {.kind = TSR__OP_attention, .in = {&q, &k, &v}};
    op.param.attention.scale = 8.0f;
    tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, q.shape), dense(4, (int64_t[]){1, 9, 2, 2})};
    for (int i = 0; i < 700 * 32; i++) ((float *)k.data)[i] = (float)(int)(((float *)k.data)[i] * 64.0f) / 64.0f;
    for (int i = 0; i < 9 * 32; i++) ((float *)q.data)[i] = (float)(int)((float *)q.data)[i];
    check(&pool, op, out, "large scores"); /* of short binary fractions, so that both devices have the same */
    ops_free(&pool);
}

/* What attentions over different keys gave; every seventh row has seen no key, in one of them or in both. */
static void attention_merge_matches(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 7, 3, 5}, {1, 300, 2, 64}, {1, 0, 2, 8}};
    for (size_t i = 0; i < TSR__COUNT(shapes); i++) {
        ops_pool pool = {.n = 0};
        tsr__view in[4];
        int64_t rows = shapes[i][0] * shapes[i][1] * shapes[i][2];
        for (int k = 0; k < 4; k++)
            in[k] =
                OPS_VIEW(&pool, TSR_F32, OPS_DENSE, shapes[i][0], shapes[i][1], shapes[i][2], k % 2 ? 2 : shapes[i][3]);
        for (int64_t r = 0; r < rows; r++)
            for (int k = 1; k < 4; k += 2) {
                float *stats = (float *)in[k].data + 2 * r;
                bool empty = r % 7 == k || r % 7 == 5;
                stats[0] = empty ? -INFINITY : 40.0f * stats[0];
                stats[1] = empty ? 0.0f : 1.0f + fabsf(stats[1]);
            }
        tsr__op op = {.kind = TSR__OP_attention_merge, .in = {&in[0], &in[1], &in[2], &in[3]}};
        tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, in[0].shape), dense(4, in[1].shape)};
        check(&pool, op, out, "attention_merge");
        ops_free(&pool);
    }
}

/* norms and elementwise */

static const int64_t row_shapes[][3] = {{1, 1, 1},  {1, 1, 70},   {2, 3, 5},    {3, 7, 33}, {1, 9, 64},
                                        {2, 5, 67}, {1, 3, 1029}, {2, 70, 300}, {0, 3, 4},  {1, 40, 512}};

typedef struct row_case {
    tsr__op_kind kind;
    int inputs;
    const char *shapes; /* of each input: s the shape of the first, b [B, D], d a weight vector [D], t a table [2, D],
                           of which an index i [S] names rows */
    int optional;       /* inputs from this one on may be absent */
} row_case;

static const row_case row_cases[] = {
    {TSR__OP_rms_norm, 2, "sd", 1},  {TSR__OP_layer_norm, 3, "sdd", 1}, {TSR__OP_batch_denorm, 3, "sdd", 3},
    {TSR__OP_modulate, 3, "sbb", 3}, {TSR__OP_gated_add, 3, "sbs", 3},  {TSR__OP_add, 2, "ss", 2},
    {TSR__OP_sub, 2, "ss", 2},       {TSR__OP_axpy, 2, "ss", 2},        {TSR__OP_silu, 1, "s", 1},
    {TSR__OP_swiglu, 2, "ss", 2},    {TSR__OP_modulate, 4, "stti", 4},  {TSR__OP_gated_add, 4, "stsi", 4},
};

static tsr__view row_operand(ops_pool *pool, char shape, const int64_t *s, tsr_dtype dtype, ops_layout layout) {
    if (shape == 'd') return OPS_VIEW(pool, dtype, OPS_DENSE, s[2]);
    if (shape == 'b') return OPS_VIEW(pool, TSR_F32, layout, s[0], s[2]);
    if (shape == 't') return OPS_VIEW(pool, TSR_F32, layout, 2, s[2]);
    if (shape == 'i') return OPS_VIEW(pool, TSR_I64, OPS_DENSE, s[1]);
    return OPS_VIEW(pool, TSR_F32, layout, s[0], s[1], s[2]);
}

static void check_rows(const row_case *c, const int64_t *shape, tsr_dtype dtype, ops_layout layout) {
    char what[128];
    snprintf(what, sizeof what, "%s [%d, %d, %d], %s, layout %d", tsr__op_name(c->kind), (int)shape[0], (int)shape[1],
             (int)shape[2], tsr_dtype_name(dtype), layout);
    ops_pool pool = {.n = 0};
    tsr__view in[TSR__MAX_INPUTS] = {{0}}, out[TSR__MAX_OUTPUTS] = {dense(3, shape)};
    for (int i = 0; i < c->inputs; i++) in[i] = row_operand(&pool, c->shapes[i], shape, dtype, layout);
    for (int64_t d = 0; c->kind == TSR__OP_batch_denorm && d < shape[2]; d++) { /* a variance is positive */
        float variance = 0.5f + fabsf(ops_random());
        assert_true(tsr_convert_from_f32(dtype, &variance, (char *)in[2].data + d * tsr_dtype_bits(dtype) / 8, 1));
    }
    for (int given = c->optional; given <= c->inputs; given++) {
        tsr__op op = {.kind = c->kind};
        for (int i = 0; i < given; i++) op.in[i] = &in[i];
        if (c->kind == TSR__OP_axpy)
            op.param.scalar = -0.75f;
        else
            op.param.norm.eps = 1e-6f;
        check(&pool, op, out, what);
    }
    ops_free(&pool);
}

static void rows_match(void **state) {
    (void)state;
    EACH(row_case, c, row_cases)
    for (size_t s = 0; s < TSR__COUNT(row_shapes); s++) EACH(tsr_dtype, dtype, weight_dtypes)
    EACH(ops_layout, layout, layouts)
    check_rows(c, row_shapes[s], *dtype, *layout);
}

/* A mean far above the deviation must not cancel. */
static void norms_survive_a_large_mean(void **state) {
    (void)state;
    ops_pool pool = {.n = 0};
    tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 8, 8, 64), w = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 64);
    for (int i = 0; i < 8 * 8 * 64; i++) ((float *)x.data)[i] = 1000.0f + (float)(int)(((float *)x.data)[i] * 64.0f);
    tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, x.shape)};
    tsr__op op = {.kind = TSR__OP_layer_norm, .in = {&x, &w, &w}};
    op.param.norm.eps = 1e-6f;
    op.param.norm.groups = 8;
    check(&pool, op, out, "layer_norm");
    op.kind = TSR__OP_group_norm;
    check(&pool, op, out, "group_norm");
    ops_free(&pool);
}

static void group_norm_matches(void **state) {
    (void)state;
    static const int64_t cases[][5] = {/* B, H, W, C, groups */
                                       {1, 1, 1, 4, 2},    {2, 5, 3, 6, 3}, {1, 9, 7, 64, 32}, {3, 4, 4, 8, 8},
                                       {1, 40, 30, 16, 4}, {2, 3, 3, 5, 1}, {1, 0, 3, 4, 2}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) EACH(tsr_dtype, dtype, weight_dtypes)
    EACH(ops_layout, layout, layouts) {
        char what[64];
        snprintf(what, sizeof what, "group_norm case %zu, %s, layout %d", i, tsr_dtype_name(*dtype), *layout);
        ops_pool pool = {.n = 0};
        tsr__view x = ops_view(&pool, TSR_F32, *layout, 4, cases[i]);
        tsr__view w = OPS_VIEW(&pool, *dtype, OPS_DENSE, cases[i][3]),
                  b = OPS_VIEW(&pool, *dtype, OPS_DENSE, cases[i][3]);
        tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, cases[i])};
        tsr__op op = {.kind = TSR__OP_group_norm, .in = {&x, &w, &b}};
        op.param.norm.eps = 1e-6f;
        op.param.norm.groups = (int)cases[i][4];
        check(&pool, op, out, what);
        ops_free(&pool);
    }
}

static void rope_matches(void **state) {
    (void)state;
    static const int64_t cases[][5] = {/* B, S, H, D, R */
                                       {1, 1, 1, 2, 2},    {2, 5, 3, 8, 8}, {1, 33, 2, 34, 34}, {2, 9, 4, 128, 96},
                                       {1, 70, 5, 64, 64}, {1, 0, 2, 4, 4}, {2, 5, 3, 24, 18},  {1, 90, 4, 70, 2}};
    for (size_t i = 0; i < 2 * TSR__COUNT(cases); i++) EACH(ops_layout, layout, layouts) {
            const int64_t *c = cases[i / 2];
            char what[64];
            snprintf(what, sizeof what, "rope case %zu, layout %d", i, *layout);
            ops_pool pool = {.n = 0};
            tsr__view x = ops_view(&pool, TSR_F32, *layout, 4, c), out[TSR__MAX_OUTPUTS] = {dense(4, c)};
            tsr__view cosines = OPS_VIEW(&pool, TSR_F32, *layout, c[1], c[4]);
            tsr__view sines = OPS_VIEW(&pool, TSR_F32, *layout, c[1], c[4]);
            tsr__op op = {.kind = TSR__OP_rope, .in = {&x, &cosines, &sines}};
            op.param.rope = i % 2 ? TSR__ROPE_HALF : TSR__ROPE_INTERLEAVED;
            check(&pool, op, out, what);
            ops_free(&pool);
        }
}

/* Rows 0 .. length - 1 in no order, some more than once. */
static tsr__view random_index(ops_pool *pool, int64_t n, int64_t length) {
    tsr__view index = OPS_VIEW(pool, TSR_I64, OPS_DENSE, n);
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)index.data)[i] = (int64_t)(fabsf(ops_random()) * (float)length) % length;
    return index;
}

static void index_operations_match(void **state) {
    (void)state;
    static const int64_t cases[][4] = {/* B, S, n, D */
                                       {1, 1, 1, 1},  {2, 7, 4, 5},     {1, 9, 30, 33}, {3, 5, 0, 8},
                                       {2, 3, 3, 70}, {1, 60, 41, 700}, {0, 4, 3, 6},   {2, 11, 7, 0}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) EACH(ops_layout, layout, layouts) {
            const int64_t *c = cases[i];
            char what[64];
            snprintf(what, sizeof what, "index case %zu, layout %d", i, *layout);
            ops_pool pool = {.n = 0};
            tsr__view x = OPS_VIEW(&pool, TSR_F32, *layout, c[0], c[1], c[3]);
            tsr__view rows = OPS_VIEW(&pool, TSR_F32, *layout, c[0], c[2], c[3]);
            tsr__view index = random_index(&pool, c[2], c[1]);
            tsr__view selected[TSR__MAX_OUTPUTS] = {dense(3, rows.shape)},
                      copied[TSR__MAX_OUTPUTS] = {dense(3, x.shape)};
            check(&pool, (tsr__op){.kind = TSR__OP_index_select, .in = {&x, &index}}, selected, what);
            check(&pool, (tsr__op){.kind = TSR__OP_index_copy, .in = {&x, &index, &rows}}, copied, what);
            ops_free(&pool);
        }
}

static void upsample_matches(void **state) {
    (void)state;
    static const int64_t cases[][4] = {{1, 1, 1, 1}, {2, 3, 5, 7}, {1, 8, 8, 64}, {1, 0, 2, 3}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) EACH(ops_layout, layout, layouts) {
            ops_pool pool = {.n = 0};
            const int64_t *c = cases[i];
            tsr__view x = ops_view(&pool, TSR_F32, *layout, 4, c);
            tsr__view out[TSR__MAX_OUTPUTS] = {dense(4, (int64_t[]){c[0], 2 * c[1], 2 * c[2], c[3]})};
            check(&pool, (tsr__op){.kind = TSR__OP_upsample_nearest2x, .in = {&x}}, out, "upsample");
            ops_free(&pool);
        }
}

/* copies move bytes: exact, in any dtype */

static void check_bytes(ops_pool *pool, tsr__op op, tsr__view out, const char *what) {
    size_t bytes = (size_t)tsr__view_elements(&out) * tsr_dtype_bits(out.dtype) / 8;
    void *result[2] = {NULL, NULL};
    for (int device = 0; device < 2; device++) {
        result[device] = out.data = ops_memory(pool, bytes);
        op.out[0] = &out;
        ops_run(device ? cpu : ref, pool, op);
    }
    if (memcmp(result[0], result[1], bytes) != 0) fail_msg("%s differs", what);
}

/* A view of random bytes with dimension i of the copy at place order[i] of the memory. */
static tsr__view permuted(ops_pool *pool, tsr_dtype dtype, int ndim, const int64_t *shape, const char *order) {
    int64_t in_memory[TSR_MAX_DIMS] = {0};
    for (int i = 0; i < ndim; i++) in_memory[order[i] - '0'] = shape[i];
    tsr__view memory = tsr__view_dense(NULL, dtype, ndim, in_memory), view = memory;
    size_t bytes = (size_t)tsr__view_elements(&memory) * tsr_dtype_bits(dtype) / 8;
    unsigned char *data = view.data = ops_memory(pool, bytes);
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(int)(ops_random() * 127.0f);
    for (int i = 0; i < ndim; i++) {
        view.shape[i] = shape[i];
        view.stride[i] = memory.stride[order[i] - '0'];
    }
    return view;
}

static void copy_matches(void **state) {
    (void)state;
    static const struct {
        int ndim;
        int64_t shape[6];
        const char *order;
    } cases[] = {
        {1, {1}, "0"},
        {1, {8192}, "0"},
        {1, {7001}, "0"},
        {2, {33, 70}, "10"},
        {2, {1, 50}, "10"},
        {3, {3, 40, 35}, "021"},
        {3, {5, 6, 7}, "210"},
        {4, {2, 9, 5, 16}, "0213"},
        {4, {1, 33, 34, 8}, "0231"},
        {4, {2, 3, 4, 5}, "3210"},
        {6, {1, 4, 2, 5, 2, 3}, "024135"},
        {6, {2, 3, 1, 4, 2, 5}, "531420"},
        {2, {0, 5}, "01"},
        {4, {1, 8, 64, 64}, "0312"},
    };
    static const tsr_dtype dtypes[] = {TSR_F32, TSR_BF16, TSR_I64, TSR_U8};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) EACH(tsr_dtype, dtype, dtypes) {
            char what[64];
            snprintf(what, sizeof what, "copy case %zu, %s", i, tsr_dtype_name(*dtype));
            ops_pool pool = {.n = 0};
            tsr__view in = permuted(&pool, *dtype, cases[i].ndim, cases[i].shape, cases[i].order);
            tsr__view out = tsr__view_dense(NULL, *dtype, cases[i].ndim, cases[i].shape);
            check_bytes(&pool, (tsr__op){.kind = TSR__OP_copy, .in = {&in}}, out, what);
            in.stride[0] = 0; /* expanded */
            check_bytes(&pool, (tsr__op){.kind = TSR__OP_copy, .in = {&in}}, out, what);
            ops_free(&pool);
        }
}

/* Every second element, which no dimension reads densely. */
static void copy_of_a_sparse_view_matches(void **state) {
    (void)state;
    ops_pool pool = {.n = 0};
    tsr__view in = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 6, 20);
    in.shape[1] = 10;
    in.stride[1] = 2;
    check_bytes(&pool, (tsr__op){.kind = TSR__OP_copy, .in = {&in}}, tsr__view_dense(NULL, TSR_F32, 2, in.shape),
                "sparse");
    ops_free(&pool);
}

static void concat_matches(void **state) {
    (void)state;
    static const struct {
        int ndim, axis;
        int64_t first[4], second;
    } cases[] = {{1, 0, {3}, 5},       {2, 0, {3, 7}, 2},         {2, 1, {3, 7}, 4},        {3, 1, {2, 5, 33}, 9},
                 {3, 2, {2, 5, 3}, 8}, {4, 1, {1, 9, 4, 16}, 70}, {4, 3, {1, 9, 4, 16}, 1}, {3, 1, {2, 0, 4}, 3}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) EACH(ops_layout, layout, layouts) {
            char what[64];
            snprintf(what, sizeof what, "concat case %zu, layout %d", i, *layout);
            ops_pool pool = {.n = 0};
            int64_t shape[4];
            memcpy(shape, cases[i].first, sizeof shape);
            tsr__view first = ops_view(&pool, TSR_F32, *layout, cases[i].ndim, shape);
            shape[cases[i].axis] = cases[i].second;
            tsr__view second = ops_view(&pool, TSR_F32, *layout, cases[i].ndim, shape);
            shape[cases[i].axis] += cases[i].first[cases[i].axis];
            tsr__op op = {.kind = TSR__OP_concat, .in = {&first, &second}};
            op.param.axis = cases[i].axis;
            check_bytes(&pool, op, tsr__view_dense(NULL, TSR_F32, cases[i].ndim, shape), what);
            ops_free(&pool);
        }
}

static int make_engines(void **state) {
    (void)state;
    ref = test_engine("ref");
    cpu = test_engine("cpu");
    return 0;
}

static int end_engines(void **state) {
    (void)state;
    tsr_engine_destroy(cpu);
    tsr_engine_destroy(ref);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_matches),
        cmocka_unit_test(matmul_matches_at_odd_sizes),
        cmocka_unit_test(matmul_of_expanded_rows_matches),
        cmocka_unit_test(rounded_inputs_stay_close),
        cmocka_unit_test(conv2d_matches),
        cmocka_unit_test(attention_matches),
        cmocka_unit_test(attention_of_large_scores_matches),
        cmocka_unit_test(attention_merge_matches),
        cmocka_unit_test(rows_match),
        cmocka_unit_test(norms_survive_a_large_mean),
        cmocka_unit_test(group_norm_matches),
        cmocka_unit_test(rope_matches),
        cmocka_unit_test(index_operations_match),
        cmocka_unit_test(upsample_matches),
        cmocka_unit_test(copy_matches),
        cmocka_unit_test(copy_of_a_sparse_view_matches),
        cmocka_unit_test(concat_matches),
    };
    return cmocka_run_group_tests(tests, make_engines, end_engines);
}
