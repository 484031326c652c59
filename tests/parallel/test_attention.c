/* Attention over ranks: random problems against float64 on every layout of the ranks. */
#include "layouts.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 70, HEADS = 9, CHANNELS = 16, BATCH = 2, MOST = BATCH * TOKENS * HEADS * CHANNELS };

typedef enum masking { NO_MASK, WHOLE_MASK, SPLIT_MASK, N_MASKINGS } masking;

/* One attention, the same on every rank, and what came of it: out over ranks, plain on this rank alone. */
typedef struct problem {
    int64_t B, H, G, D, T; /* batch, query heads, key heads, channels, tokens */
    int64_t parts[2];      /* of T, each split by itself */
    int n_parts;
    masking mask;
    float scale;
    double logit, value; /* the greatest of both */
    float q[MOST], k[MOST], v[MOST], plain[MOST], out[MOST];
    int64_t shown[BATCH * TOKENS];
    double exact[MOST];
    const tsr__sequence *sequence;
} problem;

/* --- random problems --- */

typedef struct dice {
    uint64_t seed, problem, n;
} dice;

static int64_t roll(dice *d, int64_t low, int64_t high) {
    return low + (int64_t)(rank_random(d->seed, d->problem, d->n++) % (uint64_t)(high - low + 1));
}

static void fill(dice *d, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)roll(d, -1000000, 1000000) * 1e-6f;
}

static double score(const problem *p, int64_t b, int64_t i, int64_t j, int64_t h) {
    const float *q = p->q + ((b * p->T + i) * p->H + h) * p->D;
    const float *k = p->k + ((b * p->T + j) * p->G + h / (p->H / p->G)) * p->D;
    double dot = 0.0;
    for (int64_t d = 0; d < p->D; d++) dot += (double)q[d] * (double)k[d];
    return dot * (double)p->scale;
}

static double greatest_logit(const problem *p) {
    double greatest = 0.0;
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t i = 0; i < p->T; i++)
            for (int64_t j = 0; j < p->T; j++)
                for (int64_t h = 0; h < p->H; h++) greatest = fmax(greatest, fabs(score(p, b, i, j, h)));
    return greatest;
}

/* Output row [D] of one query, in float64; zeros where it sees no key. */
static void attend_exactly(const problem *p, int64_t b, int64_t i, int64_t h, double *out) {
    double greatest = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < p->T; j++)
        if (p->shown[b * p->T + j]) greatest = fmax(greatest, score(p, b, i, j, h));
    memset(out, 0, (size_t)p->D * sizeof *out);
    for (int64_t j = 0; j < p->T; j++) {
        if (!p->shown[b * p->T + j]) continue;
        const float *v = p->v + ((b * p->T + j) * p->G + h / (p->H / p->G)) * p->D;
        double weight = exp(score(p, b, i, j, h) - greatest);
        sum += weight;
        for (int64_t d = 0; d < p->D; d++) out[d] += weight * (double)v[d];
    }
    for (int64_t d = 0; d < p->D && sum > 0.0; d++) out[d] /= sum;
}

/* Lengths from one token a rank on, heads that divide or not, groups of query heads where ulysses can keep them. */
static void draw_sizes(problem *p, dice *d, int ranks, int ulysses) {
    static const int64_t channels[] = {1, 3, 8, CHANNELS};
    p->n_parts = (int)roll(d, 1, 2);
    int64_t most = roll(d, 0, 3) ? TOKENS / p->n_parts : ranks;
    p->B = roll(d, 1, BATCH);
    p->H = roll(d, 1, HEADS);
    p->D = channels[roll(d, 0, 3)];
    p->T = p->parts[1] = 0;
    for (int i = 0; i < p->n_parts; i++) p->T += p->parts[i] = roll(d, ranks, most);
    int64_t group = roll(d, 1, 3);
    bool fits = p->H % group == 0 && p->H % ulysses == 0 && p->H / group % ulysses == 0;
    p->G = fits ? p->H / group : p->H;
}

