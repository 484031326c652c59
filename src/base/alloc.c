#include "base/engine.h"

#ifdef __GLIBC__
#include <dlfcn.h>
#include <malloc.h>
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The size stands in front of the memory, in a block of its own so that the alignment holds. */
enum { HEADER = 64 };

/* A large block is a mapping, listed here: a header would touch its first page, and where mappings lie side by side a
 * touched page keeps a huge page from covering the border. malloc would take large blocks, once some were freed, from
 * heaps, which keep what they are given back. The sanitizers watch malloc only. */
struct tsr__mapping {
    struct tsr__mapping *next;
    void *data;
    size_t bytes;
};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const size_t large = SIZE_MAX;
#else
static const size_t large = (size_t)1 << 20;
#endif
enum { SMALLEST_PAGE = 4096 };

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

static void *take_small(size_t bytes) {
    size_t whole = 0;
    if (!tsr__add(bytes, 2 * HEADER, &whole)) return NULL;
    char *block = aligned_alloc(HEADER, whole - whole % HEADER); /* it wants a multiple of the alignment */
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + HEADER;
}

/* Memory may be freed by another rank's thread, as that of a group of ranks is. The list is held for moments only. */
static void lock(tsr__allocator *a) {
    while (atomic_exchange(&a->locked, true)) (void)sched_yield();
}
static void unlock(tsr__allocator *a) { atomic_store(&a->locked, false); }

static void *take_large(tsr__allocator *a, size_t bytes) {
    struct tsr__mapping *mapping = malloc(sizeof *mapping);
    if (!mapping) return NULL;
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        free(mapping);
        return NULL;
    }
    lock(a);
    *mapping = (struct tsr__mapping){a->mappings, data, bytes};
    a->mappings = mapping;
    unlock(a);
    return data;
}

void *tsr__alloc(tsr_engine *engine, size_t bytes) {
    tsr__allocator *a = &engine->allocator;
    long long number = atomic_fetch_add(&a->count, 1);
    if (number == atomic_load(&a->fail_at)) return refuse(engine, bytes);
    void *pointer = bytes < large ? take_small(bytes) : take_large(a, bytes);
    if (!pointer) return refuse(engine, bytes);
    count(a, bytes);
    return pointer;
}

void *tsr__calloc(tsr_engine *engine, size_t n, size_t bytes) {
    size_t whole = 0;
    if (!tsr__mul(n, bytes, &whole)) return refuse(engine, SIZE_MAX);
    void *pointer = tsr__alloc(engine, whole);
    return pointer ? memset(pointer, 0, whole) : NULL;
}

/* The large block at `pointer`, which leaves the list if it is to be freed. NULL: a small one. */
static struct tsr__mapping *find_large(tsr__allocator *a, const void *pointer, bool to_free) {
    if ((uintptr_t)pointer % SMALLEST_PAGE) return NULL;
    lock(a);
    struct tsr__mapping **at = &a->mappings;
    while (*at && (*at)->data != pointer) at = &(*at)->next;
    struct tsr__mapping *found = *at;
    if (found && to_free) *at = found->next;
    unlock(a);
    return found;
}

static size_t size_of(const struct tsr__mapping *mapping, const void *pointer) {
    size_t bytes = 0;
    if (mapping) return mapping->bytes;
    memcpy(&bytes, (const char *)pointer - HEADER, sizeof bytes);
    return bytes;
}

void *tsr__realloc(tsr_engine *engine, void *pointer, size_t bytes) {
    void *moved = tsr__alloc(engine, bytes);
    if (!moved || !pointer) return moved;
    size_t old = size_of(find_large(&engine->allocator, pointer, false), pointer);
    memcpy(moved, pointer, old < bytes ? old : bytes);
    tsr__free(engine, pointer);
    return moved;
}

void tsr__free(tsr_engine *engine, void *pointer) {
    if (!pointer) return;
    tsr__allocator *a = &engine->allocator;
    struct tsr__mapping *mapping = find_large(a, pointer, true);
    atomic_fetch_sub(&a->current, size_of(mapping, pointer));
    if (!mapping) {
        free((char *)pointer - HEADER);
        return;
    }
    (void)munmap(mapping->data, mapping->bytes);
    free(mapping);
}

void tsr__memory_peak_reset(tsr_engine *engine) {
    atomic_store(&engine->allocator.peak, atomic_load(&engine->allocator.current));
}

/* Where another allocator stands in for glibc's (a sanitizer's, a preloaded one), glibc's has nothing to give back, and
 * threads that call it first at one time set it up twice, which ends the process. */
void tsr__memory_trim(void) {
#ifdef __GLIBC__
    Dl_info with_malloc, with_trim;
    if (dladdr((void *)malloc, &with_malloc) && dladdr((void *)malloc_trim, &with_trim) &&
        with_malloc.dli_fbase == with_trim.dli_fbase)
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
