#include "base/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *tsr_status_name(tsr_status status) {
    static const char *const names[] = {
#define NAME(name, text) #name,
        TSR_STATUS_LIST(NAME)
#undef NAME
    };
    return (size_t)status < TSR__COUNT(names) ? names[status] : "?";
}

const char *tsr_engine_message(const tsr_engine *engine) { return engine->message; }
size_t tsr_engine_memory_current(const tsr_engine *engine) { return atomic_load(&engine->allocator.current); }
size_t tsr_engine_memory_peak(const tsr_engine *engine) { return atomic_load(&engine->allocator.peak); }
void tsr_free(tsr_engine *engine, void *pointer) { tsr__free(engine, pointer); }

tsr_status tsr__fail(tsr_engine *engine, tsr_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(engine->message, sizeof engine->message, format, args);
    va_end(args);
    tsr__log(engine, TSR_LOG_DEBUG, "failure %s: %s", tsr_status_name(status), engine->message);
    return status;
}

tsr_status tsr__context(tsr_engine *engine, tsr_status status, const char *format, ...) {
    char below[TSR__MESSAGE_BYTES];
    memcpy(below, engine->message, sizeof below);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(engine->message, sizeof engine->message, format, args);
    va_end(args);
    int room = (int)sizeof engine->message - used - 3; /* ": " and the end */
    if (used >= 0 && room > 0) snprintf(engine->message + used, (size_t)room + 3, ": %.*s", room, below);
    return status;
}

void tsr__log(tsr_engine *engine, tsr_log_level level, const char *format, ...) {
    if (level > engine->options.log_level) return;
    char line[TSR__MESSAGE_BYTES + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (engine->options.log) {
        engine->options.log(engine->options.log_user, level, line);
        return;
    }
    static const char *const prefix[] = {"error: ", "warning: ", "", ""};
    fprintf(stderr, "tessera: %s%s\n", prefix[level], line);
}

tsr_status tsr__progress(tsr_engine *engine, const tsr_progress *progress) {
    if (!engine->options.progress || engine->options.progress(engine->options.progress_user, progress)) return TSR_OK;
    return tsr__fail(engine, TSR_CANCELLED, "cancelled by the progress callback in %s (%llu of %llu)",
                     progress->component, (unsigned long long)progress->done, (unsigned long long)progress->total);
}

double tsr__seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tsr__take_options(void *defaults, size_t bytes, const void *given) {
    size_t size = 0;
    if (!given) return;
    memcpy(&size, given, sizeof size);
    memcpy(defaults, given, size < bytes ? size : bytes);
}
