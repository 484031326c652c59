/* The communicator of ranks that are processes under MPI. */
#ifndef TSR_COMM_MPI_H
#define TSR_COMM_MPI_H

#include "comm/comm.h"

#include <mpi.h>

enum { TSR__MPI_REQUESTS = 64 };

typedef struct tsr__mpi {
    tsr__comm base; /* base.state is this */
    MPI_Comm comm;
    MPI_Request requests[TSR__MPI_REQUESTS]; /* of what was started */
    int n_requests;
    int code; /* MPI_SUCCESS, or what progress got instead */
} tsr__mpi;

extern const tsr__comm_ops tsr__mpi_ops;

/* Makes `mpi` the communicator of comm, whose failures become statuses from now on. comm stays the caller's. */
tsr_status tsr__mpi_init(tsr__mpi *mpi, tsr_engine *engine, MPI_Comm comm);
/* COMM with MPI's own words, unless code is success. */
tsr_status tsr__mpi_check(tsr_engine *engine, int code);

#endif
