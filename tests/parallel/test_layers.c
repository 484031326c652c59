/* Layers on several ranks against the same layers on one: linears of every style, the embedding, gathers. And variants
 * of the row-wise linear that are wrong on purpose, which the same comparison must catch. */
#include "ranks.h"

#include "exec/split.h"
#include "nn/layers.h"
#include "parallel/tensor_parallel.h"

#include <math.h>
#include <string.h>

enum { B = 2, S = 3, K = 8, N = 16, V = 12, MOST = 512 };

typedef struct toy {
    tsr__module module;
    tsr__linear in, out, fused, fused_out; /* fused: parts of N, N and 2 N; fused_out: of N and 2 N */
    tsr__embedding_layer embed;
} toy;

static tsr_status declare(toy *t, const tsr_tp_rule *rules, size_t n, const tsr_engine *engine) {
    memset(t, 0, sizeof *t);
    t->module.name = "";
    TSR__LINEAR(t, in, K, N, TSR__BIAS);
    TSR__LINEAR(t, out, N, K, TSR__BIAS);
    TSR__LINEAR(t, fused, K, 4 * N, TSR__BIAS);
    TSR__LINEAR(t, fused_out, 3 * N, K, TSR__BIAS);
    TSR__BLOCKS(t, fused, N, N, 2 * N);
    TSR__BLOCKS(t, fused_out, N, 2 * N);
    TSR__EMBEDDING(t, embed, V, K);
    tsr__tp_plan plan = {"Toy", {rules, n}, {NULL, 0}, 4};
    tsr_engine *e = (tsr_engine *)(uintptr_t)engine;
    if (!n || e->size == 1) return TSR_OK;
    TSR__TRY(tsr__tp_mark(e, &t->module, &plan));
    return tsr__tp_split(e, &t->module, &plan, tsr__world(e), e->rank, e->size);
}

static float number(uint64_t of, int64_t i) {
    return (float)(int32_t)(rank_random(5, of, (uint64_t)i) >> 32) * 0x1p-31f;
}

/* Weights that are the same on any number of ranks: this rank's part of them. */
static tsr_status fill(void *user, tsr__param *param) {
    tsr__device *device = ((tsr_engine *)user)->device;
    tsr_range ranges[TSR__MAX_RANGES] = {{0, param->whole[0]}};
    const tsr__tp *tp = &param->owner->tp;
    size_t n = tp->comm ? tsr__shard_ranges(&param->spec, tp->rank, tp->degree, ranges) : 0;
    int dim = n ? param->spec.dim : 0;
    int64_t inner = dim == 0 && param->view.ndim == 2 ? param->whole[1] : 1, outer = dim == 1 ? param->whole[0] : 1;
    uint64_t seed = (uint64_t)param->name[0] * 31 + (uint64_t)param->owner->name[0] + strlen(param->owner->name);
    if (!n) n = 1, ranges[0] = (tsr_range){0, param->whole[dim]};
    param->view.dtype = TSR_F32;
    float *at = param->view.data = device->ops->alloc(device, tsr__view_bytes(&param->view));
    if (!at) return TSR_NOMEM;
    for (int64_t o = 0; o < outer; o++)
        for (size_t r = 0; r < n; r++)
            for (int64_t i = ranges[r].begin * inner; i < ranges[r].end * inner; i++)
                *at++ = number(seed, o * param->whole[dim] * inner + i);
    return TSR_OK;
}

static tsr_status drop(void *user, tsr__param *param) {
    tsr__device *device = ((tsr_engine *)user)->device;
    device->ops->free(device, param->view.data);
    return TSR_OK;
}

/* --- forwards, [batch, S, K] -> [batch, S, ..] --- */

typedef struct run {
    const toy *toy;
    tsr__value (*forward)(tsr__exec *x, const struct run *r, tsr__value in);
    int64_t batch;
    size_t n; /* of out */
    float in[B * S * K], out[MOST];
} run;

