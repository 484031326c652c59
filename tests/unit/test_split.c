/* How splits go through operations, on shapes alone: what is kept, what is refused. One rank of two that are only
 * imagined. */
#include "support.h"

#include "comm/comm.h"
#include "exec/ops.h"
#include "exec/split.h"

#include <stdio.h>
#include <string.h>

static tsr_engine *engine;
static tsr__comm two;

static int open_engine(void **state) {
    (void)state;
    engine = test_engine("ref");
    two = (tsr__comm){.engine = engine, .rank = 0, .size = 2};
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    tsr_engine_destroy(engine);
    return 0;
}

static char *origin(const void *owner, char *text, size_t size) {
    snprintf(text, size, "%s", (const char *)owner);
    return text;
}

#define TP TSR__AXIS_TP
#define SEQ TSR__AXIS_SEQUENCE

/* A value of that local shape, of which dimension `dim` is split into the parts, ended by 0. */
static tsr__value piece(tsr__exec *x, tsr__axis axis, int dim, const int64_t *parts, int ndim, const int64_t *shape) {
    tsr__split split = {.comm = &two, .dim = dim, .pieces = 2, .origin = "blocks.0.to_q", .origin_path = origin};
    for (; parts[split.n_parts]; split.n_parts++) split.parts[split.n_parts] = parts[split.n_parts];
    tsr__value v = tsr__upload(x, TSR_F32, ndim, shape, NULL);
    tsr__set_split(x, v, axis, &split);
    return v;
}
#define PARTS(...) ((const int64_t[]){__VA_ARGS__, 0})
static tsr__value whole(tsr__exec *x, int ndim, const int64_t *shape) {
    return tsr__upload(x, TSR_F32, ndim, shape, NULL);
}

/* --- kept --- */

#define FORWARD(name, expression)                                                                                      \
    static tsr__value name(tsr__exec *x) { return expression; }

FORWARD(heads, tsr__reshape(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(2, 3, 16)), TSR__SHAPE(2, 3, -1, 8)))
FORWARD(joined_heads, tsr__reshape(x, piece(x, TP, 2, PARTS(4), TSR__SHAPE(2, 3, 2, 8)), TSR__SHAPE(2, 3, 16)))
FORWARD(one_token, tsr__reshape(x, piece(x, TP, 2, PARTS(64), TSR__SHAPE(1, 1, 32)), TSR__SHAPE(1, 1, 2, 16)))
FORWARD(one_head, tsr__reshape(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 1, 16)), TSR__SHAPE(1, 1, 1, 16)))
FORWARD(odd_width, tsr__reshape(x, piece(x, TP, 2, PARTS(10), TSR__SHAPE(1, 3, 5)), TSR__SHAPE(1, 3, 1, 5)))
FORWARD(ones, tsr__reshape(x, piece(x, TP, 1, PARTS(2), TSR__SHAPE(1, 1, 1)), TSR__SHAPE(1, 1, 1)))
FORWARD(channels_of_tokens, tsr__reshape(x, piece(x, SEQ, 1, PARTS(7), TSR__SHAPE(2, 4, 6)), TSR__SHAPE(2, 4, 2, 3)))
FORWARD(first_block, tsr__slice(x, piece(x, TP, 2, PARTS(32, 16), TSR__SHAPE(1, 3, 24)), 2, 0, 16))
FORWARD(last_block, tsr__slice(x, piece(x, TP, 2, PARTS(32, 16), TSR__SHAPE(1, 3, 24)), 2, 16, 24))
FORWARD(both_blocks, tsr__slice(x, piece(x, TP, 2, PARTS(32, 16, 8), TSR__SHAPE(1, 3, 28)), -1, 0, 24))
FORWARD(other_dimension, tsr__slice(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 3, 16)), 1, 1, 2))
FORWARD(turned, tsr__permute(x, piece(x, TP, 2, PARTS(4), TSR__SHAPE(2, 3, 2, 8)), TSR__ORDER(0, 2, 1, 3)))
FORWARD(sum,
        tsr__add_values(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3))))
