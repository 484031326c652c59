/* How fast ranks exchange, and how much of an exchange hides behind work. */
#include "comm/comm.h"
#include "exec/ops.h"

#include <tessera/bench.h>

#include <math.h>

enum { SMALL = 64, SIDE = 1024, WORK_FACTOR = 3 };

typedef struct bench {
    tsr_engine *engine;
    tsr__comm *world;
    size_t bytes;
    int repeats;
    char *send, *recv; /* [size, bytes] */
} bench;

/* --- one operation --- */

static tsr_status run_all_reduce(bench *b, size_t bytes) {
    return tsr__all_reduce(b->world, (float *)(void *)b->send, bytes / sizeof(float));
}

static tsr_status run_all_gather(bench *b, size_t bytes) {
    return tsr__all_gather_equal(b->world, b->send, bytes / (size_t)b->world->size, b->recv);
}

static tsr_status run_all_to_all(bench *b, size_t bytes) {
    size_t each[TSR__MAX_RANKS];
    for (int i = 0; i < b->world->size; i++) each[i] = bytes / (size_t)b->world->size;
    return tsr__all_to_all(b->world, b->send, each, b->recv, each);
}

static tsr_status run_send_receive(bench *b, size_t bytes) {
    int n = b->world->size, rank = b->world->rank;
    return tsr__send_receive(b->world, b->send, bytes, (rank + 1) % n, b->recv, bytes, (rank + n - 1) % n);
}

static tsr_status run_broadcast(bench *b, size_t bytes) { return tsr__broadcast(b->world, b->send, bytes, 0); }

static const struct {
    const char *name;
    tsr_status (*run)(bench *b, size_t bytes);
} operations[TSR_BENCH_N_COLLECTIVES] = {{"all_reduce", run_all_reduce},
                                         {"all_gather", run_all_gather},
                                         {"all_to_all", run_all_to_all},
                                         {"send_receive", run_send_receive},
                                         {"broadcast", run_broadcast}};

/* All ranks begin together, and a time is that of the slowest: the best of the repeats, each of `calls` calls one after
 * another: seconds a call. */
static tsr_status time_operation(bench *b, int op, size_t bytes, int calls, double *best) {
    for (int i = 0; i <= b->repeats; i++) { /* the first one warms up */
        TSR__TRY(tsr_status_agree(b->engine, TSR_OK));
        double start = tsr__seconds();
        for (int k = 0; k < calls; k++) TSR__TRY(operations[op].run(b, bytes));
        double seconds = (tsr__seconds() - start) / calls;
        TSR__TRY(tsr__all_greatest(b->world, &seconds));
        if (i == 1 || (i > 1 && seconds < *best)) *best = seconds;
    }
    return TSR_OK;
}

/* --- an exchange behind work --- */

/* A forward: an exchange, n matmuls, or both at once. */
typedef struct work {
    bench *b;
    tsr__view *message, *a, *w;
    bool exchanges;
    int n;
} work;

static void work_forward(tsr__exec *x, void *context) {
    const work *k = context;
    tsr__value sent = tsr__external(x, k->message), a = tsr__external(x, k->a), w = tsr__external(x, k->w), got;
    if (k->exchanges) got = tsr__start_shift(x, k->b->world, sent, sent.ndim, sent.shape);
    for (int i = 0; i < k->n; i++) (void)tsr__matmul(x, a, w, tsr__none());
    if (!k->exchanges) return;
    tsr__finish_shift(x, k->b->world, sent);
    (void)tsr__slice(x, got, 0, 0, 1);
}

typedef enum kind { EXCHANGE, WORK, BOTH, N_KINDS } kind;

static tsr_status make_work(bench *b, tsr__exec *x, work *k) {
    int64_t floats = (int64_t)(b->bytes / sizeof(float));
    k->b = b;
    TSR__TRY(tsr__exec_keep(x, TSR_F32, TSR__SHAPE(floats), &k->message));
    TSR__TRY(tsr__exec_keep(x, TSR_F32, TSR__SHAPE(SIDE, SIDE), &k->a));
    return tsr__exec_keep(x, TSR_F32, TSR__SHAPE(SIDE, SIDE), &k->w);
}

