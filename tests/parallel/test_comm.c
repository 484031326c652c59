/* Every operation of a communicator, and what is built on them, on any number of ranks, as threads or as processes. */
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX = 8 /* ranks */, LARGE = 72 << 20 /* bytes */ };

static size_t random_size(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t r = rank_random(seed, a, b);
    return r % 4 == 0 ? 0 : (r >> 8) % ((size_t)1 << ((r >> 4) % 14));
}

/* The bytes that rank `from` has for rank `to`, eight from each random number. */
static void fill(unsigned char *data, size_t n, uint64_t seed, int from, int to) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight = rank_random(seed, (uint64_t)from * 64 + (uint64_t)to, i);
        memcpy(data + i, &eight, n - i < 8 ? n - i : 8);
    }
}

static bool holds(const unsigned char *data, size_t n, uint64_t seed, int from, int to) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight = rank_random(seed, (uint64_t)from * 64 + (uint64_t)to, i);
        if (memcmp(data + i, &eight, n - i < 8 ? n - i : 8) != 0) return false;
    }
    return true;
}

static float float_of(uint64_t seed, int rank, size_t i) {
    return (float)(int32_t)(rank_random(seed, (uint64_t)rank, i) >> 32) * 0x1p-31f;
}

/* All ranks have the same n floats, bit for bit. Collective. */
static tsr_status check_same_bits(tsr_engine *engine, tsr__comm *comm, const float *data, size_t n) {
    uint64_t hash = 1, all[MAX] = {0};
    size_t bytes[MAX];
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    for (int i = 0; i < MAX; i++) bytes[i] = sizeof hash;
    TSR__TRY(tsr__all_gather(comm, &hash, bytes, all));
    for (int i = 0; comm && i < comm->size; i++) RANK_CHECK(engine, all[i] == hash);
    return TSR_OK;
}

static tsr_status all_reduce_of(tsr_engine *engine, uint64_t seed, size_t n, float *data) {
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine);
    for (size_t i = 0; i < n; i++) data[i] = float_of(seed, rank, i);
    TSR__TRY(tsr__all_reduce(tsr__world(engine), data, n));
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int r = 0; r < size; r++) sum += (double)float_of(seed, r, i);
        RANK_CHECK(engine, fabs((double)data[i] - sum) <= 1e-6 * size);
    }
    return check_same_bits(engine, tsr__world(engine), data, n);
}

static tsr_status all_reduce_sized(tsr_engine *engine, uint64_t seed, size_t n) {
    float *data = tsr__alloc(engine, n * sizeof *data);
    if (!data) return TSR_NOMEM;
    tsr_status status = all_reduce_of(engine, seed, n, data);
    tsr__free(engine, data);
    return status;
}

static tsr_status test_all_reduce(tsr_engine *engine, void *user) {
    (void)user;
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 1000, 1024, 1025, 40000};
    uint64_t seed;
    TSR__TRY(rank_seed(engine, &seed));
    for (size_t i = 0; i < TSR__COUNT(sizes); i++) TSR__TRY(all_reduce_sized(engine, seed + i, sizes[i]));
    for (uint64_t i = 0; i < 20; i++) TSR__TRY(all_reduce_sized(engine, seed, random_size(seed, 7, i)));
    return TSR_OK;
}

/* Parts of `bytes`; in_place: this rank's part lies in the result from the start. */
static tsr_status all_gather_of(tsr_engine *engine, uint64_t seed, const size_t *bytes, bool in_place) {
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine);
    size_t total = 0, before = 0;
    for (int i = 0; i < size; i++) total += bytes[i];
    for (int i = 0; i < rank; i++) before += bytes[i];
    unsigned char *recv = tsr__calloc(engine, 1, total), *apart = tsr__alloc(engine, bytes[rank]);
    unsigned char *send = in_place && recv ? recv + before : apart;
    tsr_status status = recv && apart ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) {
        fill(send, bytes[rank], seed, rank, 0);
        status = tsr__all_gather(tsr__world(engine), send, bytes, recv);
    }
    bool right = true;
    total = 0;
    for (int i = 0; status == TSR_OK && i < size; total += bytes[i++])
        right = right && holds(recv + total, bytes[i], seed, i, 0);
    tsr__free(engine, apart);
    tsr__free(engine, recv);
    TSR__TRY(status);
    RANK_CHECK(engine, right);
    return TSR_OK;
}