FORWARD(longer, tsr__concat(x, piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 3, 2, 8)),
                            piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 5, 2, 8)), 1))
FORWARD(side_by_side, tsr__concat(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 3, 16)),
                                  piece(x, TP, 2, PARTS(16), TSR__SHAPE(1, 3, 8)), -1))
FORWARD(product, tsr__matmul(x, whole(x, TSR__SHAPE(2, 3, 5)), piece(x, TP, 0, PARTS(8), TSR__SHAPE(4, 5)),
                             piece(x, TP, 0, PARTS(8), TSR__SHAPE(4))))
FORWARD(normed, tsr__rms_norm(x, piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 3, 2, 8)), whole(x, TSR__SHAPE(8)), 1e-6f))
FORWARD(modulated, tsr__modulate(x, piece(x, SEQ, 1, PARTS(7), TSR__SHAPE(2, 4, 6)), whole(x, TSR__SHAPE(2, 6)),
                                 whole(x, TSR__SHAPE(2, 6))))
FORWARD(looked_up, tsr__embedding(x, tsr__upload(x, TSR_I64, TSR__SHAPE(2, 3), NULL),
                                  piece(x, TP, 1, PARTS(8), TSR__SHAPE(10, 4)), 0, false))

static tsr__value attention(tsr__exec *x, tsr__value q, tsr__value kv) {
    return tsr__sdpa(x, q, kv, kv, (tsr__attention_options){.key_mask = tsr__none()}, NULL);
}
FORWARD(grouped, attention(x, piece(x, TP, 2, PARTS(8), TSR__SHAPE(1, 3, 4, 8)),
                           piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 5, 2, 8))))

static tsr__value summed(tsr__exec *x) {
    tsr__value in = piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 3, 16));
    return tsr__matmul(x, in, piece(x, TP, 1, PARTS(32), TSR__SHAPE(8, 16)), tsr__none());
}
FORWARD(sum_over_ranks, tsr__sum_over_ranks(x, summed(x)))
FORWARD(gathered, tsr__gather_over_ranks(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), TP))

typedef struct row {
    tsr__value (*forward)(tsr__exec *x);
    tsr__axis axis;
    int dim; /* -1: whole */
    int64_t parts[4];
    int64_t whole_dim; /* of the split dimension */
} row;

typedef struct look {
    const row *row;
    tsr__split split;
    int64_t whole_dim;
    bool partial;
} look;

static void run_row(tsr__exec *x, void *context) {
    look *l = context;
    tsr__value v = l->row->forward(x);
    if (tsr__is_none(v)) return;
    l->split = *tsr__value_split(x, v, l->row->axis);
    l->whole_dim = tsr__whole_shape(x, v).shape[l->split.dim];
    const tsr__value_record *r = tsr__value_record_of(x, v);
    l->partial = r->partial && !r->summed;
}

static tsr_status record(tsr__forward forward, void *context) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    tsr_status status = tsr__exec_record(x, forward, context, &graph);
    tsr__exec_destroy(x);
    return status;
}

static void splits_follow_their_dimension(void **state) {
    (void)state;
    static const row rows[] = {
        {heads, TP, 2, {4}, 4},
        {joined_heads, TP, 2, {32}, 32},
        {one_token, TP, 2, {4}, 4},
        {one_head, TP, 2, {2}, 2},
        {ones, TP, 1, {2}, 2},
        {odd_width, TP, 2, {2}, 2},
        {channels_of_tokens, SEQ, 1, {7}, 7},
        {first_block, TP, 2, {32}, 32},
        {last_block, TP, 2, {16}, 16},
        {both_blocks, TP, 2, {32, 16}, 48},
        {other_dimension, TP, 2, {32}, 32},
        {turned, TP, 1, {4}, 4},
        {sum, TP, 1, {6}, 6},
        {longer, TP, 2, {4}, 4},
        {side_by_side, TP, 2, {32, 16}, 48},
        {product, TP, 2, {8}, 8},
        {normed, TP, 2, {4}, 4},
        {modulated, SEQ, 1, {7}, 7},
        {looked_up, TP, 2, {8}, 8},
        {grouped, TP, 2, {8}, 8},
        {sum_over_ranks, TP, -1, {0}, 0},
        {gathered, TP, -1, {0}, 0},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        look l = {.row = &rows[i]};
        assert_ok(engine, record(run_row, &l));
        assert_false(l.partial);
        if ((l.split.comm != NULL) != (rows[i].dim >= 0)) fail_msg("row %zu: split or not", i);
        if (rows[i].dim < 0) continue;
        if (l.split.dim != rows[i].dim) fail_msg("row %zu: dimension %d", i, l.split.dim);
        if (l.whole_dim != rows[i].whole_dim) fail_msg("row %zu: %lld in all", i, (long long)l.whole_dim);
        for (size_t p = 0; p < l.split.n_parts; p++) assert_int_equal(l.split.parts[p], rows[i].parts[p]);
        assert_int_equal(rows[i].parts[l.split.n_parts], 0);
    }
}

