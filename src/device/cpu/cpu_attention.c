/* Attention without the matrix of all scores: a tile of queries meets the keys tile by tile, carrying for each query
 * the maximum and the sum of exp(score - maximum) so far, and its output before division by that sum. Source: Milakov
 * and Gimelshein 2018, Rabe and Staats 2021, Dao et al. 2022. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { QUERIES = 256, KEYS = 256 };

typedef struct attention {
    const tsr__device *device;
    const tsr__op *op;
    const tsr__kernels *kernels;
    int64_t batch, length, keys, heads, channels, heads_per_key;
    int64_t query_tile, key_tile;
    float *bias;  /* [B, T] 0 or -inf, NULL without a mask */
    float *tiles; /* tile_floats for each thread */
    size_t tile_floats;
} attention;

/* The part of one thread. */
typedef struct tile {
    float *score;           /* [query_tile, key_tile] */
    float *out;             /* [query_tile, D] */
    float *maximum, *sum;   /* [query_tile] */
    int64_t b, head, first; /* of the queries */
    int64_t queries;
} tile;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static attention attention_of(const tsr__device *device, const tsr__op *op, tsr__scratch *scratch) {
    const int64_t *q = op->in[0]->shape, *k = op->in[1]->shape;
    attention a = {.device = device, .op = op, .kernels = tsr__kernels_of(device), .batch = q[0], .length = q[1]};
    a.heads = q[2];
    a.channels = q[3];
    a.keys = k[1];
    a.heads_per_key = k[2] ? q[2] / k[2] : 1;
    a.query_tile = least(QUERIES, a.length);
    a.key_tile = least(KEYS, a.keys);
    a.tile_floats = ((size_t)(a.query_tile * (a.key_tile + a.channels + 2)) + 15) / 16 * 16;
    if (op->in[3]) a.bias = tsr__scratch_take(scratch, (size_t)(a.batch * a.keys) * sizeof(float));
    a.tiles = tsr__scratch_take(scratch, (size_t)device->threads * a.tile_floats * sizeof(float));
    return a;
}

size_t tsr__cpu_attention_scratch(const tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {NULL, 0};
    (void)attention_of(device, op, &scratch);
    return scratch.used;
}

static void fill_bias(const attention *a) {
    const tsr__view *mask = a->op->in[3];
    for (int64_t b = 0; mask && b < a->batch; b++)
        for (int64_t j = 0; j < a->keys; j++) {
            int64_t shown = ((const int64_t *)mask->data)[b * mask->stride[0] + j * mask->stride[1]];
            a->bias[b * a->keys + j] = shown ? 0.0f : -INFINITY;
        }
}

static tile tile_of(const attention *a, int thread) {
    tile t = {.score = a->tiles + (size_t)thread * a->tile_floats};
    t.out = t.score + a->query_tile * a->key_tile;
    t.maximum = t.out + a->query_tile * a->channels;
    t.sum = t.maximum + a->query_tile;
    return t;
}

/* The memory of head h at position i of batch b, and the distance between positions. */
static const float *at(const tsr__view *view, int64_t b, int64_t i, int64_t h) {
    return (const float *)view->data + b * view->stride[0] + i * view->stride[1] + h * view->stride[2];
}

static int64_t step(const tsr__view *view) { return view->shape[1] > 1 ? view->stride[1] : view->shape[3]; }

/* Scores of one query become exp(score - maximum); what was gathered before is scaled to the new maximum. */
static void soften(const attention *a, const tile *t, int64_t query, int64_t first_key, int64_t keys) {
    float *score = t->score + query * a->key_tile, *out = t->out + query * a->channels;
    int64_t shown = keys;
    if (a->op->param.attention.causal) shown = least(keys, t->first + query + 1 - first_key);
    if (shown < 0) shown = 0;
    if (a->bias) a->kernels->axpy(score, a->bias + t->b * a->keys + first_key, 1.0f, score, shown);
    float before = t->maximum[query], now = fmaxf(before, a->kernels->maximum(score, shown));
    if (now == -INFINITY) shown = 0;
    memset(score + shown, 0, (size_t)(keys - shown) * sizeof *score);
    if (shown == 0) return;
    float factor = before == now ? 1.0f : expf(before - now);
    t->sum[query] = t->sum[query] * factor + a->kernels->exp_sum(score, now, shown);
    t->maximum[query] = now;
    if (factor != 1.0f) a->kernels->scale(out, factor, out, a->channels);
}

/* Adds the keys [first_key, first_key + keys) to the tile. */
static dnnl_status_t add_keys(const attention *a, const tile *t, int64_t first_key, int64_t keys) {
    const tsr__view *q = a->op->in[0], *k = a->op->in[1], *v = a->op->in[2];
    int64_t group = t->head / a->heads_per_key;
    dnnl_status_t status = dnnl_sgemm('N', 'T', t->queries, keys, a->channels, a->op->param.attention.scale,
                                      at(q, t->b, t->first, t->head), step(q), at(k, t->b, first_key, group), step(k),
                                      0.0f, t->score, a->key_tile);
    if (status != dnnl_success) return status;
    for (int64_t i = 0; i < t->queries; i++) soften(a, t, i, first_key, keys);
    return dnnl_sgemm('N', 'N', t->queries, a->channels, keys, 1.0f, t->score, a->key_tile,
                      at(v, t->b, first_key, group), step(v), 1.0f, t->out, a->channels);
}

