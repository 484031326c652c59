#include "tokenizers/bpe.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct token {
    size_t offset, length; /* into the pool */
    int32_t id;
} token;

typedef struct merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* of the merged token; -1: a free slot */
} merge;

/* A piece of the word that is being encoded, in a doubly linked list (-1 ends it). */
typedef struct symbol {
    int32_t id, previous, next;
} symbol;

/* A merge that was possible when it was found. `order` is rank << 32 | position: the least comes first. */
typedef struct candidate {
    uint64_t order, pair;
} candidate;

struct tsr__bpe {
    tsr_engine *engine;
    bool ignore_merges;
    tsr__text pool, scratch;
    token *tokens;         /* [token_room] */
    uint32_t *token_slots; /* [token_mask + 1] index into tokens + 1; 0: free */
    merge *merges;         /* [merge_mask + 1] */
    size_t n_tokens, token_room, n_merges, merge_room;
    size_t token_mask, merge_mask;
    char alphabet[256][2]; /* a byte's symbol in UTF-8; one byte where [1] is 0 */
    int32_t byte_id[256];
    symbol *symbols; /* [capacity] */
    candidate *heap; /* [2 capacity] */
    size_t capacity, n_heap;
};

tsr_status tsr__ids_add(tsr__ids *ids, int64_t id) {
    if (ids->n == ids->capacity) {
        size_t capacity = 2 * ids->capacity + 16;
        int64_t *data = tsr__realloc(ids->engine, ids->data, capacity * sizeof *data);
        if (!data) return TSR_NOMEM;
        ids->data = data;
        ids->capacity = capacity;
    }
    ids->data[ids->n++] = id;
    return TSR_OK;
}

/* Printable bytes of Latin-1 stand for themselves, the other 68 for U+0100 and up, in order. */
static void fill_alphabet(tsr__bpe *bpe) {
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        unsigned code = printable ? byte : next++;
        if (code < 0x80) {
            bpe->alphabet[byte][0] = (char)code;
        } else {
            bpe->alphabet[byte][0] = (char)(0xc0u | code >> 6);
            bpe->alphabet[byte][1] = (char)(0x80u | (code & 0x3fu));
        }
    }
}

static size_t symbol_length(const tsr__bpe *bpe, unsigned byte) { return bpe->alphabet[byte][1] ? 2 : 1; }

/* Slots of a table that stays at most half full, less one. */
static size_t mask_for(size_t n) {
    size_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots - 1;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t hash_text(const char *text, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return mix(hash);
}

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }

static tsr_status make_tables(tsr__bpe *bpe) {
    bpe->tokens = tsr__calloc(bpe->engine, bpe->token_room, sizeof *bpe->tokens);
    bpe->token_slots = tsr__calloc(bpe->engine, bpe->token_mask + 1, sizeof *bpe->token_slots);
    bpe->merges = tsr__calloc(bpe->engine, bpe->merge_mask + 1, sizeof *bpe->merges);
    if (!bpe->tokens || !bpe->token_slots || !bpe->merges) return TSR_NOMEM;
    for (size_t i = 0; i <= bpe->merge_mask; i++) bpe->merges[i].id = -1;
    return TSR_OK;
}

tsr_status tsr__bpe_create(tsr_engine *engine, size_t tokens, size_t merges, bool ignore_merges, tsr__bpe **out) {
    if (tokens > (size_t)1 << 30 || merges > (size_t)1 << 30)
        return tsr__fail(engine, TSR_FORMAT, "%zu tokens and %zu merges are more than a tokenizer has", tokens, merges);
    tsr__bpe *bpe = tsr__calloc(engine, 1, sizeof *bpe);
    if (!bpe) return TSR_NOMEM;
    *bpe = (tsr__bpe){.engine = engine, .ignore_merges = ignore_merges, .pool = {.engine = engine}};
    bpe->scratch.engine = engine;
    bpe->token_room = tokens;
    bpe->merge_room = merges;
    bpe->token_mask = mask_for(tokens);
    bpe->merge_mask = mask_for(merges);
    fill_alphabet(bpe);
    tsr_status status = make_tables(bpe);
    if (status != TSR_OK) {
        tsr__bpe_destroy(bpe);
        return status;
    }
    *out = bpe;
    return TSR_OK;
}

void tsr__bpe_destroy(tsr__bpe *bpe) {
    if (!bpe) return;
    tsr__text_free(&bpe->pool);
    tsr__text_free(&bpe->scratch);
    void *const parts[] = {bpe->tokens, bpe->token_slots, bpe->merges, bpe->symbols, bpe->heap, bpe};
    tsr_engine *engine = bpe->engine;
    for (size_t i = 0; i < TSR__COUNT(parts); i++) tsr__free(engine, parts[i]);
}