static tsr_status test_all_gather(tsr_engine *engine, void *user) {
    (void)user;
    uint64_t seed;
    TSR__TRY(rank_seed(engine, &seed));
    for (uint64_t round = 0; round < 20; round++) {
        size_t bytes[MAX];
        for (int i = 0; i < MAX; i++) bytes[i] = random_size(seed, round, (uint64_t)i);
        TSR__TRY(all_gather_of(engine, seed + round, bytes, round % 2 == 0));
    }
    return TSR_OK;
}

/* bytes [from][to] */
static tsr_status all_to_all_of(tsr_engine *engine, uint64_t seed, size_t bytes[MAX][MAX]) {
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine);
    size_t in[MAX], sum_in = 0, sum_out = 0, at = 0;
    for (int i = 0; i < size; i++) {
        sum_out += bytes[rank][i];
        sum_in += in[i] = bytes[i][rank];
    }
    unsigned char *send = tsr__alloc(engine, sum_out), *recv = tsr__alloc(engine, sum_in);
    tsr_status status = send && recv ? TSR_OK : TSR_NOMEM;
    for (int i = 0; status == TSR_OK && i < size; at += bytes[rank][i++])
        fill(send + at, bytes[rank][i], seed, rank, i);
    if (status == TSR_OK) status = tsr__all_to_all(tsr__world(engine), send, bytes[rank], recv, in);
    bool right = true;
    at = 0;
    for (int i = 0; status == TSR_OK && i < size; at += in[i++])
        right = right && holds(recv + at, in[i], seed, i, rank);
    tsr__free(engine, send);
    tsr__free(engine, recv);
    TSR__TRY(status);
    RANK_CHECK(engine, right);
    return TSR_OK;
}

static tsr_status test_all_to_all(tsr_engine *engine, void *user) {
    (void)user;
    uint64_t seed;
    TSR__TRY(rank_seed(engine, &seed));
    for (uint64_t round = 0; round < 20; round++) {
        size_t bytes[MAX][MAX];
        for (int i = 0; i < MAX * MAX; i++) bytes[i / MAX][i % MAX] = random_size(seed, round, (uint64_t)i);
        TSR__TRY(all_to_all_of(engine, seed + round, bytes));
    }
    return TSR_OK;
}

/* As a whole, or, where a rank sends an odd number of bytes, in two halves and moved until nothing is left to move. */
static tsr_status exchange(tsr__comm *comm, const void *send, size_t send_bytes, int to, void *recv, size_t recv_bytes,
                           int from) {
    if (send_bytes % 2 == 0) return tsr__send_receive(comm, send, send_bytes, to, recv, recv_bytes, from);
    TSR__TRY(tsr__start_send_receive(comm, send, send_bytes, to, recv, recv_bytes, from));
    while (tsr__comm_progress(comm)) continue;
    return tsr__finish_send_receive(comm);
}

/* Every rank sends bytes[rank] to the rank `shift` places further on. */
static tsr_status shift_of(tsr_engine *engine, uint64_t seed, const size_t *bytes, int shift) {
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine);
    int to = (rank + shift) % size, from = (rank + size - shift) % size;
    unsigned char *send = tsr__alloc(engine, bytes[rank]), *recv = tsr__alloc(engine, bytes[from]);
    tsr_status status = send && recv ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) {
        fill(send, bytes[rank], seed, rank, to);
        status = exchange(tsr__world(engine), send, bytes[rank], to, recv, bytes[from], from);
    }
    bool right = status == TSR_OK && holds(recv, bytes[from], seed, from, rank);
    tsr__free(engine, send);
    tsr__free(engine, recv);
    TSR__TRY(status);
    RANK_CHECK(engine, right);
    return TSR_OK;
}