static void write_tile(const attention *a, const tile *t) {
    float *out = a->op->out[0]->data, *stats = a->op->out[1] ? a->op->out[1]->data : NULL;
    for (int64_t i = 0; i < t->queries; i++) {
        int64_t row = (t->b * a->length + t->first + i) * a->heads + t->head;
        float sum = t->sum[i];
        a->kernels->scale(t->out + i * a->channels, sum > 0.0f ? 1.0f / sum : 0.0f, out + row * a->channels,
                          a->channels);
        if (!stats) continue;
        stats[2 * row] = t->maximum[i];
        stats[2 * row + 1] = sum;
    }
}

/* Tile number n, counted over batch, heads and query tiles. */
static dnnl_status_t run_tile(const tsr__device *device, const attention *a, int64_t n) {
    int64_t tiles = (a->length + a->query_tile - 1) / a->query_tile;
    tile t = tile_of(a, omp_get_thread_num());
    t.b = n / tiles / a->heads;
    t.head = n / tiles % a->heads;
    t.first = n % tiles * a->query_tile;
    t.queries = least(a->query_tile, a->length - t.first);
    memset(t.out, 0, (size_t)(t.queries * a->channels) * sizeof *t.out);
    for (int64_t i = 0; i < t.queries; i++) t.maximum[i] = -INFINITY, t.sum[i] = 0.0f;
    int64_t keys = a->op->param.attention.causal ? least(a->keys, t.first + t.queries) : a->keys;
    dnnl_status_t status = dnnl_success;
    for (int64_t k = 0; k < keys && status == dnnl_success; k += a->key_tile) {
        status = add_keys(a, &t, k, least(a->key_tile, keys - k));
        if (omp_get_thread_num() == 0) tsr__cpu_tile_done(device);
    }
    write_tile(a, &t);
    return status;
}

tsr_status tsr__cpu_attention(tsr__device *device, const tsr__op *op) {
    if (tsr__view_elements(op->in[0]) == 0) return TSR_OK;
    if (!op->scratch) return tsr__fail(device->engine, TSR_INTERNAL, "attention was called without its scratch memory");
    tsr__scratch scratch = {op->scratch, 0};
    attention a = attention_of(device, op, &scratch);
    fill_bias(&a);
    omp_set_num_threads(device->threads); /* a team of one is no parallel region to oneDNN: it would wake others */
    int64_t count = a.batch * a.heads * ((a.length + a.query_tile - 1) / a.query_tile);
    dnnl_status_t worst = dnnl_success;
#pragma omp parallel for num_threads(device->threads) schedule(dynamic) reduction(max : worst)
    for (int64_t n = 0; n < count; n++) {
        dnnl_status_t status = run_tile(device, &a, n); /* dnnl_sgemm uses the calling thread alone */
        if (status > worst) worst = status;
    }
    return tsr__dnnl_check(device, worst, "multiply in attention");
}

/* Weights of two partial outputs in their sum, and what the sum says of itself. */
static void merge_weights(const float *a, const float *b, float *weights, float *stats) {
    float greatest = fmaxf(a[0], b[0]);
    weights[0] = a[1] > 0.0f ? a[1] * expf(a[0] - greatest) : 0.0f;
    weights[1] = b[1] > 0.0f ? b[1] * expf(b[0] - greatest) : 0.0f;
    float sum = weights[0] + weights[1];
    stats[0] = greatest;
    stats[1] = sum;
    for (int i = 0; i < 2; i++) weights[i] = sum > 0.0f ? weights[i] / sum : 0.0f;
}

tsr_status tsr__cpu_attention_merge(tsr__device *device, const tsr__op *op) {
    const tsr__kernels *kernels = tsr__kernels_of(device);
    int64_t D = op->in[0]->shape[3], rows = D ? tsr__view_elements(op->in[0]) / D : 0;
    const float *a = op->in[0]->data, *stats_a = op->in[1]->data, *b = op->in[2]->data, *stats_b = op->in[3]->data;
    float *out = op->out[0]->data, *stats = op->out[1]->data;
#pragma omp parallel for num_threads(tsr__cpu_threads(device, rows *D))
    for (int64_t r = 0; r < rows; r++) {
        float weights[2];
        merge_weights(stats_a + 2 * r, stats_b + 2 * r, weights, stats + 2 * r);
        kernels->scale(a + r * D, weights[0], out + r * D, D);
        kernels->axpy(out + r * D, b + r * D, weights[1], out + r * D, D);
    }
    return TSR_OK;
}
