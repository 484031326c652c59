/* Layouts of a sequence over all ranks, for tests of context parallelism. */
#ifndef TESTS_LAYOUTS_H
#define TESTS_LAYOUTS_H

#include "parallel/layout.h"

enum { MAX_LAYOUTS = 8 };

typedef struct rank_layouts {
    tsr_device_mesh *mesh[MAX_LAYOUTS];
    tsr__layout layout[MAX_LAYOUTS];
    int n;
} rank_layouts;

/* Every ring x ulysses that makes all ranks, the mesh's axes in either order; none on one rank. anything: any lengths
 * and heads. Collective. Close them also after a failure. */
tsr_status rank_layouts_open(tsr_engine *engine, bool anything, rank_layouts *l);
void rank_layouts_close(rank_layouts *l);
/* The split of a dimension of `length` tokens over a sequence; sequence NULL: none. */
tsr__split rank_split(const tsr__sequence *sequence, int dim, int64_t length);
/* Records, reserves and runs a forward once. Where it can only fail on all ranks alike it needs no agreement. */
tsr_status rank_run(tsr_engine *engine, tsr__forward forward, void *context);

#endif