/* The slot that holds this text, or the free one where it belongs. */
static uint32_t *token_slot(const tsr__bpe *bpe, const char *text, size_t length) {
    for (size_t i = hash_text(text, length);; i++) {
        uint32_t *slot = &bpe->token_slots[i & bpe->token_mask];
        if (!*slot) return slot;
        const token *t = &bpe->tokens[*slot - 1];
        if (t->length == length && memcmp(bpe->pool.data + t->offset, text, length) == 0) return slot;
    }
}

static merge *merge_slot(const tsr__bpe *bpe, uint64_t pair) {
    for (size_t i = mix(pair);; i++) {
        merge *slot = &bpe->merges[i & bpe->merge_mask];
        if (slot->id < 0 || slot->pair == pair) return slot;
    }
}

size_t tsr__bpe_count(const tsr__bpe *bpe) { return bpe->n_tokens; }

int64_t tsr__bpe_find(const tsr__bpe *bpe, const char *text, size_t length) {
    uint32_t slot = *token_slot(bpe, text, length);
    return slot ? bpe->tokens[slot - 1].id : -1;
}

tsr_status tsr__bpe_add_token(tsr__bpe *bpe, const char *text, size_t length, double id) {
    if (!(id >= 0 && id <= INT32_MAX && id == (double)(int32_t)id))
        return tsr__fail(bpe->engine, TSR_FORMAT, "token \"%.*s\" has the id %g, not an integer in 0 .. 2^31-1",
                         (int)(length < 100 ? length : 100), text, id);
    uint32_t *slot = token_slot(bpe, text, length);
    if (*slot || bpe->n_tokens == bpe->token_room)
        return tsr__fail(bpe->engine, TSR_FORMAT, "token \"%.*s\" is in the vocabulary twice",
                         (int)(length < 100 ? length : 100), text);
    bpe->tokens[bpe->n_tokens++] = (token){bpe->pool.length, length, (int32_t)id};
    tsr__text_add(&bpe->pool, text, length);
    *slot = (uint32_t)bpe->n_tokens;
    return bpe->pool.failed ? TSR_NOMEM : TSR_OK;
}

static int compare_ids(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static tsr_status check_unique_ids(tsr__bpe *bpe) {
    int32_t *ids = tsr__calloc(bpe->engine, bpe->n_tokens, sizeof *ids);
    if (!ids) return TSR_NOMEM;
    for (size_t i = 0; i < bpe->n_tokens; i++) ids[i] = bpe->tokens[i].id;
    qsort(ids, bpe->n_tokens, sizeof *ids, compare_ids);
    tsr_status status = TSR_OK;
    for (size_t i = 1; i < bpe->n_tokens && status == TSR_OK; i++)
        if (ids[i] == ids[i - 1])
            status = tsr__fail(bpe->engine, TSR_FORMAT, "two tokens of the vocabulary have the id %d", (int)ids[i]);
    tsr__free(bpe->engine, ids);
    return status;
}

tsr_status tsr__bpe_end_tokens(tsr__bpe *bpe) {
    for (unsigned byte = 0; byte < 256; byte++) {
        bpe->byte_id[byte] = (int32_t)tsr__bpe_find(bpe, bpe->alphabet[byte], symbol_length(bpe, byte));
        if (bpe->byte_id[byte] < 0)
            return tsr__fail(bpe->engine, TSR_FORMAT,
                             "byte 0x%02x (\"%.2s\") has no token in the vocabulary: it is not a byte-level one", byte,
                             bpe->alphabet[byte]);
    }
    return check_unique_ids(bpe);
}

tsr_status tsr__bpe_add_merge(tsr__bpe *bpe, const char *left, size_t n_left, const char *right, size_t n_right) {
    bpe->scratch.length = 0;
    bpe->scratch.failed = false; /* of an earlier call */
    tsr__text_add(&bpe->scratch, left, n_left);
    tsr__text_add(&bpe->scratch, right, n_right);
    if (bpe->scratch.failed) return TSR_NOMEM;
    int64_t a = tsr__bpe_find(bpe, left, n_left), b = tsr__bpe_find(bpe, right, n_right);
    int64_t both = tsr__bpe_find(bpe, bpe->scratch.data, bpe->scratch.length);
    if (a < 0 || b < 0 || both < 0 || bpe->n_merges == bpe->merge_room)
        return tsr__fail(bpe->engine, TSR_FORMAT,
                         "merge %zu, \"%.*s\" with \"%.*s\", names a token that the vocabulary lacks", bpe->n_merges,
                         (int)(n_left < 100 ? n_left : 100), left, (int)(n_right < 100 ? n_right : 100), right);
    uint64_t pair = pair_of((int32_t)a, (int32_t)b);
    *merge_slot(bpe, pair) = (merge){pair, (uint32_t)bpe->n_merges++, (int32_t)both};
    return TSR_OK;
}

tsr_status tsr__bpe_add_merge_line(tsr__bpe *bpe, const char *line, size_t length) {
    const char *space = memchr(line, ' ', length);
    size_t left = space ? (size_t)(space - line) : length;
    if (!space || memchr(space + 1, ' ', length - left - 1))
        return tsr__fail(bpe->engine, TSR_FORMAT, "merge %zu, \"%.*s\", is not two tokens and a space", bpe->n_merges,
                         (int)(length < 100 ? length : 100), line);
    return tsr__bpe_add_merge(bpe, line, left, space + 1, length - left - 1);
}

static void push(tsr__bpe *bpe, candidate c) {
    size_t i = bpe->n_heap++;
    for (; i > 0 && bpe->heap[(i - 1) / 2].order > c.order; i = (i - 1) / 2) bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = c;
}

static candidate pop(tsr__bpe *bpe) {
    candidate top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < bpe->n_heap) {
        if (child + 1 < bpe->n_heap && bpe->heap[child + 1].order < bpe->heap[child].order) child++;
        if (bpe->heap[child].order >= last.order) break;
        bpe->heap[i] = bpe->heap[child];
        i = child;
    }
    bpe->heap[i] = last;
    return top;
}