static void a_product_over_split_channels_is_a_partial_sum(void **state) {
    (void)state;
    static const row partial = {summed, TP, -1, {0}, 0};
    look l = {.row = &partial};
    assert_ok(engine, record(run_row, &l));
    assert_true(l.partial && !l.split.comm);
}

/* --- refused --- */

FORWARD(odd_heads, tsr__reshape(x, piece(x, SEQ, 1, PARTS(7), TSR__SHAPE(1, 4, 6)), TSR__SHAPE(1, 2, 2, 6)))
FORWARD(flattened, tsr__reshape(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), TSR__SHAPE(6)))
FORWARD(missing_piece,
        tsr__concat(x, whole(x, TSR__SHAPE(1, 3, 4, 8)), piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 5, 2, 8)), 1))
FORWARD(half_a_block, tsr__slice(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 3, 16)), 2, 0, 8))
FORWARD(across_blocks, tsr__slice(x, piece(x, TP, 2, PARTS(32, 16), TSR__SHAPE(1, 3, 24)), 2, 8, 24))
FORWARD(with_a_whole, tsr__add_values(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), whole(x, TSR__SHAPE(2, 3))))
FORWARD(other_blocks,
        tsr__add_values(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), piece(x, TP, 1, PARTS(2, 4), TSR__SHAPE(2, 3))))
FORWARD(joined_with_a_whole,
        tsr__concat(x, whole(x, TSR__SHAPE(1, 3, 2, 8)), piece(x, TP, 2, PARTS(4), TSR__SHAPE(1, 5, 2, 8)), 1))
FORWARD(normed_over_ranks, tsr__rms_norm(x, piece(x, TP, 2, PARTS(32), TSR__SHAPE(1, 3, 16)), tsr__none(), 1e-6f))
FORWARD(image, tsr__upsample_nearest2x(x, piece(x, TP, 3, PARTS(32), TSR__SHAPE(1, 3, 3, 16))))
FORWARD(silu_of_partial, tsr__silu(x, summed(x)))
FORWARD(view_of_partial, tsr__reshape(x, summed(x), TSR__SHAPE(3, 8)))
FORWARD(queries_alone,
        attention(x, piece(x, TP, 2, PARTS(8), TSR__SHAPE(1, 3, 4, 8)), whole(x, TSR__SHAPE(1, 5, 2, 8))))
FORWARD(bias_whole, tsr__matmul(x, whole(x, TSR__SHAPE(2, 3, 5)), piece(x, TP, 0, PARTS(8), TSR__SHAPE(4, 5)),
                                whole(x, TSR__SHAPE(4))))
FORWARD(columns_alone,
        tsr__matmul(x, whole(x, TSR__SHAPE(2, 3, 5)), piece(x, TP, 1, PARTS(10), TSR__SHAPE(4, 5)), tsr__none()))
FORWARD(gathered_blocks, tsr__gather_over_ranks(x, piece(x, TP, 1, PARTS(2, 4), TSR__SHAPE(2, 3)), TP))

static tsr__value taken_twice(tsr__exec *x) {
    tsr__value v = piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3));
    const tsr__split again = *tsr__value_split(x, v, TP);
    return tsr__take_piece(x, v, TP, &again);
}