static tsr__value rowwise(tsr__exec *x, const run *r, tsr__value in) {
    return tsr__linear_forward(x, &r->toy->out, tsr__linear_forward(x, &r->toy->in, in));
}

static tsr__value alone(tsr__exec *x, const run *r, tsr__value in) { return tsr__linear_forward(x, &r->toy->in, in); }

static tsr__value gathered_by_hand(tsr__exec *x, const run *r, tsr__value in) {
    return tsr__gather_over_ranks(x, tsr__linear_forward(x, &r->toy->in, in), TSR__AXIS_TP);
}

/* out(a | silu(c)), a + b and c of the fused projection */
static tsr__value packed(tsr__exec *x, const run *r, tsr__value in) {
    tsr__value h = tsr__linear_forward(x, &r->toy->fused, in);
    int64_t n = h.shape[2] / 4;
    tsr__value sum = tsr__add_values(x, tsr__slice(x, h, -1, 0, n), tsr__slice(x, h, -1, n, 2 * n));
    tsr__value c = tsr__silu(x, tsr__contiguous(x, tsr__slice(x, h, -1, 2 * n, 4 * n)));
    return tsr__linear_forward(x, &r->toy->fused_out, tsr__concat(x, sum, c, -1));
}

static tsr__value looked_up(tsr__exec *x, const run *r, tsr__value in) {
    static const int64_t ids[B * S] = {0, 11, 5, 6, 3, 0};
    (void)in;
    return tsr__embedding_forward(x, &r->toy->embed, tsr__upload(x, TSR_I64, TSR__SHAPE(r->batch, S), ids));
}

/* Wrong: the bias of a row-wise linear on every rank. */
static tsr__value bias_on_every_rank(tsr__exec *x, const run *r, tsr__value in) {
    const tsr__linear *out = &r->toy->out;
    tsr__value h = tsr__linear_forward(x, &r->toy->in, in);
    return tsr__sum_over_ranks(x,
                               tsr__matmul(x, h, tsr__param_value(x, &out->weight), tsr__param_value(x, &out->bias)));
}

/* Wrong: no sum over ranks. */
static tsr__value forgotten_sum(tsr__exec *x, const run *r, tsr__value in) {
    const tsr__linear *out = &r->toy->out;
    tsr__value h = tsr__linear_forward(x, &r->toy->in, in);
    return tsr__matmul(x, h, tsr__param_value(x, &out->weight), tsr__none());
}

static void forward(tsr__exec *x, void *context) {
    run *r = context;
    tsr__value out = r->forward(x, r, tsr__upload(x, TSR_F32, TSR__SHAPE(r->batch, S, K), r->in));
    if (tsr__exec_stopped(x)) return;
    r->n = (size_t)(out.shape[0] * out.shape[1] * out.shape[2]);
    tsr__download(x, out, r->out);
}

static tsr_status execute(tsr_engine *engine, tsr__forward f, void *context, tsr__tap_fn tap) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    tsr_status status = tsr__exec_create(engine, TSR_F32, &x);
    if (status == TSR_OK) status = tsr__exec_record(x, f, context, &graph);
    status = tsr_status_agree(engine, status);
    if (status == TSR_OK) status = tsr_status_agree(engine, tsr__exec_reserve(x));
    if (status == TSR_OK && tap) tsr__exec_set_tap(x, tap, context);
    if (status == TSR_OK) status = tsr__exec_run(x, graph, context);
    tsr__exec_destroy(x);
    return tsr_status_agree(engine, status);
}

typedef tsr__value (*layer_forward)(tsr__exec *x, const run *r, tsr__value in);

