/* The engine object, failures, logging and allocation. Everything above builds on this header. */
#ifndef TSR_BASE_ENGINE_H
#define TSR_BASE_ENGINE_H

#include <tessera/mesh.h>
#include <tessera/tensor.h>

#include <sched.h>
#include <stdatomic.h>

enum { TSR__MESSAGE_BYTES = 2048 };

typedef struct tsr__allocator {
    atomic_size_t current, peak;
    atomic_llong count;            /* allocations so far */
    atomic_llong fail_at;          /* the allocation of this number fails; -1: none. Tests use it. */
    struct tsr__mapping *mappings; /* the large blocks */
    atomic_bool locked;            /* the list of them */
} tsr__allocator;

struct tsr__device;
struct tsr__comm;

struct tsr_engine {
    tsr_engine_options options;
    int rank, size;
    struct tsr__comm *world; /* NULL where this rank is alone */
    cpu_set_t host_cores;    /* that the ranks of this host share, and their threads together; */
    int host_threads;        /* 0 where this rank was not launched among others */
    tsr_traffic traffic[TSR_N_TRAFFIC];
    _Atomic(const char *) phase; /* a string constant, NULL at first; atomic: a signal handler reads it */
    tsr__allocator allocator;
    struct tsr__device *device;
    tsr_status agreed; /* the failure that tsr_status_agree returned last, on all ranks alike; OK: none */
    char message[TSR__MESSAGE_BYTES];
};

/* Sets the engine's message and returns status. The first failure of a call chain says what happened: callers pass the
 * status on unchanged, or use tsr__context to say where. */
tsr_status tsr__fail(tsr_engine *engine, tsr_status status, const char *format, ...) TSR_PRINTF(3, 4);
/* Puts "<text>: " in front of the message of a failure that is on its way up, and returns status. */
tsr_status tsr__context(tsr_engine *engine, tsr_status status, const char *format, ...) TSR_PRINTF(3, 4);

void tsr__log(tsr_engine *engine, tsr_log_level level, const char *format, ...) TSR_PRINTF(3, 4);

/* Reports progress; TSR_CANCELLED (with a message) where the callback says so. */
TSR_NODISCARD tsr_status tsr__progress(tsr_engine *engine, const tsr_progress *progress);

/* Seconds of a monotonic clock. */
double tsr__seconds(void);

/* Memory aligned to 64 bytes, counted. From 1 MiB on whole pages, which no one has touched yet. On failure: NULL, and
 * the engine's message says how much was wanted. Zero bytes are a valid pointer. */
void *tsr__alloc(tsr_engine *engine, size_t bytes);
void *tsr__calloc(tsr_engine *engine, size_t n, size_t bytes); /* zeroed; refuses an overflowing product */
void *tsr__realloc(tsr_engine *engine, void *pointer, size_t bytes);
void tsr__free(tsr_engine *engine, void *pointer);
/* From here on tsr_engine_memory_peak counts anew. */
void tsr__memory_peak_reset(tsr_engine *engine);
/* Gives memory that was freed back to the system, as far as the C library can: after something that took much in small
 * pieces. */
void tsr__memory_trim(void);
char *tsr__strdup(tsr_engine *engine, const char *text);
char *tsr__strndup(tsr_engine *engine, const char *text, size_t length);

/* a * b and a + b, false where they overflow. */
bool tsr__mul(size_t a, size_t b, size_t *product);
bool tsr__add(size_t a, size_t b, size_t *sum);

/* Overwrites the defaults of an options struct [bytes] with what a caller gave, whose struct may be older and shorter:
 * its first member says how long it is. NULL: nothing was given. */
void tsr__take_options(void *defaults, size_t bytes, const void *given);

/* Returns early with a status that is not OK. */
#define TSR__TRY(expression)                                                                                           \
    do {                                                                                                               \
        tsr_status tsr__try_status = (expression);                                                                     \
        if (tsr__try_status != TSR_OK) return tsr__try_status;                                                         \
    } while (0)

#define TSR__COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
