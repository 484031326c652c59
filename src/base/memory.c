#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The number after `key` at the start of a line of a file of the kind "key: 123 kB" or "key 123"; with key "" the first
 * word. False for "max" and where there is none. */
static bool read_number(const char *path, const char *key, size_t *out) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        char *end = NULL;
        unsigned long long value = strtoull(line + strlen(key), &end, 10);
        found = end != line + strlen(key);
        if (found) *out = (size_t)value;
    }
    fclose(file);
    return found;
}

/* The files of a memory cgroup, version 2 and 1. */
static const struct {
    const char *root, *limit, *usage, *cache;
} versions[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", "file "},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache "},
};

/* What the cgroup `folder` leaves; its page cache can be given back and does not count as used. */
static size_t left_in(int version, const char *folder) {
    char path[1280];
    size_t limit = 0, usage = 0, cache = 0;
    snprintf(path, sizeof path, "%s/%s", folder, versions[version].limit);
    if (!read_number(path, "", &limit)) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, versions[version].usage);
    if (!read_number(path, "", &usage)) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (!read_number(path, versions[version].cache, &cache) || cache > usage) cache = 0;
    return limit > usage - cache ? limit - (usage - cache) : 0;
}

/* This process's cgroup and all above it. */
static size_t left_in_cgroups(int version, const char *own) {
    char folder[1024];
    size_t least = SIZE_MAX, root = strlen(versions[version].root);
    snprintf(folder, sizeof folder, "%s%s", versions[version].root, own);
    for (;;) {
        size_t left = left_in(version, folder);
        if (left < least) least = left;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < root) return least;
        *slash = '\0';
    }
}

static size_t cgroup_available(void) {
    FILE *file = fopen("/proc/self/cgroup", "r");
    size_t least = SIZE_MAX;
    char line[768];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *own = strrchr(line, ':');
        if (!own) continue;
        int version = strncmp(line, "0::", 3) == 0 ? 0 : strstr(line, ":memory:") ? 1 : -1;
        size_t left = version >= 0 ? left_in_cgroups(version, own + 1) : SIZE_MAX;
        if (left < least) least = left;
    }
    if (file) fclose(file);
    return least;
}

size_t tsr__memory_available(void) {
    size_t kilobytes = 0, group = cgroup_available();
    size_t machine = read_number("/proc/meminfo", "MemAvailable:", &kilobytes) ? kilobytes * 1024 : SIZE_MAX;
    return group < machine ? group : machine;
}

size_t tsr__memory_resident_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* proc(5): a 5 resets the peak resident set size. */
void tsr__memory_resident_peak_reset(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    (void)fputs("5", file);
    (void)fclose(file);
}