static tsr__value taken_of_another(tsr__exec *x) {
    const tsr__split six = *tsr__value_split(x, piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3)), TP);
    return tsr__take_piece(x, whole(x, TSR__SHAPE(2, 8)), TP, &six);
}

static tsr__value downloaded(tsr__exec *x) {
    tsr__value v = piece(x, TP, 1, PARTS(6), TSR__SHAPE(2, 3));
    tsr__download(x, v, NULL);
    return v;
}

static void what_mixes_ranks_is_refused(void **state) {
    (void)state;
    static const struct {
        tsr__value (*forward)(tsr__exec *x);
        const char *words;
    } rows[] = {
        {odd_heads, "cannot be viewed in this shape without mixing ranks"},
        {flattened, "cannot be viewed in this shape without mixing ranks"},
        {half_a_block, "is it a fused projection that needs a packed style?"},
        {across_blocks, "what is taken is no whole block: do they fit the forward?"},
        {missing_piece, "concat: shapes [1, 3, 4, 8] and [1, 5, 2, 8] (split over ranks by blocks.0.to_q) do not fit"},
        {with_a_whole, "add: what blocks.0.to_q has split over ranks (tensor parallel) meets"},
        {other_blocks, "meets what is not split in the same way"},
        {joined_with_a_whole, "concat: what blocks.0.to_q has split"},
        {normed_over_ranks, "rms_norm: what blocks.0.to_q has split over ranks (tensor parallel) is needed whole"},
        {image, "upsample_nearest2x: what blocks.0.to_q has split"},
        {silu_of_partial, "silu: an input is a partial sum"},
        {view_of_partial, "view: an input is a partial sum"},
        {queries_alone, "are heads, but queries and keys are not split alike"},
        {bias_whole, "matmul: what blocks.0.to_q has split"},
        {columns_alone, "meets what is not split in the same way"},
        {gathered_blocks, "a value of 2 parts in 2 pieces over 2 ranks cannot be gathered"},
        {taken_twice, "split over ranks already cannot be split again"},
        {taken_of_another, "a piece of 6 was asked of a value whose dimension 1 has 8"},
        {downloaded, "download: what blocks.0.to_q has split over ranks (tensor parallel) is needed whole"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        const row r = {rows[i].forward, TP, -1, {0}, 0};
        look l = {.row = &r};
        assert_refused(engine, record(run_row, &l), TSR_SHAPE, rows[i].words);
    }
}

/* --- pieces --- */

static void pieces_are_those_of_tensor_split(void **state) {
    (void)state;
    tsr__comm many = {.size = 4};
    static const struct {
        int pieces;
        int64_t length;
        tsr_range of[4];
    } rows[] = {{4, 7, {{0, 2}, {2, 4}, {4, 6}, {6, 7}}},
                {4, 8, {{0, 2}, {2, 4}, {4, 6}, {6, 8}}},
                {4, 3, {{0, 1}, {1, 2}, {2, 3}, {3, 3}}},
                {2, 6, {{0, 3}, {0, 3}, {3, 6}, {3, 6}}}, /* key/value heads that two ranks hold */
                {1, 5, {{0, 5}, {0, 5}, {0, 5}, {0, 5}}}};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        const tsr__split split = {
            .comm = &many, .pieces = rows[i].pieces, .n_parts = 2, .parts = {rows[i].length, rows[i].length}};
        assert_int_equal(tsr__split_length(&split, -1), 2 * rows[i].length);
        for (int r = 0; r < 4; r++) {
            tsr_range got = tsr__split_piece(&split, 1, r);
            assert_int_equal(got.begin, rows[i].of[r].begin);
            assert_int_equal(got.end, rows[i].of[r].end);
            assert_int_equal(tsr__split_length(&split, r), 2 * (got.end - got.begin));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_follow_their_dimension),
        cmocka_unit_test(a_product_over_split_channels_is_a_partial_sum),
        cmocka_unit_test(what_mixes_ranks_is_refused),
        cmocka_unit_test(pieces_are_those_of_tensor_split),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
