#include "comm/mpi/mpi.h"

#include <string.h>

/* MPI counts in int, and large messages cost nothing to cut: bytes of a piece. */
enum { PIECE = 32 << 20 };

static MPI_Comm mpi_of(const tsr__comm *comm) { return ((const tsr__mpi *)comm->state)->comm; }

tsr_status tsr__mpi_check(tsr_engine *engine, int code) {
    if (code == MPI_SUCCESS) return TSR_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(code, text, &length);
    return tsr__fail(engine, TSR_COMM, "MPI failed: %s", text);
}

static tsr_status check(const tsr__comm *comm, int code) { return tsr__mpi_check(comm->engine, code); }

tsr_status tsr__mpi_init(tsr__mpi *mpi, tsr_engine *engine, MPI_Comm comm) {
    *mpi = (tsr__mpi){.base = {.ops = &tsr__mpi_ops, .engine = engine, .state = mpi}, .comm = comm};
    TSR__TRY(tsr__mpi_check(engine, MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)));
    TSR__TRY(tsr__mpi_check(engine, MPI_Comm_rank(comm, &mpi->base.rank)));
    return tsr__mpi_check(engine, MPI_Comm_size(comm, &mpi->base.size));
}

static void mpi_destroy(tsr__comm *comm) {
    tsr__mpi *mpi = comm->state;
    (void)MPI_Comm_free(&mpi->comm);
    tsr__free(comm->engine, mpi);
}

/* Takes over `split`, the result of MPI's own splitting. */
static tsr_status adopt(tsr__comm *parent, tsr__mpi *mpi, MPI_Comm split, tsr__comm **out) {
    if (split == MPI_COMM_NULL) {
        tsr__free(parent->engine, mpi);
        *out = NULL;
        return TSR_OK;
    }
    tsr_status status = mpi ? tsr__mpi_init(mpi, parent->engine, split) : TSR_NOMEM;
    if (status != TSR_OK) {
        (void)MPI_Comm_free(&split);
        tsr__free(parent->engine, mpi);
        return status;
    }
    *out = &mpi->base;
    return TSR_OK;
}

/* A rank without memory still takes part in the splitting: the others wait for it. */
static tsr_status mpi_split(tsr__comm *comm, int color, tsr__comm **out) {
    MPI_Comm split = MPI_COMM_NULL;
    tsr__mpi *mpi = tsr__calloc(comm->engine, 1, sizeof *mpi);
    tsr_status status =
        check(comm, MPI_Comm_split(mpi_of(comm), color < 0 ? MPI_UNDEFINED : color, comm->rank, &split));
    if (status == TSR_OK) return adopt(comm, mpi, split, out);
    tsr__free(comm->engine, mpi);
    return status;
}

static tsr_status mpi_split_host(tsr__comm *comm, tsr__comm **out) {
    MPI_Comm split = MPI_COMM_NULL;
    tsr__mpi *mpi = tsr__calloc(comm->engine, 1, sizeof *mpi);
    tsr_status status =
        check(comm, MPI_Comm_split_type(mpi_of(comm), MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &split));
    if (status == TSR_OK) return adopt(comm, mpi, split, out);
    tsr__free(comm->engine, mpi);
    return status;
}

static int piece(size_t bytes, size_t at) { return (int)(bytes - at < PIECE ? bytes - at : PIECE); }

/* MPI wants all ranks to get identical results of a reduction to all. */
static tsr_status mpi_all_reduce(tsr__comm *comm, float *data, size_t n) {
    size_t bytes = n * sizeof *data;
    for (size_t at = 0; at < bytes; at += PIECE)
        TSR__TRY(check(comm, MPI_Allreduce(MPI_IN_PLACE, (char *)data + at, piece(bytes, at) / (int)sizeof *data,
                                           MPI_FLOAT, MPI_SUM, mpi_of(comm))));
    return TSR_OK;
}

/* Pieces of at most 1 GB here: large ones stay under way while the rank computes. What is sent is announced before what
 * is received is asked for: over TCP one connection carries both, and a rank that asks first gets the other's data
 * ahead of the other's own request, so that the two directions follow one another instead of flowing at the same time
 * (MPI_Sendrecv of Open MPI asks first). */
