#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool alone(const tsr__comm *comm) { return !comm || comm->size == 1; }

static tsr_status copy_own(void *recv, const void *send, size_t bytes) {
    if (bytes > 0 && recv != send) memcpy(recv, send, bytes);
    return TSR_OK;
}

static size_t total(const size_t *bytes, int n) {
    size_t sum = 0;
    for (int i = 0; i < n; i++) sum += bytes[i];
    return sum;
}

static tsr_status context(tsr__comm *comm, const char *what, tsr_status status) {
    if (status == TSR_OK) return TSR_OK;
    return tsr__context(comm->engine, status, "%s%s%s on rank %d of %d (phase %s)", what, comm->axis ? " over " : "",
                        comm->axis ? comm->axis : "", tsr_engine_rank(comm->engine), tsr_engine_size(comm->engine),
                        tsr_engine_phase(comm->engine));
}

static const char *const names[TSR__N_COMM_OPS] = {"all_reduce", "all_gather", "all_to_all", "send_receive",
                                                   "broadcast"};
_Static_assert((int)TSR_N_TRAFFIC == (int)TSR__N_COMM_OPS, "all operations are public");

/* After a call: bytes of its payload, and of what this rank sent to others. */
static tsr_status count(tsr__comm *comm, tsr__comm_op op, size_t bytes, size_t sent, tsr_status status) {
    if (status != TSR_OK) return context(comm, names[op], status);
    comm->calls[op]++;
    comm->bytes[op] += bytes;
    comm->engine->traffic[op].calls++;
    comm->engine->traffic[op].bytes_sent += sent;
    return TSR_OK;
}

void tsr_engine_traffic(const tsr_engine *engine, tsr_traffic traffic[TSR_N_TRAFFIC]) {
    memcpy(traffic, engine->traffic, sizeof engine->traffic);
    for (int op = 0; op < TSR_N_TRAFFIC; op++) traffic[op].operation = names[op];
}

tsr_status tsr__all_reduce(tsr__comm *comm, float *data, size_t n) {
    if (alone(comm)) return TSR_OK;
    size_t bytes = n * sizeof *data, others = (size_t)comm->size - 1;
    return count(comm, TSR__ALL_REDUCE, bytes, 2 * bytes * others / (others + 1), comm->ops->all_reduce(comm, data, n));
}

tsr_status tsr__all_gather(tsr__comm *comm, const void *send, const size_t *bytes, void *recv) {
    if (alone(comm)) return copy_own(recv, send, bytes[0]);
    return count(comm, TSR__ALL_GATHER, total(bytes, comm->size), bytes[comm->rank] * ((size_t)comm->size - 1),
                 comm->ops->all_gather(comm, send, bytes, recv));
}

tsr_status tsr__all_gather_equal(tsr__comm *comm, const void *send, size_t bytes, void *recv) {
    size_t each[TSR__MAX_RANKS];
    for (int i = 0; i < (comm ? comm->size : 1); i++) each[i] = bytes;
    return tsr__all_gather(comm, send, each, recv);
}

tsr_status tsr__all_greatest(tsr__comm *comm, double *value) {
    double all[TSR__MAX_RANKS];
    TSR__TRY(tsr__all_gather_equal(comm, value, sizeof *value, all));
    for (int i = 0; comm && i < comm->size; i++) *value = fmax(*value, all[i]);
    return TSR_OK;
}

tsr_status tsr__all_to_all(tsr__comm *comm, const void *send, const size_t *send_bytes, void *recv,
                           const size_t *recv_bytes) {
    if (alone(comm)) return copy_own(recv, send, recv_bytes[0]);
    size_t bytes = total(send_bytes, comm->size);
    return count(comm, TSR__ALL_TO_ALL, bytes, bytes - send_bytes[comm->rank],
                 comm->ops->all_to_all(comm, send, send_bytes, recv, recv_bytes));
}

tsr_status tsr__start_send_receive(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv,
                                   size_t recv_bytes, int from) {
    if (alone(comm)) return copy_own(recv, send, recv_bytes);
    comm->under_way = send_bytes;
    return context(comm, "send_receive", comm->ops->start(comm, send, send_bytes, to, recv, recv_bytes, from));
}

