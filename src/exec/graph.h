/* The record of one meta run, and the layout of its values in an arena. Private to src/exec. */
#ifndef TSR_EXEC_GRAPH_H
#define TSR_EXEC_GRAPH_H

#include "exec/exec.h"

/* Steps of a record that are no device operation. */
enum {
    TSR__STEP_UPLOAD = TSR__OP_COUNT,
    TSR__STEP_DOWNLOAD,
    TSR__STEP_TAP,
    TSR__STEP_ASSIGN,
    TSR__STEP_ALL_REDUCE,
    TSR__STEP_ALL_GATHER
};

typedef struct tsr__value_record {
    tsr__view view;            /* shape and strides; data are set when run */
    const tsr__view *external; /* memory that is not of the arena, or NULL */
    int32_t base;              /* the value whose memory this is a view of; itself if it has its own */
    int64_t element_offset;    /* from the start of base */
    int32_t first, last;       /* steps between which the memory is alive (of a base) */
    int32_t storage;           /* the base whose memory this base took over in place; itself otherwise */
    size_t bytes, offset;      /* in the arena (of a storage) */
    tsr__split split[TSR__N_AXES];
    struct tsr__comm *partial; /* each of these ranks holds a summand, */
    bool summed;               /* until they were summed */
} tsr__value_record;

typedef struct tsr__step {
    int kind; /* tsr__op_kind or TSR__STEP_... */
    int32_t in[TSR__MAX_INPUTS], out[TSR__MAX_OUTPUTS];
    bool in_place;
    struct tsr__comm *comm; /* of a collective, */
    size_t payload_bytes;   /* and its payload as comm.h counts it */
    size_t scratch_bytes, scratch_offset;
    const void *owner; /* of a tap, */
    int index, nth;    /* the output, and how many taps of the same come before it */
} tsr__step;

struct tsr__graph {
    tsr__forward forward;
    tsr__value_record *values;
    tsr__step *steps;
    int32_t n_values, value_capacity, n_steps, step_capacity;
    size_t arena_bytes;
    double flops;
    tsr__graph *next;
};

/* Appends a record; NULL where there is no memory. */
tsr__value_record *tsr__graph_add_value(tsr_engine *engine, tsr__graph *graph);
tsr__step *tsr__graph_add_step(tsr_engine *engine, tsr__graph *graph);
void tsr__graph_use(tsr__graph *graph, int32_t value, int32_t step); /* extends the life of its base */
/* Decides what is done in place and where every storage lies: sets offsets and arena_bytes. */
TSR_NODISCARD tsr_status tsr__graph_plan(tsr_engine *engine, tsr__graph *graph);
void tsr__graph_free(tsr_engine *engine, tsr__graph *graph);

#endif
