/* Byte-level byte-pair encoding: a vocabulary, ranked merges, and the encoding of one pre-token.
 * Source: tokenizers, models.BPE behind pre_tokenizers.ByteLevel. */
#ifndef TSR_TOKENIZERS_BPE_H
#define TSR_TOKENIZERS_BPE_H

#include "base/engine.h"

/* Token ids that grow. */
typedef struct tsr__ids {
    tsr_engine *engine;
    int64_t *data; /* [n] */
    size_t n, capacity;
} tsr__ids;

TSR_NODISCARD tsr_status tsr__ids_add(tsr__ids *ids, int64_t id);

typedef struct tsr__bpe tsr__bpe;

/* An empty model with room for `tokens` and `merges`. With ignore_merges, a whole pre-token found in the vocabulary is
 * taken at once. Errors: NOMEM, FORMAT (more than 2^30). Owner: the caller (tsr__bpe_destroy). */
TSR_NODISCARD tsr_status tsr__bpe_create(tsr_engine *engine, size_t tokens, size_t merges, bool ignore_merges,
                                         tsr__bpe **out);
void tsr__bpe_destroy(tsr__bpe *bpe);

/* Adds a token, its text in the byte-level alphabet. Errors: FORMAT (text twice, id not in 0 .. 2^31-1), NOMEM. */
TSR_NODISCARD tsr_status tsr__bpe_add_token(tsr__bpe *bpe, const char *text, size_t length, double id);
/* After the last token and before the first merge. Errors: FORMAT (two tokens with one id, a byte without a token). */
TSR_NODISCARD tsr_status tsr__bpe_end_tokens(tsr__bpe *bpe);
/* Adds the next merge (ranks are the order of the calls; of two merges of one pair the last counts): two texts, or one
 * line "left right". Errors: FORMAT (left, right or their concatenation is no token), NOMEM. */
TSR_NODISCARD tsr_status tsr__bpe_add_merge(tsr__bpe *bpe, const char *left, size_t n_left, const char *right,
                                            size_t n_right);
TSR_NODISCARD tsr_status tsr__bpe_add_merge_line(tsr__bpe *bpe, const char *line, size_t length);

size_t tsr__bpe_count(const tsr__bpe *bpe);
/* The id of a token's text, -1 where there is none. */
int64_t tsr__bpe_find(const tsr__bpe *bpe, const char *text, size_t length);

/* Appends the ids of one pre-token of n <= 2^30 raw bytes, in O(n log n). Errors: NOMEM. */
TSR_NODISCARD tsr_status tsr__bpe_encode(tsr__bpe *bpe, const char *bytes, size_t n, tsr__ids *ids);

#endif
