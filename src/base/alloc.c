#include "base/engine.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>

/* The size stands in front of the memory, in a block of its own so that the alignment holds. */
enum { HEADER = 64 };

bool tsr__mul(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }
bool tsr__add(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }

static void count(tsr__allocator *a, size_t bytes) {
    size_t now = atomic_fetch_add(&a->current, bytes) + bytes;
    size_t peak = atomic_load(&a->peak);
    while (now > peak && !atomic_compare_exchange_weak(&a->peak, &peak, now)) {
    }
}

static void *refuse(tsr_engine *engine, size_t bytes) {
    (void)tsr__fail(engine, TSR_NOMEM, "no memory for %zu bytes (%zu are in use); close other programs or draw smaller",
                    bytes, atomic_load(&engine->allocator.current));
    return NULL;
}

void *tsr__alloc(tsr_engine *engine, size_t bytes) {
    size_t whole = 0;
    long long number = atomic_fetch_add(&engine->allocator.count, 1);
    if (number == atomic_load(&engine->allocator.fail_at) || !tsr__add(bytes, 2 * HEADER, &whole))
        return refuse(engine, bytes);
    whole -= whole % HEADER; /* aligned_alloc wants a multiple of the alignment */
    char *block = aligned_alloc(HEADER, whole);
    if (!block) return refuse(engine, bytes);
    memcpy(block, &bytes, sizeof bytes);
    count(&engine->allocator, bytes);
    return block + HEADER;
}

void *tsr__calloc(tsr_engine *engine, size_t n, size_t bytes) {
    size_t whole = 0;
    if (!tsr__mul(n, bytes, &whole)) return refuse(engine, SIZE_MAX);
    void *pointer = tsr__alloc(engine, whole);
    return pointer ? memset(pointer, 0, whole) : NULL;
}

static size_t size_of(const void *pointer) {
    size_t bytes = 0;
    memcpy(&bytes, (const char *)pointer - HEADER, sizeof bytes);
    return bytes;
}

void *tsr__realloc(tsr_engine *engine, void *pointer, size_t bytes) {
    void *moved = tsr__alloc(engine, bytes);
    if (!moved || !pointer) return moved;
    size_t old = size_of(pointer);
    memcpy(moved, pointer, old < bytes ? old : bytes);
    tsr__free(engine, pointer);
    return moved;
}

void tsr__free(tsr_engine *engine, void *pointer) {
    if (!pointer) return;
    atomic_fetch_sub(&engine->allocator.current, size_of(pointer));
    free((char *)pointer - HEADER);
}

void tsr__memory_peak_reset(tsr_engine *engine) {
    atomic_store(&engine->allocator.peak, atomic_load(&engine->allocator.current));
}

/* Under AddressSanitizer nothing is glibc's, and threads that trim at once would race to set its allocator up. */
void tsr__memory_trim(void) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    (void)malloc_trim(0);
#endif
}

char *tsr__strndup(tsr_engine *engine, const char *text, size_t length) {
    char *copy = tsr__alloc(engine, length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *tsr__strdup(tsr_engine *engine, const char *text) { return tsr__strndup(engine, text, strlen(text)); }
