/* The communicator of ranks that are threads of one process. */
#ifndef TSR_COMM_THREADS_H
#define TSR_COMM_THREADS_H

#include "comm/comm.h"
#include "comm/threads/group.h"

extern const tsr__comm_ops tsr__threads_ops;

#endif
