/* tessera-mpi-host: an MPI program that launches twice and then is as it was before, for
 * tests/parallel/test_launchers.sh. */
#include <tessera/mesh.h>

#include <mpi.h>
#include <sched.h>
#include <stdio.h>

static tsr_status body(tsr_engine *engine, void *user) {
    (void)user;
    return tsr_status_agree(engine, TSR_OK);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    cpu_set_t before, after;
    char message[4096] = "";
    int failed = MPI_Init(&argc, &argv) != MPI_SUCCESS || sched_getaffinity(0, sizeof before, &before) != 0;
    for (int i = 0; i < 2 && !failed; i++) failed = tsr_launch(NULL, 0, body, NULL, message, sizeof message) != TSR_OK;
    if (failed) fprintf(stderr, "a launch failed: %s\n", message);
    if (sched_getaffinity(0, sizeof after, &after) != 0 || !CPU_EQUAL(&before, &after)) {
        fprintf(stderr, "the launch has left other cores\n");
        failed = 1;
    }
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler != MPI_ERRORS_ARE_FATAL) {
        fprintf(stderr, "the launch has left another error handler\n");
        failed = 1;
    }
    (void)MPI_Errhandler_free(&handler);
    (void)MPI_Finalize();
    return failed;
}
