/* The module tree: names, paths, order, and what layers refuse. */
#include "support.h"

#include "nn/layers.h"

#include <string.h>

typedef struct block {
    tsr__module module;
    tsr__linear to_q;
    tsr__linear_item to_out;
} block;

typedef struct toy {
    tsr__module module;
    tsr__module_list blocks;
    block *items;
    tsr__norm norm;
} toy;

static tsr_engine *engine;

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

static bool declare(tsr__tree *tree, toy *t) {
    t->module.name = "";
    if (!TSR__LIST(tree, t, blocks, 11, t->items)) return false;
    for (int i = 0; i < 11; i++) {
        TSR__LINEAR(&t->items[i], to_q, 4, 6, TSR__BIAS);
        TSR__LINEAR_ITEM(&t->items[i], to_out, 6, 4, TSR__NO_BIAS);
    }
    TSR__RMS_NORM(t, norm, 4, 1e-6);
    return true;
}

typedef struct seen {
    char names[64][TSR__PATH_BYTES];
    int n;
} seen;

static tsr_status note(void *user, tsr__param *param) {
    seen *s = user;
    tsr__param_path(param, s->names[s->n++], TSR__PATH_BYTES);
    return TSR_OK;
}

static void paths_are_checkpoint_keys(void **state) {
    (void)state;
    tsr__tree tree = {.engine = engine};
    toy t = {0};
    seen s = {.n = 0};
    assert_true(declare(&tree, &t));
    assert_ok(engine, tsr__module_visit_params(&t.module, note, &s));
    assert_int_equal(s.n, 11 * 3 + 1);
    assert_string_equal(s.names[0], "blocks.0.to_q.weight");
    assert_string_equal(s.names[1], "blocks.0.to_q.bias");
    assert_string_equal(s.names[2], "blocks.0.to_out.0.weight");
    assert_string_equal(s.names[32], "blocks.10.to_out.0.weight");
    assert_string_equal(s.names[33], "norm.weight");
    tsr__tree_free(&tree);
}

static void long_paths_are_cut_not_overrun(void **state) {
    (void)state;
    tsr__tree tree = {.engine = engine};
    toy t = {0};
    char text[12];
    assert_true(declare(&tree, &t));
    assert_string_equal(tsr__module_path(&t.items[10].to_out.item.module, text, sizeof text), "blocks.10.t");
    assert_string_equal(tsr__module_path(&t.module, text, sizeof text), "");
    tsr__tree_free(&tree);
}

static void a_failed_declaration_leaves_nothing(void **state) {
    (void)state;
    for (int k = 0; k < 13; k++) {
        size_t before = tsr_engine_memory_current(engine);
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr__tree tree = {.engine = engine};
        toy t = {0};
        bool declared = declare(&tree, &t);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_int_equal(declared, k == 12); /* the items and eleven names */
        assert_int_equal(tree.status, declared ? TSR_OK : TSR_NOMEM);
        tsr__tree_free(&tree);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
}

static void wrong_width(tsr__exec *x, void *context) {
    toy *t = context;
    static const float in[10];
    (void)tsr__linear_forward(x, &t->items[3].to_q, tsr__upload(x, TSR_F32, TSR__SHAPE(2, 5), in));
}

static void a_layer_names_itself_when_its_input_does_not_fit(void **state) {
    (void)state;
    tsr__tree tree = {.engine = engine};
    toy t = {0};
    assert_true(declare(&tree, &t));
    tsr__exec *x = NULL;
    tsr__graph *g = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    assert_refused(engine, tsr__exec_record(x, wrong_width, &t, &g), TSR_SHAPE,
                   "blocks.3.to_q: its input has shape [2, 5], but it takes 4 channels");
    tsr__exec_destroy(x);
    tsr__tree_free(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_checkpoint_keys),
        cmocka_unit_test(long_paths_are_cut_not_overrun),
        cmocka_unit_test(a_failed_declaration_leaves_nothing),
        cmocka_unit_test(a_layer_names_itself_when_its_input_does_not_fit),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