/* The forward under the rules; n_rules 0: on one rank, which each is for itself. */
static tsr_status compute(tsr_engine *engine, const tsr_tp_rule *rules, size_t n_rules, layer_forward f, run *r) {
    toy t;
    TSR__TRY(declare(&t, rules, n_rules, engine));
    r->toy = &t;
    r->forward = f;
    for (int i = 0; i < B * S * K; i++) r->in[i] = number(77, i);
    tsr_status status = tsr_status_agree(engine, tsr__module_visit_params(&t.module, fill, engine));
    if (status == TSR_OK) status = execute(engine, forward, r, NULL);
    (void)!tsr__module_visit_params(&t.module, drop, engine);
    return status;
}

/* The largest |a - b| / (1 + |b|). */
static double apart(const run *a, const run *b) {
    double worst = a->n == b->n ? 0.0 : INFINITY;
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        worst = fmax(worst, fabs((double)a->out[i] - (double)b->out[i]) / (1.0 + fabs((double)b->out[i])));
    return worst;
}

enum { MOST_RULES = 2 };
static const tsr_tp_rule paired[] = {{"in", TSR_COLWISE, {0}}, {"out", TSR_ROWWISE, {0}}};

static tsr_status equal_to_one_rank(tsr_engine *engine, void *user) {
    static const struct {
        const char *name;
        tsr_tp_rule rules[MOST_RULES];
        size_t n;
        layer_forward forward;
    } rows[] = {
        {"rowwise", {{"in", TSR_COLWISE, {0}}, {"out", TSR_ROWWISE, {0}}}, 2, rowwise},
        {"rowwise_split_input", {{"in", TSR_ROWWISE_SPLIT_INPUT, {0}}}, 1, alone},
        {"both", {{"in", TSR_ROWWISE_SPLIT_INPUT, {0}}, {"out", TSR_COLWISE_GATHER_OUTPUT, {0}}}, 2, rowwise},
        {"colwise_gather_output", {{"in", TSR_COLWISE_GATHER_OUTPUT, {0}}}, 1, alone},
        {"gather", {{"in", TSR_COLWISE, {0}}}, 1, gathered_by_hand},
        {"packed", {{"fused", TSR_PACKED_COLWISE, {0}}, {"fused_out", TSR_PACKED_ROWWISE, {0}}}, 2, packed},
        {"embedding", {{"embed", TSR_ROWWISE, {0}}}, 1, looked_up},
    };
    (void)user;
    for (size_t i = 0; i < TSR__COUNT(rows); i++)
        for (int64_t batch = 1; batch <= B; batch++) {
            run split = {.batch = batch}, one = {.batch = batch};
            TSR__TRY(compute(engine, rows[i].rules, rows[i].n, rows[i].forward, &split));
            TSR__TRY(compute(engine, NULL, 0, rows[i].forward, &one));
            if (!(apart(&split, &one) <= 1e-6))
                return tsr__fail(engine, TSR_INTERNAL, "%s, batch %lld: off by %g", rows[i].name, (long long)batch,
                                 apart(&split, &one));
        }
    return TSR_OK;
}

static tsr_status wrong_variants_are_caught(tsr_engine *engine, void *user) {
    (void)user;
    run wrong = {.batch = B}, one = {.batch = B};
    bool several = tsr_engine_size(engine) > 1;
    TSR__TRY(compute(engine, NULL, 0, rowwise, &one));
    TSR__TRY(compute(engine, paired, TSR__COUNT(paired), bias_on_every_rank, &wrong));
    RANK_CHECK(engine, several ? apart(&wrong, &one) > 0.1 : apart(&wrong, &one) == 0.0);
    tsr_status status = compute(engine, paired, TSR__COUNT(paired), forgotten_sum, &wrong);
    RANK_CHECK(engine, status == (several ? TSR_SHAPE : TSR_OK));
    RANK_CHECK(engine, !several || strstr(tsr_engine_message(engine), "download: an input is a partial sum"));
    return TSR_OK;
}

/* --- uneven pieces along the sequence --- */

enum { TOKENS = 7, TEXT = 5 };