/* Best seconds of each kind, interleaved. */
static tsr_status time_work(bench *b, int n, double best[N_KINDS]) {
    work all[N_KINDS] = {[EXCHANGE] = {.exchanges = true}, [WORK] = {.n = n}, [BOTH] = {.exchanges = true, .n = n}};
    tsr__graph *graphs[N_KINDS] = {NULL};
    tsr__exec *x = NULL;
    tsr_status status = tsr__exec_create(b->engine, TSR_F32, &x);
    if (status == TSR_OK) status = make_work(b, x, &all[0]);
    for (int i = 0; i < N_KINDS && status == TSR_OK; i++) {
        work k = all[0];
        k.exchanges = all[i].exchanges;
        k.n = all[i].n;
        all[i] = k;
        status = tsr__exec_record(x, work_forward, &all[i], &graphs[i]);
    }
    if (status == TSR_OK) status = tsr__exec_reserve(x);
    if (status == TSR_OK) status = tsr__exec_store(x, all[0].message, b->send);
    if (status == TSR_OK) status = tsr__exec_store(x, all[0].a, b->send);
    if (status == TSR_OK) status = tsr__exec_store(x, all[0].w, b->send);
    status = tsr_status_agree(b->engine, status);
    for (int r = 0; r <= b->repeats && status == TSR_OK; r++)
        for (int i = 0; i < N_KINDS && status == TSR_OK; i++) {
            status = tsr_status_agree(b->engine, TSR_OK);
            double start = tsr__seconds();
            if (status == TSR_OK) status = tsr__exec_run(x, graphs[i], &all[i]);
            double seconds = tsr__seconds() - start;
            if (status == TSR_OK) status = tsr__all_greatest(b->world, &seconds);
            if (r == 1 || (r > 1 && seconds < best[i])) best[i] = seconds;
        }
    tsr__exec_destroy(x);
    return status;
}

/* First how many matmuls take WORK_FACTOR times as long as the exchange, then the measurement. */
static tsr_status measure_hiding(bench *b, tsr_bench_collectives_result *r) {
    double best[N_KINDS] = {0};
    TSR__TRY(time_work(b, 4, best));
    double calls = ceil(WORK_FACTOR * best[EXCHANGE] / (best[WORK] / 4.0));
    TSR__TRY(time_work(b, calls > 1.0 ? (int)calls : 1, best));
    r->exchange_seconds = best[EXCHANGE];
    r->work_seconds = best[WORK];
    r->both_seconds = best[BOTH];
    r->hidden = (best[EXCHANGE] + best[WORK] - best[BOTH]) / best[EXCHANGE];
    return TSR_OK;
}

static tsr_status measure(bench *b, tsr_bench_collectives_result *r) {
    enum { CALLS = 100 };
    r->bytes = b->bytes;
    for (int op = 0; op < TSR_BENCH_N_COLLECTIVES; op++) {
        r->collectives[op].name = operations[op].name;
        TSR__TRY(time_operation(b, op, SMALL * (size_t)b->world->size, CALLS, &r->collectives[op].latency));
        TSR__TRY(time_operation(b, op, b->bytes, 1, &r->collectives[op].seconds));
    }
    return measure_hiding(b, r);
}

static tsr_status prepare(bench *b, const tsr_bench_collectives_options *o) {
    size_t least = SMALL * TSR__MAX_RANKS * sizeof(float);
    if (!b->world) return tsr__fail(b->engine, TSR_ARG, "bench collectives needs at least 2 ranks (--tp 2)");
    if (o->bytes < sizeof(float) * SIDE * SIDE || o->repeats < 1)
        return tsr__fail(b->engine, TSR_ARG, "bench collectives needs at least %zu bytes and one repeat",
                         sizeof(float) * SIDE * SIDE);
    size_t room = b->bytes > least ? b->bytes : least;
    b->send = tsr__calloc(b->engine, 1, room);
    b->recv = tsr__calloc(b->engine, 1, room);
    return b->send && b->recv ? TSR_OK : TSR_NOMEM;
}

tsr_status tsr_bench_collectives(tsr_engine *engine, const tsr_bench_collectives_options *options,
                                 tsr_bench_collectives_result *out) {
    tsr_bench_collectives_options o = TSR_BENCH_COLLECTIVES_OPTIONS_INIT;
    tsr__take_options(&o, sizeof o, options);
    bench b = {engine, tsr__world(engine), o.bytes / sizeof(float) * sizeof(float), o.repeats, NULL, NULL};
    tsr_bench_collectives_result result = {0};
    tsr_status status = tsr_status_agree(engine, prepare(&b, &o));
    if (status == TSR_OK) status = measure(&b, &result);
    tsr__free(engine, b.send);
    tsr__free(engine, b.recv);
    if (status == TSR_OK) *out = result;
    return status;
}
