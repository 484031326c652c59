#include "exec/exec.h"

#include "comm/comm.h"
#include "exec/graph.h"
#include "exec/ops.h"
#include "exec/split.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum mode { IDLE, RECORDING, RUNNING } mode;

typedef struct kept {
    tsr__view view;
    struct kept *next;
} kept;

struct tsr__exec {
    tsr_engine *engine;
    tsr__device *device, *meta;
    tsr_dtype round_inputs;
    tsr_status status;
    bool departed; /* a run from its record */
    mode mode;
    tsr__graph *graphs, *graph; /* all, and the one in work */
    int32_t next_value, next_step;
    char *arena;
    kept *kept;
    size_t kept_bytes;
    tsr__comm *under_way; /* has something to be moved between tiles */
    bool explain;
    tsr__tap_fn tap;
    void *tap_user;
};

tsr_status tsr__exec_create(tsr_engine *engine, tsr_dtype round_inputs, tsr__exec **out) {
    tsr__exec *x = tsr__calloc(engine, 1, sizeof *x);
    if (!x) return TSR_NOMEM;
    *x = (tsr__exec){.engine = engine, .device = engine->device, .round_inputs = round_inputs};
    tsr_status status = tsr__device_create(engine, &tsr__device_meta, 1, &x->meta);
    if (status != TSR_OK) {
        tsr__free(engine, x);
        return status;
    }
    *out = x;
    return TSR_OK;
}

void tsr__exec_destroy(tsr__exec *x) {
    if (!x) return;
    for (tsr__graph *g = x->graphs, *next; g; g = next) {
        next = g->next;
        tsr__graph_free(x->engine, g);
    }
    for (kept *k = x->kept, *next; k; k = next) {
        next = k->next;
        x->device->ops->free(x->device, k->view.data);
        tsr__free(x->engine, k);
    }
    x->device->ops->free(x->device, x->arena);
    tsr__device_destroy(x->meta);
    tsr__free(x->engine, x);
}

tsr_dtype tsr__exec_round_inputs(const tsr__exec *x) { return x->round_inputs; }
double tsr__graph_flops(const tsr__graph *graph) { return graph->flops; }

void tsr__exec_set_tap(tsr__exec *x, tsr__tap_fn tap, void *user) {
    x->tap = tap;
    x->tap_user = user;
}

void tsr__exec_explain(tsr__exec *x, bool explain) { x->explain = explain; }
bool tsr__exec_explains(const tsr__exec *x) { return x->explain; }

