/* The collective steps of a forward, and the look at a value that is spread over ranks. */
#include "comm/comm.h"
#include "exec/ops.h"
#include "exec/split.h"

#include <string.h>

void tsr__graph_visit_collectives(const tsr__graph *graph, tsr__collective_visitor visit, void *user) {
    static const int kinds[] = {[TSR__STEP_ALL_REDUCE] = TSR__ALL_REDUCE,
                                [TSR__STEP_ALL_GATHER] = TSR__ALL_GATHER,
                                [TSR__STEP_ALL_TO_ALL] = TSR__ALL_TO_ALL,
                                [TSR__STEP_START_SHIFT] = TSR__SEND_RECEIVE};
    for (int32_t s = 0; s < graph->n_steps; s++)
        if (graph->steps[s].comm && graph->steps[s].kind != TSR__STEP_FINISH_SHIFT)
            visit(user, kinds[graph->steps[s].kind], graph->steps[s].comm, graph->steps[s].payload_bytes);
}

/* --- sum --- */

static tsr_status run_all_reduce(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    (void)out;
    (void)user;
    return tsr__all_reduce(comm, in->data, (size_t)tsr__view_elements(in));
}

tsr__value tsr__sum_over_ranks(tsr__exec *x, tsr__value v) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    tsr__comm *comm = tsr__value_record_of(x, v)->partial;
    if (!comm) return v;
    size_t bytes = tsr__view_bytes(tsr__value_strides(x, v));
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_ALL_REDUCE, comm, bytes, run_all_reduce, NULL, TSR_F32}, v, NULL);
    tsr__value_record_of(x, v)->summed = true;
    return v;
}

/* --- between ranks --- */

/* What each rank sends and receives, in bytes. */
typedef struct traffic {
    size_t sent[TSR__MAX_RANKS], received[TSR__MAX_RANKS];
} traffic;

/* Bytes of n counts of elements; returns their sum in elements. */
static int64_t count_bytes(const int64_t *elements, int n, size_t size, size_t *bytes) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        bytes[i] = (size_t)elements[i] * size;
        sum += elements[i];
    }
    return sum;
}

static tsr_status run_gather_values(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    return tsr__all_gather(comm, in->data, ((const traffic *)user)->received, out->data);
}

tsr__value tsr__all_gather_values(tsr__exec *x, tsr__comm *comm, tsr__value v, const int64_t *elements) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    traffic t;
    tsr_dtype dtype = tsr__value_strides(x, v)->dtype;
    size_t size = tsr_dtype_bits(dtype) / 8;
    tsr__value out = {.ndim = 1, .shape = {count_bytes(elements, comm->size, size, t.received)}};
    size_t payload = (size_t)out.shape[0] * size;
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_ALL_GATHER, comm, payload, run_gather_values, &t, dtype}, v, &out);
    return out;
}

static tsr_status run_all_to_all(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    const traffic *t = user;
    return tsr__all_to_all(comm, in->data, t->sent, out->data, t->received);
}

tsr__value tsr__all_to_all_values(tsr__exec *x, tsr__comm *comm, tsr__value v, const int64_t *sent,
                                  const int64_t *received) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    traffic t;
    size_t payload = (size_t)count_bytes(sent, comm->size, sizeof(float), t.sent) * sizeof(float);
    tsr__value out = {.ndim = 1, .shape = {count_bytes(received, comm->size, sizeof(float), t.received)}};
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_ALL_TO_ALL, comm, payload, run_all_to_all, &t, TSR_F32}, v, &out);
    return out;
}

static tsr_status run_start(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    (void)user;
    int to = (comm->rank + 1) % comm->size, from = (comm->rank + comm->size - 1) % comm->size;
    return tsr__start_send_receive(comm, in->data, tsr__view_bytes(in), to, out->data, tsr__view_bytes(out), from);
}

tsr__value tsr__start_shift(tsr__exec *x, tsr__comm *comm, tsr__value v, int ndim, const int64_t *shape) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    tsr__value out = {.ndim = ndim};
    memcpy(out.shape, shape, (size_t)ndim * sizeof *shape);
    size_t payload = tsr__view_bytes(tsr__value_strides(x, v));
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_START_SHIFT, comm, payload, run_start, NULL, TSR_F32}, v, &out);
    return out;
}

