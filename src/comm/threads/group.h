/* Threads that meet. A team is all ranks of a launch, a group is the ranks of one communicator. */
#ifndef TSR_COMM_GROUP_H
#define TSR_COMM_GROUP_H

#include "base/engine.h"

#include <pthread.h>
#include <stdalign.h>

typedef struct tsr__group tsr__group;

typedef struct tsr__member {
    atomic_int left;       /* 0: no; 1: the first that left, 2: the second, .. */
    tsr__group *sleeps_in; /* guarded by the team's lock */
} tsr__member;

typedef struct tsr__team {
    bool crowded; /* more ranks than cores: who waits gives way at once */
    atomic_int n_left;
    int size;
    pthread_mutex_t lock;
    tsr__member *members; /* [size] */
} tsr__team;

/* What a rank shows to its peers between two meetings. */
typedef struct tsr__slot {
    alignas(64) int member; /* its place in the team */
    int color;
    const void *send;
    const size_t *bytes;
    float *data;
    tsr__group *made;
    void *recv; /* of what was started; its own alone */
    size_t recv_bytes;
    int from;
} tsr__slot;

struct tsr__group {
    tsr__team *team;
    tsr_engine *owner; /* its memory is this engine's */
    int size;
    atomic_int users, arrived;
    atomic_uint meeting; /* number of the meeting that is under way */
    pthread_cond_t wake; /* with the team's lock */
    tsr__slot slots[];   /* [size] */
};

/* members [size] live as long as the team, which becomes valid in place. */
void tsr__team_init(tsr__team *team, tsr__member *members, int size);
void tsr__team_destroy(tsr__team *team);
/* The member takes part in nothing more: whoever waits for it, now or later, is told so. */
void tsr__team_leave(tsr__team *team, int member);

/* A group of `size` users; the caller fills slots[].member before the others see it. NULL: no memory, message set. */
tsr__group *tsr__group_create(tsr_engine *owner, tsr__team *team, int size);
/* One user less; the last one frees it. owner must still be alive. */
void tsr__group_release(tsr__group *group);
/* Returns -1 when all ranks of the group have called it: what each wrote before, all may read after. If one has left
 * the team before, returns that member (the first of them) on all others, now and ever after. */
int tsr__group_meet(tsr__group *group, int rank);

#endif