tsr__value tsr__exec_fail(tsr__exec *x, tsr_status status, const char *format, ...) {
    if (x->status != TSR_OK) return tsr__none();
    char message[TSR__MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    x->status = tsr__fail(x->engine, status, "%s", message);
    return tsr__none();
}

/* --- record and run --- */

static void move_exchange(void *exec);

/* What moves communication between the tiles of long operations; NULL: nothing is under way. */
static void set_progress(tsr__exec *x, tsr__comm *comm) {
    x->under_way = comm;
    x->device->on_tile = comm ? move_exchange : NULL;
    x->device->on_tile_user = x;
}

static void move_exchange(void *exec) {
    tsr__exec *x = exec;
    if (!tsr__comm_progress(x->under_way)) set_progress(x, NULL);
}

static tsr_status begin(tsr__exec *x, mode m, tsr__graph *graph) {
    x->status = TSR_OK;
    x->departed = false;
    x->mode = m;
    x->graph = graph;
    x->next_value = x->next_step = 0;
    return TSR_OK;
}

tsr_status tsr__exec_record(tsr__exec *x, tsr__forward forward, void *context, tsr__graph **out) {
    tsr__graph *graph = tsr__calloc(x->engine, 1, sizeof *graph);
    if (!graph) return TSR_NOMEM;
    graph->forward = forward;
    TSR__TRY(begin(x, RECORDING, graph));
    forward(x, context);
    x->mode = IDLE;
    if (x->status == TSR_OK) x->status = tsr__graph_plan(x->engine, graph);
    if (x->status != TSR_OK) {
        tsr__graph_free(x->engine, graph);
        return x->status;
    }
    graph->next = x->graphs;
    x->graphs = graph;
    *out = graph;
    return TSR_OK;
}

tsr_status tsr__exec_run(tsr__exec *x, tsr__graph *graph, void *context) {
    TSR__TRY(begin(x, RUNNING, graph));
    graph->forward(x, context);
    x->mode = IDLE;
    set_progress(x, NULL);
    if (x->status == TSR_OK && (x->next_step != graph->n_steps || x->next_value != graph->n_values))
        x->status = tsr__fail(x->engine, TSR_INTERNAL, "a run ended after %d of the %d steps of its record",
                              x->next_step, graph->n_steps);
    return x->status;
}

static size_t arena_bytes(const tsr__exec *x) {
    size_t most = 0;
    for (const tsr__graph *g = x->graphs; g; g = g->next)
        if (g->arena_bytes > most) most = g->arena_bytes;
    return most;
}

size_t tsr__exec_activation_bytes(const tsr__exec *x) { return arena_bytes(x) + x->kept_bytes; }

tsr_status tsr__exec_reserve(tsr__exec *x) {
    const tsr__device_ops *ops = x->device->ops;
    if (!x->arena && !(x->arena = ops->alloc(x->device, arena_bytes(x)))) return TSR_NOMEM;
    for (kept *k = x->kept; k; k = k->next)
        if (!k->view.data && !(k->view.data = ops->alloc(x->device, tsr__view_bytes(&k->view)))) return TSR_NOMEM;
    return TSR_OK;
}

tsr_status tsr__exec_keep(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape, tsr__view **out) {
    kept *k = tsr__calloc(x->engine, 1, sizeof *k);
    if (!k) return TSR_NOMEM;
    k->view = tsr__view_dense(NULL, dtype, ndim, shape);
    k->next = x->kept;
    x->kept = k;
    x->kept_bytes += tsr__view_bytes(&k->view);
    *out = &k->view;
    return TSR_OK;
}

tsr_status tsr__exec_store(tsr__exec *x, const tsr__view *view, const void *host) {
    return x->device->ops->upload(x->device, view->data, host, tsr__view_bytes(view));
}

tsr_status tsr__exec_load(tsr__exec *x, const tsr__view *view, void *host) {
    return x->device->ops->download(x->device, host, view->data, tsr__view_bytes(view));
}

/* --- values --- */

static tsr__value handle(int32_t id, const tsr__view *view) {
    tsr__value v = {.id = id, .ndim = view->ndim};
    memcpy(v.shape, view->shape, sizeof v.shape);
    return v;
}

/* While recording, a failure ends the forward. A run goes through all its steps even after a failure, without
 * computing, because its collectives must meet those of the other ranks; only a departure from the record ends it. */
bool tsr__exec_stopped(const tsr__exec *x) { return x->mode == RUNNING ? x->departed : x->status != TSR_OK; }

static tsr__value mismatch(tsr__exec *x, const char *what) {
    x->departed = true;
    return tsr__exec_fail(x, TSR_INTERNAL, "the run departs from its record at step %d (%s)", x->next_step, what);
}

static bool same_layout(const tsr__view *a, const tsr__view *b) {
    size_t n = (size_t)a->ndim * sizeof *a->shape;
    return a->ndim == b->ndim && a->dtype == b->dtype && memcmp(a->shape, b->shape, n) == 0 &&
           memcmp(a->stride, b->stride, n) == 0;
}

/* A new value; when running, the next one of the record, which must look the same. base < 0: memory of its own. */
static tsr__value new_value(tsr__exec *x, const tsr__view *view, int32_t base, int64_t offset,
                            const tsr__view *external) {
    if (tsr__exec_stopped(x)) return tsr__none();
    int32_t id = x->next_value;
    if (x->mode == RUNNING) {
        if (id >= x->graph->n_values || !same_layout(&x->graph->values[id].view, view)) return mismatch(x, "value");
        x->graph->values[id].external = external;
        x->next_value++;
        return handle(id, view);
    }
    tsr__value_record *r = tsr__graph_add_value(x->engine, x->graph);
    if (!r) return tsr__exec_fail(x, TSR_NOMEM, "no memory to record a value");
    int32_t step = x->graph->n_steps;
    *r = (tsr__value_record){.view = *view,
                             .external = external,
                             .base = base < 0 ? id : base,
                             .first = step,
                             .element_offset = offset,
                             .last = step,
                             .storage = id,
                             .bytes = tsr__view_bytes(view)};
    x->next_value++;
    return handle(id, view);
}

static void *base_data(const tsr__exec *x, const tsr__value_record *r) {
    const tsr__value_record *base = &x->graph->values[r->base];
    if (base->external) return base->external->data;
    return x->arena + x->graph->values[base->storage].offset;
}

static const tsr__view *resolve(tsr__exec *x, int32_t id) {
    if (id < 0) return NULL;
    tsr__value_record *r = &x->graph->values[id];
    if (x->mode == RUNNING)
        r->view.data = (char *)base_data(x, r) + r->element_offset * (int64_t)(tsr_dtype_bits(r->view.dtype) / 8);
    return &r->view;
}

tsr__value tsr__external(tsr__exec *x, const tsr__view *view) { return new_value(x, view, -1, 0, view); }

const tsr__view *tsr__value_strides(const tsr__exec *x, tsr__value v) { return &x->graph->values[v.id].view; }

tsr__value tsr__value_view(tsr__exec *x, tsr__value v, int64_t offset, int ndim, const int64_t *shape,
                           const int64_t *stride) {
    if (tsr__exec_stopped(x) || tsr__is_none(v)) return tsr__none();
    const tsr__value_record r = x->graph->values[v.id];
    tsr__view view = {.dtype = r.view.dtype, .ndim = ndim};
    memcpy(view.shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(view.stride, stride, (size_t)ndim * sizeof *stride);
    return new_value(x, &view, r.base, r.element_offset + offset, NULL);
}

/* --- steps --- */

/* Records step `s`, or checks it against the record when running. NULL after a failure. */
static const tsr__step *next_step(tsr__exec *x, const tsr__step *s) {
    if (tsr__exec_stopped(x)) return NULL;
    if (x->mode == RUNNING) {
        const tsr__step *recorded = x->next_step < x->graph->n_steps ? &x->graph->steps[x->next_step] : NULL;
        bool same = recorded && recorded->kind == s->kind && memcmp(recorded->in, s->in, sizeof s->in) == 0 &&
                    memcmp(recorded->out, s->out, sizeof s->out) == 0;
        if (!same) {
            (void)mismatch(x, s->kind < TSR__OP_COUNT ? tsr__op_name((tsr__op_kind)s->kind) : "transfer");
            return NULL;
        }
        x->next_step++;
        return recorded;
    }
    int32_t index = x->graph->n_steps;
    tsr__step *added = tsr__graph_add_step(x->engine, x->graph);
    if (!added) {
        (void)tsr__exec_fail(x, TSR_NOMEM, "no memory to record a step");
        return NULL;
    }
    *added = *s;
    for (int i = 0; i < TSR__MAX_INPUTS; i++) tsr__graph_use(x->graph, s->in[i], index);
    x->next_step++;
    return added;
}

/* Is a run under way that has not failed? */
static bool computing(const tsr__exec *x) { return x->mode == RUNNING && x->status == TSR_OK; }

static tsr__step transfer(int kind, int32_t in, int32_t out) {
    return (tsr__step){.kind = kind, .in = {in, -1, -1, -1}, .out = {out, -1}};
}

static void check(tsr__exec *x, tsr_status status) {
    if (status != TSR_OK && x->status == TSR_OK) x->status = status;
}

tsr__value tsr__upload(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape, const void *host) {
    tsr__view view = tsr__view_dense(NULL, dtype, ndim, shape);
    tsr__value v = new_value(x, &view, -1, 0, NULL);
    tsr__step s = transfer(TSR__STEP_UPLOAD, -1, v.id);
    if (next_step(x, &s) && computing(x))
        check(x, x->device->ops->upload(x->device, resolve(x, v.id)->data, host, tsr__view_bytes(&view)));
    return v;
}

void tsr__download(tsr__exec *x, tsr__value v, void *host) {
    tsr__step s = transfer(TSR__STEP_DOWNLOAD, v.id, -1);
    tsr__check_whole(x, "download", v);
    if (!next_step(x, &s) || !computing(x)) return;
    const tsr__view *view = resolve(x, v.id);
    check(x, x->device->ops->download(x->device, host, view->data, tsr__view_bytes(view)));
}

void tsr__assign(tsr__exec *x, const tsr__view *kept_view, tsr__value v) {
    tsr__value target = tsr__external(x, kept_view);
    tsr__check_whole(x, "assign", v);
    tsr__step s = transfer(TSR__STEP_ASSIGN, v.id, target.id);
    if (!next_step(x, &s) || !computing(x)) return;
    tsr__op op = {.kind = TSR__OP_copy, .in = {resolve(x, v.id)}, .out = {resolve(x, target.id)}};
    check(x, x->device->ops->run[TSR__OP_copy](x->device, &op));
}

tsr__value tsr__empty(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape) {
    tsr__view view = tsr__view_dense(NULL, dtype, ndim, shape);
    return new_value(x, &view, -1, 0, NULL);
}

/* The target is named as an input, so that its memory lives from the first piece on. */
void tsr__fill(tsr__exec *x, tsr__value target, tsr__value v) {
    tsr__step s = {.kind = TSR__STEP_FILL, .in = {v.id, target.id, -1, -1}, .out = {-1, -1}};
    bool same = v.ndim == target.ndim && memcmp(v.shape, target.shape, (size_t)v.ndim * sizeof *v.shape) == 0;
    if (!same) (void)tsr__exec_fail(x, TSR_SHAPE, "fill: the shapes of the target and of what goes there differ");
    tsr__check_whole(x, "fill", v);
    if (!next_step(x, &s) || !computing(x)) return;
    tsr__op op = {.kind = TSR__OP_copy, .in = {resolve(x, v.id)}, .out = {resolve(x, target.id)}};
    check(x, x->device->ops->run[TSR__OP_copy](x->device, &op));
}

void tsr__emit_exchange(tsr__exec *x, const tsr__exchange *e, tsr__value in, tsr__value *out) {
    if (out) {
        tsr__view view = tsr__view_dense(NULL, e->dtype ? e->dtype : TSR_F32, out->ndim, out->shape);
        *out = new_value(x, &view, -1, 0, NULL);
    }
    tsr__step s = transfer(e->kind, in.id, out ? out->id : -1);
    s.comm = e->comm;
    s.payload_bytes = e->payload_bytes;
    if (!next_step(x, &s) || x->mode != RUNNING) return;
    (void)tsr__comm_progress(e->comm);
    /* also after a failure of this rank: the others wait for it */
    check(x, e->run(e->comm, resolve(x, in.id), out ? resolve(x, out->id) : NULL, e->user));
    if (e->kind == TSR__STEP_START_SHIFT || e->kind == TSR__STEP_FINISH_SHIFT)
        set_progress(x, e->kind == TSR__STEP_START_SHIFT ? e->comm : NULL);
}

/* A module may run several times in a forward. */
static int taps_before(const tsr__graph *graph, const void *owner, int index) {
    int n = 0;
    for (int32_t s = 0; s < graph->n_steps; s++) {
        const tsr__step *step = &graph->steps[s];
        n += step->kind == TSR__STEP_TAP && step->owner == owner && step->index == index;
    }
    return n;
}

void tsr__tap(tsr__exec *x, const void *owner, int index, tsr__value v) {
    if (tsr__is_none(v)) return;
    tsr__step s = transfer(TSR__STEP_TAP, v.id, -1);
    s.owner = owner;
    s.index = index;
    if (x->mode == RECORDING) s.nth = taps_before(x->graph, owner, index);
    const tsr__step *step = next_step(x, &s);
    if (step && x->mode == RUNNING && x->tap) check(x, x->tap(x->tap_user, x, owner, index, step->nth, v));
}

/* Inputs and outputs as the device sees them; recording, the device is only asked for its scratch memory. */
static void execute(tsr__exec *x, const tsr__emission *e, tsr__step *s, const tsr__value *out) {
    tsr__op op = e->op;
    for (int i = 0; i < TSR__MAX_INPUTS; i++) op.in[i] = resolve(x, e->in[i].id);
    for (int i = 0; i < e->n_out; i++) op.out[i] = resolve(x, out[i].id);
    if (x->mode == RECORDING) {
        s->scratch_bytes = x->device->ops->scratch_bytes(x->device, &op);
        x->graph->flops += e->flops;
        tsr__split_operation(x, e, out);
        check(x, x->meta->ops->run[op.kind](x->meta, &op));
        return;
    }
    if (!computing(x)) return;
    op.scratch = s->scratch_bytes ? x->arena + s->scratch_offset : NULL;
    check(x, x->device->ops->run[op.kind](x->device, &op));
}

void tsr__emit(tsr__exec *x, const tsr__emission *e, tsr__value *out) {
    tsr__step s = {.kind = (int)e->op.kind, .out = {-1, -1}, .in_place = e->in_place};
    for (int i = 0; i < e->n_out; i++) {
        tsr__view view = tsr__view_dense(NULL, e->out_dtype, out[i].ndim, out[i].shape);
        out[i] = new_value(x, &view, -1, 0, NULL);
        s.out[i] = out[i].id;
    }
    for (int i = 0; i < TSR__MAX_INPUTS; i++) s.in[i] = e->in[i].id;
    const tsr__step *step = next_step(x, &s);
    if (!step) return;
    execute(x, e, &x->graph->steps[step - x->graph->steps], out);
}

/* --- splits --- */

bool tsr__exec_recording(const tsr__exec *x) { return x->mode == RECORDING && x->status == TSR_OK; }
tsr_status tsr__exec_status(const tsr__exec *x) { return x->status; }
tsr_engine *tsr__exec_engine(const tsr__exec *x) { return x->engine; }
tsr__value_record *tsr__value_record_of(const tsr__exec *x, tsr__value v) { return &x->graph->values[v.id]; }

/* --- looking at values --- */

/* Copies the elements of a strided view, as float32, out of `whole`, the host copy of its base. */
static void gather(const tsr__view *view, const char *whole, int64_t at, int dim, float **out) {
    size_t size = tsr_dtype_bits(view->dtype) / 8;
    if (dim == view->ndim) {
        tsr_convert_to_f32(view->dtype, whole + at * (int64_t)size, (*out)++, 1);
        return;
    }
    for (int64_t i = 0; i < view->shape[dim]; i++) gather(view, whole, at + i * view->stride[dim], dim + 1, out);
}

tsr_status tsr__exec_peek(tsr__exec *x, tsr__value v, float *host) {
    const tsr__value_record *r = &x->graph->values[v.id];
    const tsr__value_record *base = &x->graph->values[r->base];
    char *whole = tsr__alloc(x->engine, base->bytes);
    if (!whole) return TSR_NOMEM;
    tsr_status status = x->device->ops->download(x->device, whole, base_data(x, r), base->bytes);
    if (status == TSR_OK) gather(&r->view, whole, r->element_offset, 0, &host);
    tsr__free(x->engine, whole);
    return status;
}
