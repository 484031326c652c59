#include "tokenizers/tokenizer.h"

#include "io/json.h"

#include <string.h>

/* A part of tokenizer.json has a "type" that says which it is; null is a type too. */
static const char *type_of(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type) return type;
    return !part || json_is_null(part) ? "null" : "without a type";
}

static bool is_type(const json_t *part, const char *type) { return strcmp(type_of(part), type) == 0; }

static tsr_status unsupported(tsr_tokenizer *t, const char *part, const char *found, const char *known) {
    return tsr__fail(t->engine, TSR_UNSUPPORTED, "%s is %s; Tessera reads %s here", part, found, known);
}

static tsr_status read_normalizer(tsr_tokenizer *t, const json_t *root) {
    const json_t *normalizer = json_object_get(root, "normalizer");
    t->nfc = is_type(normalizer, "NFC");
    if (t->nfc || is_type(normalizer, "null")) return TSR_OK;
    return unsupported(t, "normalizer", type_of(normalizer), "NFC or null");
}

static tsr_status check_byte_level(tsr_tokenizer *t, const json_t *part) {
    const json_t *own_regex = json_object_get(part, "use_regex"), *prefix = json_object_get(part, "add_prefix_space");
    if (json_is_false(own_regex) && json_is_false(prefix)) return TSR_OK; /* both are true where they are absent */
    return unsupported(t, "pre_tokenizer ByteLevel", "with use_regex or add_prefix_space", "neither");
}

static tsr_status read_split(tsr_tokenizer *t, const json_t *part) {
    const json_t *pattern = json_object_get(json_object_get(part, "pattern"), "Regex");
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    if (!json_is_string(pattern)) return unsupported(t, "pre_tokenizer Split", "without a Regex", "a Regex");
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        return unsupported(t, "pre_tokenizer Split behavior", behavior ? behavior : "absent", "Isolated");
    if (json_is_true(json_object_get(part, "invert")))
        return unsupported(t, "pre_tokenizer Split", "inverted", "a plain one");
    return tsr__split_create(t->engine, json_string_value(pattern), json_string_length(pattern), &t->split);
}

static tsr_status read_pre_tokenizer(tsr_tokenizer *t, const json_t *root) {
    const json_t *sequence = json_object_get(root, "pre_tokenizer");
    const json_t *parts = json_object_get(sequence, "pretokenizers");
    const char *known = "a Sequence of Split and ByteLevel";
    if (!is_type(sequence, "Sequence")) return unsupported(t, "pre_tokenizer", type_of(sequence), known);
    const json_t *split = json_array_get(parts, 0), *bytes = json_array_get(parts, 1);
    if (!is_type(split, "Split")) return unsupported(t, "pre_tokenizer's first part", type_of(split), known);
    if (!is_type(bytes, "ByteLevel")) return unsupported(t, "pre_tokenizer's second part", type_of(bytes), known);
    if (json_array_size(parts) != 2) return unsupported(t, "pre_tokenizer", "a longer Sequence", known);
    TSR__TRY(check_byte_level(t, bytes));
    return read_split(t, split);
}

/* ByteLevel moves offsets only, and a template of the sequence alone adds nothing. */
static tsr_status check_post_processor(tsr_tokenizer *t, const json_t *root) {
    const json_t *post = json_object_get(root, "post_processor");
    if (is_type(post, "null") || is_type(post, "ByteLevel")) return TSR_OK;
    const json_t *single = json_object_get(post, "single");
    if (is_type(post, "TemplateProcessing") && json_array_size(single) == 1 &&
        json_object_get(json_array_get(single, 0), "Sequence"))
        return TSR_OK;
    return unsupported(t, "post_processor",
                       is_type(post, "TemplateProcessing") ? "a template with special tokens" : type_of(post),
                       "one that adds no tokens");
}

/* Options of models.BPE that change ids, and are off in byte-level vocabularies. */
static tsr_status check_bpe_options(tsr_tokenizer *t, const json_t *model) {
    static const char *const options[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                          "byte_fallback"};
    for (size_t i = 0; i < TSR__COUNT(options); i++) {
        const json_t *value = json_object_get(model, options[i]);
        bool off = !value || json_is_null(value) || json_is_false(value) ||
                   (json_is_string(value) && json_string_length(value) == 0) ||
                   (json_is_number(value) && json_number_value(value) == 0.0);
        if (!off) return unsupported(t, "model BPE", options[i], "a model without this option");
    }
    return TSR_OK;
}