static tsr_status run_finish(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    (void)in;
    (void)out;
    (void)user;
    return tsr__finish_send_receive(comm);
}

void tsr__finish_shift(tsr__exec *x, tsr__comm *comm, tsr__value sent) {
    if (tsr__exec_stopped(x) || tsr__is_none(sent)) return;
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_FINISH_SHIFT, comm, 0, run_finish, NULL, TSR_F32}, sent, NULL);
}

/* --- gather --- */

/* The pieces of a split value on all ranks, as a communicator gathers them: one after another. */
typedef struct pieces {
    int64_t before, behind; /* elements to the left and to the right of the split dimension */
    size_t bytes[TSR__MAX_RANKS], total;
} pieces;

static void measure(const tsr__split *split, const int64_t *shape, int ndim, pieces *out) {
    out->before = out->behind = 1;
    for (int d = 0; d < ndim; d++) *(d < split->dim ? &out->before : &out->behind) *= d == split->dim ? 1 : shape[d];
    out->total = 0;
    for (int r = 0; r < split->comm->size; r++) {
        out->bytes[r] = (size_t)(out->before * tsr__split_length(split, r) * out->behind) * sizeof(float);
        out->total += out->bytes[r];
    }
}

static tsr_status run_all_gather(tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user) {
    return tsr__all_gather(comm, in->data, user, out->data);
}

/* Rank r's piece, which begins at element `at` of what was gathered. */
static tsr__value piece_of(tsr__exec *x, tsr__value gathered, int64_t at, int64_t n, tsr__value v, int dim,
                           int64_t length) {
    v.shape[dim] = length;
    return tsr__reshape(x, tsr__slice(x, gathered, 0, at, at + n), v.ndim, v.shape);
}

/* The whole of a value of v's shape but for the split dimension, from its gathered pieces. */
static tsr__value join(tsr__exec *x, tsr__value gathered, const pieces *p, tsr__value v, const tsr__split *split) {
    if (p->before == 1) return piece_of(x, gathered, 0, gathered.shape[0], v, split->dim, split->parts[0]);
    tsr__value out = tsr__none();
    int64_t at = 0;
    for (int r = 0; r < split->comm->size; r++) {
        int64_t n = (int64_t)(p->bytes[r] / sizeof(float));
        tsr__value next = piece_of(x, gathered, at, n, v, split->dim, tsr__split_length(split, r));
        out = r ? tsr__concat(x, out, next, split->dim) : next;
        at += n;
    }
    return out;
}

tsr__value tsr__gather_over_ranks(tsr__exec *x, tsr__value v, tsr__axis axis) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    const tsr__split split = *tsr__value_split(x, v, axis);
    if (!split.comm) return v;
    if (split.n_parts != 1 || split.pieces != split.comm->size)
        return tsr__exec_fail(x, TSR_SHAPE, "a value of %zu parts in %d pieces over %d ranks cannot be gathered",
                              split.n_parts, split.pieces, split.comm->size);
    pieces p;
    if (!tsr__view_is_dense(tsr__value_strides(x, v))) v = tsr__contiguous(x, v);
    measure(&split, v.shape, v.ndim, &p);
    tsr__value flat = {.ndim = 1, .shape = {(int64_t)(p.total / sizeof(float))}};
    tsr__emit_exchange(x, &(tsr__exchange){TSR__STEP_ALL_GATHER, split.comm, p.total, run_all_gather, p.bytes, TSR_F32},
                       v, &flat);
    tsr__value out = join(x, flat, &p, v, &split);
    for (tsr__axis other = 0; other < TSR__N_AXES; other++)
        if (other != axis && !tsr__is_none(v)) tsr__set_split(x, out, other, tsr__value_split(x, v, other));
    return out;
}