/* Remembers the merge of the symbol at `position` with the one after it, if there is such a merge. */
static void propose(tsr__bpe *bpe, int32_t position) {
    if (position < 0 || bpe->symbols[position].next < 0) return;
    uint64_t pair = pair_of(bpe->symbols[position].id, bpe->symbols[bpe->symbols[position].next].id);
    const merge *m = merge_slot(bpe, pair);
    if (m->id >= 0) push(bpe, (candidate){(uint64_t)m->rank << 32 | (uint32_t)position, pair});
}

/* Does a remembered merge, unless an earlier one took a side of it. */
static void apply(tsr__bpe *bpe, candidate c) {
    int32_t position = (int32_t)(uint32_t)c.order;
    symbol *left = &bpe->symbols[position];
    if (left->id < 0 || left->next < 0) return;
    symbol *right = &bpe->symbols[left->next];
    if (pair_of(left->id, right->id) != c.pair) return;
    left->id = merge_slot(bpe, c.pair)->id;
    left->next = right->next;
    right->id = -1;
    if (left->next >= 0) bpe->symbols[left->next].previous = position;
    propose(bpe, left->previous);
    propose(bpe, position);
}

static tsr_status reserve(tsr__bpe *bpe, size_t n) {
    if (n <= bpe->capacity) return TSR_OK;
    bpe->capacity = 0;
    tsr__free(bpe->engine, bpe->symbols);
    tsr__free(bpe->engine, bpe->heap);
    size_t capacity = n + n / 2 + 64;
    bpe->symbols = tsr__calloc(bpe->engine, capacity, sizeof *bpe->symbols);
    /* At most n - 1 candidates at first, and each of at most n - 1 merges takes one and leaves two. */
    bpe->heap = tsr__calloc(bpe->engine, 2 * capacity, sizeof *bpe->heap);
    if (!bpe->symbols || !bpe->heap) return TSR_NOMEM;
    bpe->capacity = capacity;
    return TSR_OK;
}

/* The id of a whole pre-token, -1 where it is no token. */
static tsr_status find_whole(tsr__bpe *bpe, const char *bytes, size_t n, int64_t *id) {
    bpe->scratch.length = 0;
    bpe->scratch.failed = false; /* of an earlier call */
    for (size_t i = 0; i < n; i++) {
        unsigned byte = (unsigned char)bytes[i];
        tsr__text_add(&bpe->scratch, bpe->alphabet[byte], symbol_length(bpe, byte));
    }
    if (bpe->scratch.failed) return TSR_NOMEM;
    *id = tsr__bpe_find(bpe, bpe->scratch.data, bpe->scratch.length);
    return TSR_OK;
}

tsr_status tsr__bpe_encode(tsr__bpe *bpe, const char *bytes, size_t n, tsr__ids *ids) {
    if (n == 0) return TSR_OK;
    int64_t whole = -1;
    if (bpe->ignore_merges) TSR__TRY(find_whole(bpe, bytes, n, &whole));
    if (whole >= 0) return tsr__ids_add(ids, whole);
    TSR__TRY(reserve(bpe, n));
    for (size_t i = 0; i < n; i++) {
        int32_t next = i + 1 < n ? (int32_t)i + 1 : -1;
        bpe->symbols[i] = (symbol){bpe->byte_id[(unsigned char)bytes[i]], (int32_t)i - 1, next};
    }
    bpe->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) propose(bpe, (int32_t)i);
    while (bpe->n_heap > 0) apply(bpe, pop(bpe));
    for (int32_t i = 0; i >= 0; i = bpe->symbols[i].next) TSR__TRY(tsr__ids_add(ids, bpe->symbols[i].id));
    return TSR_OK;
}
