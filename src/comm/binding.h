/* Which cores a rank computes on. */
#ifndef TSR_COMM_BINDING_H
#define TSR_COMM_BINDING_H

#include "base/engine.h"

#include <sched.h>

/* The calling thread is number `index` of the `count` ranks that have the cores `allowed`: moves it to its equal share,
 * neighbours in the machine's topology, and sets options->threads to the share where it is 0. Engine creation takes its
 * cores from there. Where there are fewer cores than ranks, or more threads are asked for than the share has, or a
 * quota pays for fewer cores than are allowed, the ranks stay on all of them and the system places their threads. */
void tsr__bind_share(const cpu_set_t *allowed, int index, int count, tsr_engine_options *options);
/* Notes in the engine of such a rank what all of them have together, for tsr_run_alone. */
void tsr__note_host(tsr_engine *engine, const cpu_set_t *allowed, int count);

#endif