tsr__value tsr__take_piece(tsr__exec *x, tsr__value v, tsr__axis axis, const tsr__split *split) {
    if (tsr__exec_stopped(x) || tsr__is_none(v) || !split->comm) return v;
    tsr_range own = tsr__split_piece(split, 0, split->comm->rank);
    if (tsr__value_split(x, v, axis)->comm)
        return tsr__exec_fail(x, TSR_SHAPE, "a value that is split over ranks already cannot be split again");
    if (split->n_parts != 1 || split->parts[0] != v.shape[split->dim])
        return tsr__exec_fail(x, TSR_SHAPE, "a piece of %lld was asked of a value whose dimension %d has %lld",
                              (long long)split->parts[0], split->dim, (long long)v.shape[split->dim]);
    tsr__value piece = tsr__slice(x, v, split->dim, own.begin, own.end);
    tsr__set_split(x, piece, axis, split);
    return piece;
}

/* --- looking --- */

tsr__value tsr__whole_shape(const tsr__exec *x, tsr__value v) {
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        const tsr__split *split = tsr__value_split(x, v, axis);
        if (split->comm) v.shape[split->dim] = tsr__split_length(split, -1);
    }
    return v;
}

/* Lays gathered pieces out as the whole. */
static void lay_out(const tsr__split *split, const pieces *p, const float *gathered, float *whole) {
    int64_t row = tsr__split_length(split, -1) * p->behind;
    for (int r = 0; r < split->comm->size; r++)
        for (int64_t b = 0; b < p->before; b++) {
            float *part = whole + b * row;
            for (size_t i = 0; i < split->n_parts; i++) {
                tsr_range piece = tsr__split_piece(split, i, r);
                int64_t n = (piece.end - piece.begin) * p->behind;
                memcpy(part + piece.begin * p->behind, gathered, (size_t)n * sizeof *whole);
                gathered += n;
                part += split->parts[i] * p->behind;
            }
        }
}

/* Did any of the ranks that hold pieces of v fail? They find out together. */
static tsr_status agree(tsr__exec *x, tsr__value v, bool *failed) {
    float flag = *failed;
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++)
        TSR__TRY(tsr__all_reduce(tsr__value_split(x, v, axis)->comm, &flag, 1));
    *failed = flag > 0.0f;
    return TSR_OK;
}

static int64_t elements(tsr__value v) {
    int64_t n = 1;
    for (int d = 0; d < v.ndim; d++) n *= v.shape[d];
    return n;
}

/* data, of the shape of v, becomes whole along one axis after the other; spare is as large as all pieces. */
static tsr_status gather_axes(tsr__exec *x, tsr__value v, float *data, float *spare) {
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        const tsr__split *split = tsr__value_split(x, v, axis);
        if (!split->comm) continue;
        pieces p;
        measure(split, v.shape, v.ndim, &p);
        TSR__TRY(tsr__all_gather(split->comm, data, p.bytes, spare));
        lay_out(split, &p, spare, data);
        v.shape[split->dim] = tsr__split_length(split, -1);
    }
    return TSR_OK;
}

tsr_status tsr__exec_peek_whole(tsr__exec *x, tsr__value v, float *host, bool *complete) {
    tsr__value all = tsr__whole_shape(x, v);
    size_t most = 0; /* times the whole: none where nothing is split, several for key/value heads that repeat */
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        const tsr__split *split = tsr__value_split(x, v, axis);
        if (split->comm) most = (most ? most : 1) * (size_t)(split->comm->size / split->pieces);
    }
    float *spare = most ? tsr__calloc(tsr__exec_engine(x), most * (size_t)elements(all), sizeof *spare) : NULL;
    bool room = host && (spare || !most);
    tsr_status own = tsr__exec_status(x) != TSR_OK ? tsr__exec_status(x) : room ? TSR_OK : TSR_NOMEM;
    if (own == TSR_OK) own = tsr__exec_peek(x, v, host);
    bool failed = own != TSR_OK;
    tsr_status status = agree(x, v, &failed);
    if (status == TSR_OK && !failed && host && spare) status = gather_axes(x, v, host, spare);
    tsr__free(tsr__exec_engine(x), spare);
    if (status == TSR_OK && !failed) *complete = true;
    return own != TSR_OK ? own : status;
}