static tsr_status mpi_start(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv, size_t recv_bytes,
                            int from) {
    enum { TAG = 0 };
    const size_t most = (size_t)1 << 30;
    tsr__mpi *mpi = comm->state;
    mpi->n_requests = 0;
    mpi->code = MPI_SUCCESS;
    if (send_bytes > most * (TSR__MPI_REQUESTS / 2) || recv_bytes > most * (TSR__MPI_REQUESTS / 2))
        return tsr__fail(comm->engine, TSR_UNSUPPORTED, "a message of %zu bytes is too large", send_bytes);
    for (size_t at = 0; at < send_bytes; at += most)
        TSR__TRY(check(comm, MPI_Isend((const char *)send + at, (int)(send_bytes - at < most ? send_bytes - at : most),
                                       MPI_BYTE, to, TAG, mpi->comm, &mpi->requests[mpi->n_requests++])));
    for (size_t at = 0; at < recv_bytes; at += most)
        TSR__TRY(check(comm, MPI_Irecv((char *)recv + at, (int)(recv_bytes - at < most ? recv_bytes - at : most),
                                       MPI_BYTE, from, TAG, mpi->comm, &mpi->requests[mpi->n_requests++])));
    return TSR_OK;
}

static tsr_status mpi_finish(tsr__comm *comm) {
    tsr__mpi *mpi = comm->state;
    if (mpi->code == MPI_SUCCESS) mpi->code = MPI_Waitall(mpi->n_requests, mpi->requests, MPI_STATUSES_IGNORE);
    return check(comm, mpi->code);
}

static tsr_status exchange(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv, size_t recv_bytes,
                           int from) {
    TSR__TRY(mpi_start(comm, send, send_bytes, to, recv, recv_bytes, from));
    return mpi_finish(comm);
}

static size_t before(const size_t *bytes, int rank) {
    size_t sum = 0;
    for (int i = 0; i < rank; i++) sum += bytes[i];
    return sum;
}

static char *part(const void *base, const size_t *bytes, int rank) {
    return bytes[rank] > 0 ? (char *)(uintptr_t)base + before(bytes, rank) : NULL;
}

static void copy(void *dst, const void *src, size_t bytes) {
    if (bytes > 0 && dst != src) memcpy(dst, src, bytes);
}

/* In step s every rank sends to the rank s places further on, so that all links are busy and none twice. */
static tsr_status mpi_all_gather(tsr__comm *comm, const void *send, const size_t *bytes, void *recv) {
    copy(part(recv, bytes, comm->rank), send, bytes[comm->rank]);
    for (int step = 1; step < comm->size; step++) {
        int to = (comm->rank + step) % comm->size, from = (comm->rank + comm->size - step) % comm->size;
        TSR__TRY(exchange(comm, send, bytes[comm->rank], to, part(recv, bytes, from), bytes[from], from));
    }
    return TSR_OK;
}

static tsr_status mpi_all_to_all(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                                 const size_t *recv_bytes) {
    int own = comm->rank;
    copy(part(recv, recv_bytes, own), part(send, send_bytes, own), recv_bytes[own]);
    for (int step = 1; step < comm->size; step++) {
        int to = (own + step) % comm->size, from = (own + comm->size - step) % comm->size;
        TSR__TRY(exchange(comm, part(send, send_bytes, to), send_bytes[to], to, part(recv, recv_bytes, from),
                          recv_bytes[from], from));
    }
    return TSR_OK;
}

static tsr_status mpi_broadcast(tsr__comm *comm, void *data, size_t bytes, int root) {
    for (size_t at = 0; at < bytes; at += PIECE)
        TSR__TRY(check(comm, MPI_Bcast((char *)data + at, piece(bytes, at), MPI_BYTE, root, mpi_of(comm))));
    return TSR_OK;
}

/* A failure is kept for mpi_finish: MPI forgets a request that it has reported. */
static bool mpi_progress(tsr__comm *comm) {
    tsr__mpi *mpi = comm->state;
    int done = 1;
    if (mpi->code == MPI_SUCCESS) mpi->code = MPI_Testall(mpi->n_requests, mpi->requests, &done, MPI_STATUSES_IGNORE);
    return mpi->code == MPI_SUCCESS && !done;
}

static void mpi_leave(tsr__comm *comm) { (void)comm; }

const tsr__comm_ops tsr__mpi_ops = {
    .name = "mpi",
    .destroy = mpi_destroy,
    .split = mpi_split,
    .split_host = mpi_split_host,
    .all_reduce = mpi_all_reduce,
    .all_gather = mpi_all_gather,
    .all_to_all = mpi_all_to_all,
    .start = mpi_start,
    .finish = mpi_finish,
    .broadcast = mpi_broadcast,
    .progress = mpi_progress,
    .leave = mpi_leave,
};
