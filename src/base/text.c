#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool reserve(tsr__text *text, size_t more) {
    size_t need = 0;
    if (text->failed || !tsr__add(text->length, more, &need) || !tsr__add(need, 1, &need)) return false;
    if (need <= text->capacity) return true;
    size_t capacity = text->capacity * 2 > need ? text->capacity * 2 : need + 32;
    char *data = tsr__realloc(text->engine, text->data, capacity);
    text->failed = !data;
    if (!data) return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

void tsr__text_add(tsr__text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    if (length) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

static void add_formatted(tsr__text *text, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void tsr__text_format(tsr__text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_formatted(text, format, args);
    va_end(args);
}

void tsr__text_free(tsr__text *text) {
    tsr__free(text->engine, text->data);
    *text = (tsr__text){.engine = text->engine};
}

char *tsr__format(tsr_engine *engine, const char *format, ...) {
    tsr__text text = {.engine = engine};
    va_list args;
    va_start(args, format);
    add_formatted(&text, format, args);
    va_end(args);
    if (text.failed) tsr__text_free(&text);
    return text.data;
}
