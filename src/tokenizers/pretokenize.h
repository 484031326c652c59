/* What happens to a text before the model sees it: cut at added tokens, normalize, split by a regular expression. */
#ifndef TSR_TOKENIZERS_PRETOKENIZE_H
#define TSR_TOKENIZERS_PRETOKENIZE_H

#include "base/engine.h"

/* The byte where a text stops being UTF-8; n where it is UTF-8 to its end. NUL is a character. */
size_t tsr__utf8_valid(const char *text, size_t n);

/* Normalization form C of n bytes of UTF-8, in time that grows with n. Errors: NOMEM. Owner of *out: the caller
 * (tsr__free). Source: tokenizers, normalizers.NFC. */
TSR_NODISCARD tsr_status tsr__nfc(tsr_engine *engine, const char *text, size_t n, char **out, size_t *n_out);

/* A token that is found in the raw text, before everything else. */
typedef struct tsr__added {
    char *text;
    size_t length;
    int32_t id;
} tsr__added;

typedef struct tsr__added_set {
    tsr_engine *engine;
    tsr__added *tokens; /* [n]; the first `sorted` of them by first byte, then the longest first */
    size_t n, sorted, capacity;
    size_t begin[257]; /* sorted tokens that start with byte b: begin[b] .. begin[b + 1] */
} tsr__added_set;

/* Adds a token; it is found from the next sort on. Errors: FORMAT (no text, id not in 0 .. 2^31-1), NOMEM. */
TSR_NODISCARD tsr_status tsr__added_add(tsr__added_set *set, const char *text, size_t length, double id);
/* Sorts, and drops what is there twice. Errors: FORMAT (a text with two ids). */
TSR_NODISCARD tsr_status tsr__added_sort(tsr__added_set *set);
/* The sorted token of that text, or NULL. */
const tsr__added *tsr__added_find(const tsr__added_set *set, const char *text, size_t length);
/* The first place at or after `from` where a sorted token stands, and the longest one there; *at = n and NULL
 * where there is none. */
const tsr__added *tsr__added_next(const tsr__added_set *set, const char *text, size_t n, size_t from, size_t *at);
void tsr__added_free(tsr__added_set *set);

/* A compiled split. Source: tokenizers, pre_tokenizers.Split(Regex(pattern), behavior="isolated"). */
typedef struct tsr__split tsr__split;

/* Compiles a pattern that was written for Oniguruma. Errors: UNSUPPORTED (a construct that PCRE2 reads differently, or
 * a pattern that matches the empty text), FORMAT (no pattern at all), NOMEM. Owner: the caller (tsr__split_destroy). */
TSR_NODISCARD tsr_status tsr__split_create(tsr_engine *engine, const char *pattern, size_t length, tsr__split **out);
void tsr__split_destroy(tsr__split *split);

typedef tsr_status (*tsr__piece_fn)(void *user, const char *bytes, size_t n);

/* Calls piece for each match and each gap between matches, in order; stops at its first failure and returns it. The
 * text must be UTF-8. Errors: NOMEM, INTERNAL (the pattern takes too many steps on this text). */
TSR_NODISCARD tsr_status tsr__split_each(tsr__split *split, const char *text, size_t n, tsr__piece_fn piece,
                                         void *user);

#endif
