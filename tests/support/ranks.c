#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank_test_count(int argc, char **argv) {
    if (argc == 1) return tsr_launcher_size() > 0 ? 0 : 1;
    if (argc == 3 && strcmp(argv[1], "--ranks") == 0) return atoi(argv[2]);
    fprintf(stderr, "usage: %s [--ranks N]\n", argv[0]);
    exit(2);
}

typedef struct test_list {
    const rank_test *tests;
    size_t n;
} test_list;

static tsr_status run_all(tsr_engine *engine, void *user) {
    const test_list *list = user;
    for (size_t i = 0; i < list->n; i++) {
        double begin = tsr__seconds();
        tsr__rank_phase(engine, list->tests[i].name);
        tsr_status status = list->tests[i].run(engine, NULL);
        if (status != TSR_OK) return tsr__context(engine, status, "test %s", list->tests[i].name);
        if (tsr_engine_rank(engine) > 0) continue;
        printf("[  ok  ] %s (%.2f s)\n", list->tests[i].name, tsr__seconds() - begin);
        fflush(stdout);
    }
    return TSR_OK;
}

int rank_tests_run(int n_ranks, const rank_test *tests, size_t n) {
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char message[TSR__MESSAGE_BYTES];
    options.device = "ref";
    options.log_level = TSR_LOG_ERROR;
    tsr_status status = tsr_launch(&options, n_ranks, run_all, &(test_list){tests, n}, message, sizeof message);
    if (status == TSR_OK) return 0;
    fprintf(stderr, "[failed] %s: %s\n", tsr_status_name(status), message);
    return 1;
}

/* splitmix64 of the three numbers */
uint64_t rank_random(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t z = seed + (a + 1) * 0x9e3779b97f4a7c15u + (b + 1) * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

tsr_status rank_seed(tsr_engine *engine, uint64_t *seed) {
    const char *given = getenv("TESSERA_SEED");
    uint64_t own = given ? strtoull(given, NULL, 10) : (uint64_t)(tsr__seconds() * 1e6);
    TSR__TRY(tsr__broadcast(tsr__world(engine), &own, sizeof own, 0));
    if (tsr_engine_rank(engine) == 0) printf("TESSERA_SEED=%llu\n", (unsigned long long)own);
    *seed = own;
    return TSR_OK;
}
