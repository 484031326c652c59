/* Tokenizers of the Hugging Face folder formats. Templates belong to the pipelines, not to a tokenizer. */
#ifndef TESSERA_TOKENIZER_H
#define TESSERA_TOKENIZER_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_tokenizer tsr_tokenizer;

/* Opens a tokenizer folder: tokenizer.json, or vocab.json + merges.txt (+ added_tokens.json, tokenizer_config.json).
 * Local. Errors: IO, FORMAT (broken or hostile JSON, Git LFS pointer), UNSUPPORTED (a tokenizer of another kind: names
 * it), NOMEM. Owner: the caller, who ends it with tsr_tokenizer_destroy. */
TSR_API TSR_NODISCARD tsr_status tsr_tokenizer_from_pretrained(tsr_engine *engine, const char *folder,
                                                               tsr_tokenizer **out);
TSR_API void tsr_tokenizer_destroy(tsr_tokenizer *tokenizer);

/* Token ids of `length` bytes of UTF-8 text (NUL allowed). Text of an added token inside it becomes that token.
 * add_special_tokens: also what the tokenizer's own post-processor adds. *ids [n] is owned by the caller (tsr_free).
 * Local. Errors: ARG (not UTF-8), NOMEM, INTERNAL. Source: transformers, PreTrainedTokenizer.__call__. */
TSR_API TSR_NODISCARD tsr_status tsr_tokenizer_encode(tsr_tokenizer *tokenizer, const char *text, size_t length,
                                                      bool add_special_tokens, int64_t **ids, size_t *n);

TSR_API int64_t tsr_tokenizer_pad_id(const tsr_tokenizer *tokenizer);           /* -1: none */
TSR_API int64_t tsr_tokenizer_vocab_size(const tsr_tokenizer *tokenizer);       /* added tokens included */
TSR_API int64_t tsr_tokenizer_model_max_length(const tsr_tokenizer *tokenizer); /* INT64_MAX: no limit */
TSR_API const char *tsr_tokenizer_class_name(const tsr_tokenizer *tokenizer);   /* "Qwen2Tokenizer" */

#ifdef __cplusplus
}
#endif
#endif
