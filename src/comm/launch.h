/* What the kinds of launch share. */
#ifndef TSR_COMM_LAUNCH_H
#define TSR_COMM_LAUNCH_H

#include "comm/comm.h"

typedef struct tsr__launch {
    tsr_engine_options options; /* whole, whatever the caller's size was */
    int n_ranks;                /* 0: not given */
    tsr_rank_body body;
    void *user;
    char *message; /* may be NULL */
    size_t message_bytes;
} tsr__launch;

/* A way of starting processes, known by the variable that holds how many there are. */
typedef struct tsr__launcher {
    const char *variable;
    int least; /* fewer do not make it a launcher */
    const char *name;
    const char *rank_variable;
} tsr__launcher;

/* The launcher that started this process and its number of ranks; NULL: none. */
const tsr__launcher *tsr__launcher_find(int *size);

/* Sets the caller's message and returns status. */
tsr_status tsr__launch_say(const tsr__launch *launch, tsr_status status, const char *format, ...) TSR_PRINTF(3, 4);
/* Makes the engine of a rank. On failure the caller's message is left alone: `reason` [TSR__MESSAGE_BYTES] gets it. */
TSR_NODISCARD tsr_status tsr__launch_engine(const tsr_engine_options *options, int rank, int size, char *reason,
                                            tsr_engine **out);

/* The launches: ranks as threads of this process (n_ranks > 1), and this process as one of MPI's. */
TSR_NODISCARD tsr_status tsr__threads_launch(const tsr__launch *launch);
TSR_NODISCARD tsr_status tsr__mpi_launch(const tsr__launch *launch);

#endif
