#include "exec/graph.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* Room for one element more, doubling. */
static bool grow(tsr_engine *engine, void **array, int32_t *capacity, int32_t n, size_t size) {
    if (n < *capacity) return true;
    int32_t wanted = *capacity ? 2 * *capacity : 256;
    void *moved = tsr__realloc(engine, *array, (size_t)wanted * size);
    if (!moved) return false;
    *array = moved;
    *capacity = wanted;
    return true;
}

tsr__value_record *tsr__graph_add_value(tsr_engine *engine, tsr__graph *graph) {
    void *array = graph->values;
    if (!grow(engine, &array, &graph->value_capacity, graph->n_values, sizeof *graph->values)) return NULL;
    graph->values = array;
    return &graph->values[graph->n_values++];
}

tsr__step *tsr__graph_add_step(tsr_engine *engine, tsr__graph *graph) {
    void *array = graph->steps;
    if (!grow(engine, &array, &graph->step_capacity, graph->n_steps, sizeof *graph->steps)) return NULL;
    graph->steps = array;
    return &graph->steps[graph->n_steps++];
}

void tsr__graph_use(tsr__graph *graph, int32_t value, int32_t step) {
    if (value < 0) return;
    tsr__value_record *base = &graph->values[graph->values[value].base];
    if (step > base->last) base->last = step;
}

void tsr__graph_free(tsr_engine *engine, tsr__graph *graph) {
    tsr__free(engine, graph->values);
    tsr__free(engine, graph->steps);
    tsr__free(engine, graph);
}

/* An operation may write over its first input if nobody reads that memory later and the input is all of it. */
static void take_over_in_place(tsr__graph *graph) {
    for (int32_t s = 0; s < graph->n_steps; s++) {
        const tsr__step *step = &graph->steps[s];
        if (!step->in_place || step->in[0] < 0) continue;
        tsr__value_record *in = &graph->values[step->in[0]], *out = &graph->values[step->out[0]];
        tsr__value_record *base = &graph->values[in->base];
        if (base->external || out->external || base->last != s || base->bytes != out->bytes) continue;
        if (in->element_offset != 0 || tsr__view_elements(&in->view) != tsr__view_elements(&base->view)) continue;
        tsr__value_record *storage = &graph->values[base->storage];
        if (storage->last != s) continue;
        out->storage = base->storage;
        storage->last = out->last;
    }
}

/* A stretch of the arena that is taken from step `first` to step `last`. */
typedef struct block {
    size_t bytes, offset;
    int32_t first, last;
    size_t *result;
} block;

static int larger_first(const void *a, const void *b) {
    const block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static size_t collect_blocks(tsr__graph *graph, block *blocks) {
    size_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        tsr__value_record *r = &graph->values[v];
        if (r->base != v || r->storage != v || r->external) continue;
        blocks[n++] = (block){aligned(r->bytes), 0, r->first, r->last, &r->offset};
    }
    for (int32_t s = 0; s < graph->n_steps; s++) {
        tsr__step *step = &graph->steps[s];
        if (step->scratch_bytes) blocks[n++] = (block){aligned(step->scratch_bytes), 0, s, s, &step->scratch_offset};
    }
    return n;
}

/* Places the largest first, each at the lowest offset that is free during its life. `placed` is kept in order of
 * offset. */
static size_t place_blocks(block *blocks, size_t n, block **placed) {
    size_t arena = 0;
    for (size_t i = 0; i < n; i++) {
        block *b = &blocks[i];
        size_t cursor = 0, at = 0;
        for (size_t j = 0; j < i; j++) {
            const block *other = placed[j];
            if (other->last < b->first || other->first > b->last) continue;
            if (other->offset >= cursor + b->bytes) break;
            if (other->offset + other->bytes > cursor) cursor = other->offset + other->bytes;
        }
        b->offset = *b->result = cursor;
        while (at < i && placed[at]->offset <= cursor) at++;
        memmove(placed + at + 1, placed + at, (i - at) * sizeof *placed);
        placed[at] = b;
        if (cursor + b->bytes > arena) arena = cursor + b->bytes;
    }
    return arena;
}

tsr_status tsr__graph_plan(tsr_engine *engine, tsr__graph *graph) {
    take_over_in_place(graph);
    size_t most = (size_t)graph->n_values + (size_t)graph->n_steps;
    block *blocks = tsr__calloc(engine, most, sizeof *blocks);
    block **placed = tsr__calloc(engine, most, sizeof(block *));
    if (blocks && placed) {
        size_t n = collect_blocks(graph, blocks);
        qsort(blocks, n, sizeof *blocks, larger_first);
        graph->arena_bytes = place_blocks(blocks, n, placed);
    }
    tsr_status status = blocks && placed ? TSR_OK : TSR_NOMEM;
    tsr__free(engine, blocks);
    tsr__free(engine, placed);
    return status;
}
