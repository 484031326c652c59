/* Plans: which rules are refused and why, which degrees work, what each rank holds. */
#include "support.h"

#include "models/models.h"

#include <string.h>

typedef struct toy_block {
    tsr__module module;
    tsr__linear to_q, to_k, to_out, fused;
    tsr__norm norm;
} toy_block;

typedef struct toy {
    tsr__module module;
    tsr__module_list blocks;
    toy_block *items;
    tsr__embedding_layer embed;
} toy;

static tsr_engine *engine;
static tsr__tree tree;

static int open_engine(void **state) {
    (void)state;
    engine = test_engine("ref");
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    tsr_engine_destroy(engine);
    return 0;
}

/* Two blocks of width 24 with 6 heads, 2 of them for keys; fused holds parts of 24, 24 and 36. */
static toy *new_toy(void) {
    tree = (tsr__tree){.engine = engine};
    toy *t = tsr__tree_alloc(&tree, 1, sizeof *t);
    assert_non_null(t);
    t->module.name = "";
    assert_non_null(TSR__LIST(&tree, t, blocks, 2, t->items));
    for (int i = 0; i < 2; i++) {
        toy_block *b = &t->items[i];
        TSR__LINEAR(b, to_q, 24, 24, TSR__BIAS);
        TSR__LINEAR(b, to_k, 24, 8, TSR__BIAS);
        TSR__HEADS(b, to_q, 6, false);
        TSR__HEADS(b, to_k, 2, true);
        TSR__LINEAR(b, to_out, 24, 24, TSR__BIAS);
        TSR__LINEAR(b, fused, 24, 84, TSR__NO_BIAS);
        TSR__BLOCKS(b, fused, 24, 24, 36);
        TSR__RMS_NORM(b, norm, 24, 1e-6);
    }
    TSR__EMBEDDING(t, embed, 96, 24);
    return t;
}

static tsr__tp_plan plan_of(const tsr_tp_rule *rules, size_t n) {
    return (tsr__tp_plan){"Toy", {rules, n}, {NULL, 0}, 6};
}

/* --- rules --- */

static void broken_rules_are_refused(void **state) {
    (void)state;
    static const struct {
        tsr_tp_rule rules[2];
        size_t n;
        const char *words;
    } rows[] = {
        {{{"blocks.*.nothing", TSR_COLWISE, {0}}}, 1, "matches no module"},
        {{{"blocks.2.to_q", TSR_COLWISE, {0}}}, 1, "matches no module"},
        {{{"*.*.to_q", TSR_COLWISE, {0}}}, 1, "one \"*\" only"},
        {{{"*.0.to_q", TSR_COLWISE, {0}}}, 1, "no list of modules"},
        {{{"blocks.0.*", TSR_COLWISE, {0}}}, 1, "no list of modules"},
        {{{"blocks.*.norm", TSR_COLWISE, {0}}}, 1, "does not fit this kind of module"},
        {{{"blocks.*", TSR_COLWISE, {0}}}, 1, "does not fit this kind of module"},
        {{{"embed", TSR_COLWISE, {0}}}, 1, "does not fit this kind of module"},
        {{{"blocks.*.to_q", TSR_REPLICATED, {0}}}, 1, "unknown style"},
        {{{"blocks.*.to_q", (tsr_tp_style)99, {0}}}, 1, "unknown style"},
        {{{"blocks.*.to_q", TSR_PACKED_COLWISE, {0}}}, 1, "needs blocks"},
        {{{"blocks.*.to_q", TSR_PACKED_COLWISE, {5, 2}}}, 1, "add up to a divisor"},
        {{{"blocks.*.to_q", TSR_COLWISE, {0}}, {"blocks.1.to_q", TSR_ROWWISE, {0}}}, 2, "named by an earlier rule"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        toy *t = new_toy();
        tsr__tp_plan plan = plan_of(rows[i].rules, rows[i].n);
        assert_refused(engine, tsr__tp_mark(engine, &t->module, &plan), TSR_ARG, rows[i].words);
        assert_non_null(strstr(tsr_engine_message(engine), rows[i].rules[rows[i].n - 1].glob));
        tsr__tree_free(&tree);
    }
}

/* --- degrees --- */

static const tsr_tp_rule good[] = {
    {"blocks.*.to_q", TSR_COLWISE, {0}},   {"blocks.*.to_k", TSR_COLWISE, {0}},
    {"blocks.*.to_out", TSR_ROWWISE, {0}}, {"blocks.*.fused", TSR_PACKED_COLWISE, {0}},
    {"embed", TSR_ROWWISE, {0}},
};

static void degrees_divide_heads_and_every_block(void **state) {
    (void)state;
    toy *t = new_toy();
    tsr__tp_plan plan = plan_of(good, TSR__COUNT(good));
    char text[64];
    assert_ok(engine, tsr__tp_mark(engine, &t->module, &plan));
    assert_string_equal(tsr__tp_degrees(&t->module, &plan, text, sizeof text), "1, 2, 6"); /* 3: 2 key heads */
    assert_refused(engine, tsr__tp_split(engine, &t->module, &plan, NULL, 0, 4), TSR_SHAPE,
                   "Toy has 6 attention heads, which tp 4 does not divide; degrees that work: 1, 2, 6");
    assert_refused(engine, tsr__tp_split(engine, &t->module, &plan, NULL, 0, 3), TSR_SHAPE, "blocks.0.to_k.weight");
    tsr__tree_free(&tree);
}

static void a_packed_block_that_does_not_divide_is_named(void **state) {
    (void)state;
    static const tsr_tp_rule rules[] = {{"blocks.*.fused", TSR_PACKED_COLWISE, {1, 6}}}; /* 12 and 72 */
    toy *t = new_toy();
    tsr__tp_plan plan = plan_of(rules, 1);
    plan.heads = 8;
    assert_ok(engine, tsr__tp_mark(engine, &t->module, &plan));
    assert_refused(engine, tsr__tp_split(engine, &t->module, &plan, NULL, 0, 8), TSR_SHAPE,
                   "blocks.0.fused.weight (packed_colwise) has a block of 12, which tp 8 does not divide");
    tsr__tree_free(&tree);
}

/* --- parts --- */

static void check_ranges(const tsr__param *param, int rank, int degree, const tsr_range *expected, size_t n) {
    tsr_range ranges[TSR__MAX_RANGES];
    assert_int_equal(tsr__shard_ranges(&param->spec, rank, degree, ranges), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ranges[i].begin, expected[i].begin);
        assert_int_equal(ranges[i].end, expected[i].end);
    }
}

