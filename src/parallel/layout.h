/* A parallel config made real: which ranks share a model along which axis. */
#ifndef TSR_PARALLEL_LAYOUT_H
#define TSR_PARALLEL_LAYOUT_H

#include "comm/comm.h"

#include <tessera/parallel.h>

typedef struct tsr__layout {
    tsr_device_mesh *own; /* made here, where the config brings none */
    tsr__comm *tp;        /* of the ranks that share a model; NULL where that is this rank alone */
    int tp_rank, tp_degree;
} tsr__layout;

/* config NULL: one rank. Collective over all ranks. Errors: ARG (degrees that do not multiply to the number of ranks).
 * Owner: the caller (tsr__layout_close). */
TSR_NODISCARD tsr_status tsr__layout_open(tsr_engine *engine, const tsr_parallel_config *config, tsr__layout *out);
/* The layout as rank `rank` would have it if there were the ranks that config asks for: a forward can be recorded in
 * it, but not run. Of a mesh in the config only the sizes count. Local. Errors: ARG (a degree below 1; no such rank),
 * NOMEM. Owner: the caller (tsr__layout_close). */
TSR_NODISCARD tsr_status tsr__layout_imagine(tsr_engine *engine, const tsr_parallel_config *config, int rank,
                                             tsr__layout *out);
void tsr__layout_close(tsr__layout *layout);

#endif
