/* tessera-ranks [--ranks N] [--device D] [--threads N] WHAT: ranks that do one thing, for tests/parallel/test_*.sh.
 * WHAT: ok, agreed (all fail), slow (so too, and rank 0 ends seconds later), alone (rank 1 fails while the others
 * wait), killed (rank 1 dies), early (rank 1 exits), cores (each rank prints its cores and threads). */
#include "comm/comm.h"
#include "device/device.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tsr_status print_cores(const tsr_engine *engine) {
    cpu_set_t set;
    char list[4096] = "";
    if (sched_getaffinity(0, sizeof set, &set) != 0) return TSR_INTERNAL;
    for (size_t i = 0, n = 0; i < CPU_SETSIZE && n + 8 < sizeof list; i++)
        if (CPU_ISSET(i, &set)) n += (size_t)snprintf(list + n, sizeof list - n, "%s%zu", n ? "," : "", i);
    printf("rank %d of %d: cores %s threads %d\n", tsr_engine_rank(engine), tsr_engine_size(engine), list,
           engine->device->threads);
    return TSR_OK;
}

static tsr_status body(tsr_engine *engine, void *user) {
    const char *what = user;
    int rank = tsr_engine_rank(engine);
    float x = 1.0f;
    tsr__rank_phase(engine, "test");
    TSR__TRY(tsr__all_reduce(tsr__world(engine), &x, 1));
    if (strcmp(what, "cores") == 0) return print_cores(engine);
    if (strcmp(what, "agreed") == 0) return tsr__fail(engine, TSR_FORMAT, "all ranks fail");
    if (strcmp(what, "slow") == 0) {
        tsr_status status = rank == 1 ? tsr__fail(engine, TSR_IO, "the disk is full") : TSR_OK;
        status = tsr_status_agree(engine, status);
        if (rank == 0) sleep(3);
        return status;
    }
    if (strcmp(what, "ok") == 0) return x == (float)tsr_engine_size(engine) ? TSR_OK : TSR_INTERNAL;
    if (rank == 1 && strcmp(what, "killed") == 0) raise(SIGKILL);
    if (rank == 1 && strcmp(what, "early") == 0) exit(3);
    if (rank == 1) return tsr__fail(engine, TSR_IO, "one rank fails");
    return tsr__all_reduce(tsr__world(engine), &x, 1);
}

int main(int argc, char **argv) {
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[4096];
    int ranks = 0, i = 1;
    options.device = "ref";
    for (; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ranks") == 0) ranks = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--threads") == 0) options.threads = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--device") == 0) options.device = argv[i + 1];
    }
    if (i >= argc) return 2;
    tsr_status status = tsr_launch(&options, ranks, body, argv[i], message, sizeof message);
    if (status != TSR_OK) fprintf(stderr, "%s: %s\n", tsr_status_name(status), message);
    return status != TSR_OK;
}
