/* What one rank does by itself while the others wait. */
#include "comm/launch.h"

#include <pthread.h>
#include <string.h>

typedef struct alone {
    tsr_engine *rank;
    tsr_rank_body body;
    void *user;
    tsr_status status;
} alone;

/* In a thread of its own, because a rank's thread is bound to the rank's share of the cores. */
static void *run(void *argument) {
    alone *a = argument;
    tsr_engine_options options = a->rank->options;
    tsr_engine *engine = NULL;
    if (a->rank->host_threads > 0) {
        options.threads = a->rank->host_threads;
        (void)sched_setaffinity(0, sizeof a->rank->host_cores, &a->rank->host_cores); /* failure only costs speed */
    }
    a->status = tsr__launch_engine(&options, 0, 1, a->rank->message, &engine);
    if (!engine) return NULL;
    a->status = a->body(engine, a->user);
    if (a->status != TSR_OK) memcpy(a->rank->message, engine->message, sizeof engine->message);
    tsr_engine_destroy(engine);
    return NULL;
}

static tsr_status run_here(alone *a) {
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, run, a);
    if (failure) return tsr__fail(a->rank, TSR_NOMEM, "the system cannot start another thread (error %d)", failure);
    pthread_join(thread, NULL);
    return a->status;
}

tsr_status tsr_run_alone(tsr_engine *engine, tsr_rank_body body, void *user) {
    alone a = {.rank = engine, .body = body, .user = user};
    tsr__comm *world = tsr__world(engine);
    int status = TSR_OK;
    tsr__rank_phase(engine, "alone");
    if (engine->rank == 0) status = (int)run_here(&a);
    TSR__TRY(tsr__broadcast(world, &status, sizeof status, 0));
    if (status != TSR_OK) TSR__TRY(tsr__broadcast(world, engine->message, sizeof engine->message, 0));
    return (tsr_status)status;
}