static void draw(problem *p, dice *d, int ranks, int ulysses) {
    static const double logits[] = {0.5, 8.0, 30.0, 80.0};
    draw_sizes(p, d, ranks, ulysses);
    p->mask = (masking)roll(d, 0, N_MASKINGS - 1);
    p->scale = roll(d, 0, 1) ? 0.3f : 1.0f / sqrtf((float)p->D);
    fill(d, p->q, p->B * p->T * p->H * p->D);
    fill(d, p->k, p->B * p->T * p->G * p->D);
    fill(d, p->v, p->B * p->T * p->G * p->D);
    for (int64_t i = 0; i < p->B * p->T; i++) p->shown[i] = p->mask == NO_MASK || roll(d, 0, 2) == 0;
    float stretch = (float)(logits[roll(d, 0, 3)] / fmax(greatest_logit(p), 1e-3));
    for (int64_t i = 0; i < p->B * p->T * p->H * p->D; i++) p->q[i] *= stretch;
    p->logit = greatest_logit(p);
    p->value = 0.0;
    for (int64_t i = 0; i < p->B * p->T * p->G * p->D; i++) p->value = fmax(p->value, fabs((double)p->v[i]));
    for (int64_t r = 0; r < p->B * p->T * p->H; r++)
        attend_exactly(p, r / (p->T * p->H), r / p->H % p->T, r % p->H, p->exact + r * p->D);
}

/* --- forwards --- */

/* This rank's pieces of v [B, T, ...], part after part. */
static tsr__value spread(tsr__exec *x, const problem *p, tsr__value v) {
    tsr__value out = tsr__none();
    int64_t at = 0;
    for (int i = 0; i < p->n_parts; at += p->parts[i++]) {
        tsr__split split = rank_split(p->sequence, 1, p->parts[i]);
        tsr__value part = tsr__slice(x, v, 1, at, at + p->parts[i]);
        part = tsr__take_piece(x, part, TSR__AXIS_SEQUENCE, &split);
        out = i ? tsr__concat(x, out, part, 1) : part;
    }
    return out;
}

/* The whole of [B, T, ...] again, on every rank. */
static tsr__value gather(tsr__exec *x, const problem *p, tsr__value v) {
    tsr__value out = tsr__none();
    int64_t at = 0;
    for (int i = 0; i < p->n_parts; i++) {
        const tsr__comm *all = p->sequence ? p->sequence->all : NULL;
        tsr_range own = tsr__tensor_split(p->parts[i], all ? all->size : 1, all ? all->rank : 0);
        tsr__value part = tsr__slice(x, v, 1, at, at + own.end - own.begin);
        part = tsr__gather_over_ranks(x, part, TSR__AXIS_SEQUENCE);
        out = i ? tsr__concat(x, out, part, 1) : part;
        at += own.end - own.begin;
    }
    return tsr__contiguous(x, out);
}

typedef struct operands {
    tsr__value q, k, v, mask;
} operands;

static operands upload(tsr__exec *x, const problem *p) {
    operands o = {.q = tsr__upload(x, TSR_F32, TSR__SHAPE(p->B, p->T, p->H, p->D), p->q), .mask = tsr__none()};
    o.k = tsr__upload(x, TSR_F32, TSR__SHAPE(p->B, p->T, p->G, p->D), p->k);
    o.v = tsr__upload(x, TSR_F32, TSR__SHAPE(p->B, p->T, p->G, p->D), p->v);
    if (p->mask != NO_MASK) o.mask = tsr__upload(x, TSR_I64, TSR__SHAPE(p->B, p->T), p->shown);
    return o;
}

static void attend_both_ways(tsr__exec *x, void *context) {
    problem *p = context;
    operands o = upload(x, p);
    tsr__attention_options options = {.key_mask = o.mask, .scale = p->scale};
    tsr__download(x, tsr__attention(x, o.q, o.k, o.v, options), p->plain);
    if (p->mask == SPLIT_MASK) options.key_mask = spread(x, p, o.mask);
    tsr__value q = spread(x, p, o.q), k = spread(x, p, o.k), v = spread(x, p, o.v);
    tsr__download(x, gather(x, p, tsr__attention(x, q, k, v, options)), p->out);
}

