/* The executor runs a forward function twice: once on the meta device, which records its operations and the lives of
 * its values (tsr__exec_record), and then as often as wanted for real (tsr__exec_run), where every operation is checked
 * against the record. The record fixes the memory: all values of all recorded graphs live in one arena, whose size is
 * known before a weight is read. In a run nothing is allocated.
 *
 * Values are small handles passed by value. The executor owns their memory, so a forward has no frees; after a failure
 * operations do nothing (the status is sticky), so a forward has no error branches either. */
#ifndef TSR_EXEC_EXEC_H
#define TSR_EXEC_EXEC_H

#include "device/device.h"

typedef struct tsr__exec tsr__exec;
typedef struct tsr__graph tsr__graph;

/* A value of a forward. id < 0: none (an absent operand, or the result of a failed operation). */
typedef struct tsr__value {
    int32_t id;
    int32_t ndim;
    int64_t shape[TSR_MAX_DIMS];
} tsr__value;

static inline tsr__value tsr__none(void) { return (tsr__value){.id = -1}; }
static inline bool tsr__is_none(tsr__value v) { return v.id < 0; }

/* How a value is spread over ranks: along one dimension, whose whole length is that of its parts, one after another.
 * Each part is cut by itself, by torch's tensor_split: rank r of n holds piece floor(r pieces / n), and the first
 * (length mod pieces) pieces are one longer. Set where a value is split (a weight's part, a port), kept by operations
 * (split.c says how), cleared by a gather. A value may be split along both axes, in different dimensions. */
typedef enum tsr__axis { TSR__AXIS_TP, TSR__AXIS_SEQUENCE, TSR__N_AXES } tsr__axis;
enum { TSR__MAX_PARTS = 8 };
typedef char *(*tsr__path_fn)(const void *owner, char *text, size_t size);

typedef struct tsr__split {
    struct tsr__comm *comm; /* of the ranks that hold the pieces; NULL: the value is whole */
    int dim, pieces;
    size_t n_parts;
    int64_t parts[TSR__MAX_PARTS]; /* global lengths */
    const void *origin;            /* what split it, for messages */
    tsr__path_fn origin_path;
} tsr__split;

typedef void (*tsr__forward)(tsr__exec *x, void *context);

/* round_inputs: BF16 or F16 where matmul inputs may be rounded to it (DESIGN.md, Numbers), else F32. */
TSR_NODISCARD tsr_status tsr__exec_create(tsr_engine *engine, tsr_dtype round_inputs, tsr__exec **out);
void tsr__exec_destroy(tsr__exec *x); /* and its graphs */

/* The meta run of forward(context). The graph belongs to the executor. Errors: SHAPE and whatever the forward reports.
 */
TSR_NODISCARD tsr_status tsr__exec_record(tsr__exec *x, tsr__forward forward, void *context, tsr__graph **out);
/* Allocates the arena (the most that any graph needs) and the kept storage. After the last record, before the first
 * run. */
TSR_NODISCARD tsr_status tsr__exec_reserve(tsr__exec *x);
TSR_NODISCARD tsr_status tsr__exec_run(tsr__exec *x, tsr__graph *graph, void *context);

/* What tsr__exec_reserve allocates, in bytes. */
size_t tsr__exec_activation_bytes(const tsr__exec *x);
/* Floating-point operations of matmuls, convolutions and attention in one run. */
double tsr__graph_flops(const tsr__graph *graph);
/* The collective steps of one run, in order: calls visit for each. bytes: the payload, as comm.h counts it. */
typedef void (*tsr__collective_visitor)(void *user, int kind, const struct tsr__comm *comm, size_t bytes);
void tsr__graph_visit_collectives(const tsr__graph *graph, tsr__collective_visitor visit, void *user);

/* Storage that lives across runs (latents, embeddings). The view's data are set by tsr__exec_reserve. */
TSR_NODISCARD tsr_status tsr__exec_keep(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape, tsr__view **out);

/* Host memory into kept storage and back, outside of runs. */
TSR_NODISCARD tsr_status tsr__exec_store(tsr__exec *x, const tsr__view *kept, const void *host);
TSR_NODISCARD tsr_status tsr__exec_load(tsr__exec *x, const tsr__view *kept, void *host);