tsr_status tsr__finish_send_receive(tsr__comm *comm) {
    if (alone(comm)) return TSR_OK;
    return count(comm, TSR__SEND_RECEIVE, comm->under_way, comm->under_way, comm->ops->finish(comm));
}

tsr_status tsr__send_receive(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv,
                             size_t recv_bytes, int from) {
    TSR__TRY(tsr__start_send_receive(comm, send, send_bytes, to, recv, recv_bytes, from));
    return tsr__finish_send_receive(comm);
}

tsr_status tsr__broadcast(tsr__comm *comm, void *data, size_t bytes, int root) {
    if (alone(comm)) return TSR_OK;
    return count(comm, TSR__BROADCAST, bytes, root == comm->rank ? bytes : 0,
                 comm->ops->broadcast(comm, data, bytes, root));
}

bool tsr__comm_progress(tsr__comm *comm) { return !alone(comm) && comm->ops->progress(comm); }

tsr_status tsr__comm_split(tsr__comm *comm, int color, tsr__comm **out) {
    if (comm) return context(comm, "split", comm->ops->split(comm, color, out));
    *out = NULL;
    return TSR_OK;
}

tsr_status tsr__comm_split_host(tsr__comm *comm, tsr__comm **out) {
    if (comm) return context(comm, "split_host", comm->ops->split_host(comm, out));
    *out = NULL;
    return TSR_OK;
}

void tsr__comm_destroy(tsr__comm *comm) {
    if (comm) comm->ops->destroy(comm);
}

tsr__comm *tsr__world(const tsr_engine *engine) { return engine->world; }
int tsr_engine_rank(const tsr_engine *engine) { return engine->rank; }
int tsr_engine_size(const tsr_engine *engine) { return engine->size; }

void tsr__rank_phase(tsr_engine *engine, const char *phase) { atomic_store(&engine->phase, phase); }

const char *tsr_engine_phase(const tsr_engine *engine) {
    const char *phase = atomic_load(&engine->phase);
    return phase ? phase : "start";
}

static int first_other(const int *all, int n, int than) {
    int i = 0;
    while (i < n && all[i] == than) i++;
    return i;
}

/* The message of rank `first` becomes everybody's; `said` is this rank's own. */
static tsr_status share_message(tsr__comm *world, int first, bool same_status, const char *said) {
    char text[TSR__MESSAGE_BYTES];
    int differ[TSR__MAX_RANKS];
    memcpy(text, said, sizeof text);
    TSR__TRY(tsr__broadcast(world, text, sizeof text, first));
    int differs = !same_status || strcmp(text, said) != 0;
    TSR__TRY(tsr__all_gather_equal(world, &differs, sizeof differs, differ));
    char *message = world->engine->message;
    memcpy(message, text, sizeof text);
    if (first_other(differ, world->size, 0) == world->size) return TSR_OK;
    (void)tsr__context(world->engine, TSR_OK, "rank %d", first);
    return TSR_OK;
}

tsr_status tsr_status_agree(tsr_engine *engine, tsr_status own) {
    tsr__comm *world = engine->world;
    if (alone(world)) return own;
    char said[TSR__MESSAGE_BYTES];
    int number = (int)own, all[TSR__MAX_RANKS];
    memcpy(said, engine->message, sizeof said);
    tsr_status status = tsr__all_gather_equal(world, &number, sizeof number, all);
    int first = status == TSR_OK ? first_other(all, world->size, TSR_OK) : 0;
    engine->agreed = TSR_OK;
    if (status == TSR_OK && first == world->size) return TSR_OK;
    if (status == TSR_OK) status = share_message(world, first, (int)own == all[first], said);
    if (status == TSR_OK) return engine->agreed = (tsr_status)all[first];
    if (own == TSR_OK) return status;
    memcpy(engine->message, said, sizeof said); /* nobody to agree with: what this rank knows itself says more */
    return own;
}
