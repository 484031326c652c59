#include "comm/binding.h"

#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct place {
    int package, core, cpu;
} place;

static int topology(int cpu, const char *what) {
    char path[96], text[16] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *file = fopen(path, "r");
    if (!file) return 0; /* then the order is that of the numbers */
    const char *line = fgets(text, sizeof text, file);
    fclose(file);
    return line ? (int)strtol(line, NULL, 10) : 0;
}

static int compare(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->package != b->package) return a->package < b->package ? -1 : 1;
    if (a->core != b->core) return a->core < b->core ? -1 : 1;
    return (a->cpu > b->cpu) - (a->cpu < b->cpu);
}

int tsr_threads_per_rank(int n_ranks) {
    cpu_set_t allowed;
    if (n_ranks < 1 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    int share = tsr__cores_available("", &allowed) / n_ranks;
    return share > 0 ? share : 1;
}

void tsr__bind_share(const cpu_set_t *allowed, int index, int count, tsr_engine_options *options) {
    place places[CPU_SETSIZE];
    cpu_set_t own;
    int n = 0, cores = tsr__cores_available("", allowed), share = cores / count;
    if (options->threads == 0) options->threads = share > 0 ? share : 1;
    if (options->threads > share || count == 1 || cores < CPU_COUNT(allowed)) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, allowed))
            places[n++] = (place){topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu};
    qsort(places, (size_t)n, sizeof *places, compare);
    CPU_ZERO(&own);
    for (int i = index * share; i < (index + 1) * share; i++) CPU_SET((size_t)places[i].cpu, &own);
    (void)sched_setaffinity(0, sizeof own, &own); /* failure only costs speed */
}

void tsr__note_host(tsr_engine *engine, const cpu_set_t *allowed, int count) {
    int threads = engine->options.threads * count, cores = tsr__cores_available("", allowed);
    engine->host_cores = *allowed;
    engine->host_threads = threads < cores ? threads : cores;
}
