#include "comm/meta/meta.h"

static tsr_status refuse(tsr__comm *comm) {
    return tsr__fail(comm->engine, TSR_INTERNAL, "the other ranks are imagined only: nothing can be exchanged");
}

static void meta_destroy(tsr__comm *comm) { tsr__free(comm->engine, comm); }

static tsr_status meta_split(tsr__comm *comm, int color, tsr__comm **out) {
    (void)color;
    (void)out;
    return refuse(comm);
}

static tsr_status meta_split_host(tsr__comm *comm, tsr__comm **out) {
    (void)out;
    return refuse(comm);
}

static tsr_status meta_all_reduce(tsr__comm *comm, float *data, size_t n) {
    (void)data;
    (void)n;
    return refuse(comm);
}

static tsr_status meta_all_gather(tsr__comm *comm, const void *send, const size_t *bytes, void *recv) {
    (void)send;
    (void)bytes;
    (void)recv;
    return refuse(comm);
}

static tsr_status meta_all_to_all(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                                  const size_t *recv_bytes) {
    (void)send;
    (void)send_bytes;
    (void)recv;
    (void)recv_bytes;
    return refuse(comm);
}

static tsr_status meta_start(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv,
                             size_t recv_bytes, int from) {
    (void)send;
    (void)send_bytes;
    (void)to;
    (void)recv;
    (void)recv_bytes;
    (void)from;
    return refuse(comm);
}

static tsr_status meta_broadcast(tsr__comm *comm, void *data, size_t bytes, int root) {
    (void)data;
    (void)bytes;
    (void)root;
    return refuse(comm);
}

static void meta_nothing(tsr__comm *comm) { (void)comm; }

static bool meta_progress(tsr__comm *comm) {
    (void)comm;
    return false;
}

static const tsr__comm_ops meta_ops = {
    .name = "meta",
    .destroy = meta_destroy,
    .split = meta_split,
    .split_host = meta_split_host,
    .all_reduce = meta_all_reduce,
    .all_gather = meta_all_gather,
    .all_to_all = meta_all_to_all,
    .start = meta_start,
    .finish = refuse,
    .broadcast = meta_broadcast,
    .progress = meta_progress,
    .leave = meta_nothing,
};

tsr_status tsr__meta_comm_create(tsr_engine *engine, const char *axis, int rank, int size, tsr__comm **out) {
    tsr__comm *comm = tsr__calloc(engine, 1, sizeof *comm);
    if (!comm) return TSR_NOMEM;
    *comm = (tsr__comm){.ops = &meta_ops, .engine = engine, .axis = axis, .rank = rank, .size = size};
    *out = comm;
    return TSR_OK;
}
