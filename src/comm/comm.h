/* The communicator seam. A communicator is a group of ranks with a table of operations, every slot filled; nothing
 * above this header knows which kind is in use. Implementations: threads/ (ranks as threads of one process), mpi/
 * (MPI-3), meta/ (ranks that are imagined only).
 *
 * All ranks of a communicator call the same operations in the same order. Buffers are host memory that the device can
 * compute from. An operation that cannot be completed because a peer ended or failed returns COMM on every survivor. */
#ifndef TSR_COMM_COMM_H
#define TSR_COMM_COMM_H

#include "base/engine.h"

#include <tessera/mesh.h>

typedef struct tsr__comm tsr__comm;

typedef struct tsr__comm_ops {
    const char *name;
    bool one_process; /* a pointer means the same to all ranks */
    void (*destroy)(tsr__comm *comm);
    /* Ranks of equal color form a new communicator, in their order. color < 0: none, *out becomes NULL. Collective. */
    tsr_status (*split)(tsr__comm *comm, int color, tsr__comm **out);
    /* The ranks that share this rank's host. Collective. */
    tsr_status (*split_host)(tsr__comm *comm, tsr__comm **out);
    /* data [n] becomes the sum over ranks, in place; every rank gets the same bits. */
    tsr_status (*all_reduce)(tsr__comm *comm, float *data, size_t n);
    /* recv: the parts of all ranks one after another; bytes [size] of each. send may lie at its place in recv. */
    tsr_status (*all_gather)(tsr__comm *comm, const void *send, const size_t *bytes, void *recv);
    /* Part i of send goes to rank i, part i of recv comes from rank i; parts lie one after another. */
    tsr_status (*all_to_all)(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                             const size_t *recv_bytes);
    /* Begins to send to one rank and to receive from another; finish waits for both. Every rank takes part; one at a
     * time, and no other operation of this communicator in between. */
    tsr_status (*start)(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv, size_t recv_bytes,
                        int from);
    tsr_status (*finish)(tsr__comm *comm);
    tsr_status (*broadcast)(tsr__comm *comm, void *data, size_t bytes, int root);
    /* Moves what was started, if anything has to. False: it needs no more of that (main thread of the rank). */
    bool (*progress)(tsr__comm *comm);
    /* This rank will take part in nothing more: peers that wait for it return COMM. Threads only; MPI leaves it to the
     * launcher, which ends all processes when one ends badly. */
    void (*leave)(tsr__comm *comm);
} tsr__comm_ops;

/* Calls and payload bytes of each operation so far, on this rank; the wrappers count what succeeded. Payload:
 * all_reduce and broadcast the buffer, all_gather the whole result, all_to_all and send_receive what this rank sends.
 */
typedef enum tsr__comm_op {
    TSR__ALL_REDUCE,
    TSR__ALL_GATHER,
    TSR__ALL_TO_ALL,
    TSR__SEND_RECEIVE,
    TSR__BROADCAST,
    TSR__N_COMM_OPS
} tsr__comm_op;

struct tsr__comm {
    const tsr__comm_ops *ops;
    tsr_engine *engine;
    const char *axis; /* of the mesh that it lies along, "tp", for messages and plans; NULL: none */
    int rank, size;
    uint64_t calls[TSR__N_COMM_OPS], bytes[TSR__N_COMM_OPS];
    size_t under_way; /* bytes that were started */
    void *state;
};

enum { TSR__MAX_RANKS = 1024 };

/* The one wrapper: a communicator of size 1, or NULL, is a no-op that is not counted (all_gather, all_to_all and
 * send_receive copy: a rank's part for itself). A failure's message names operation, rank and phase. */
TSR_NODISCARD tsr_status tsr__all_reduce(tsr__comm *comm, float *data, size_t n);
TSR_NODISCARD tsr_status tsr__all_gather(tsr__comm *comm, const void *send, const size_t *bytes, void *recv);
/* The same where every rank gives as many bytes: recv [size, bytes]. */
TSR_NODISCARD tsr_status tsr__all_gather_equal(tsr__comm *comm, const void *send, size_t bytes, void *recv);
/* Every rank's value becomes the greatest, as that of the slowest rank. */
TSR_NODISCARD tsr_status tsr__all_greatest(tsr__comm *comm, double *value);
TSR_NODISCARD tsr_status tsr__all_to_all(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                                         const size_t *recv_bytes);
TSR_NODISCARD tsr_status tsr__send_receive(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv,
                                           size_t recv_bytes, int from);
/* The same in two halves, between which the rank may compute (tsr__comm_progress moves what is under way). */
TSR_NODISCARD tsr_status tsr__start_send_receive(tsr__comm *comm, const void *send, size_t send_bytes, int to,
                                                 void *recv, size_t recv_bytes, int from);
TSR_NODISCARD tsr_status tsr__finish_send_receive(tsr__comm *comm);
TSR_NODISCARD tsr_status tsr__broadcast(tsr__comm *comm, void *data, size_t bytes, int root);
bool tsr__comm_progress(tsr__comm *comm);
TSR_NODISCARD tsr_status tsr__comm_split(tsr__comm *comm, int color, tsr__comm **out); /* NULL comm: *out NULL */
TSR_NODISCARD tsr_status tsr__comm_split_host(tsr__comm *comm, tsr__comm **out);
void tsr__comm_destroy(tsr__comm *comm); /* NULL is allowed */

/* Says what this rank is doing from now on, for messages: a string constant. */
void tsr__rank_phase(tsr_engine *engine, const char *phase);

/* All ranks; NULL where there is but one. Set by the launch. */
tsr__comm *tsr__world(const tsr_engine *engine);
bool tsr__mesh_has(const tsr_device_mesh *mesh, const char *name);
/* The ranks that differ from this one along these axes only, in order of rank; NULL where they have size 1. label: its
 * axis, where more than one has ranks. Collective, but for an imagined mesh. Owner: the caller (tsr__comm_destroy).
 * place [product of the sizes]: where in it the rank at each place of the axes is, the last axis varying fastest. */
typedef struct tsr__axes {
    const char *const *names; /* [n] */
    int n;
    const char *label;
} tsr__axes;
TSR_NODISCARD tsr_status tsr__mesh_join(const tsr_device_mesh *mesh, const tsr__axes *axes, int *place,
                                        tsr__comm **out);
/* The communicator along an axis, NULL where the axis is absent or has size 1. Owned by the mesh. */
tsr__comm *tsr__mesh_comm(const tsr_device_mesh *mesh, const char *name);
/* The mesh as rank `rank` would have it if there were as many ranks as the shape asks for: its communicators are
 * meta/'s. Local. Errors: ARG (as tsr_device_mesh_create; no such rank), NOMEM. Owner: the caller. */
TSR_NODISCARD tsr_status tsr__device_mesh_imagine(tsr_engine *engine, const int *shape, const char *const *names, int n,
                                                  int rank, tsr_device_mesh **out);

#endif
