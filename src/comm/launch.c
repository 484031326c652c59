#include "comm/launch.h"

#include "device/device.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SLURM_NTASKS is no sign: it stands in the environment of a batch script, where nothing was started yet. srun says
 * SLURM_STEP_NUM_TASKS, also for the one task of an interactive shell. */
const tsr__launcher *tsr__launcher_find(int *size) {
    static const tsr__launcher launchers[] = {
        {"OMPI_COMM_WORLD_SIZE", 1, "mpirun of Open MPI", "OMPI_COMM_WORLD_RANK"},
        {"MV2_COMM_WORLD_SIZE", 2, "mpirun of MVAPICH", "MV2_COMM_WORLD_RANK"},
        {"PMI_SIZE", 2, "mpiexec of MPICH or one of its kin", "PMI_RANK"},
        {"SLURM_STEP_NUM_TASKS", 2, "srun", "SLURM_PROCID"},
    };
    for (size_t i = 0; i < TSR__COUNT(launchers); i++) {
        const char *text = getenv(launchers[i].variable);
        long number = text ? strtol(text, NULL, 10) : 0;
        if (number < launchers[i].least || number > INT32_MAX) continue;
        *size = (int)number;
        return &launchers[i];
    }
    return NULL;
}

int tsr_launcher_size(void) {
    int size = 0;
    return tsr__launcher_find(&size) ? size : 0;
}

int tsr_launcher_rank(void) {
    int size = 0;
    const tsr__launcher *launcher = tsr__launcher_find(&size);
    const char *text = launcher ? getenv(launcher->rank_variable) : NULL;
    long rank = text ? strtol(text, NULL, 10) : 0;
    return rank > 0 && rank < size ? (int)rank : 0;
}

tsr_status tsr__launch_say(const tsr__launch *launch, tsr_status status, const char *format, ...) {
    if (!launch->message || launch->message_bytes == 0) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(launch->message, launch->message_bytes, format, args);
    va_end(args);
    return status;
}

tsr_status tsr__launch_engine(const tsr_engine_options *options, int rank, int size, char *reason, tsr_engine **out) {
    tsr_engine_options own = *options;
    if (rank > 0) own.progress = NULL;
    tsr_status status = tsr_engine_create(&own, out);
    if (status == TSR_OK) {
        (*out)->rank = rank;
        (*out)->size = size;
        return TSR_OK;
    }
    snprintf(reason, TSR__MESSAGE_BYTES, "cannot make an engine on device \"%s\" with %d threads (%s)",
             own.device ? own.device : "cpu", own.threads, tsr_status_name(status));
    return status;
}

static tsr_status launch_alone(const tsr__launch *launch) {
    char reason[TSR__MESSAGE_BYTES];
    tsr_engine *engine = NULL;
    tsr_status status = tsr__launch_engine(&launch->options, 0, 1, reason, &engine);
    if (status != TSR_OK) return tsr__launch_say(launch, status, "%s", reason);
    status = launch->body(engine, launch->user);
    if (status != TSR_OK) (void)tsr__launch_say(launch, status, "%s", engine->message);
    tsr_engine_destroy(engine);
    return status;
}

/* The caller's thread gets back the cores that it had. */
static tsr_status launch_on_all_cores(const tsr__launch *launch) {
    const tsr__device_ops *device = tsr__device_find(launch->options.device);
    cpu_set_t before;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    if (device && device->free_cores) device->free_cores();
    tsr_status status = tsr_launcher_size() > 0 ? tsr__mpi_launch(launch)
                        : launch->n_ranks <= 1  ? launch_alone(launch)
                                                : tsr__threads_launch(launch);
    if (known) (void)sched_setaffinity(0, sizeof before, &before);
    return status;
}

tsr_status tsr_launch(const tsr_engine_options *options, int n_ranks, tsr_rank_body body, void *user, char *message,
                      size_t message_bytes) {
    tsr__launch launch = {TSR_ENGINE_OPTIONS_INIT, n_ranks, body, user, message, message_bytes};
    tsr__take_options(&launch.options, sizeof launch.options, options);
    launch.options.size = sizeof launch.options;
    if (message && message_bytes > 0) *message = '\0';
    if (n_ranks < 0 || n_ranks > TSR__MAX_RANKS)
        return tsr__launch_say(&launch, TSR_ARG, "%d ranks are asked for; 1 to %d are possible", n_ranks,
                               TSR__MAX_RANKS);
    if (launch.options.threads < 0)
        return tsr__launch_say(&launch, TSR_ARG, "%d threads are asked for; give 0 for all cores",
                               launch.options.threads);
    return launch_on_all_cores(&launch);
}
