/* What the machine has. */
#ifndef TSR_BASE_MEMORY_H
#define TSR_BASE_MEMORY_H

#include <stddef.h>

/* Bytes that this process could still take: MemAvailable, or what the tightest memory cgroup above it leaves, whichever
 * is less. SIZE_MAX where the system does not say. */
size_t tsr__memory_available(void);

#endif
