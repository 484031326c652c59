/* What the machine has. */
#ifndef TSR_BASE_MEMORY_H
#define TSR_BASE_MEMORY_H

#include <stddef.h>

/* Bytes that this process could still take: MemAvailable, or what the tightest memory cgroup above it leaves, whichever
 * is less. SIZE_MAX where the system does not say. */
size_t tsr__memory_available(void);

/* Most bytes of this process that were resident at a time, since its start or the last reset. A system that cannot
 * reset it counts on. */
size_t tsr__memory_resident_peak(void);
void tsr__memory_resident_peak_reset(void);

#endif
