/* Status codes, the engine object, log and progress callbacks.
 *
 * Every fallible function returns a tsr_status. What went wrong, where, and what to do about it is kept as one sentence
 * in the engine (tsr_engine_message), never in a global. */
#ifndef TESSERA_STATUS_H
#define TESSERA_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TSR_API __attribute__((visibility("default")))
#define TSR_NODISCARD __attribute__((warn_unused_result))
#define TSR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TSR_API
#define TSR_NODISCARD
#define TSR_PRINTF(fmt, args)
#endif

/* X(name, what it means) */
#define TSR_STATUS_LIST(X)                                                                                             \
    X(OK, "done")                                                                                                      \
    X(ARG, "an argument is wrong")                                                                                     \
    X(NOMEM, "not enough memory")                                                                                      \
    X(IO, "the system could not read or write")                                                                        \
    X(FORMAT, "a file is not what it should be")                                                                       \
    X(SHAPE, "sizes do not fit together")                                                                              \
    X(UNSUPPORTED, "Tessera does not do this")                                                                         \
    X(BACKEND, "the device failed")                                                                                    \
    X(COMM, "communication between ranks failed")                                                                      \
    X(CANCELLED, "cancelled by the caller")                                                                            \
    X(INTERNAL, "a fault in Tessera itself")

typedef enum tsr_status {
#define TSR_STATUS_ENUM(name, text) TSR_##name,
    TSR_STATUS_LIST(TSR_STATUS_ENUM)
#undef TSR_STATUS_ENUM
} tsr_status;

/* The version of the library: "0.1.0". Local. */
TSR_API const char *tsr_version(void);

/* The name of a status ("FORMAT"), a string constant. Local. */
TSR_API const char *tsr_status_name(tsr_status status);

typedef enum tsr_log_level { TSR_LOG_ERROR, TSR_LOG_WARNING, TSR_LOG_INFO, TSR_LOG_DEBUG } tsr_log_level;

typedef enum tsr_phase {
    TSR_PHASE_LOAD,
    TSR_PHASE_ENCODE,
    TSR_PHASE_DENOISE,
    TSR_PHASE_DECODE,
    TSR_PHASE_SAVE
} tsr_phase;

/* What the progress callback receives. */
typedef struct tsr_progress {
    tsr_phase phase;
    const char *component; /* "text_encoder", "transformer", "vae" */
    uint64_t done, total;  /* bytes in TSR_PHASE_LOAD and _SAVE, steps in TSR_PHASE_DENOISE, calls otherwise */
    double seconds;        /* since the phase began */
} tsr_progress;

/* Called from the thread that runs the engine. Return false to cancel: the running call ends with TSR_CANCELLED. */
typedef bool (*tsr_progress_fn)(void *user, const tsr_progress *progress);
typedef void (*tsr_log_fn)(void *user, tsr_log_level level, const char *line);

/* An engine is one rank's view of Tessera: its device, threads, messages and allocation counts. It is used by one
 * thread at a time; separate engines are independent. Everything created from an engine is destroyed before it. */
typedef struct tsr_engine tsr_engine;

typedef struct tsr_engine_options {
    size_t size;        /* sizeof(tsr_engine_options) of the caller, so that the struct can grow */
    const char *device; /* "cpu" (default) or "ref" */
    int threads;        /* 0: all cores that this process may use */
    tsr_log_level log_level;
    tsr_log_fn log; /* NULL: lines go to stderr */
    void *log_user;
    tsr_progress_fn progress; /* NULL: none */
    void *progress_user;
} tsr_engine_options;
#define TSR_ENGINE_OPTIONS_INIT                                                                                        \
    { sizeof(tsr_engine_options), "cpu", 0, TSR_LOG_WARNING, NULL, NULL, NULL, NULL }

/* Creates an engine. options may be NULL. Local. On failure *out is untouched; errors: ARG (unknown device), NOMEM,
 * BACKEND. Owner: the caller, who ends it with tsr_engine_destroy. */
TSR_API TSR_NODISCARD tsr_status tsr_engine_create(const tsr_engine_options *options, tsr_engine **out);
TSR_API void tsr_engine_destroy(tsr_engine *engine);

/* One sentence about the last failure on this engine (what, where, what to do), "" if there was none. Valid until the
 * next failure. Local. */
TSR_API const char *tsr_engine_message(const tsr_engine *engine);

/* A line that describes the device: name, instruction set, kernels, threads. Valid as long as the engine. Local. */
TSR_API const char *tsr_engine_device_description(const tsr_engine *engine);

/* Bytes allocated through this engine now, and the most so far. Local. */
TSR_API size_t tsr_engine_memory_current(const tsr_engine *engine);
TSR_API size_t tsr_engine_memory_peak(const tsr_engine *engine);

/* Gives a pointer that Tessera returned to the caller (and says so) back. NULL is allowed. */
TSR_API void tsr_free(tsr_engine *engine, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
