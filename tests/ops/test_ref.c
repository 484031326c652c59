/* The oracle itself, against values worked out by hand; cpu must give them too. */
#include "ops.h"

#include <stdio.h>

enum { MAX_DATA = 36 };

typedef struct operand {
    int ndim;
    int64_t shape[4];
    float data[MAX_DATA];
} operand;

typedef struct hand_case {
    const char *what;
    tsr__op op; /* kind and parameters */
    operand in[TSR__MAX_INPUTS], out[TSR__MAX_OUTPUTS];
} hand_case;

/* clang-format off */
static const hand_case cases[] = {
    {"x W^T + b", {.kind = TSR__OP_matmul},
     {{2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {2, {2, 3}, {1, 0, -1, 2, 1, 0.5f}}, {1, {2}, {10, 20}}},
     {{2, {2, 2}, {8, 25.5f, 8, 36}}}},
    {"a window of ones counts the pixels inside", {.kind = TSR__OP_conv2d},
     {{4, {1, 3, 3, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}, {4, {1, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}, {1, {1}, {0.5f}}},
     {{4, {1, 3, 3, 1}, {4.5f, 6.5f, 4.5f, 6.5f, 9.5f, 6.5f, 4.5f, 6.5f, 4.5f}}}},
    {"the tap above the centre moves the image down, channels are exchanged", {.kind = TSR__OP_conv2d},
     {{4, {1, 2, 1, 2}, {1, 2, 3, 4}},
      {4, {2, 2, 3, 3}, {[10] = 1, [19] = 1}}}, /* o 0 reads i 1, o 1 reads i 0, at ky 0, kx 1 */
     {{4, {1, 2, 1, 2}, {0, 0, 2, 1}}}},
    {"scores 0 and ln 3 weigh 1 : 3", {.kind = TSR__OP_attention, .param.attention = {1.0986123f, false}},
     {{4, {1, 1, 1, 2}, {1, 0}}, {4, {1, 2, 1, 2}, {0, 5, 1, 5}}, {4, {1, 2, 1, 2}, {4, 8, 8, 0}}},
     {{4, {1, 1, 1, 2}, {7, 2}}, {4, {1, 1, 1, 2}, {1.0986123f, 1.3333333f}}}},
    {"causal, with the first key hidden: nothing, then the second alone",
     {.kind = TSR__OP_attention, .param.attention = {1.0f, true}},
     {{4, {1, 2, 1, 1}, {1, 1}}, {4, {1, 2, 1, 1}, {1, 2}}, {4, {1, 2, 1, 1}, {5, 6}}, {2, {1, 2}, {0, 1}}},
     {{4, {1, 2, 1, 1}, {0, 6}}, {4, {1, 2, 1, 2}, {-INFINITY, 0, 2, 1}}}},
    {"four query heads read two key heads", {.kind = TSR__OP_attention, .param.attention = {1.0f, false}},
     {{4, {1, 1, 4, 1}, {1, 2, 3, 4}}, {4, {1, 1, 2, 1}, {10, 20}}, {4, {1, 1, 2, 1}, {7, 9}}},
     {{4, {1, 1, 4, 1}, {7, 7, 9, 9}}, {4, {1, 1, 4, 2}, {10, 1, 20, 1, 60, 1, 80, 1}}}},
    {"partial outputs weigh by their sums at the greater maximum; an empty one does not count", {.kind = TSR__OP_attention_merge},
     {{4, {1, 3, 1, 1}, {10, 5, 0}}, {4, {1, 3, 1, 2}, {0, 3, 1, 2, -INFINITY, 0}},
      {4, {1, 3, 1, 1}, {20, 0, 0}}, {4, {1, 3, 1, 2}, {0, 1, -INFINITY, 0, -INFINITY, 0}}},
     {{4, {1, 3, 1, 1}, {12.5f, 5, 0}}, {4, {1, 3, 1, 2}, {0, 4, 1, 2, -INFINITY, 0}}}},
    {"rms of (3, 4) is sqrt(12.5)", {.kind = TSR__OP_rms_norm, .param.norm = {0.0f, 0}},
     {{2, {1, 2}, {3, 4}}, {1, {2}, {1, 2}}}, {{2, {1, 2}, {0.84852814f, 2.2627417f}}}},
    {"eps is under the root", {.kind = TSR__OP_rms_norm, .param.norm = {12.0f, 0}},
     {{2, {1, 2}, {2, 2}}}, {{2, {1, 2}, {0.5f, 0.5f}}}},
    {"layer norm: (1, 3) is one deviation off its mean", {.kind = TSR__OP_layer_norm, .param.norm = {0.0f, 0}},
     {{2, {1, 2}, {1, 3}}, {1, {2}, {2, 3}}, {1, {2}, {10, 20}}}, {{2, {1, 2}, {8, 23}}}},
    {"group norm: statistics over pixels and two channels", {.kind = TSR__OP_group_norm, .param.norm = {0.0f, 2}},
     {{4, {1, 1, 2, 4}, {0, 2, 5, 5, 2, 0, 7, 7}}, {1, {4}, {1, 2, 1, 1}}, {1, {4}, {0, 0, 0, 10}}},
     {{4, {1, 1, 2, 4}, {-1, 2, -1, 9, 1, -2, 1, 11}}}},
    {"x sqrt(variance + eps) + mean", {.kind = TSR__OP_batch_denorm, .param.norm = {1.0f, 0}},
     {{2, {2, 2}, {1, 2, 3, 4}}, {1, {2}, {10, 20}}, {1, {2}, {3, 8}}}, {{2, {2, 2}, {12, 26, 16, 32}}}},
    {"x (1 + scale) + shift, a pair for each image", {.kind = TSR__OP_modulate},
     {{3, {2, 2, 1}, {1, 2, 3, 4}}, {2, {2, 1}, {1, 2}}, {2, {2, 1}, {10, 20}}}, {{3, {2, 2, 1}, {12, 14, 29, 32}}}},
    {"x + gate y", {.kind = TSR__OP_gated_add},
     {{3, {2, 2, 1}, {1, 2, 3, 4}}, {2, {2, 1}, {1, 2}}, {3, {2, 2, 1}, {10, 20, 30, 40}}},
     {{3, {2, 2, 1}, {11, 22, 63, 84}}}},
    {"a table of modulations, of which each row of the sequence names its own", {.kind = TSR__OP_modulate},
     {{3, {1, 3, 1}, {1, 2, 3}}, {2, {2, 1}, {1, 2}}, {2, {2, 1}, {10, 20}}, {1, {3}, {1, 0, 1}}}, {{3, {1, 3, 1}, {23, 14, 29}}}},
    {"the same for gates, in every sequence of the batch", {.kind = TSR__OP_gated_add},
     {{3, {2, 2, 1}, {1, 2, 3, 4}}, {2, {3, 1}, {7, 1, 2}}, {3, {2, 2, 1}, {10, 20, 30, 40}}, {1, {2}, {2, 1}}},
     {{3, {2, 2, 1}, {21, 22, 63, 44}}}},
    {"a + b", {.kind = TSR__OP_add}, {{1, {2}, {1, 2}}, {1, {2}, {10, 20}}}, {{1, {2}, {11, 22}}}},
    {"a - b", {.kind = TSR__OP_sub}, {{1, {2}, {1, 2}}, {1, {2}, {10, 20}}}, {{1, {2}, {-9, -18}}}},
    {"a + s b", {.kind = TSR__OP_axpy, .param.scalar = 0.5f}, {{1, {2}, {1, 2}}, {1, {2}, {10, 20}}}, {{1, {2}, {6, 12}}}},
    {"x sigmoid(x)", {.kind = TSR__OP_silu},
     {{1, {4}, {0, 1, -1, 100}}}, {{1, {4}, {0, 0.73105858f, -0.26894142f, 100}}}},
    {"the gate is the first", {.kind = TSR__OP_swiglu},
     {{1, {2}, {1, -1}}, {1, {2}, {2, 10}}}, {{1, {2}, {1.4621172f, -2.6894142f}}}},
    {"row 2, column 1 of three columns is element 7", {.kind = TSR__OP_flat_index, .param.size = 3},
     {{1, {3}, {2, 0, 1}}, {1, {3}, {1, 2, 0}}}, {{1, {3}, {7, 2, 3}}}},
    {"nothing", {.kind = TSR__OP_zeros}, {{0}}, {{2, {2, 2}, {0, 0, 0, 0}}}},
    {"rows of every sequence, in the order of the index", {.kind = TSR__OP_index_select},
     {{3, {2, 3, 1}, {1, 2, 3, 4, 5, 6}}, {1, {4}, {2, 0, 2, 1}}}, {{3, {2, 4, 1}, {3, 1, 3, 2, 6, 4, 6, 5}}}},
    {"rows put in their places, the last of two that have the same", {.kind = TSR__OP_index_copy},
     {{3, {2, 3, 1}, {1, 2, 3, 4, 5, 6}}, {1, {3}, {2, 0, 2}}, {3, {2, 3, 1}, {10, 20, 30, 40, 50, 60}}},
     {{3, {2, 3, 1}, {20, 2, 30, 50, 5, 60}}}},
    {"rows by id", {.kind = TSR__OP_embedding},
     {{2, {1, 3}, {2, 0, 2}}, {2, {3, 2}, {1, 2, 3, 4, 5, 6}}}, {{3, {1, 3, 2}, {5, 6, 1, 2, 5, 6}}}},
    {"cosines, then sines, of t and t / 100", {.kind = TSR__OP_sinusoid, .param.scalar = 1000.0f},
     {{1, {2}, {0.0015707964f, 0}}}, /* 1000 t = pi/2 */
     {{2, {2, 4}, {0, 0.99987663f, 1, 0.015707317f, 1, 1, 0, 0}}}},
    {"angles of two axes, twice in a row", {.kind = TSR__OP_rope_table,
      .param.rope_table = {.axes = 2, .dims = {2, 4}, .theta = 100.0, .f64 = true, .style = TSR__ROPE_INTERLEAVED}},
     {{2, {2, 2}, {0, 0, 1, -2}}},
     {{2, {2, 6}, {1, 1, 1, 1, 1, 1, 0.54030231f, 0.54030231f, -0.41614684f, -0.41614684f, 0.98006658f, 0.98006658f}},
      {2, {2, 6}, {0, 0, 0, 0, 0, 0, 0.84147098f, 0.84147098f, -0.90929743f, -0.90929743f, -0.19866933f, -0.19866933f}}}},
    {"all angles, then all again, in float32", {.kind = TSR__OP_rope_table,
      .param.rope_table = {.axes = 2, .dims = {2, 4}, .theta = 100.0, .f64 = false, .style = TSR__ROPE_HALF}},
     {{2, {1, 2}, {1, 2}}},
     {{2, {1, 6}, {0.54030231f, -0.41614684f, 0.98006658f, 0.54030231f, -0.41614684f, 0.98006658f}},
      {2, {1, 6}, {0.84147098f, 0.90929743f, 0.19866933f, 0.84147098f, 0.90929743f, 0.19866933f}}}},
    {"a quarter turn of neighbours", {.kind = TSR__OP_rope, .param.rope = TSR__ROPE_INTERLEAVED},
     {{4, {1, 1, 1, 4}, {1, 2, 3, 4}}, {2, {1, 4}, {0, 0, 1, 1}}, {2, {1, 4}, {1, 1, 0, 0}}},
     {{4, {1, 1, 1, 4}, {-2, 1, 3, 4}}}},
    {"a quarter turn across the halves, at the second position", {.kind = TSR__OP_rope, .param.rope = TSR__ROPE_HALF},
     {{4, {1, 2, 1, 4}, {9, 8, 7, 6, 1, 2, 3, 4}}, {2, {2, 4}, {1, 1, 1, 1, 0, 1, 0, 1}}, {2, {2, 4}, {[4] = 1, [6] = 1}}},
     {{4, {1, 2, 1, 4}, {9, 8, 7, 6, -3, 2, 1, 4}}}},
    {"a quarter turn of the first two channels, the others stay", {.kind = TSR__OP_rope, .param.rope = TSR__ROPE_HALF},
     {{4, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, {2, {1, 2}, {0, 0}}, {2, {1, 2}, {1, 1}}},
     {{4, {1, 1, 2, 4}, {-2, 1, 3, 4, -6, 5, 7, 8}}}},
    {"each pixel four times", {.kind = TSR__OP_upsample_nearest2x},
     {{4, {1, 1, 2, 2}, {1, 2, 3, 4}}},
     {{4, {1, 2, 4, 2}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}}}},
    {"0, 1, ..", {.kind = TSR__OP_arange}, {{0}}, {{1, {4}, {0, 1, 2, 3}}}},
    {"a copy", {.kind = TSR__OP_copy}, {{2, {2, 2}, {1, 2, 3, 4}}}, {{2, {2, 2}, {1, 2, 3, 4}}}},
    {"joined along the rows", {.kind = TSR__OP_concat, .param.axis = 0},
     {{2, {1, 2}, {1, 2}}, {2, {2, 2}, {3, 4, 5, 6}}}, {{2, {3, 2}, {1, 2, 3, 4, 5, 6}}}},
    {"joined along the columns", {.kind = TSR__OP_concat, .param.axis = 1},
     {{2, {2, 1}, {1, 2}}, {2, {2, 2}, {3, 4, 5, 6}}}, {{2, {2, 3}, {1, 3, 4, 2, 5, 6}}}},
};
/* clang-format on */

/* The operands that are I64. */
static tsr_dtype input_dtype(tsr__op_kind kind, int i) {
    static const bool integers[TSR__OP_COUNT][TSR__MAX_INPUTS] = {
        [TSR__OP_embedding] = {true},
        [TSR__OP_rope_table] = {true},
        [TSR__OP_flat_index] = {true, true},
        [TSR__OP_index_select] = {false, true},
        [TSR__OP_index_copy] = {false, true},
        [TSR__OP_attention] = {false, false, false, true},
        [TSR__OP_modulate] = {false, false, false, true},
        [TSR__OP_gated_add] = {false, false, false, true},
    };
    return integers[kind][i] ? TSR_I64 : TSR_F32;
}

static tsr_dtype output_dtype(tsr__op_kind kind) {
    return kind == TSR__OP_arange || kind == TSR__OP_flat_index ? TSR_I64 : TSR_F32;
}

static tsr__view view_of(ops_pool *pool, const operand *from, tsr_dtype dtype) {
    tsr__view view = tsr__view_dense(NULL, dtype, from->ndim, from->shape);
    int64_t n = tsr__view_elements(&view);
    view.data = ops_memory(pool, (size_t)n * tsr_dtype_bits(dtype) / 8);
    for (int64_t i = 0; i < n; i++)
        if (dtype == TSR_I64)
            ((int64_t *)view.data)[i] = (int64_t)from->data[i];
        else
            ((float *)view.data)[i] = from->data[i];
    return view;
}

static void check_case(tsr_engine *engine, const hand_case *c) {
    ops_pool pool = {.n = 0};
    tsr__view in[TSR__MAX_INPUTS] = {{0}}, out[TSR__MAX_OUTPUTS] = {{0}};
    tsr__op op = c->op;
    if (op.kind == TSR__OP_matmul || op.kind == TSR__OP_conv2d) op.param.matmul.round_inputs = TSR_F32;
    for (int i = 0; i < TSR__MAX_INPUTS && c->in[i].ndim; i++) {
        in[i] = view_of(&pool, &c->in[i], input_dtype(op.kind, i));
        op.in[i] = &in[i];
    }
    for (int i = 0; i < TSR__MAX_OUTPUTS && c->out[i].ndim; i++) {
        out[i] = view_of(&pool, &c->out[i], output_dtype(op.kind));
        memset(out[i].data, 0xff, (size_t)tsr__view_elements(&out[i]) * tsr_dtype_bits(out[i].dtype) / 8);
        op.out[i] = &out[i];
    }
    ops_run(engine, &pool, op);
    for (int i = 0; i < TSR__MAX_OUTPUTS && op.out[i]; i++) {
        float result[MAX_DATA];
        size_t n = (size_t)tsr__view_elements(&out[i]);
        assert_true(tsr_convert_to_f32(out[i].dtype, out[i].data, result, n));
        assert_close(c->what, result, c->out[i].data, n, 3e-7);
    }
    ops_free(&pool);
}

static void check_all(const char *device) {
    tsr_engine *engine = test_engine(device);
    bool seen[TSR__OP_COUNT] = {false};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        check_case(engine, &cases[i]);
        seen[cases[i].op.kind] = true;
    }
    for (int i = 0; i < TSR__OP_COUNT; i++)
        if (!seen[i]) fail_msg("no case for %s", tsr__op_name((tsr__op_kind)i));
    tsr_engine_destroy(engine);
}

static void ref_gives_what_hands_give(void **state) {
    (void)state;
    check_all("ref");
}

static void cpu_gives_what_hands_give(void **state) {
    (void)state;
    check_all("cpu");
}

/* Short weights, by the oracle's own hand. */
static void ref_reads_short_weights(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    static const uint16_t bf16[] = {0x3f80, 0xc000}, f16[] = {0x3c00, 0xc000}; /* 1, -2 */
    for (int i = 0; i < 2; i++) {
        ops_pool pool = {.n = 0};
        float x[] = {3, 4}, y = 0;
        uint16_t w[2];
        memcpy(w, i ? f16 : bf16, sizeof w);
        tsr__view in = tsr__view_dense(x, TSR_F32, 2, (int64_t[]){1, 2}),
                  out = tsr__view_dense(&y, TSR_F32, 2, (int64_t[]){1, 1});
        tsr__view weight = tsr__view_dense(w, i ? TSR_F16 : TSR_BF16, 2, (int64_t[]){1, 2});
        ops_run(engine, &pool, (tsr__op){.kind = TSR__OP_matmul, .in = {&in, &weight}, .out = {&out}});
        assert_true(y == -5.0f);
        ops_free(&pool);
    }
    tsr_engine_destroy(engine);
}

/* A long table: float32 frequencies and angles are rounded step by step, float64 ones not; both against long double. */
static void rope_tables_keep_their_precision(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    for (int f64 = 0; f64 < 2; f64++) {
        ops_pool pool = {.n = 0};
        int64_t id = 4095, dim = 64;
        tsr__view ids = tsr__view_dense(&id, TSR_I64, 2, (int64_t[]){1, 1}), out[2];
        for (int i = 0; i < 2; i++) {
            out[i] = tsr__view_dense(NULL, TSR_F32, 2, (int64_t[]){1, dim});
            out[i].data = ops_memory(&pool, (size_t)dim * sizeof(float));
        }
        tsr__op op = {.kind = TSR__OP_rope_table, .in = {&ids}, .out = {&out[0], &out[1]}};
        op.param.rope_table.axes = 1;
        op.param.rope_table.dims[0] = dim;
        op.param.rope_table.theta = 2000.0;
        op.param.rope_table.f64 = f64;
        ops_run(engine, &pool, op);
        double worst = 0.0;
        for (int64_t i = 0; i < dim; i++) {
            double angle = (double)id / pow(2000.0, (double)(i - i % 2) / (double)dim);
            worst = fmax(worst, fabs((double)((float *)out[0].data)[i] - cos(angle)));
            worst = fmax(worst, fabs((double)((float *)out[1].data)[i] - sin(angle)));
        }
        assert_true(worst < (f64 ? 6e-8 : 1e-3));
        assert_true(f64 || worst > 1e-6);
        ops_free(&pool);
    }
    tsr_engine_destroy(engine);
}

/* Half a position is half an angle; whole ones are what integers give. */
static void rope_tables_take_fractional_positions(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("cpu");
    float fractional[] = {0.5f, -2.0f, 3.0f, 0.25f};
    int64_t whole[] = {0, -2, 3, 0};
    float result[2][2][16]; /* of positions in float32 and int64: cosines and sines [2, 8] */
    for (int i = 0; i < 2; i++) {
        void *positions = i ? (void *)whole : (void *)fractional;
        tsr__view ids = tsr__view_dense(positions, i ? TSR_I64 : TSR_F32, 2, (int64_t[]){2, 2}), out[2];
        for (int k = 0; k < 2; k++) out[k] = tsr__view_dense(result[i][k], TSR_F32, 2, (int64_t[]){2, 8});
        tsr__op op = {.kind = TSR__OP_rope_table, .in = {&ids}, .out = {&out[0], &out[1]}};
        op.param.rope_table.axes = 2;
        op.param.rope_table.dims[0] = op.param.rope_table.dims[1] = 4;
        op.param.rope_table.theta = 100.0;
        op.param.rope_table.style = TSR__ROPE_HALF;
        assert_ok(engine, engine->device->ops->run[op.kind](engine->device, &op));
    }
    static const float cosines[] = {0.87758256f, 0.99875026f}, sines[] = {0.24740396f, 0.02499740f};
    assert_close("cos of 0.5, 0.05", result[0][0], cosines, 2, 3e-7);
    assert_close("sin of 0.25, 0.025", result[0][1] + 8 + 2, sines, 2, 3e-7);
    for (int k = 0; k < 2; k++) {
        assert_memory_equal(result[0][k] + 2, result[1][k] + 2, 2 * sizeof(float)); /* -2 */
        assert_memory_equal(result[0][k] + 8, result[1][k] + 8, 2 * sizeof(float)); /* 3 */
    }
    tsr_engine_destroy(engine);
}

/* No operation reads or writes outside of its operands, whatever the entry. */
static void an_index_outside_the_rows_is_refused(void **state) {
    (void)state;
    static const struct {
        tsr__op_kind kind;
        int at; /* the input that is the index */
    } rows[] = {{TSR__OP_modulate, 3},   {TSR__OP_gated_add, 3},  {TSR__OP_index_select, 1},
                {TSR__OP_index_copy, 1}, {TSR__OP_flat_index, 0}, {TSR__OP_flat_index, 1}};
    const char *const devices[] = {"ref", "cpu"};
    const int64_t entries[] = {-1, 3, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 2 * TSR__COUNT(rows); i++)
        for (size_t e = 0; e < TSR__COUNT(entries); e++) {
            bool is_row = rows[i / 2].kind == TSR__OP_flat_index && rows[i / 2].at == 0;
            if (is_row && entries[e] == 3) continue; /* a row that may be */
            tsr_engine *engine = test_engine(devices[i % 2]);
            ops_pool pool = {.n = 0};
            int64_t bad[] = {2, entries[e], 0}, good[] = {0, 1, 2};
            tsr__view x = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 1, 3, 4),
                      table = OPS_VIEW(&pool, TSR_F32, OPS_DENSE, 3, 4);
            tsr__view index = tsr__view_dense(good, TSR_I64, 1, (int64_t[]){3}), wrong = index, out = index;
            wrong.data = bad;
            tsr__op op = {.kind = rows[i / 2].kind, .in = {&x, &table, &table}, .out = {&x}};
            if (op.kind == TSR__OP_gated_add || op.kind == TSR__OP_index_copy) op.in[2] = &x;
            if (op.kind == TSR__OP_flat_index) op.in[0] = op.in[1] = &index, op.in[2] = NULL, op.out[0] = &out;
            if (op.kind == TSR__OP_flat_index) op.param.size = 3;
            op.in[rows[i / 2].at] = &wrong;
            assert_refused(engine, engine->device->ops->run[op.kind](engine->device, &op), TSR_ARG,
                           "entry 1 of the indices is");
            ops_free(&pool);
            tsr_engine_destroy(engine);
        }
}

static void an_id_outside_the_table_is_refused(void **state) {
    (void)state;
    const char *const devices[] = {"ref", "cpu"};
    for (size_t i = 0; i < TSR__COUNT(devices); i++) {
        tsr_engine *engine = test_engine(devices[i]);
        int64_t ids[] = {0, 3};
        float table[6] = {0}, rows[4] = {0};
        tsr__view in = tsr__view_dense(ids, TSR_I64, 1, (int64_t[]){2}),
                  weight = tsr__view_dense(table, TSR_F32, 2, (int64_t[]){3, 2});
        tsr__view out = tsr__view_dense(rows, TSR_F32, 2, (int64_t[]){2, 2});
        tsr__op op = {.kind = TSR__OP_embedding, .in = {&in, &weight}, .out = {&out}};
        assert_refused(engine, engine->device->ops->run[op.kind](engine->device, &op), TSR_ARG, "3 is outside");
        ids[1] = -1;
        assert_refused(engine, engine->device->ops->run[op.kind](engine->device, &op), TSR_ARG, "-1 is outside");
        tsr_engine_destroy(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_gives_what_hands_give),
        cmocka_unit_test(cpu_gives_what_hands_give),
        cmocka_unit_test(ref_reads_short_weights),
        cmocka_unit_test(rope_tables_keep_their_precision),
        cmocka_unit_test(an_id_outside_the_table_is_refused),
        cmocka_unit_test(rope_tables_take_fractional_positions),
        cmocka_unit_test(an_index_outside_the_rows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
