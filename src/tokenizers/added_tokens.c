#include "tokenizers/pretokenize.h"

#include <stdlib.h>
#include <string.h>

tsr_status tsr__added_add(tsr__added_set *set, const char *text, size_t length, double id) {
    if (length == 0 || !(id >= 0 && id <= INT32_MAX && id == (double)(int32_t)id))
        return tsr__fail(set->engine, TSR_FORMAT,
                         "added token \"%.*s\" has the id %g; it needs a text and an integer in 0 .. 2^31-1",
                         (int)(length < 100 ? length : 100), text, id);
    if (set->n == set->capacity) {
        size_t capacity = 2 * set->capacity + 32;
        tsr__added *tokens = tsr__realloc(set->engine, set->tokens, capacity * sizeof *tokens);
        if (!tokens) return TSR_NOMEM;
        set->tokens = tokens;
        set->capacity = capacity;
    }
    char *copy = tsr__strndup(set->engine, text, length);
    if (!copy) return TSR_NOMEM;
    set->tokens[set->n++] = (tsr__added){copy, length, (int32_t)id};
    return TSR_OK;
}

static int compare(const void *a, const void *b) {
    const tsr__added *x = a, *y = b;
    unsigned char first = (unsigned char)x->text[0], other = (unsigned char)y->text[0];
    if (first != other) return first < other ? -1 : 1;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return memcmp(x->text, y->text, x->length);
}

static tsr_status drop_duplicates(tsr__added_set *set) {
    size_t kept = 0;
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < set->n; i++) {
        tsr__added *last = kept > 0 ? &set->tokens[kept - 1] : NULL, *token = &set->tokens[i];
        if (!last || compare(last, token) != 0) {
            set->tokens[kept++] = *token;
            continue;
        }
        if (last->id != token->id)
            status = tsr__fail(set->engine, TSR_FORMAT, "added token \"%s\" has two ids, %d and %d", last->text,
                               (int)last->id, (int)token->id);
        tsr__free(set->engine, token->text);
    }
    set->n = kept;
    return status;
}

tsr_status tsr__added_sort(tsr__added_set *set) {
    if (set->n > 0) qsort(set->tokens, set->n, sizeof *set->tokens, compare);
    TSR__TRY(drop_duplicates(set));
    size_t i = 0;
    for (size_t byte = 0; byte < 257; byte++) {
        while (i < set->n && (unsigned char)set->tokens[i].text[0] < byte) i++;
        set->begin[byte] = i;
    }
    set->sorted = set->n;
    return TSR_OK;
}

const tsr__added *tsr__added_find(const tsr__added_set *set, const char *text, size_t length) {
    tsr__added key = {.text = (char *)(uintptr_t)text, .length = length};
    if (length == 0 || set->sorted == 0) return NULL;
    return bsearch(&key, set->tokens, set->sorted, sizeof key, compare);
}

const tsr__added *tsr__added_next(const tsr__added_set *set, const char *text, size_t n, size_t from, size_t *at) {
    for (size_t p = from; p < n; p++) {
        unsigned byte = (unsigned char)text[p];
        for (size_t i = set->begin[byte]; i < set->begin[byte + 1]; i++) {
            const tsr__added *token = &set->tokens[i];
            if (token->length > n - p || memcmp(token->text, text + p, token->length) != 0) continue;
            *at = p;
            return token;
        }
    }
    *at = n;
    return NULL;
}

void tsr__added_free(tsr__added_set *set) {
    for (size_t i = 0; i < set->n; i++) tsr__free(set->engine, set->tokens[i].text);
    tsr__free(set->engine, set->tokens);
    *set = (tsr__added_set){.engine = set->engine};
}
