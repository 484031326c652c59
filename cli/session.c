#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* In one piece, so that nothing of another process comes in between. */
static void print_line(const char *prefix, const char *format, va_list args, const char *suffix) {
    char *text = NULL;
    if (tsr_launcher_rank() > 0) return; /* the first rank meets the same and says it */
    if (vasprintf(&text, format, args) < 0) text = NULL;
    fprintf(stderr, "%s%s%s\n", prefix, text ? text : format, suffix);
    free(text);
}

int cli_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_line("tessera: error: ", format, args, "");
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...) {
    char hint[64];
    snprintf(hint, sizeof hint, " (see: tessera%s%s --help)", command ? " " : "", command ? command : "");
    va_list args;
    va_start(args, format);
    print_line("tessera: error: ", format, args, hint);
    va_end(args);
    return CLI_USAGE;
}

static void *or_die(void *memory) {
    if (memory) return memory;
    fputs("tessera: error: out of memory\n", stderr);
    exit(CLI_FAILED);
}

void *cli_alloc(size_t n, size_t bytes) { return or_die(calloc(n ? n : 1, bytes ? bytes : 1)); }

void *cli_grow(void *array, size_t n, size_t *capacity, size_t bytes) {
    if (n < *capacity) return array;
    *capacity = *capacity ? 2 * *capacity : 64;
    return or_die(reallocarray(array, *capacity, bytes));
}

char *cli_format(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    return or_die(n < 0 ? NULL : text);
}

char *cli_read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *bytes = NULL;
    size_t n = 0, room = 0, got = 1;
    while (got) {
        if (room - n < 4096) bytes = or_die(realloc(bytes, room = 2 * room + 65536));
        n += got = fread(bytes + n, 1, room - n - 1, file);
    }
    bool failed = ferror(file);
    int reason = errno;
    fclose(file);
    errno = reason;
    if (failed) {
        free(bytes);
        return NULL;
    }
    bytes[n] = '\0';
    if (length) *length = n;
    return bytes;
}

static void on_log(void *user, tsr_log_level level, const char *line) {
    cli_session *session = user;
    if (level == TSR_LOG_ERROR) /* it comes back as a status, and is printed once */
        snprintf(session->refusal, sizeof session->refusal, "%s", line);
    else
        cli_progress_log(session->progress, level, line);
}

tsr_engine_options cli_engine_options(const cli_options *options, tsr_log_fn log, void *log_user,
                                      cli_progress *progress) {
    tsr_engine_options wanted = TSR_ENGINE_OPTIONS_INIT;
    if (options->device) wanted.device = options->device;
    wanted.threads = (int)options->threads;
    wanted.log_level = options->quiet ? TSR_LOG_ERROR : options->verbose ? TSR_LOG_INFO : TSR_LOG_WARNING;
    wanted.log = log;
    wanted.log_user = log_user;
    wanted.progress = cli_progress_report;
    wanted.progress_user = progress;
    return wanted;
}

int cli_session_open(const cli_options *options, cli_session *out) {
    *out = (cli_session){.options = options, .quiet = options->quiet};
    out->progress = cli_progress_start(!options->quiet && !options->no_progress);
    tsr_engine_options wanted = cli_engine_options(options, on_log, out, out->progress);
    tsr_status status = tsr_engine_create(&wanted, &out->engine);
    if (status == TSR_OK) return CLI_DONE;
    cli_progress_stop(out->progress);
    if (*out->refusal) return cli_error("%s", out->refusal);
    return cli_error("the device '%s' cannot be used: %s", wanted.device, tsr_status_name(status));
}

void cli_session_close(cli_session *session) {
    tsr_engine_destroy(session->engine);
    cli_progress_stop(session->progress);
}

int cli_session_error(cli_session *session, const char *where, tsr_status status) {
    const char *message = tsr_engine_message(session->engine);
    char *line;
    if (status == TSR_CANCELLED && cli_caught_signal())
        line = cli_format("error: cancelled by %s", cli_caught_signal());
    else
        line = cli_format("error: %s%s%s", where ? where : "", where ? ": " : "",
                          *message ? message : tsr_status_name(status));
    cli_progress_say(session->progress, line);
    free(line);
    return CLI_FAILED;
}

void cli_session_note(cli_session *session, const char *format, ...) {
    if (session->quiet) return;
    char *line = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&line, format, args);
    va_end(args);
    if (n < 0) return; /* a note is not worth failing for */
    cli_progress_say(session->progress, line);
    free(line);
}
