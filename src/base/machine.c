#include "base/machine.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PATH_BYTES = 1280 };

/* Up to n numbers behind `key`, which begins a line of folder/name ("key: 123 kB", "key 123"; with key "" the first
 * line). Returns how many there are: none for "max", and where there is no such file or line. */
static int read_numbers(const char *folder, const char *name, const char *key, double *out, int n) {
    char path[PATH_BYTES], line[512];
    int found = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    while (file && found == 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        for (char *at = line + strlen(key), *end = at; found < n; at = end, found++) {
            out[found] = strtod(at, &end);
            if (end == at) break;
        }
    }
    if (file) fclose(file);
    return found;
}

static bool read_number(const char *folder, const char *name, const char *key, double *out) {
    return read_numbers(folder, name, key, out, 1) == 1;
}

/* --- control groups, of version 1 and 2 --- */

/* Bytes that a group leaves. Its page cache can be given back and does not count as used; files in memory (tmpfs) are
 * counted with the page cache, but cannot. */
static double memory_left(const char *folder, bool v2) {
    double limit = 0.0, usage = 0.0, cache = 0.0, shared = 0.0;
    if (!read_number(folder, v2 ? "memory.max" : "memory.limit_in_bytes", "", &limit)) return INFINITY;
    if (!read_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", "", &usage)) return INFINITY;
    (void)read_number(folder, "memory.stat", v2 ? "file " : "total_cache ", &cache);
    (void)read_number(folder, "memory.stat", v2 ? "shmem " : "total_shmem ", &shared);
    double used = fmax(usage - fmax(cache - shared, 0.0), 0.0);
    return fmax(limit - used, 0.0);
}

/* Cores that a group's quota of processor time pays for. */
static double cores_paid(const char *folder, bool v2) {
    double quota[2] = {-1.0, 0.0}; /* microseconds of computing, in so many of time */
    if (v2) (void)read_numbers(folder, "cpu.max", "", quota, 2);
    if (!v2 && read_number(folder, "cpu.cfs_quota_us", "", &quota[0]))
        (void)read_number(folder, "cpu.cfs_period_us", "", &quota[1]);
    return quota[0] > 0.0 && quota[1] > 0.0 ? quota[0] / quota[1] : INFINITY;
}

typedef double limit(const char *folder, bool v2);

/* The least of a group and of all above it, up to where the groups are mounted. */
static double least_upwards(const char *mount, const char *group, limit *of, bool v2) {
    char folder[PATH_BYTES];
    double least = INFINITY;
    snprintf(folder, sizeof folder, "%s%s", mount, group);
    for (;;) {
        least = fmin(least, of(folder, v2));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(mount)) return least;
        *slash = '\0';
    }
}

/* The least of this process's groups. A line of /proc/self/cgroup is "0::/group" of version 2, or
 * "4:cpu,cpuacct:/group" with the controllers of version 1; a group's name may hold colons. */
static double least_of_groups(const char *root, const char *controller, limit *of) {
    char line[768], mount[256], wanted[32];
    double least = INFINITY;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    snprintf(wanted, sizeof wanted, ",%s,", controller);
    FILE *file = fopen(line, "r");
    while (file && fgets(line, sizeof line, file)) {
        char controllers[128];
        line[strcspn(line, "\n")] = '\0';
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second) continue;
        bool v2 = second == first + 1;
        snprintf(controllers, sizeof controllers, ",%.*s,", (int)(second - first - 1), first + 1);
        if (!v2 && !strstr(controllers, wanted)) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/", v2 ? "" : controller);
        least = fmin(least, least_upwards(mount, second + 1, of, v2));
    }
    if (file) fclose(file);
    return least;
}

size_t tsr__memory_available(const char *root) {
    char proc[256];
    double kilobytes = INFINITY, group = least_of_groups(root, "memory", memory_left);
    snprintf(proc, sizeof proc, "%s/proc", root);
    (void)read_number(proc, "meminfo", "MemAvailable:", &kilobytes);
    double least = fmin(group, kilobytes * 1024.0);
    return least < (double)SIZE_MAX ? (size_t)least : SIZE_MAX;
}

int tsr__cores_available(const char *root, const cpu_set_t *allowed) {
    double cores = fmin(CPU_COUNT(allowed), ceil(least_of_groups(root, "cpu", cores_paid)));
    return cores > 1.0 ? (int)cores : 1;
}

/* --- this process --- */

size_t tsr__memory_resident_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* proc(5): a 5 resets the peak resident set size. */
bool tsr__memory_resident_peak_reset(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return false;
    bool written = fputs("5", file) >= 0;
    return fclose(file) == 0 && written;
}