/* --- inside a forward --- */
/* A host array as a value; copied to the device when run. */
tsr__value tsr__upload(tsr__exec *x, tsr_dtype dtype, int ndim, const int64_t *shape, const void *host);
/* Copies a dense value to host memory when run. */
void tsr__download(tsr__exec *x, tsr__value v, void *host);
/* A weight or kept storage as a value. */
tsr__value tsr__external(tsr__exec *x, const tsr__view *view);
/* Overwrites kept storage with v (same shape, F32). */
void tsr__assign(tsr__exec *x, const tsr__view *kept, tsr__value v);

/* Reports a failure from within a forward; the first one stays. Returns none. */
tsr__value tsr__exec_fail(tsr__exec *x, tsr_status status, const char *format, ...) TSR_PRINTF(3, 4);
/* Nothing more is recorded or run. A run that failed is not stopped: it goes on to its collectives. */
bool tsr__exec_stopped(const tsr__exec *x);

/* A tap sees output `index` of a module (`owner`, known to whoever set the tap) right after it was computed, the nth
 * time (from 0) in this forward. Also after a failure of this rank: what the tap does together with others must go on.
 * Its failure is the run's. */
typedef tsr_status (*tsr__tap_fn)(void *user, tsr__exec *x, const void *owner, int index, int nth, tsr__value v);
void tsr__exec_set_tap(tsr__exec *x, tsr__tap_fn tap, void *user);
/* Asks forwards for outputs that they would otherwise fuse away, so that taps see them. Before recording. */
void tsr__exec_explain(tsr__exec *x, bool explain);
bool tsr__exec_explains(const tsr__exec *x);
void tsr__tap(tsr__exec *x, const void *owner, int index, tsr__value v);
/* For taps: the value's elements as float32, dense, into host [elements of v]. */
TSR_NODISCARD tsr_status tsr__exec_peek(tsr__exec *x, tsr__value v, float *host);

/* For taps, on every rank that runs the forward: the same of a value that may be split, gathered to its whole shape.
 * Collective over the ranks that hold its pieces; a rank that has failed, or has no memory (host NULL), takes part too.
 * Where any of them has failed *complete stays false: the run ends with that failure. host [elements of the whole]. */
TSR_NODISCARD tsr_status tsr__exec_peek_whole(tsr__exec *x, tsr__value v, float *host, bool *complete);
/* The shape of the whole value, of which this rank may hold a part only. */
tsr__value tsr__whole_shape(const tsr__exec *x, tsr__value v);

/* How v is split along an axis. */
const tsr__split *tsr__value_split(const tsr__exec *x, tsr__value v, tsr__axis axis);
/* Declares that v is a rank's part. While recording; a run takes it from the record. */
void tsr__set_split(tsr__exec *x, tsr__value v, tsr__axis axis, const tsr__split *split);

/* --- for ops.c --- */
/* A view of v: other shape and strides (elements), `offset` elements further on. */
tsr__value tsr__value_view(tsr__exec *x, tsr__value v, int64_t offset, int ndim, const int64_t *shape,
                           const int64_t *stride);
const tsr__view *tsr__value_strides(const tsr__exec *x, tsr__value v); /* data not valid */
/* Appends (record) or executes (run) an operation. in: TSR__MAX_INPUTS values, none where absent; out: shapes and dtype
 * of the outputs, which come back as values in `out`. */
typedef struct tsr__emission {
    tsr__op op; /* kind and param */
    tsr__value in[TSR__MAX_INPUTS];
    int n_out;
    tsr_dtype out_dtype;
    bool in_place; /* out[0] may take over the memory of in[0] */
    double flops;
} tsr__emission;
void tsr__emit(tsr__exec *x, const tsr__emission *e, tsr__value *out);
tsr_dtype tsr__exec_round_inputs(const tsr__exec *x);
/* Appends or executes a collective step: run reads `in` and writes `out`, of which the caller gives the shape (F32);
 * out NULL: in place. It runs also after a failure of this rank, because the others wait for it. */
typedef struct tsr__exchange {
    int kind; /* TSR__STEP_... */
    struct tsr__comm *comm;
    size_t payload_bytes;
    tsr_status (*run)(struct tsr__comm *comm, const tsr__view *in, const tsr__view *out, const void *user);
    const void *user;
} tsr__exchange;
void tsr__emit_exchange(tsr__exec *x, const tsr__exchange *e, tsr__value in, tsr__value *out);

#endif
