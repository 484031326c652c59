/* A command on several ranks: threads of this process, or a launcher's processes. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct launch {
    const cli_options *options;
    cli_rank_body body;
    void *user;
    cli_progress *progress;
    pthread_mutex_t lock; /* of what follows */
    bool begun;           /* the first rank of this process runs its body, */
    pthread_t speaker;    /* in this thread, */
    const char *phase;    /* and was doing this at its end */
    char refusal[sizeof((cli_session *)0)->refusal];
    bool told; /* what ended the ranks has been printed */
} launch;

/* Ranks say the same, so one speaks. An error comes back as a status and is printed once, unless the library ends this
 * process with it. */
static void on_log(void *user, tsr_log_level level, const char *line) {
    launch *l = user;
    pthread_mutex_lock(&l->lock);
    bool early = level == TSR_LOG_ERROR && !l->begun;
    bool speaks = l->begun && pthread_equal(l->speaker, pthread_self()) &&
                  (level == TSR_LOG_ERROR ? !l->told : tsr_launcher_rank() == 0);
    if (early) snprintf(l->refusal, sizeof l->refusal, "%s", line);
    pthread_mutex_unlock(&l->lock);
    if (speaks) cli_progress_log(l->progress, level, line);
}

tsr_status cli_session_refuse(cli_session *session, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(session->refusal, sizeof session->refusal, format, args);
    va_end(args);
    return TSR_ARG;
}

/* Under a launcher the ranks are there already. The example keeps the degrees asked for, if any were. */
static tsr_status check_size(cli_session *session) {
    const cli_options *o = session->options;
    int64_t size = tsr_engine_size(session->engine), product = cli_n_ranks(o);
    int64_t good = product > 1 ? product : size;
    char degrees[96];
    if (size == product) return TSR_OK;
    cli_layout_options(o, good, degrees, sizeof degrees);
    return cli_session_refuse(
        session,
        "the launcher started %" PRId64 " rank%s, but the degrees make %" PRId64 ": ring %" PRId64 " x ulysses %" PRId64
        " x tp %" PRId64 "; for example: mpirun -n %" PRId64 " tessera %s ... %s",
        size, size == 1 ? "" : "s", product, o->ring, o->ulysses, o->tp, good, o->command, degrees);
}

static void begin(launch *l) {
    pthread_mutex_lock(&l->lock);
    l->begun = true;
    l->speaker = pthread_self();
    pthread_mutex_unlock(&l->lock);
}

static void end(launch *l, const cli_session *session) {
    pthread_mutex_lock(&l->lock);
    l->phase = tsr_engine_phase(session->engine);
    memcpy(l->refusal, session->refusal, sizeof l->refusal);
    pthread_mutex_unlock(&l->lock);
}

/* Prints what ended all ranks, once. */
static void tell(launch *l, tsr_status status, const char *message) {
    const char *signal = status == TSR_CANCELLED ? cli_caught_signal() : NULL;
    char text[sizeof l->refusal + 80], where[80] = "";
    if (l->told || tsr_launcher_rank() > 0) return;
    if (cli_n_ranks(l->options) > 1 && l->phase)
        snprintf(where, sizeof where, " in phase %s on rank 0 of %" PRId64, l->phase, cli_n_ranks(l->options));
    if (signal)
        snprintf(text, sizeof text, "cancelled by %s%s", signal, where);
    else
        snprintf(text, sizeof text, "%s", *l->refusal ? l->refusal : *message ? message : tsr_status_name(status));
    cli_progress_log(l->progress, TSR_LOG_ERROR, text);
    l->told = true;
}

/* What this rank sent to the others. */
static void tell_traffic(const launch *l, const tsr_engine *engine) {
    tsr_traffic traffic[TSR_N_TRAFFIC];
    uint64_t sum = 0;
    char parts[400] = "";
    size_t used = 0;
    tsr_engine_traffic(engine, traffic);
    for (int i = 0; i < TSR_N_TRAFFIC; i++) {
        sum += traffic[i].bytes_sent;
        if (traffic[i].calls)
            used += (size_t)snprintf(parts + used, sizeof parts - used, "%s %s %" PRIu64 " in %" PRIu64 " calls",
                                     used ? "," : ":", traffic[i].operation, traffic[i].bytes_sent, traffic[i].calls);
    }
    char *line = cli_format("rank %d of %d sent %" PRIu64 " bytes%s", tsr_engine_rank(engine), tsr_engine_size(engine),
                            sum, parts);
    cli_progress_say(l->progress, line);
    free(line);
}

/* The first rank of a launcher tells a failure that all agreed on before it returns: the ranks part only after that,
 * and the launcher ends them all as soon as one has ended badly. */
static tsr_status run_rank(tsr_engine *engine, void *user) {
    launch *l = user;
    bool first = tsr_engine_rank(engine) == 0, process = tsr_launcher_size() > 1;
    cli_session session = {l->options, engine, l->progress, l->options->quiet || !first, ""};
    if (process) cli_watch_engine(engine);
    if (process || first) begin(l);
    if (process || first) cli_catch_signals();
    tsr_status status = check_size(&session);
    if (status == TSR_OK) status = l->body(&session, l->user);
    if (status == TSR_OK && l->options->verbose && tsr_engine_size(engine) > 1) tell_traffic(l, engine);
    if (process || first) end(l, &session);
    if (process && first && status != TSR_OK && status != TSR_COMM) tell(l, status, tsr_engine_message(engine));
    cli_watch_engine(NULL);
    return status;
}

int cli_launch(const cli_options *options, cli_rank_body body, void *user) {
    char message[sizeof((cli_session *)0)->refusal] = "";
    launch l = {.options = options, .body = body, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
    l.progress = cli_progress_start(!options->quiet && !options->no_progress && tsr_launcher_rank() == 0);
    tsr_engine_options wanted = cli_engine_options(options, on_log, &l, l.progress);
    int n = tsr_launcher_size() ? 0 : (int)cli_n_ranks(options);
    tsr_status status = tsr_launch(&wanted, n, run_rank, &l, message, sizeof message);
    if (status != TSR_OK) tell(&l, status, message);
    cli_progress_stop(l.progress);
    pthread_mutex_destroy(&l.lock);
    return status == TSR_OK ? CLI_DONE : CLI_FAILED;
}