static tsr_status test_send_receive(tsr_engine *engine, void *user) {
    (void)user;
    uint64_t seed;
    TSR__TRY(rank_seed(engine, &seed));
    for (uint64_t round = 0; round < 10; round++) {
        size_t bytes[MAX];
        for (int i = 0; i < MAX; i++) bytes[i] = random_size(seed, round, (uint64_t)i);
        for (int shift = 0; shift < tsr_engine_size(engine); shift++)
            TSR__TRY(shift_of(engine, seed + round, bytes, shift));
    }
    return TSR_OK;
}

static tsr_status broadcast_of(tsr_engine *engine, uint64_t seed, size_t bytes, int root) {
    unsigned char *data = tsr__calloc(engine, 1, bytes);
    if (!data) return TSR_NOMEM;
    if (tsr_engine_rank(engine) == root) fill(data, bytes, seed, root, 0);
    tsr_status status = tsr__broadcast(tsr__world(engine), data, bytes, root);
    bool right = status == TSR_OK && holds(data, bytes, seed, root, 0);
    tsr__free(engine, data);
    TSR__TRY(status);
    RANK_CHECK(engine, right);
    return TSR_OK;
}

static tsr_status test_broadcast(tsr_engine *engine, void *user) {
    (void)user;
    uint64_t seed;
    TSR__TRY(rank_seed(engine, &seed));
    for (uint64_t round = 0; round < 10; round++)
        for (int root = 0; root < tsr_engine_size(engine); root++)
            TSR__TRY(broadcast_of(engine, seed + round, random_size(seed, round, (uint64_t)root), root));
    return TSR_OK;
}

/* More than 64 MB, in parts that divide by nothing. */
static tsr_status test_large(tsr_engine *engine, void *user) {
    (void)user;
    int size = tsr_engine_size(engine);
    size_t parts[MAX] = {0}, pairs[MAX][MAX] = {{0}}, part = LARGE / (size_t)size;
    for (int i = 0; i < MAX * MAX; i++) pairs[i / MAX][i % MAX] = part / (size_t)size + (size_t)i;
    for (int i = 0; i < size; i++) parts[i] = part + (i % 2 ? 12345 : (size_t)0) - (size_t)i;
    TSR__TRY(all_reduce_sized(engine, 1, LARGE / sizeof(float) + 5));
    TSR__TRY(all_gather_of(engine, 2, parts, true));
    TSR__TRY(all_to_all_of(engine, 3, pairs));
    parts[0] = LARGE + 1;
    TSR__TRY(shift_of(engine, 4, parts, 1 % size));
    return broadcast_of(engine, 5, LARGE + 1, size - 1);
}

/* The ranks of `comm` are those of the world that `belongs` says, in order. */
static tsr_status check_members(tsr_engine *engine, tsr__comm *comm, bool (*belongs)(int self, int other)) {
    int rank = tsr_engine_rank(engine), members[MAX] = {0}, n = 0, place = 0;
    size_t bytes[MAX];
    for (int i = 0; i < MAX; i++) bytes[i] = sizeof rank;
    RANK_CHECK(engine, comm);
    TSR__TRY(tsr__all_gather(comm, &rank, bytes, members));
    for (int i = 0; i < tsr_engine_size(engine); i++) {
        if (!belongs(rank, i)) continue;
        if (i < rank) place++;
        RANK_CHECK(engine, n < comm->size && members[n] == i);
        n++;
    }
    RANK_CHECK(engine, comm->size == n && comm->rank == place);
    float one = 1.0f;
    TSR__TRY(tsr__all_reduce(comm, &one, 1));
    RANK_CHECK(engine, one == (float)n);
    return TSR_OK;
}

