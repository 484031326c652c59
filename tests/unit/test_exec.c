/* The executor: what it records, where it puts values, and that a run departs from nothing. */
#include "support.h"

#include "exec/graph.h"
#include "exec/ops.h"

#include <stdlib.h>
#include <string.h>

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

/* Records, reserves and runs a forward once. */
static void run_once(tsr__forward forward, void *context, size_t *arena) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    assert_ok(engine, tsr__exec_record(x, forward, context, &graph));
    if (arena) *arena = tsr__exec_activation_bytes(x);
    assert_ok(engine, tsr__exec_reserve(x));
    assert_ok(engine, tsr__exec_run(x, graph, context));
    tsr__exec_destroy(x);
}

static tsr_status record_only(tsr__forward forward, void *context) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    tsr_status status = tsr__exec_record(x, forward, context, &graph);
    tsr__exec_destroy(x);
    return status;
}

/* --- memory --- */

enum { N = 1024 };
typedef struct arrays {
    float a[N], b[N], out[N];
} arrays;

/* ((a + b) + b) + b ... : every sum may take the place of the one before. */
static void chain(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value a = tsr__upload(x, TSR_F32, TSR__SHAPE(N), d->a), b = tsr__upload(x, TSR_F32, TSR__SHAPE(N), d->b);
    for (int i = 0; i < 10; i++) a = tsr__add_values(x, a, b);
    tsr__download(x, a, d->out);
}

static void in_place_chain_needs_two_arrays(void **state) {
    (void)state;
    arrays d;
    for (int i = 0; i < N; i++) d.a[i] = (float)i, d.b[i] = 0.5f;
    size_t arena = 0;
    run_once(chain, &d, &arena);
    assert_int_equal(arena, 2 * N * sizeof(float));
    for (int i = 0; i < N; i++) assert_true(d.out[i] == (float)i + 5.0f);
}

/* a is read again at the end, so nothing may be written over it. */
static void keep_first(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value a = tsr__upload(x, TSR_F32, TSR__SHAPE(N), d->a), b = tsr__upload(x, TSR_F32, TSR__SHAPE(N), d->b);
    tsr__value sum = tsr__add_values(x, a, b);
    tsr__download(x, tsr__sub_values(x, sum, a), d->out);
}

static void a_value_that_is_read_later_survives(void **state) {
    (void)state;
    arrays d;
    for (int i = 0; i < N; i++) d.a[i] = (float)i, d.b[i] = 0.5f;
    run_once(keep_first, &d, NULL);
    for (int i = 0; i < N; i++) assert_true(d.out[i] == 0.5f);
}

/* A view of a's second half keeps all of a alive while the first half's memory would be free. */
static void view_lives(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value a = tsr__upload(x, TSR_F32, TSR__SHAPE(2, N / 2), d->a);
    tsr__value first = tsr__slice(x, a, 0, 0, 1), second = tsr__slice(x, a, 0, 1, 2);
    tsr__value doubled = tsr__add_values(x, first, first);
    tsr__value both = tsr__concat(x, doubled, second, 0);
    tsr__download(x, both, d->out);
}

static void views_extend_the_life_of_what_they_show(void **state) {
    (void)state;
    arrays d;
    for (int i = 0; i < N; i++) d.a[i] = (float)i;
    run_once(view_lives, &d, NULL);
    for (int i = 0; i < N; i++) assert_true(d.out[i] == (float)i * (i < N / 2 ? 2.0f : 1.0f));
}

/* A random program of sums, differences, slices and joins over `width` columns, and the same with every value kept. */
typedef struct program {
    unsigned seed;
    int steps, rows;
    float *expected, *out;
} program;

enum { POOL = 6, WIDTH = 8, MAX_PROGRAM = 64 };