typedef struct sequence {
    tsr__comm *world;
    tsr__split split;
    bool gather, starve; /* starve: the last rank has no memory for its look */
    bool complete;
    float own[B * (TOKENS + TEXT) * 2], whole[B * (TOKENS + TEXT) * 2], seen[B * (TOKENS + TEXT) * 2];
} sequence;

/* [B, tokens, 2] of which this rank holds piece after piece of the parts */
static void cut(sequence *s, int rank, int64_t tokens) {
    int64_t at = 0;
    for (int64_t i = 0; i < B * tokens * 2; i++) s->whole[i] = (float)i;
    for (int64_t b = 0, n = 0; b < B; b++, at = b * tokens)
        for (size_t p = 0; p < s->split.n_parts; p++) {
            tsr_range piece = s->world ? tsr__split_piece(&s->split, p, rank) : (tsr_range){0, s->split.parts[p]};
            for (int64_t i = 2 * (at + piece.begin); i < 2 * (at + piece.end); i++) s->own[n++] = (float)i;
            at += s->split.parts[p];
        }
}

static void sequence_forward(tsr__exec *x, void *context) {
    sequence *s = context;
    int64_t tokens = 0;
    for (size_t p = 0; p < s->split.n_parts; p++) tokens += s->split.parts[p];
    int64_t length = s->world ? tsr__split_length(&s->split, s->world->rank) : tokens;
    tsr__value v = tsr__upload(x, TSR_F32, TSR__SHAPE(B, length, 2), s->own);
    if (s->world) tsr__set_split(x, v, TSR__AXIS_SEQUENCE, &s->split);
    tsr__tap(x, s, 0, v);
    tsr__tap(x, s, 0, v);
    if (s->gather) tsr__download(x, tsr__gather_over_ranks(x, v, TSR__AXIS_SEQUENCE), s->seen);
}

static tsr_status look(void *user, tsr__exec *x, const void *owner, int index, int nth, tsr__value v) {
    sequence *s = user;
    bool last = s->world && s->world->rank == s->world->size - 1;
    if (owner != s || index != 0 || nth > 1) return TSR_INTERNAL;
    if (nth == 1) return TSR_OK; /* the second of two */
    return tsr__exec_peek_whole(x, v, s->starve && last ? NULL : s->seen, &s->complete);
}

static tsr_status uneven_pieces(tsr_engine *engine, void *user) {
    static const struct {
        size_t n_parts;
        int64_t parts[2];
        bool gather, starve;
    } rows[] = {{1, {TOKENS, 0}, false, false},
                {2, {TEXT, TOKENS}, false, false},
                {1, {TOKENS, 0}, true, false},
                {1, {TOKENS, 0}, false, true},
                {1, {1, 0}, true, false}};
    (void)user;
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        sequence s = {.world = tsr__world(engine), .gather = rows[i].gather, .starve = rows[i].starve};
        int64_t tokens = rows[i].parts[0] + rows[i].parts[1];
        s.split =
            (tsr__split){.comm = s.world, .dim = 1, .pieces = tsr_engine_size(engine), .n_parts = rows[i].n_parts};
        memcpy(s.split.parts, rows[i].parts, sizeof rows[i].parts);
        cut(&s, tsr_engine_rank(engine), tokens);
        tsr_status status = execute(engine, sequence_forward, &s, s.gather ? NULL : look);
        bool starved = s.starve && s.world;
        RANK_CHECK(engine, status == (starved ? TSR_NOMEM : TSR_OK));
        RANK_CHECK(engine, s.complete == (!s.gather && !starved));
        RANK_CHECK(engine, starved || memcmp(s.seen, s.whole, (size_t)(B * tokens * 2) * sizeof *s.seen) == 0);
    }
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"equal_to_one_rank", equal_to_one_rank},
                                      {"wrong_variants_are_caught", wrong_variants_are_caught},
                                      {"uneven_pieces", uneven_pieces}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