static bool same_parity(int self, int other) { return self % 2 == other % 2; }
static bool same_pair(int self, int other) { return self % 2 == other % 2 && self / 4 == other / 4; }
static bool both_later(int self, int other) { return self > 0 && other > 0; }
static bool any(int self, int other) { return self >= 0 && other >= 0; }

static tsr_status test_split(tsr_engine *engine, void *user) {
    (void)user;
    int rank = tsr_engine_rank(engine);
    tsr__comm *world = tsr__world(engine), *parity = NULL, *pair = NULL, *later = NULL, *host = NULL;
    if (!world) return TSR_OK;
    TSR__TRY(tsr__comm_split(world, 5 - rank % 2, &parity));
    TSR__TRY(check_members(engine, parity, same_parity));
    TSR__TRY(tsr__comm_split(parity, rank / 4, &pair));
    TSR__TRY(check_members(engine, pair, same_pair));
    TSR__TRY(tsr__comm_split(world, rank == 0 ? -1 : 0, &later));
    RANK_CHECK(engine, (later == NULL) == (rank == 0));
    if (later) TSR__TRY(check_members(engine, later, both_later));
    TSR__TRY(tsr__comm_split_host(world, &host));
    TSR__TRY(check_members(engine, host, any));
    tsr__comm_destroy(parity);
    tsr__comm_destroy(host);
    tsr__comm_destroy(later);
    tsr__comm_destroy(pair);
    return TSR_OK;
}

/* Along every axis the ranks are those that differ in this coordinate alone. */
static tsr_status check_mesh(tsr_engine *engine, const int *shape, const char *const *names, int n) {
    tsr_device_mesh *mesh = NULL;
    TSR__TRY(tsr_device_mesh_create(engine, shape, names, n, &mesh));
    int stride = 1, rank = tsr_engine_rank(engine);
    for (int i = n - 1; i >= 0; i--) {
        int place = rank / stride % shape[i], begin = rank - place * stride;
        RANK_CHECK(engine, tsr_device_mesh_size(mesh, names[i]) == shape[i]);
        RANK_CHECK(engine, tsr_device_mesh_rank(mesh, names[i]) == place);
        tsr__comm *comm = tsr__mesh_comm(mesh, names[i]);
        RANK_CHECK(engine, (comm == NULL) == (shape[i] == 1));
        if (comm) RANK_CHECK(engine, comm->rank == place && comm->size == shape[i]);
        float sum = (float)rank;
        TSR__TRY(tsr__all_reduce(comm, &sum, 1));
        RANK_CHECK(engine, sum == (float)(shape[i] * begin + stride * shape[i] * (shape[i] - 1) / 2));
        stride *= shape[i];
    }
    RANK_CHECK(engine, tsr_device_mesh_size(mesh, "absent") == 1 && tsr_device_mesh_rank(mesh, "absent") == 0);
    RANK_CHECK(engine, tsr__mesh_comm(mesh, "absent") == NULL);
    tsr_device_mesh_destroy(mesh);
    return TSR_OK;
}

static tsr_status test_mesh(tsr_engine *engine, void *user) {
    (void)user;
    static const char *const names[] = {"ring", "ulysses", "tp"};
    int size = tsr_engine_size(engine);
    for (int a = 1; a <= size; a++)
        for (int b = 1; b <= size; b++)
            if (size % (a * b) == 0) TSR__TRY(check_mesh(engine, (int[]){a, b, size / a / b}, names, 3));
    for (int a = 1; a <= size; a++)
        if (size % a == 0) TSR__TRY(check_mesh(engine, (int[]){a, size / a}, names + 1, 2));
    return check_mesh(engine, &size, names, 1);
}

