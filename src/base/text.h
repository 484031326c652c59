/* A string that grows. */
#ifndef TSR_BASE_TEXT_H
#define TSR_BASE_TEXT_H

#include "base/engine.h"

/* Starts as {engine}. After a failed allocation it keeps what it has and `failed` stays set: check once at the end. */
typedef struct tsr__text {
    tsr_engine *engine;
    char *data; /* NUL-terminated once something was added; length may count inner NULs */
    size_t length, capacity;
    bool failed;
} tsr__text;

void tsr__text_add(tsr__text *text, const char *bytes, size_t length);
void tsr__text_format(tsr__text *text, const char *format, ...) TSR_PRINTF(2, 3);
void tsr__text_free(tsr__text *text);

/* printf into memory of the engine; NULL (and a message) where there is none left. */
char *tsr__format(tsr_engine *engine, const char *format, ...) TSR_PRINTF(2, 3);

#endif
