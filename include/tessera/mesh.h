/* Ranks: launching them, and meshes with named axes. */
#ifndef TESSERA_MESH_H
#define TESSERA_MESH_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs `body` on every rank, each with an engine of its own, and returns when all have ended.
 * Under a launcher (mpirun, srun) the ranks are the launcher's processes: body runs once in this process, and n_ranks
 * must be 0 or the launcher's number. Without one they are n_ranks (0: one) threads of this process. body returns what
 * its rank ended with; it must have destroyed what it made. Returns TSR_OK, or the first failure by rank; COMM, the
 * usual consequence of another rank's failure, gives way to others. message [message_bytes] gets its sentence ("" where
 * all is well) and may be NULL. Threads: options.threads 0 means each rank's share of the cores. The log callback is
 * called on every rank, from its thread; the progress callback on rank 0 alone. Under MPI a rank that fails while the
 * others go on logs its failure and ends all processes (MPI_Abort): no channel is left to tell them.
 * Errors of the launch itself: ARG (n_ranks and the launcher's number differ: the message names both; n_ranks negative
 * or above 1024), COMM (a launcher of another MPI), NOMEM, BACKEND. Once in a process under MPI: MPI cannot begin
 * twice, unless the caller began it (with MPI_THREAD_FUNNELED or more: this thread alone will call it) and ends it. */
typedef tsr_status (*tsr_rank_body)(tsr_engine *engine, void *user);
TSR_API TSR_NODISCARD tsr_status tsr_launch(const tsr_engine_options *options, int n_ranks, tsr_rank_body body,
                                            void *user, char *message, size_t message_bytes);
/* Runs body on the first rank alone, while the others wait: in a thread of its own, on all cores that the ranks of its
 * host share, with an engine of its own that knows of no other rank; device and callbacks are those of the launch. For
 * what must not be spread over ranks, such as a reference to compare with. Collective over all ranks: all return what
 * body returned, with its message. Errors of its own: NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_run_alone(tsr_engine *engine, tsr_rank_body body, void *user);
/* Threads that each of n_ranks ranks gets by default where all of them share this host: its part of the cores that this
 * process may use and that a quota of processor time (cgroup) pays for. Local. */
TSR_API int tsr_threads_per_rank(int n_ranks);
/* Is this process one of a launcher's? Its number of ranks, else 0. Looks at the environment only. Local. */
TSR_API int tsr_launcher_size(void);
/* The rank that the launcher gave this process, 0 without one: for what is to be said once before tsr_launch. Looks at
 * the environment only. Local. */
TSR_API int tsr_launcher_rank(void);
/* "Open MPI 4.1.4" or the like: the MPI that the library was built with. Local. */
TSR_API const char *tsr_mpi_version(void);

TSR_API int tsr_engine_rank(const tsr_engine *engine); /* of this engine among all ranks; 0 if alone */
TSR_API int tsr_engine_size(const tsr_engine *engine); /* how many ranks there are */
/* What this rank is doing, for messages: a string constant ("denoise"), "start" before the first phase. Local; may be
 * called from a signal handler, as tsr_engine_rank and tsr_engine_size may. */
TSR_API const char *tsr_engine_phase(const tsr_engine *engine);

/* An operation between ranks: how often, and the bytes that this rank sent to others in it. Of an all_reduce of b bytes
 * over n ranks 2 b (n - 1) / n are counted, which the ring algorithm sends; a broadcast counts on its root, once. */
typedef struct tsr_traffic {
    const char *operation; /* "all_reduce", a string constant */
    uint64_t calls, bytes_sent;
} tsr_traffic;
enum { TSR_N_TRAFFIC = 5 };
/* What this rank has exchanged so far, over all communicators together. Local. */
TSR_API void tsr_engine_traffic(const tsr_engine *engine, tsr_traffic traffic[TSR_N_TRAFFIC]);

/* The end of what each rank does by itself: every rank brings its own status and leaves with the same one, that of the
 * first rank that failed, with that rank's message ("rank 2: ..." only where ranks differ in what they say). Collective
 * over all ranks. */
TSR_API TSR_NODISCARD tsr_status tsr_status_agree(tsr_engine *engine, tsr_status own);

/* A mesh arranges all ranks along named axes; the first axis varies slowest (torch's DeviceMesh). */
typedef struct tsr_device_mesh tsr_device_mesh;

/* shape [n], names [n]; at most 8 axes. Collective over all ranks. Errors: ARG (the product is not the number of ranks:
 * the message names both and every axis; a name twice), COMM, NOMEM. Owner: the caller (tsr_device_mesh_destroy), after
 * everything that uses it. Source: torch.distributed.device_mesh.init_device_mesh. */
TSR_API TSR_NODISCARD tsr_status tsr_device_mesh_create(tsr_engine *engine, const int *shape, const char *const *names,
                                                        int n, tsr_device_mesh **out);
TSR_API void tsr_device_mesh_destroy(tsr_device_mesh *mesh);
/* Size of an axis (1 where there is none of that name), and this rank's place along it. Local. */
TSR_API int tsr_device_mesh_size(const tsr_device_mesh *mesh, const char *name);
TSR_API int tsr_device_mesh_rank(const tsr_device_mesh *mesh, const char *name);

#ifdef __cplusplus
}
#endif
#endif
