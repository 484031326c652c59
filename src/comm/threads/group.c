#include "comm/threads/group.h"

#include "base/machine.h"

#include <sched.h>

enum { SPINS = 4000, SPINS_CROWDED = 40 }; /* tens of microseconds each: about what it costs to sleep and be woken */

void tsr__team_init(tsr__team *team, tsr__member *members, int size) {
    cpu_set_t allowed;
    *team = (tsr__team){.size = size, .members = members};
    team->crowded = sched_getaffinity(0, sizeof allowed, &allowed) == 0 && tsr__cores_available("", &allowed) < size;
    pthread_mutex_init(&team->lock, NULL);
}

void tsr__team_destroy(tsr__team *team) { pthread_mutex_destroy(&team->lock); }

void tsr__team_leave(tsr__team *team, int member) {
    pthread_mutex_lock(&team->lock);
    if (!atomic_load(&team->members[member].left)) {
        atomic_store(&team->members[member].left, atomic_load(&team->n_left) + 1);
        atomic_fetch_add(&team->n_left, 1);
    }
    for (int i = 0; i < team->size; i++)
        if (team->members[i].sleeps_in) pthread_cond_broadcast(&team->members[i].sleeps_in->wake);
    pthread_mutex_unlock(&team->lock);
}

tsr__group *tsr__group_create(tsr_engine *owner, tsr__team *team, int size) {
    tsr__group *group = tsr__calloc(owner, 1, sizeof *group + (size_t)size * sizeof *group->slots);
    if (!group) return NULL;
    group->team = team;
    group->owner = owner;
    group->size = size;
    atomic_init(&group->users, size);
    pthread_cond_init(&group->wake, NULL);
    return group;
}

void tsr__group_release(tsr__group *group) {
    if (atomic_fetch_sub(&group->users, 1) > 1) return;
    pthread_cond_destroy(&group->wake);
    tsr__free(group->owner, group);
}

/* The member of the group that left first, or -1: those that left later may have done so because of it. */
static int missing(const tsr__group *group) {
    int first = -1, earliest = 0;
    if (atomic_load(&group->team->n_left) == 0) return -1;
    for (int i = 0; i < group->size; i++) {
        int left = atomic_load(&group->team->members[group->slots[i].member].left);
        if (left == 0 || (first >= 0 && left > earliest)) continue;
        first = group->slots[i].member;
        earliest = left;
    }
    return first;
}

static bool over(const tsr__group *group, unsigned meeting) { return atomic_load(&group->meeting) != meeting; }

static void give_way(const tsr__team *team) {
    if (team->crowded) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void sleep_until_over(tsr__group *group, unsigned meeting, tsr__member *self) {
    tsr__team *team = group->team;
    pthread_mutex_lock(&team->lock);
    self->sleeps_in = group;
    while (!over(group, meeting) && missing(group) < 0) pthread_cond_wait(&group->wake, &team->lock);
    self->sleeps_in = NULL;
    pthread_mutex_unlock(&team->lock);
}

/* Once a member has left no meeting of its groups can end, because it never arrives again; and nobody arrives twice at
 * one, because from then on everybody is turned away at the door. A member that arrived last and then left is no reason
 * to fail: so look whether the meeting is over after having seen who is missing. */
int tsr__group_meet(tsr__group *group, int rank) {
    tsr__team *team = group->team;
    int absent = missing(group);
    if (absent >= 0) return absent;
    unsigned meeting = atomic_load(&group->meeting);
    if (atomic_fetch_add(&group->arrived, 1) + 1 == group->size) {
        atomic_store(&group->arrived, 0);
        pthread_mutex_lock(&team->lock);
        atomic_fetch_add(&group->meeting, 1);
        pthread_cond_broadcast(&group->wake);
        pthread_mutex_unlock(&team->lock);
        return -1;
    }
    for (int spins = team->crowded ? SPINS_CROWDED : SPINS; spins > 0 && !over(group, meeting); spins--) give_way(team);
    if (!over(group, meeting)) sleep_until_over(group, meeting, &team->members[group->slots[rank].member]);
    absent = missing(group);
    return over(group, meeting) ? -1 : absent;
}