static tsr_status read_merge(tsr_tokenizer *t, const json_t *merge) {
    if (json_is_string(merge))
        return tsr__bpe_add_merge_line(t->bpe, json_string_value(merge), json_string_length(merge));
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right))
        return tsr__fail(t->engine, TSR_FORMAT, "a merge is neither [\"a\", \"b\"] nor \"a b\"");
    return tsr__bpe_add_merge(t->bpe, json_string_value(left), json_string_length(left), json_string_value(right),
                              json_string_length(right));
}

static tsr_status read_bpe(tsr_tokenizer *t, const json_t *model) {
    const json_t *merges = json_object_get(model, "merges");
    TSR__TRY(check_bpe_options(t, model));
    if (!json_is_array(merges)) return tsr__fail(t->engine, TSR_FORMAT, "model.merges is no list");
    bool ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    TSR__TRY(tsr__tokenizer_read_vocab(t, json_object_get(model, "vocab"), json_array_size(merges), ignore_merges));
    for (size_t i = 0; i < json_array_size(merges); i++) TSR__TRY(read_merge(t, json_array_get(merges, i)));
    return TSR_OK;
}

static const struct model_kind {
    const char *type;
    tsr_status (*read)(tsr_tokenizer *t, const json_t *model);
} model_kinds[] = {{"BPE", read_bpe}};

static tsr_status read_model(tsr_tokenizer *t, const json_t *root) {
    const json_t *model = json_object_get(root, "model");
    for (size_t i = 0; i < TSR__COUNT(model_kinds); i++)
        if (is_type(model, model_kinds[i].type)) return model_kinds[i].read(t, model);
    return unsupported(t, "model", type_of(model), "BPE");
}

tsr_status tsr__tokenizer_read_vocab(tsr_tokenizer *t, const json_t *vocab, size_t merges, bool ignore_merges) {
    if (!json_is_object(vocab)) return tsr__fail(t->engine, TSR_FORMAT, "the vocabulary is no object of ids");
    TSR__TRY(tsr__bpe_create(t->engine, json_object_size(vocab), merges, ignore_merges, &t->bpe));
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id) {
        double value = json_is_number(id) ? json_number_value(id) : -1.0;
        TSR__TRY(tsr__bpe_add_token(t->bpe, text, strlen(text), value));
    }
    return tsr__bpe_end_tokens(t->bpe);
}

tsr_status tsr__tokenizer_read_added(tsr_tokenizer *t, const json_t *token, double id) {
    static const char *const flags[] = {"normalized", "single_word", "lstrip", "rstrip"};
    const json_t *content = json_object_get(token, "content");
    if (!json_is_string(content)) return tsr__fail(t->engine, TSR_FORMAT, "an added token has no content");
    for (size_t i = 0; i < TSR__COUNT(flags); i++)
        if (json_is_true(json_object_get(token, flags[i])))
            return tsr__fail(t->engine, TSR_UNSUPPORTED,
                             "added token \"%s\" is %s; Tessera finds added tokens as they are written",
                             json_string_value(content), flags[i]);
    return tsr__added_add(&t->added, json_string_value(content), json_string_length(content), id);
}

static tsr_status read_added_tokens(tsr_tokenizer *t, const json_t *root) {
    const json_t *tokens = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i), *id = json_object_get(token, "id");
        TSR__TRY(tsr__tokenizer_read_added(t, token, json_is_number(id) ? json_number_value(id) : -1.0));
    }
    return TSR_OK;
}

tsr_status tsr__tokenizer_read_json(tsr_tokenizer *t, const char *path) {
    /* The parts that tell the kind of tokenizer come first: they decide which message a foreign one gets. */
    static tsr_status (*const steps[])(tsr_tokenizer *, const json_t *) = {
        read_normalizer, read_pre_tokenizer, check_post_processor, read_model, read_added_tokens};
    json_t *root = NULL;
    TSR__TRY(tsr__json_load(t->engine, path, &root));
    tsr_status status = TSR_OK;
    if (!json_is_object(root)) status = tsr__fail(t->engine, TSR_FORMAT, "not an object");
    for (size_t i = 0; i < TSR__COUNT(steps) && status == TSR_OK; i++) status = steps[i](t, root);
    json_decref(root);
    return status == TSR_OK ? TSR_OK : tsr__context(t->engine, status, "%s", path);
}
