/* Limits of control groups, of version 1 and 2, in a folder that stands for /. */
#include "support.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/machine.h"

enum { MAX_FILES = 8 };

/* Files of a system, each "path=text", and what follows for a process that may run on four cores. */
static const struct machine {
    const char *files[MAX_FILES];
    size_t memory;
    int cores;
} machines[] = {
    {{"proc/meminfo=MemTotal: 9 kB\nMemAvailable:    2000 kB\n"}, 2000 * 1024, 4},
    {{"proc/self/cgroup=0::/\n"}, SIZE_MAX, 4},
    /* version 2: the group and one above it */
    {{"proc/meminfo=MemAvailable: 2000 kB\n", "proc/self/cgroup=0::/a/b\n", "sys/fs/cgroup/a/b/memory.max=max\n",
      "sys/fs/cgroup/a/memory.max=1000000\n", "sys/fs/cgroup/a/memory.current=900000\n",
      "sys/fs/cgroup/a/memory.stat=anon 100\nfile 300000\nshmem 0\n", "sys/fs/cgroup/a/cpu.max=max 100000\n",
      "sys/fs/cgroup/a/b/cpu.max=150000 100000\n"},
     400000,
     2},
    /* files in memory are counted as page cache, but stay; a name with colons */
    {{"proc/self/cgroup=0::/pod.slice:cri-containerd:1a\n",
      "sys/fs/cgroup/pod.slice:cri-containerd:1a/memory.max=1000000\n",
      "sys/fs/cgroup/pod.slice:cri-containerd:1a/memory.current=950000\n",
      "sys/fs/cgroup/pod.slice:cri-containerd:1a/memory.stat=file 900000\nshmem 900000\n",
      "sys/fs/cgroup/pod.slice:cri-containerd:1a/cpu.max=10000 100000\n"},
     50000,
     1},
    /* version 1: more used than allowed; a quota above the four cores */
    {{"proc/self/cgroup=5:cpuset:/x\n4:cpu,cpuacct:/x\n3:memory:/x\n",
      "sys/fs/cgroup/memory/x/memory.limit_in_bytes=1000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes=3000\n",
      "sys/fs/cgroup/memory/x/memory.stat=cache 0\ntotal_cache 1500\ntotal_shmem 500\n",
      "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us=900000\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us=100000\n"},
     0,
     4},
    {{"proc/self/cgroup=4:cpu,cpuacct:/\n3:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes=9000\n",
      "sys/fs/cgroup/memory/memory.usage_in_bytes=3000\n", "sys/fs/cgroup/memory/memory.stat=total_cache 1500\n",
      "sys/fs/cgroup/cpu/cpu.cfs_quota_us=-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us=100000\n"},
     7500,
     4},
};

static void write_file(const char *root, const char *entry) {
    char path[512];
    const char *text = strchr(entry, '=') + 1;
    snprintf(path, sizeof path, "%s/%.*s", root, (int)(text - 1 - entry), entry);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_limits(void **state) {
    (void)state;
    cpu_set_t four;
    CPU_ZERO(&four);
    for (size_t i = 3; i < 7; i++) CPU_SET(i, &four);
    for (size_t m = 0; m < TSR__COUNT(machines); m++) {
        char root[] = "/tmp/tessera-machine-XXXXXX", command[64];
        assert_non_null(mkdtemp(root));
        for (size_t i = 0; i < MAX_FILES && machines[m].files[i]; i++) write_file(root, machines[m].files[i]);
        size_t memory = tsr__memory_available(root);
        int cores = tsr__cores_available(root, &four);
        snprintf(command, sizeof command, "rm -r %s", root);
        assert_int_equal(system(command), 0);
        if (memory != machines[m].memory || cores != machines[m].cores)
            fail_msg("machine %zu: %zu bytes and %d cores, not %zu and %d", m, memory, cores, machines[m].memory,
                     machines[m].cores);
    }
}

/* Of the system itself: something, and no more cores than the process has. */
static void test_here(void **state) {
    (void)state;
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_in_range(tsr__cores_available("", &allowed), 1, CPU_COUNT(&allowed));
    assert_true(tsr__memory_available("") > 0);
    assert_int_equal(tsr_threads_per_rank(1), tsr__cores_available("", &allowed));
    assert_int_equal(tsr_threads_per_rank(1 << 20), 1);
    assert_int_equal(tsr_threads_per_rank(0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_here)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
