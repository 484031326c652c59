/* What the machine has, and what of it this process may use. root: "", or in tests a folder that stands for /. */
#ifndef TSR_BASE_MACHINE_H
#define TSR_BASE_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes that this process could still take: MemAvailable, or what the tightest memory cgroup above it leaves, whichever
 * is less. SIZE_MAX where the system does not say. */
size_t tsr__memory_available(const char *root);

/* How many of the cores `allowed` this process can keep busy: as many as the tightest CPU quota of a cgroup above it
 * pays for, rounded up. At least 1. */
int tsr__cores_available(const char *root, const cpu_set_t *allowed);

/* Most bytes of this process that were resident at a time, since its start or the last reset. A system that cannot
 * reset it (the reset is false) counts on. */
size_t tsr__memory_resident_peak(void);
bool tsr__memory_resident_peak_reset(void);

#endif
