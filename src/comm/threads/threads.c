/* Ranks as threads. Every operation has the same form: a rank shows its buffers in its slot, all meet, each takes what
 * it needs from the memory of the others, all meet again. Only the first meeting can fail: a rank that came to it also
 * comes to the second, and no rank leaves in between. */
#include "comm/threads/threads.h"

#include <string.h>

enum { CHUNK = 1024, LINE = 16 }; /* floats: of a partial sum that stays in the first cache, of a cache line */

static tsr__group *group_of(const tsr__comm *comm) { return comm->state; }
static tsr__slot *own_slot(const tsr__comm *comm) { return &group_of(comm)->slots[comm->rank]; }

static tsr_status meet(tsr__comm *comm) {
    int absent = tsr__group_meet(group_of(comm), comm->rank);
    if (absent < 0) return TSR_OK;
    return tsr__fail(comm->engine, TSR_COMM, "rank %d has ended and cannot take part; see its own message", absent);
}

static void copy(void *dst, const void *src, size_t bytes) {
    if (bytes > 0 && dst != src) memcpy(dst, src, bytes);
}

static void threads_destroy(tsr__comm *comm) {
    tsr__group_release(group_of(comm));
    tsr__free(comm->engine, comm);
}

/* The group of the slots with this color, made by the first of them. */
static tsr__group *make_group(tsr__comm *comm, int color, int size) {
    tsr__group *parent = group_of(comm), *made = tsr__group_create(comm->engine, parent->team, size);
    for (int i = 0, n = 0; made && i < parent->size; i++)
        if (parent->slots[i].color == color) made->slots[n++].member = parent->slots[i].member;
    return made;
}

static tsr_status join_group(tsr__comm *parent, tsr__group *group, int rank, tsr__comm **out) {
    if (!group) return tsr__fail(parent->engine, TSR_NOMEM, "there is no memory for a communicator");
    tsr__comm *comm = tsr__calloc(parent->engine, 1, sizeof *comm);
    if (!comm) {
        tsr__group_release(group);
        return TSR_NOMEM;
    }
    *comm = (tsr__comm){.ops = &tsr__threads_ops, .engine = parent->engine, .rank = rank, .size = group->size};
    comm->state = group;
    *out = comm;
    return TSR_OK;
}

static tsr_status threads_split(tsr__comm *comm, int color, tsr__comm **out) {
    const tsr__slot *slots = group_of(comm)->slots;
    own_slot(comm)->color = color;
    TSR__TRY(meet(comm));
    int rank = 0, size = 0, first = -1;
    for (int i = 0; i < comm->size; i++) {
        if (slots[i].color != color) continue;
        if (first < 0) first = i;
        if (i < comm->rank) rank++;
        size++;
    }
    if (color >= 0 && first == comm->rank) own_slot(comm)->made = make_group(comm, color, size);
    TSR__TRY(meet(comm));
    tsr__comm *child = NULL;
    tsr_status status = color < 0 ? TSR_OK : join_group(comm, slots[first].made, rank, &child);
    TSR__TRY(meet(comm));
    if (status == TSR_OK) *out = child;
    return status;
}

static tsr_status threads_split_host(tsr__comm *comm, tsr__comm **out) { return threads_split(comm, 0, out); }

static void add(float *restrict sum, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += x[i];
}

/* Elements begin .. end of every rank's data become their sum, added in order of rank. */
static void reduce_slice(const tsr__group *group, size_t begin, size_t end) {
    float sum[CHUNK];
    for (size_t at = begin; at < end; at += CHUNK) {
        size_t n = end - at < CHUNK ? end - at : CHUNK;
        memcpy(sum, group->slots[0].data + at, n * sizeof *sum);
        for (int i = 1; i < group->size; i++) add(sum, group->slots[i].data + at, n);
        for (int i = 0; i < group->size; i++) memcpy(group->slots[i].data + at, sum, n * sizeof *sum);
    }
}

static size_t slice_begin(size_t n, int rank, int size) {
    size_t lines = (n + LINE - 1) / LINE, begin = lines * (size_t)rank / (size_t)size * LINE;
    return begin < n ? begin : n;
}

static tsr_status threads_all_reduce(tsr__comm *comm, float *data, size_t n) {
    own_slot(comm)->data = data;
    TSR__TRY(meet(comm));
    reduce_slice(group_of(comm), slice_begin(n, comm->rank, comm->size), slice_begin(n, comm->rank + 1, comm->size));
    return meet(comm);
}

static tsr_status threads_all_gather(tsr__comm *comm, const void *send, const size_t *bytes, void *recv) {
    own_slot(comm)->send = send;
    TSR__TRY(meet(comm));
    char *to = recv;
    for (int i = 0; i < comm->size; to += bytes[i++]) copy(to, group_of(comm)->slots[i].send, bytes[i]);
    return meet(comm);
}

static tsr_status threads_all_to_all(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                                     const size_t *recv_bytes) {
    own_slot(comm)->send = send;
    own_slot(comm)->bytes = send_bytes;
    TSR__TRY(meet(comm));
    char *to = recv;
    for (int i = 0; i < comm->size; to += recv_bytes[i++]) {
        const tsr__slot *peer = &group_of(comm)->slots[i];
        size_t before = 0;
        for (int j = 0; j < comm->rank; j++) before += peer->bytes[j];
        if (recv_bytes[i] > 0) copy(to, (const char *)peer->send + before, recv_bytes[i]);
    }
    return meet(comm);
}

static tsr_status threads_start(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv,
                                size_t recv_bytes, int from) {
    (void)send_bytes; /* what `to` takes */
    (void)to;
    tsr__slot *own = own_slot(comm);
    own->send = send;
    own->recv = recv;
    own->recv_bytes = recv_bytes;
    own->from = from;
    return TSR_OK;
}

static tsr_status threads_finish(tsr__comm *comm) {
    const tsr__slot *own = own_slot(comm);
    TSR__TRY(meet(comm));
    copy(own->recv, group_of(comm)->slots[own->from].send, own->recv_bytes);
    return meet(comm);
}

static tsr_status threads_broadcast(tsr__comm *comm, void *data, size_t bytes, int root) {
    own_slot(comm)->send = data;
    TSR__TRY(meet(comm));
    copy(data, group_of(comm)->slots[root].send, bytes);
    return meet(comm);
}

static bool threads_progress(tsr__comm *comm) {
    (void)comm;
    return false;
}

static void threads_leave(tsr__comm *comm) { tsr__team_leave(group_of(comm)->team, own_slot(comm)->member); }

const tsr__comm_ops tsr__threads_ops = {
    .name = "threads",
    .one_process = true,
    .destroy = threads_destroy,
    .split = threads_split,
    .split_host = threads_split_host,
    .all_reduce = threads_all_reduce,
    .all_gather = threads_all_gather,
    .all_to_all = threads_all_to_all,
    .start = threads_start,
    .finish = threads_finish,
    .broadcast = threads_broadcast,
    .progress = threads_progress,
    .leave = threads_leave,
};