static tsr_status test_mesh_refusals(tsr_engine *engine, void *user) {
    (void)user;
    static const char *const names[] = {"ring", "ulysses", "tp", "a", "b", "c", "d", "e", "f"};
    static const char *const twice[] = {"tp", "tp"}, *const unnamed[] = {"tp", ""};
    int size = tsr_engine_size(engine);
    const struct {
        int shape[9];
        const char *const *names;
        int n;
        const char *words;
    } cases[] = {{{size, 2}, names, 2, "ring "},
                 {{size + 1}, names, 1, "ring "},
                 {{65536, 65536, 65536}, names, 3, "65536 x ulysses 65536"},
                 {{1, size}, twice, 2, "two axes tp"},
                 {{size, 1}, unnamed, 2, "no name"},
                 {{0, size}, names, 2, "size 0"},
                 {{size, -1}, names, 2, "size -1"},
                 {{size}, names, 0, "1 to 8 axes"},
                 {{size, 1, 1, 1, 1, 1, 1, 1, 1}, names, 9, "1 to 8 axes"}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        tsr_device_mesh *mesh = NULL;
        tsr_status status = tsr_device_mesh_create(engine, cases[i].shape, cases[i].names, cases[i].n, &mesh);
        RANK_CHECK(engine, status == TSR_ARG && !mesh);
        RANK_CHECK(engine, strstr(tsr_engine_message(engine), cases[i].words));
        RANK_CHECK(engine, strncmp(tsr_engine_message(engine), "rank", 4) != 0); /* all say the same */
    }
    return TSR_OK;
}

/* The last rank's k-th allocation fails, for every k: all ranks learn of it, and nothing is left behind. */
static tsr_status test_mesh_allocations(tsr_engine *engine, void *user) {
    (void)user;
    static const char *const names[] = {"ring", "tp"};
    int size = tsr_engine_size(engine);
    bool fails = tsr_engine_rank(engine) == size - 1;
    tsr_status status = TSR_NOMEM;
    for (int k = 0; status != TSR_OK; k++) {
        RANK_CHECK(engine, k < 100);
        tsr_device_mesh *mesh = NULL;
        TSR__TRY(tsr_status_agree(engine, TSR_OK)); /* ranks free what is charged to others */
        size_t before = tsr_engine_memory_current(engine);
        TSR__TRY(tsr_status_agree(engine, TSR_OK));
        if (fails) atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        status = tsr_device_mesh_create(engine, (int[]){1, size}, names, 2, &mesh);
        atomic_store(&engine->allocator.fail_at, -1);
        RANK_CHECK(engine, status == TSR_OK || (status == TSR_NOMEM && !mesh));
        RANK_CHECK(engine, status == TSR_OK || strstr(tsr_engine_message(engine), "memory"));
        tsr_device_mesh_destroy(mesh);
        TSR__TRY(tsr_status_agree(engine, TSR_OK));
        RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
    }
    return TSR_OK;
}

static tsr_status test_counters(tsr_engine *engine, void *user) {
    (void)user;
    int size = tsr_engine_size(engine), rank = tsr_engine_rank(engine);
    if (size == 1) return TSR_OK;
    tsr__comm *comm = NULL;
    size_t bytes[MAX];
    float data[2 * MAX] = {0}, other[2 * MAX] = {0};
    tsr_traffic before[TSR_N_TRAFFIC], after[TSR_N_TRAFFIC];
    for (int i = 0; i < MAX; i++) bytes[i] = 8;
    TSR__TRY(tsr__comm_split(tsr__world(engine), 0, &comm));
    tsr_engine_traffic(engine, before);
    for (int i = 0; i < 2; i++) TSR__TRY(tsr__all_reduce(comm, data, 3));
    TSR__TRY(tsr__all_gather(comm, data, bytes, other));
    TSR__TRY(tsr__all_to_all(comm, data, bytes, other, bytes));
    TSR__TRY(tsr__send_receive(comm, data, 20, (rank + 1) % size, other, 20, (rank + size - 1) % size));
    TSR__TRY(tsr__broadcast(comm, data, 7, 0));
    const uint64_t calls[TSR__N_COMM_OPS] = {2, 1, 1, 1, 1}, parts = (uint64_t)size * 8;
    const uint64_t sums[TSR__N_COMM_OPS] = {24, parts, parts, 20, 7};
    RANK_CHECK(engine, memcmp(comm->calls, calls, sizeof calls) == 0);
    RANK_CHECK(engine, memcmp(comm->bytes, sums, sizeof sums) == 0);
    tsr__comm_destroy(comm);
    tsr_engine_traffic(engine, after);
    const uint64_t others = (uint64_t)size - 1;
    const uint64_t sent[] = {2 * (24 * others / (uint64_t)size), 8 * others, 8 * others, 20, rank == 0 ? 7 : 0};
    for (int i = 0; i < TSR_N_TRAFFIC; i++) {
        RANK_CHECK(engine, after[i].calls - before[i].calls == calls[i]);
        RANK_CHECK(engine, after[i].bytes_sent - before[i].bytes_sent == sent[i]);
    }
    RANK_CHECK(engine, strcmp(after[TSR__BROADCAST].operation, "broadcast") == 0);
    return TSR_OK;
}

