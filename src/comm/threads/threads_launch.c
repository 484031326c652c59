/* tsr_launch without a launcher: a thread for each rank. */
#include "comm/binding.h"
#include "comm/launch.h"
#include "comm/threads/threads.h"

#include <stdio.h>
#include <string.h>

struct session;

typedef struct rank {
    struct session *session;
    tsr__comm world;
    bool started;
    pthread_t thread;
    tsr_status status;
    char message[TSR__MESSAGE_BYTES];
} rank;

typedef struct session {
    const tsr__launch *launch;
    cpu_set_t allowed;
    tsr__team team;
    tsr__group *group;
    rank *ranks;
    atomic_bool refused; /* some rank has no engine: no body runs */
    int running;
    pthread_mutex_t lock;
    pthread_cond_t all_ended;
} session;

static void run_body(rank *self, tsr_engine *engine) {
    session *s = self->session;
    self->world.engine = engine;
    engine->world = &self->world;
    if (tsr__group_meet(s->group, self->world.rank) >= 0 || atomic_load(&s->refused)) return;
    self->status = s->launch->body(engine, s->launch->user);
    if (self->status != TSR_OK) memcpy(self->message, engine->message, sizeof self->message);
}

/* Ranks free memory that belongs to the engines of others, so engines end after all bodies. */
static void wait_for_all(session *s, int n_ended) {
    pthread_mutex_lock(&s->lock);
    s->running -= n_ended;
    pthread_cond_broadcast(&s->all_ended);
    while (s->running > 0) pthread_cond_wait(&s->all_ended, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void *run_rank(void *argument) {
    rank *self = argument;
    session *s = self->session;
    tsr_engine_options options = s->launch->options;
    tsr_engine *engine = NULL;
    tsr__bind_share(&s->allowed, self->world.rank, self->world.size, &options);
    self->status = tsr__launch_engine(&options, self->world.rank, self->world.size, self->message, &engine);
    if (engine) {
        tsr__note_host(engine, &s->allowed, self->world.size);
        run_body(self, engine);
    } else {
        atomic_store(&s->refused, true);
    }
    tsr__team_leave(&s->team, self->world.rank);
    wait_for_all(s, 1);
    tsr_engine_destroy(engine);
    return NULL;
}

static void run_threads(session *s, int n) {
    for (int i = 0; i < n; i++) {
        rank *r = &s->ranks[i];
        int failure = pthread_create(&r->thread, NULL, run_rank, r);
        r->started = failure == 0;
        if (r->started) continue;
        r->status = TSR_NOMEM;
        snprintf(r->message, sizeof r->message,
                 "the system cannot start another thread (error %d); ask for fewer ranks", failure);
        tsr__team_leave(&s->team, i);
    }
    int missing = 0;
    for (int i = 0; i < n; i++) missing += !s->ranks[i].started;
    wait_for_all(s, missing);
    for (int i = 0; i < n; i++)
        if (s->ranks[i].started) pthread_join(s->ranks[i].thread, NULL);
}

/* The first failure that is not just the echo of another's, and its sentence. */
static tsr_status conclude(const session *s, int n) {
    int first = -1;
    bool differ = false;
    for (int i = 0; i < n; i++) {
        tsr_status status = s->ranks[i].status;
        if (status != TSR_OK && (first < 0 || (s->ranks[first].status == TSR_COMM && status != TSR_COMM))) first = i;
    }
    if (first < 0) return TSR_OK;
    const rank *r = &s->ranks[first];
    for (int i = 0; i < n; i++)
        differ = differ || s->ranks[i].status != r->status || strcmp(s->ranks[i].message, r->message) != 0;
    if (!differ) return tsr__launch_say(s->launch, r->status, "%s", r->message);
    return tsr__launch_say(s->launch, r->status, "rank %d: %s", first, r->message);
}

static tsr_status run_session(session *s, tsr__member *members, int n) {
    tsr__team_init(&s->team, members, n);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->all_ended, NULL);
    s->running = n;
    for (int i = 0; i < n; i++) {
        s->group->slots[i].member = i;
        s->ranks[i].session = s;
        s->ranks[i].world = (tsr__comm){.ops = &tsr__threads_ops, .rank = i, .size = n, .state = s->group};
    }
    run_threads(s, n);
    pthread_cond_destroy(&s->all_ended);
    pthread_mutex_destroy(&s->lock);
    tsr__team_destroy(&s->team);
    return conclude(s, n);
}

tsr_status tsr__threads_launch(const tsr__launch *launch) {
    int n = launch->n_ranks;
    session s = {.launch = launch};
    tsr_engine bootstrap = {.options = launch->options, .size = 1}; /* owns what is there before the ranks' engines */
    atomic_init(&bootstrap.allocator.fail_at, -1);
    if (sched_getaffinity(0, sizeof s.allowed, &s.allowed) != 0) CPU_ZERO(&s.allowed);
    s.group = tsr__group_create(&bootstrap, &s.team, n);
    s.ranks = tsr__calloc(&bootstrap, (size_t)n, sizeof *s.ranks);
    tsr__member *members = tsr__calloc(&bootstrap, (size_t)n, sizeof *members);
    tsr_status status = s.group && s.ranks && members ? run_session(&s, members, n)
                                                      : tsr__launch_say(launch, TSR_NOMEM, "%s", bootstrap.message);
    if (s.group) {
        atomic_store(&s.group->users, 1);
        tsr__group_release(s.group);
    }
    tsr__free(&bootstrap, members);
    tsr__free(&bootstrap, s.ranks);
    return status;
}