/* --- the property --- */

static double worst(const problem *p, const float *out) {
    double error = 0.0;
    for (int64_t i = 0; i < p->B * p->T * p->H * p->D; i++) {
        double off = fabs((double)out[i] - p->exact[i]);
        error = off <= error ? error : off; /* also a NaN */
    }
    return error;
}

static tsr_status check(tsr_engine *engine, problem *p, dice d, const tsr__layout *layout) {
    tsr__sequence sequence = {0};
    int ulysses = 1;
    p->sequence = NULL;
    if (layout) {
        sequence = *layout->sequence;
        sequence.rotate_method = (tsr_rotate_method)roll(&d, 0, TSR_N_ROTATE_METHODS - 1);
        ulysses = sequence.ulysses ? sequence.ulysses->size : 1;
        p->sequence = &sequence;
    }
    draw(p, &d, tsr_engine_size(engine), ulysses);
    TSR__TRY(rank_run(engine, attend_both_ways, p));
    double error = worst(p, p->out), plain = worst(p, p->plain);
    double allowed = 2.0 * plain + 0x1p-23 * (1.0 + p->logit) * p->value;
    if (error <= allowed) return TSR_OK;
    return tsr__fail(engine, TSR_INTERNAL,
                     "TESSERA_SEED=%llu, problem %llu on %s: ulysses %d, rotate method %d, batch %lld, tokens %lld + "
                     "%lld, heads %lld over %lld of %lld, mask %d, logits to %g: off by %g, allowed %g",
                     (unsigned long long)d.seed, (unsigned long long)d.problem, engine->device->ops->name, ulysses,
                     (int)sequence.rotate_method, (long long)p->B, (long long)p->parts[0], (long long)p->parts[1],
                     (long long)p->H, (long long)p->G, (long long)p->D, (int)p->mask, p->logit, error, allowed);
}

/* Problems for some seconds; rank 0 says when it is enough. */
static tsr_status check_for(tsr_engine *engine, double seconds, uint64_t seed, const rank_layouts *l, problem *p) {
    double end = tsr__seconds() + seconds;
    uint64_t n = 0;
    for (int more = 1; more; n++) {
        const tsr__layout *layout = l->n ? &l->layout[n % (uint64_t)l->n] : NULL;
        TSR__TRY(tsr_status_agree(engine, check(engine, p, (dice){seed, n, 0}, layout)));
        more = tsr__seconds() < end || n < 20;
        TSR__TRY(tsr__broadcast(tsr__world(engine), &more, sizeof more, 0));
    }
    if (tsr_engine_rank(engine) == 0) printf("%s: %llu problems\n", engine->device->ops->name, (unsigned long long)n);
    return TSR_OK;
}

/* Issue 6, acceptance 2. `ref` computes in float64 and rounds what it exchanges; `cpu` computes in float32. */
static tsr_status equals_float64(tsr_engine *engine, void *user) {
    (void)user;
    static const char *const devices[] = {"ref", "cpu"};
    rank_layouts l = {.n = 0};
    uint64_t seed = 0;
    problem *p = tsr__calloc(engine, 1, sizeof *p);
    tsr__device *own = engine->device;
    tsr_status status = tsr_status_agree(engine, p ? TSR_OK : TSR_NOMEM);
    if (status == TSR_OK) status = rank_layouts_open(engine, true, &l);
    if (status == TSR_OK) status = rank_seed(engine, &seed);
    for (size_t i = 0; i < TSR__COUNT(devices) && status == TSR_OK && p; i++) {
        const tsr__device_ops *ops = tsr__device_find(devices[i]);
        if (!ops) continue; /* a build without it */
        status = tsr_status_agree(engine, tsr__device_create(engine, ops, 1, &engine->device));
        if (status == TSR_OK) status = check_for(engine, 4.0, seed, &l, p);
        if (engine->device != own) tsr__device_destroy(engine->device);
        engine->device = own;
    }
    rank_layouts_close(&l);
    tsr__free(engine, p);
    return status;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"equals_float64", equals_float64}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