static void every_rank_holds_its_part(void **state) {
    (void)state;
    toy *t = new_toy();
    tsr__tp_plan plan = plan_of(good, TSR__COUNT(good));
    const toy_block *b = &t->items[1];
    assert_ok(engine, tsr__tp_mark(engine, &t->module, &plan));
    assert_ok(engine, tsr__tp_split(engine, &t->module, &plan, NULL, 1, 2));
    assert_int_equal(b->to_q.weight.view.shape[0], 12);
    assert_int_equal(b->to_q.bias.view.shape[0], 12);
    assert_int_equal(b->to_out.weight.view.shape[1], 12);
    assert_int_equal(b->to_out.bias.view.shape[0], 24); /* whole: added once */
    assert_int_equal(b->fused.weight.view.shape[0], 42);
    assert_int_equal(b->norm.weight.view.shape[0], 24);
    assert_int_equal(t->embed.weight.view.shape[0], 48);
    check_ranges(&b->fused.weight, 1, 2, (tsr_range[]){{12, 24}, {36, 48}, {66, 84}}, 3);
    check_ranges(&b->to_q.weight, 1, 2, (tsr_range[]){{12, 24}}, 1);
    check_ranges(&b->to_out.bias, 1, 2, NULL, 0);
    tsr__tree_free(&tree);
}

/* Two key heads over six ranks: ranks 0..2 hold the first, 3..5 the second: the one that their query head reads. */
static void more_ranks_than_key_heads_repeat_them(void **state) {
    (void)state;
    toy *t = new_toy();
    tsr__tp_plan plan = plan_of(good, TSR__COUNT(good));
    assert_ok(engine, tsr__tp_mark(engine, &t->module, &plan));
    assert_ok(engine, tsr__tp_split(engine, &t->module, &plan, NULL, 4, 6));
    assert_int_equal(t->items[0].to_k.weight.view.shape[0], 4);
    for (int rank = 0; rank < 6; rank++) {
        tsr_range expected = {rank < 3 ? 0 : 4, rank < 3 ? 4 : 8};
        check_ranges(&t->items[0].to_k.weight, rank, 6, &expected, 1);
        check_ranges(&t->items[0].to_k.bias, rank, 6, &expected, 1);
    }
    tsr__tree_free(&tree);
}

/* Parts of all ranks together are the whole, each element once (heads that repeat apart). */
static void parts_add_up(void **state) {
    (void)state;
    toy *t = new_toy();
    tsr__tp_plan plan = plan_of(good, TSR__COUNT(good));
    assert_ok(engine, tsr__tp_mark(engine, &t->module, &plan));
    const tsr__param *params[] = {&t->items[0].to_q.weight, &t->items[0].to_out.weight, &t->items[0].fused.weight,
                                  &t->embed.weight};
    for (size_t p = 0; p < TSR__COUNT(params); p++)
        for (int degree = 2; degree <= 6; degree += 4) {
            int seen[96] = {0};
            tsr_range ranges[TSR__MAX_RANGES];
            for (int rank = 0; rank < degree; rank++) {
                size_t n = tsr__shard_ranges(&params[p]->spec, rank, degree, ranges);
                for (size_t i = 0; i < n; i++)
                    for (int64_t r = ranges[i].begin; r < ranges[i].end; r++) seen[r]++;
            }
            for (int64_t r = 0; r < params[p]->whole[params[p]->spec.dim]; r++) assert_int_equal(seen[r], 1);
        }
    tsr__tree_free(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_rules_are_refused),
        cmocka_unit_test(degrees_divide_heads_and_every_block),
        cmocka_unit_test(a_packed_block_that_does_not_divide_is_named),
        cmocka_unit_test(every_rank_holds_its_part),
        cmocka_unit_test(more_ranks_than_key_heads_repeat_them),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
