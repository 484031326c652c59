#include "tokenizers/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QWEN2_SPLIT                                                                                                    \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"   \
    "|\\s+(?!\\S)|\\s+"

static const tsr__tokenizer_class classes[] = {
    {"Qwen2Tokenizer", QWEN2_SPLIT, "<|endoftext|>"},
    {"Qwen2TokenizerFast", QWEN2_SPLIT, "<|endoftext|>"},
};

const tsr__tokenizer_class *tsr__tokenizer_class_find(const char *name) {
    for (size_t i = 0; i < TSR__COUNT(classes); i++)
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    return NULL;
}

/* added_tokens_decoder: {"151643": {"content": ..., flags}, ...} */
static tsr_status read_decoder(tsr_tokenizer *t, json_t *config) {
    const char *key;
    json_t *token;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, token) {
        bool digits = *key && key[strspn(key, "0123456789")] == '\0';
        TSR__TRY(tsr__tokenizer_read_added(t, token, digits ? strtod(key, NULL) : -1.0));
    }
    return TSR_OK;
}

static int64_t find_id(const tsr_tokenizer *t, const char *text, size_t length) {
    const tsr__added *added = tsr__added_find(&t->added, text, length);
    return added ? added->id : tsr__bpe_find(t->bpe, text, length);
}

/* The text of "</s>" or of {"content": "</s>"}; NULL for null and what is no token. */
static const json_t *token_text(const json_t *token) {
    const json_t *text = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_is_string(text) ? text : NULL;
}

/* transformers makes each special token of the config an added one. One without an id would get a fresh id, which no
 * model has been trained with. */
static tsr_status read_special_token(tsr_tokenizer *t, const json_t *token) {
    const json_t *text = token_text(token);
    if (!text || json_string_length(text) == 0) return TSR_OK;
    int64_t id = find_id(t, json_string_value(text), json_string_length(text));
    if (id < 0)
        return tsr__fail(t->engine, TSR_FORMAT, "special token \"%s\" has no id in the vocabulary or the added tokens",
                         json_string_value(text));
    return tsr__added_add(&t->added, json_string_value(text), json_string_length(text), (double)id);
}

static tsr_status read_special_tokens(tsr_tokenizer *t, json_t *config) {
    static const char *const single[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                         "sep_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < TSR__COUNT(single); i++) TSR__TRY(read_special_token(t, json_object_get(config, single[i])));
    for (size_t i = 0; i < TSR__COUNT(lists); i++) {
        json_t *list = json_object_get(config, lists[i]), *token; /* ["<a>"] or {"a_token": "<a>"} */
        const char *key;
        size_t index;
        json_array_foreach(list, index, token) TSR__TRY(read_special_token(t, token));
        json_object_foreach(list, key, token) TSR__TRY(read_special_token(t, token));
    }
    return tsr__added_sort(&t->added);
}

/* Options that would change the ids, or the side on which a pipeline pads. */
static tsr_status check_options(tsr_tokenizer *t, const json_t *config) {
    static const char *const options[] = {"add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case",
                                          "split_special_tokens"};
    for (size_t i = 0; i < TSR__COUNT(options); i++)
        if (json_is_true(json_object_get(config, options[i])))
            return tsr__fail(t->engine, TSR_UNSUPPORTED, "\"%s\" is true; Tessera reads tokenizers without it",
                             options[i]);
    const char *side = json_string_value(json_object_get(config, "padding_side"));
    if (side && strcmp(side, "right") != 0)
        return tsr__fail(t->engine, TSR_UNSUPPORTED, "padding_side is \"%s\"; Tessera pads on the right", side);
    return TSR_OK;
}

/* transformers writes int(1e30) for "no limit". */
tsr_status tsr__tokenizer_read_max_length(tsr_engine *engine, const json_t *config, int64_t *out) {
    const json_t *json = json_object_get(config, "model_max_length");
    *out = INT64_MAX;
    if (!json || json_is_null(json)) return TSR_OK;
    double value = json_is_number(json) ? json_number_value(json) : 0.0;
    if (!(value >= 1.0) || value != floor(value))
        return tsr__fail(engine, TSR_FORMAT, "model_max_length is no positive integer");
    if (value < 0x1p63) *out = (int64_t)value;
    return TSR_OK;
}

/* pad_token: null is none; where it is not mentioned, the class has one. A config that names no class (or is not there)
 * leaves that to model_index.json, where pipelines ask for a Qwen2Tokenizer. */
static void read_pad(tsr_tokenizer *t, const json_t *config) {
    const json_t *pad = json_object_get(config, "pad_token"), *text = token_text(pad);
    const tsr__tokenizer_class *class = *t->class_name ? tsr__tokenizer_class_find(t->class_name) : classes;
    t->pad_id = -1;
    if (text)
        t->pad_id = find_id(t, json_string_value(text), json_string_length(text));
    else if (!pad && class)
        t->pad_id = find_id(t, class->pad_token, strlen(class->pad_token));
}

tsr_status tsr__tokenizer_read_config(tsr_tokenizer *t, json_t *config) {
    TSR__TRY(check_options(t, config));
    TSR__TRY(tsr__tokenizer_read_max_length(t->engine, config, &t->model_max_length));
    TSR__TRY(read_decoder(t, config));
    TSR__TRY(tsr__added_sort(&t->added));
    TSR__TRY(read_special_tokens(t, config));
    read_pad(t, config);
    return TSR_OK;
}