/* Ranks in the bit set `failing` fail, with the same words or with their own. */
static tsr_status check_agree(tsr_engine *engine, unsigned failing, bool same_words) {
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine), first = 0;
    bool all = (failing & ((1u << size) - 1)) == (1u << size) - 1;
    tsr_status own = TSR_OK;
    char expected[96];
    if (failing >> rank & 1u)
        own = tsr__fail(engine, same_words ? TSR_IO : (tsr_status)(rank + 1), "word %d", same_words ? 9 : rank);
    tsr_status status = tsr_status_agree(engine, own);
    while (first < size && !(failing >> first & 1u)) first++;
    if (first == size) {
        RANK_CHECK(engine, status == TSR_OK);
        return TSR_OK;
    }
    RANK_CHECK(engine, status == (same_words ? TSR_IO : (tsr_status)(first + 1)));
    bool says_rank = size > 1 && !(all && same_words);
    char prefix[32] = "";
    if (says_rank) snprintf(prefix, sizeof prefix, "rank %d: ", first);
    snprintf(expected, sizeof expected, "%sword %d", prefix, same_words ? 9 : first);
    RANK_CHECK(engine, strcmp(tsr_engine_message(engine), expected) == 0);
    return TSR_OK;
}

static tsr_status test_agree(tsr_engine *engine, void *user) {
    (void)user;
    for (unsigned failing = 0; failing < 1u << tsr_engine_size(engine); failing++) {
        TSR__TRY(check_agree(engine, failing, true));
        TSR__TRY(check_agree(engine, failing, false));
    }
    return TSR_OK;
}

/* Many small operations of all kinds on several communicators; ranks come early and late. */
static tsr_status test_many(tsr_engine *engine, void *user) {
    (void)user;
    int rank = tsr_engine_rank(engine), size = tsr_engine_size(engine);
    uint64_t seed;
    tsr__comm *parity = NULL;
    TSR__TRY(rank_seed(engine, &seed));
    TSR__TRY(tsr__comm_split(tsr__world(engine), rank % 2, &parity));
    for (uint64_t i = 0; i < 1000; i++) {
        float one = 1.0f, part = 1.0f;
        if (rank_random(seed, i, 100 + (uint64_t)rank) % 50 == 0) usleep(500);
        size_t bytes = random_size(seed, i, 3) % 200, parts[MAX];
        for (int r = 0; r < MAX; r++) parts[r] = bytes;
        switch (rank_random(seed, i, 2) % 5) {
        case 0:
            TSR__TRY(tsr__all_reduce(tsr__world(engine), &one, 1));
            break;
        case 1:
            TSR__TRY(all_gather_of(engine, i, parts, true));
            break;
        case 2:
            TSR__TRY(shift_of(engine, i, parts, size - 1));
            break;
        case 3:
            TSR__TRY(broadcast_of(engine, i, bytes, size - 1));
            break;
        default:
            TSR__TRY(tsr_status_agree(engine, TSR_OK));
            break;
        }
        TSR__TRY(tsr__all_reduce(parity, &part, 1));
        RANK_CHECK(engine, part == (float)(parity ? parity->size : 1));
        tsr__comm_progress(tsr__world(engine));
    }
    tsr__comm_destroy(parity);
    return TSR_OK;
}

