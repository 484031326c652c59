/* tsr_launch under a launcher: this process is one rank. */
#include "comm/binding.h"
#include "comm/launch.h"
#include "comm/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

enum {
    PATIENCE_MS = 2000,         /* of a rank that failed, for the others to end as well: they may not know yet */
    AGREED_PATIENCE_MS = 60000, /* where they do, and only have to give back what they hold */
    FIRST_SPEAKS_MS =
        500, /* for rank 0 to say why all failed, before the launcher ends it because another rank exited */
};

const char *tsr_mpi_version(void) {
#if defined(OPEN_MPI)
    return "Open MPI " NUMBER(OMPI_MAJOR_VERSION) "." NUMBER(OMPI_MINOR_VERSION) "." NUMBER(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
    return "MPICH " MPICH_VERSION;
#else
    return "MPI " NUMBER(MPI_VERSION) "." NUMBER(MPI_SUBVERSION);
#endif
}

/* This rank's view of the launch. */
typedef struct process {
    const tsr__launch *launch;
    tsr_engine *engine;
    tsr__mpi world;
    MPI_Comm ending; /* only for the end, where the ranks are not at the same point of `world` */
    int rank, size;
    cpu_set_t cores; /* that this rank shares with others of its host, */
    int sharers;     /* so many in all */
} process;

/* Did the user tell Open MPI where to put ranks? Each such option is handed down as one of these variables. */
static bool user_binds(void) {
    static const char *const variables[] = {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_bind_to_core",
                                            "OMPI_MCA_hwloc_base_bind_to_socket", "OMPI_MCA_hwloc_base_cpu_set",
                                            "OMPI_MCA_hwloc_base_cpu_list",       "OMPI_MCA_orte_rankfile",
                                            "OMPI_MCA_rmaps_rank_file_path"};
    const char *mapping = getenv("OMPI_MCA_rmaps_base_mapping_policy");
    for (size_t i = 0; i < TSR__COUNT(variables); i++)
        if (getenv(variables[i])) return true;
    return mapping && strcasestr(mapping, "pe=");
}

/* Open MPI binds one or two ranks to a core each unless it is told otherwise. The kernel cuts the wish for all cores
 * down to those that the control group allows. */
static void undo_default_binding(void) {
    if (!getenv("OMPI_MCA_orte_bound_at_launch") || user_binds()) return;
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    (void)sched_setaffinity(0, sizeof all, &all);
}

/* Ranks of this host with equal masks divide its cores; ranks whose masks differ were placed by somebody. */
static tsr_status bind(process *p, tsr_engine_options *options) {
    cpu_set_t masks[TSR__MAX_RANKS];
    MPI_Comm host = MPI_COMM_NULL;
    int rank = 0, size = 1, index = 0, count = 0;
    undo_default_binding();
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, p->rank, MPI_INFO_NULL, &host) != MPI_SUCCESS)
        return TSR_COMM;
    (void)MPI_Comm_rank(host, &rank);
    (void)MPI_Comm_size(host, &size);
    if (sched_getaffinity(0, sizeof masks[rank], &masks[rank]) != 0) CPU_ZERO(&masks[rank]);
    int code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, masks, (int)sizeof *masks, MPI_BYTE, host);
    (void)MPI_Comm_free(&host);
    if (code != MPI_SUCCESS) return TSR_COMM;
    for (int i = 0; i < size; i++) {
        if (!CPU_EQUAL(&masks[i], &masks[rank])) continue;
        index += i < rank;
        count++;
    }
    p->cores = masks[rank];
    p->sharers = count;
    tsr__bind_share(&p->cores, index, count, options);
    return TSR_OK;
}

/* Every rank has its engine, or no rank goes on. */
static tsr_status make_engine(process *p) {
    tsr_engine_options options = p->launch->options;
    char reason[TSR__MESSAGE_BYTES] = "the launcher's ranks cannot reach each other";
    tsr_status status = bind(p, &options);
    if (status == TSR_OK) status = tsr__launch_engine(&options, p->rank, p->size, reason, &p->engine);
    int worst = (int)status;
    if (MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS) worst = TSR_COMM;
    if (worst == TSR_OK) {
        tsr__note_host(p->engine, &p->cores, p->sharers);
        return TSR_OK;
    }
    tsr_engine_destroy(p->engine);
    if (status != TSR_OK) return tsr__launch_say(p->launch, status, "rank %d %s", p->rank, reason);
    return tsr__launch_say(p->launch, (tsr_status)worst, "another rank could not begin");
}

/* After the body: waits until the others have ended theirs. A rank that failed while they go on waits a little, in case
 * they are about to notice themselves; then it ends them all, because they wait for it in vain. */
