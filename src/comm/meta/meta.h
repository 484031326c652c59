/* The communicator of ranks that are imagined, as the device meta is the device of shapes alone: a forward can be
 * recorded as one of them, and nothing can be exchanged. */
#ifndef TSR_COMM_META_H
#define TSR_COMM_META_H

#include "comm/comm.h"

/* Rank `rank` of `size` along the axis, whose name must outlive it. Local. Errors: NOMEM. Owner: the caller
 * (tsr__comm_destroy). */
TSR_NODISCARD tsr_status tsr__meta_comm_create(tsr_engine *engine, const char *axis, int rank, int size,
                                               tsr__comm **out);

#endif