static void random_program(tsr__exec *x, void *context) {
    program *p = context;
    unsigned random = p->seed;
    static const float first[POOL][WIDTH] = {{1}, {0, 2}, {0, 0, 3}, {4, 4}, {5, 0, 5}, {6}};
    float values[POOL][WIDTH];
    tsr__value pool[POOL];
    memcpy(values, first, sizeof values);
    for (int i = 0; i < POOL; i++) pool[i] = tsr__upload(x, TSR_F32, TSR__SHAPE(WIDTH), first[i]);
    for (int s = 0; s < p->steps; s++) {
        random = random * 1103515245u + 12345u;
        unsigned a = (random >> 16) % POOL, b = (random >> 20) % POOL, to = (random >> 24) % POOL,
                 kind = (random >> 28) % 3;
        tsr__value v = kind == 0 ? tsr__add_values(x, pool[a], pool[b])
                       : kind == 1
                           ? tsr__sub_values(x, pool[a], pool[b])
                           : tsr__concat(x, tsr__slice(x, pool[a], 0, 4, 8), tsr__slice(x, pool[b], 0, 0, 4), 0);
        float result[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            result[i] = kind == 0   ? values[a][i] + values[b][i]
                        : kind == 1 ? values[a][i] - values[b][i]
                                    : (i < 4 ? values[a][i + 4] : values[b][i - 4]);
        pool[to] = v;
        memcpy(values[to], result, sizeof result);
    }
    for (int i = 0; i < POOL; i++) tsr__download(x, pool[i], p->out + i * WIDTH);
    memcpy(p->expected, values, sizeof values);
}

static void random_programs_give_what_unlimited_memory_gives(void **state) {
    (void)state;
    float expected[POOL * WIDTH], out[POOL * WIDTH];
    for (unsigned seed = 1; seed <= 300; seed++) {
        program p = {seed * 2654435761u, (int)(seed % MAX_PROGRAM), 1, expected, out};
        run_once(random_program, &p, NULL);
        for (int i = 0; i < POOL * WIDTH; i++)
            if (out[i] != expected[i])
                fail_msg("seed %u: element %d is %g, not %g", seed, i, (double)out[i], (double)expected[i]);
    }
}

/* No two blocks that are alive at the same step may overlap. */
static void layouts_do_not_overlap(void **state) {
    (void)state;
    float expected[POOL * WIDTH], out[POOL * WIDTH];
    for (unsigned seed = 1; seed <= 50; seed++) {
        program p = {seed * 40503u, MAX_PROGRAM, 1, expected, out};
        tsr__exec *x = NULL;
        tsr__graph *g = NULL;
        assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
        assert_ok(engine, tsr__exec_record(x, random_program, &p, &g));
        for (int32_t i = 0; i < g->n_values; i++)
            for (int32_t j = 0; j < i; j++) {
                const tsr__value_record *a = &g->values[i], *b = &g->values[j];
                bool own = a->base == i && a->storage == i && b->base == j && b->storage == j;
                if (!own || a->last < b->first || b->last < a->first) continue;
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
                assert_true(a->offset + a->bytes <= g->arena_bytes);
            }
        tsr__exec_destroy(x);
    }
}

/* --- kept storage --- */

typedef struct counter {
    tsr__view *kept;
    float one[4];
} counter;

static void count_up(tsr__exec *x, void *context) {
    counter *c = context;
    tsr__value now = tsr__external(x, c->kept);
    tsr__assign(x, c->kept, tsr__add_values(x, now, tsr__upload(x, TSR_F32, TSR__SHAPE(4), c->one)));
}

static void kept_storage_lives_across_runs(void **state) {
    (void)state;
    counter c = {.one = {1, 2, 3, 4}};
    float zero[4] = {0}, out[4];
    tsr__exec *x = NULL;
    tsr__graph *g = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    assert_ok(engine, tsr__exec_keep(x, TSR_F32, TSR__SHAPE(4), &c.kept));
    assert_ok(engine, tsr__exec_record(x, count_up, &c, &g));
    assert_ok(engine, tsr__exec_reserve(x));
    assert_ok(engine, tsr__exec_store(x, c.kept, zero));
    for (int i = 0; i < 3; i++) assert_ok(engine, tsr__exec_run(x, g, &c));
    assert_ok(engine, tsr__exec_load(x, c.kept, out));
    for (int i = 0; i < 4; i++) assert_true(out[i] == 3.0f * c.one[i]);
    tsr__exec_destroy(x);
}

/* --- no allocation in a run --- */

static void a_run_allocates_nothing(void **state) {
    (void)state;
    arrays d;
    memset(&d, 0, sizeof d);
    tsr__exec *x = NULL;
    tsr__graph *g = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    assert_ok(engine, tsr__exec_record(x, chain, &d, &g));
    assert_ok(engine, tsr__exec_reserve(x));
    long long before = atomic_load(&engine->allocator.count);
    assert_ok(engine, tsr__exec_run(x, g, &d));
    assert_int_equal(atomic_load(&engine->allocator.count), before);
    tsr__exec_destroy(x);
}

/* --- refusals --- */

static void mismatched_sum(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value a = tsr__upload(x, TSR_F32, TSR__SHAPE(4), d->a), b = tsr__upload(x, TSR_F32, TSR__SHAPE(5), d->b);
    tsr__value sum = tsr__add_values(x, a, b);
    tsr__download(x, tsr__silu(x, sum), d->out); /* after a failure operations do nothing */
}

static void bad_slice(tsr__exec *x, void *context) {
    arrays *d = context;
    (void)tsr__slice(x, tsr__upload(x, TSR_F32, TSR__SHAPE(4), d->a), 0, 2, 5);
}

static void bad_reshape(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value square = tsr__upload(x, TSR_F32, TSR__SHAPE(2, 3), d->a);
    (void)tsr__reshape(x, tsr__permute(x, square, TSR__ORDER(1, 0)), TSR__SHAPE(6));
}

static void bad_heads(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value q = tsr__upload(x, TSR_F32, TSR__SHAPE(1, 2, 3, 4), d->a),
               k = tsr__upload(x, TSR_F32, TSR__SHAPE(1, 2, 2, 4), d->b);
    (void)tsr__sdpa(x, q, k, k, (tsr__attention_options){.key_mask = tsr__none()}, NULL);
}

static tsr__value upload(tsr__exec *x, const arrays *d, int ndim, const int64_t *shape) {
    return tsr__upload(x, TSR_F32, ndim, shape, d->a);
}

/* Three rows of a sequence, tables of two rows, an index of four. */
static void long_index(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = upload(x, d, TSR__SHAPE(1, 3, 4)), table = upload(x, d, TSR__SHAPE(2, 4));
    (void)tsr__modulate_rows(x, in, table, table, tsr__arange(x, 4));
}

static void unequal_tables(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = upload(x, d, TSR__SHAPE(1, 3, 4)), table = upload(x, d, TSR__SHAPE(2, 4));
    (void)tsr__modulate_rows(x, in, table, upload(x, d, TSR__SHAPE(3, 4)), tsr__arange(x, 3));
}

static void narrow_gate(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = upload(x, d, TSR__SHAPE(1, 3, 4));
    (void)tsr__gated_add_rows(x, in, upload(x, d, TSR__SHAPE(2, 3)), in, tsr__arange(x, 3));
}

static void too_many_sequences(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = tsr__zeros(x, TSR__SHAPE(1, 3, 4));
    (void)tsr__index_copy(x, in, tsr__arange(x, 2), upload(x, d, TSR__SHAPE(2, 2, 4)));
}

static void rows_without_places(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = tsr__zeros(x, TSR__SHAPE(1, 3, 4));
    (void)tsr__index_copy(x, in, tsr__arange(x, 3), upload(x, d, TSR__SHAPE(1, 2, 4)));
}

static void select_from_a_vector(tsr__exec *x, void *context) {
    arrays *d = context;
    (void)tsr__index_select(x, upload(x, d, TSR__SHAPE(4)), tsr__arange(x, 2));
}

static void unequal_indices(tsr__exec *x, void *context) {
    (void)context;
    (void)tsr__flat_index(x, tsr__arange(x, 4), tsr__arange(x, 3), 5);
}

static void wide_rope(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value in = upload(x, d, TSR__SHAPE(1, 3, 2, 4)), table = upload(x, d, TSR__SHAPE(3, 6));
    (void)tsr__rotate(x, in, (tsr__rope){table, table, TSR__ROPE_HALF});
}

static void shapes_are_checked_by_the_meta_run(void **state) {
    (void)state;
    static const struct {
        tsr__forward forward;
        const char *words;
    } rows[] = {{mismatched_sum, "add: shapes [4] and [5]"},
                {bad_slice, "no slice [2, 5)"},
                {bad_reshape, "cannot be viewed"},
                {bad_heads, "attention: shapes"},
                {long_index, "modulate: shapes [1, 3, 4] and [2, 4]"},
                {unequal_tables, "modulate: shapes [1, 3, 4] and [2, 4]"},
                {narrow_gate, "gated_add: shapes"},
                {too_many_sequences, "index_copy: shapes [1, 3, 4] and [2, 2, 4]"},
                {rows_without_places, "index_copy: shapes [3] and [1, 2, 4]"},
                {select_from_a_vector, "index_select: shapes [4] and [2]"},
                {unequal_indices, "flat_index: shapes [4] and [3]"},
                {wide_rope, "rope: shapes [1, 3, 2, 4] and [3, 6]"}};
    arrays d;
    for (size_t i = 0; i < TSR__COUNT(rows); i++)
        assert_refused(engine, record_only(rows[i].forward, &d), TSR_SHAPE, rows[i].words);
}

typedef struct changing {
    arrays d;
    bool other;
    int64_t n;
} changing;

static void changes(tsr__exec *x, void *context) {
    changing *c = context;
    tsr__value a = tsr__upload(x, TSR_F32, TSR__SHAPE(c->n), c->d.a);
    tsr__download(x, c->other ? tsr__silu(x, a) : tsr__add_values(x, a, a), c->d.out);
}

static void a_run_that_departs_from_its_record_is_refused(void **state) {
    (void)state;
    changing c = {.n = 16};
    tsr__exec *x = NULL;
    tsr__graph *g = NULL;
    assert_ok(engine, tsr__exec_create(engine, TSR_F32, &x));
    assert_ok(engine, tsr__exec_record(x, changes, &c, &g));
    assert_ok(engine, tsr__exec_reserve(x));
    assert_ok(engine, tsr__exec_run(x, g, &c));
    c.other = true;
    assert_refused(engine, tsr__exec_run(x, g, &c), TSR_INTERNAL, "departs from its record");
    c.other = false, c.n = 8;
    assert_refused(engine, tsr__exec_run(x, g, &c), TSR_INTERNAL, "departs from its record");
    c.n = 16;
    assert_ok(engine, tsr__exec_run(x, g, &c));
    tsr__exec_destroy(x);
}

/* --- views --- */

static void strided_views(tsr__exec *x, void *context) {
    arrays *d = context;
    tsr__value v = tsr__upload(x, TSR_F32, TSR__SHAPE(2, 3, 4), d->a);
    tsr__value columns = tsr__chunk(x, v, 1, 2);                  /* [2, 3, 2] */
    tsr__value flat = tsr__reshape(x, columns, TSR__SHAPE(6, 2)); /* still strided */
    tsr__value turned = tsr__permute(x, flat, TSR__ORDER(1, 0));  /* [2, 6] */
    tsr__download(x, tsr__contiguous(x, turned), d->out);
}

static void views_show_the_elements_they_should(void **state) {
    (void)state;
    arrays d;
    for (int i = 0; i < 24; i++) d.a[i] = (float)i;
    run_once(strided_views, &d, NULL);
    static const float expected[12] = {2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23};
    assert_memory_equal(d.out, expected, sizeof expected);
}

static void allocation_failures_are_reported(void **state) {
    (void)state;
    arrays d;
    memset(&d, 0, sizeof d);
    for (int k = 0;; k++) {
        size_t before = tsr_engine_memory_current(engine);
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr__exec *x = NULL;
        tsr__graph *g = NULL;
        tsr_status status = tsr__exec_create(engine, TSR_F32, &x);
        if (status == TSR_OK) status = tsr__exec_record(x, chain, &d, &g);
        if (status == TSR_OK) status = tsr__exec_reserve(x);
        tsr__exec_destroy(x);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_int_equal(tsr_engine_memory_current(engine), before);
        if (status == TSR_OK) break;
        assert_int_equal(status, TSR_NOMEM);
        assert_true(k < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_chain_needs_two_arrays),
        cmocka_unit_test(a_value_that_is_read_later_survives),
        cmocka_unit_test(views_extend_the_life_of_what_they_show),
        cmocka_unit_test(random_programs_give_what_unlimited_memory_gives),
        cmocka_unit_test(layouts_do_not_overlap),
        cmocka_unit_test(kept_storage_lives_across_runs),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(shapes_are_checked_by_the_meta_run),
        cmocka_unit_test(a_run_that_departs_from_its_record_is_refused),
        cmocka_unit_test(views_show_the_elements_they_should),
        cmocka_unit_test(allocation_failures_are_reported),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