static void wait_for_all(process *p, tsr_status status) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0, code = MPI_Ibarrier(p->ending, &request);
    int64_t patience_ms = status == p->engine->agreed ? AGREED_PATIENCE_MS : PATIENCE_MS;
    for (int64_t ms = 0; code == MPI_SUCCESS && (status == TSR_OK || ms < patience_ms); ms++) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done && code == MPI_SUCCESS) return;
        (void)usleep(1000);
    }
    tsr__log(p->engine, TSR_LOG_ERROR, "rank %d of %d failed in phase %s, and the other ranks are ended with it: %s",
             p->rank, p->size, tsr_engine_phase(p->engine), p->engine->message);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

static tsr_status run(process *p) {
    tsr_engine *engine = p->engine;
    if (p->size > 1) engine->world = &p->world.base;
    tsr_status status = p->launch->body(engine, p->launch->user);
    if (p->size > 1) wait_for_all(p, status);
    status = tsr_status_agree(engine, status);
    return status == TSR_OK ? status : tsr__launch_say(p->launch, status, "%s", engine->message);
}

static tsr_status run_with_world(process *p) {
    MPI_Comm world = MPI_COMM_NULL;
    tsr_status status = tsr__mpi_check(p->engine, MPI_Comm_dup(MPI_COMM_WORLD, &world));
    if (status == TSR_OK) status = tsr__mpi_check(p->engine, MPI_Comm_dup(MPI_COMM_WORLD, &p->ending));
    if (status == TSR_OK) status = tsr__mpi_init(&p->world, p->engine, world);
    status = status == TSR_OK ? run(p) : tsr__launch_say(p->launch, status, "%s", p->engine->message);
    if (p->ending != MPI_COMM_NULL) (void)MPI_Comm_free(&p->ending);
    if (world != MPI_COMM_NULL) (void)MPI_Comm_free(&world);
    return status;
}

/* Is this world what the launcher and the caller say it is? */
static tsr_status check(const process *p) {
    int started = 0, wanted = p->launch->n_ranks;
    const tsr__launcher *launcher = tsr__launcher_find(&started);
    const char *name = launcher ? launcher->name : "the launcher", *variable = launcher ? launcher->variable : "";
    if (p->size == 1 && started > 1)
        return tsr__launch_say(p->launch, TSR_COMM,
                               "started by %s (%s=%d), but Tessera was built with %s, which sees one rank only: start "
                               "it with the mpirun of %s, or without a launcher",
                               name, variable, started, tsr_mpi_version(), tsr_mpi_version());
    if (p->size > TSR__MAX_RANKS)
        return tsr__launch_say(p->launch, TSR_ARG, "%s started %d ranks; at most %d are possible", name, p->size,
                               TSR__MAX_RANKS);
    if (wanted == 0 || wanted == p->size) return TSR_OK;
    return tsr__launch_say(p->launch, TSR_ARG,
                           "%d ranks are asked for, but %s started %d: start %d, or none and use threads", wanted, name,
                           p->size, wanted);
}

static tsr_status run_process(const tsr__launch *launch) {
    process p = {.launch = launch, .ending = MPI_COMM_NULL};
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &p.size);
    TSR__TRY(check(&p));
    TSR__TRY(make_engine(&p));
    tsr_status status = run_with_world(&p);
    tsr_engine_destroy(p.engine);
    return status;
}

/* MPI may be the host program's, and so are its errors afterwards. */
static tsr_status in_world(const tsr__launch *launch) {
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tsr_status status = run_process(launch);
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    (void)MPI_Errhandler_free(&before);
    return status;
}

tsr_status tsr__mpi_launch(const tsr__launch *launch) {
    int begun = 0, ended = 0, provided = MPI_THREAD_FUNNELED;
    (void)MPI_Finalized(&ended);
    if (ended)
        return tsr__launch_say(launch, TSR_COMM, "MPI has ended in this process and cannot begin again: launch once");
    (void)MPI_Initialized(&begun);
    if (!begun && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return tsr__launch_say(launch, TSR_COMM, "MPI (%s) could not begin", tsr_mpi_version());
    tsr_status status = provided >= MPI_THREAD_FUNNELED
                            ? in_world(launch)
                            : tsr__launch_say(launch, TSR_COMM, "MPI (%s) does not allow threads", tsr_mpi_version());
    if (!begun) (void)MPI_Finalize();
    if (status != TSR_OK && tsr_launcher_rank() > 0) (void)usleep(FIRST_SPEAKS_MS * 1000);
    return status;
}
