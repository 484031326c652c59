/* Tests that run on several ranks. A program made of them runs them as threads (`program --ranks N`) or, under mpirun,
 * as processes. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "comm/comm.h"

/* A rank that fails a check returns at once; the others learn of it in their next collective. */
#define RANK_CHECK(engine, condition)                                                                                  \
    do {                                                                                                               \
        if (!(condition)) return tsr__fail(engine, TSR_INTERNAL, "%s:%d: %s", __FILE__, __LINE__, #condition);         \
    } while (0)

typedef struct rank_test {
    const char *name;
    tsr_rank_body run; /* user is NULL */
} rank_test;

/* N of --ranks N, 1 without; ends the program where the arguments are others. */
int rank_test_count(int argc, char **argv);
/* Runs all tests in one launch on device ref. 0 if all went well, else 1, having said which failed. */
int rank_tests_run(int n_ranks, const rank_test *tests, size_t n);

/* The same pseudo-random number on every rank that asks for the same. */
uint64_t rank_random(uint64_t seed, uint64_t a, uint64_t b);
/* A seed that all ranks share: TESSERA_SEED, or the clock's; rank 0 prints it. Collective. */
tsr_status rank_seed(tsr_engine *engine, uint64_t *seed);

#endif
