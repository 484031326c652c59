/* The tokenizer object, and the readers of its two folder layouts. A tokenizer of another kind (CLIP, T5, tekken) is a
 * further row of the tables in tokenizer*.c. */
#ifndef TSR_TOKENIZERS_TOKENIZER_H
#define TSR_TOKENIZERS_TOKENIZER_H

#include "tokenizers/bpe.h"
#include "tokenizers/pretokenize.h"

#include <jansson.h>
#include <tessera/tokenizer.h>

struct tsr_tokenizer {
    tsr_engine *engine;
    char *class_name;
    int64_t pad_id, vocab_size, model_max_length;
    bool nfc;
    tsr__added_set added;
    tsr__split *split;
    tsr__bpe *bpe;
};

/* Reads tokenizer.json into the empty parts of t; added tokens stay unsorted. Errors: IO, FORMAT, UNSUPPORTED (says
 * which part is of another kind), NOMEM; messages start with the path. Source: tokenizers, Tokenizer.from_file. */
TSR_NODISCARD tsr_status tsr__tokenizer_read_json(tsr_tokenizer *t, const char *path);

/* Reads {"text": id, ...} into t->bpe, with room for `merges` merges. Errors: FORMAT, NOMEM. */
TSR_NODISCARD tsr_status tsr__tokenizer_read_vocab(tsr_tokenizer *t, const json_t *vocab, size_t merges,
                                                   bool ignore_merges);
/* Reads one added token with its flags {"content", "normalized", "lstrip", ...}. Errors: FORMAT, UNSUPPORTED, NOMEM. */
TSR_NODISCARD tsr_status tsr__tokenizer_read_added(tsr_tokenizer *t, const json_t *token, double id);

/* What a class knows without being told: the split of its vocab.json (after NFC), and its pad token. */
typedef struct tsr__tokenizer_class {
    const char *name, *split, *pad_token;
} tsr__tokenizer_class;

/* NULL where Tessera does not know the class. */
const tsr__tokenizer_class *tsr__tokenizer_class_find(const char *name);

/* Reads a tokenizer_config.json (NULL: all defaults) once the model is there: further added tokens, pad token, length.
 * Errors: FORMAT (a special token without an id, or with two), UNSUPPORTED (an option that changes ids), NOMEM.
 * Source: transformers, PreTrainedTokenizerBase.from_pretrained. */
TSR_NODISCARD tsr_status tsr__tokenizer_read_config(tsr_tokenizer *t, json_t *config);
TSR_NODISCARD tsr_status tsr__tokenizer_read_max_length(tsr_engine *engine, const json_t *config, int64_t *out);

/* model_max_length of a tokenizer's folder, which need hold no more than its config; INT64_MAX: no limit, or no config.
 * Errors: IO, FORMAT, NOMEM. */
TSR_NODISCARD tsr_status tsr__tokenizer_max_length(tsr_engine *engine, const char *folder, int64_t *out);

/* Refuses what is not UTF-8, by the place in it. what: how the message calls the text. Errors: ARG. */
TSR_NODISCARD tsr_status tsr__tokenizer_check_text(tsr_engine *engine, const char *what, const char *text,
                                                   size_t length);

#endif