static tsr_status test_alone(tsr_engine *engine, void *user) {
    (void)user;
    char from[4] = "abc", to[4] = "";
    tsr__comm *split = (tsr__comm *)from;
    const size_t bytes = sizeof from;
    float x = 3.0f;
    TSR__TRY(tsr__all_reduce(NULL, &x, 1));
    RANK_CHECK(engine, x == 3.0f);
    TSR__TRY(tsr__all_gather(NULL, from, &bytes, to));
    RANK_CHECK(engine, memcmp(from, to, bytes) == 0);
    memset(to, 0, sizeof to);
    TSR__TRY(tsr__all_to_all(NULL, from, &bytes, to, &bytes));
    RANK_CHECK(engine, memcmp(from, to, bytes) == 0);
    memset(to, 0, sizeof to);
    TSR__TRY(tsr__send_receive(NULL, from, bytes, 0, to, bytes, 0));
    RANK_CHECK(engine, memcmp(from, to, bytes) == 0);
    TSR__TRY(tsr__broadcast(NULL, from, bytes, 0));
    TSR__TRY(tsr__comm_split(NULL, 0, &split));
    RANK_CHECK(engine, split == NULL);
    RANK_CHECK(engine, !tsr__comm_progress(NULL));
    tsr__comm_destroy(NULL);
    RANK_CHECK(engine, (tsr__world(engine) == NULL) == (tsr_engine_size(engine) == 1));
    RANK_CHECK(engine, strcmp(tsr_engine_phase(engine), "alone") == 0);
    return TSR_OK;
}

/* --- one rank alone --- */

typedef struct alone {
    int calls, cores;
    tsr_status status;
} alone;

static tsr_status alone_body(tsr_engine *engine, void *user) {
    alone *a = user;
    cpu_set_t cores;
    a->calls++;
    a->cores = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
    RANK_CHECK(engine, tsr_engine_rank(engine) == 0 && tsr_engine_size(engine) == 1 && !tsr__world(engine));
    void *memory = tsr__alloc(engine, 1000); /* of its own engine */
    RANK_CHECK(engine, memory != NULL);
    tsr__free(engine, memory);
    return a->status == TSR_OK ? TSR_OK : tsr__fail(engine, a->status, "so it ended");
}

static tsr_status test_run_alone(tsr_engine *engine, void *user) {
    (void)user;
    bool first = tsr_engine_rank(engine) == 0;
    size_t before = tsr_engine_memory_current(engine);
    for (int fails = 0; fails < 2; fails++) {
        alone a = {.status = fails ? TSR_FORMAT : TSR_OK};
        RANK_CHECK(engine, tsr_run_alone(engine, alone_body, &a) == a.status);
        RANK_CHECK(engine, a.calls == (first ? 1 : 0));
        RANK_CHECK(engine, !first || !engine->host_threads || a.cores == CPU_COUNT(&engine->host_cores));
        RANK_CHECK(engine, !fails || strcmp(tsr_engine_message(engine), "so it ended") == 0);
        RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
    }
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {
        {"alone", test_alone},
        {"all_reduce", test_all_reduce},
        {"all_gather", test_all_gather},
        {"all_to_all", test_all_to_all},
        {"send_receive", test_send_receive},
        {"broadcast", test_broadcast},
        {"split", test_split},
        {"mesh", test_mesh},
        {"mesh_refusals", test_mesh_refusals},
        {"mesh_allocations", test_mesh_allocations},
        {"counters", test_counters},
        {"agree", test_agree},
        {"many", test_many},
        {"large", test_large},
        {"run_alone", test_run_alone},
    };
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
