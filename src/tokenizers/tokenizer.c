#include "tokenizers/tokenizer.h"

#include "io/file.h"
#include "io/json.h"

#include <string.h>

static tsr_status load_json(tsr_tokenizer *t, const char *folder) {
    char *path = tsr__path_join(t->engine, folder, "tokenizer.json");
    tsr_status status = path ? tsr__tokenizer_read_json(t, path) : TSR_NOMEM;
    tsr__free(t->engine, path);
    return status;
}

/* Loads folder/name as JSON; NULL where optional and absent. */
static tsr_status load_part(tsr_engine *engine, const char *folder, const char *name, bool optional, json_t **out) {
    char *path = tsr__path_join(engine, folder, name);
    if (!path) return TSR_NOMEM;
    json_t *json = NULL;
    tsr_status status = TSR_OK;
    if (!optional || tsr__path_exists(path)) status = tsr__json_load(engine, path, &json);
    if (json && !json_is_object(json)) {
        json_decref(json);
        status = tsr__fail(engine, TSR_FORMAT, "%s: not an object", path);
    }
    tsr__free(engine, path);
    if (status == TSR_OK) *out = json;
    return status;
}

/* The next line of a text at *at, without its end; false after the last. */
static bool next_line(const char *bytes, size_t n, size_t *at, const char **line, size_t *length) {
    if (*at >= n) return false;
    const char *end = memchr(bytes + *at, '\n', n - *at);
    *line = bytes + *at;
    *length = end ? (size_t)(end - *line) : n - *at;
    *at += *length + 1;
    if (*length > 0 && (*line)[*length - 1] == '\r') --*length;
    return true;
}

static tsr_status read_merge_lines(tsr_tokenizer *t, const char *bytes, size_t n) {
    const char *line = NULL;
    for (size_t at = 0, length = 0; next_line(bytes, n, &at, &line, &length);) {
        bool version = length >= 8 && memcmp(line, "#version", 8) == 0;
        if (length > 0 && !version) TSR__TRY(tsr__bpe_add_merge_line(t->bpe, line, length));
    }
    return TSR_OK;
}

static tsr_status read_vocab_and_merges(tsr_tokenizer *t, const char *folder, const char *merges, size_t n) {
    json_t *vocab = NULL;
    TSR__TRY(load_part(t->engine, folder, "vocab.json", false, &vocab));
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += merges[i] == '\n';
    tsr_status status = tsr__tokenizer_read_vocab(t, vocab, lines, false);
    json_decref(vocab);
    if (status != TSR_OK) return tsr__context(t->engine, status, "%s/vocab.json", folder);
    status = read_merge_lines(t, merges, n);
    return status == TSR_OK ? TSR_OK : tsr__context(t->engine, status, "%s/merges.txt", folder);
}

static tsr_status load_added_tokens(tsr_tokenizer *t, const char *folder) {
    json_t *added = NULL, *id;
    TSR__TRY(load_part(t->engine, folder, "added_tokens.json", true, &added));
    tsr_status status = TSR_OK;
    const char *text;
    json_object_foreach(added, text, id) {
        status = tsr__added_add(&t->added, text, strlen(text), json_is_number(id) ? json_number_value(id) : -1.0);
        if (status != TSR_OK) break;
    }
    json_decref(added);
    return status == TSR_OK ? TSR_OK : tsr__context(t->engine, status, "%s/added_tokens.json", folder);
}

static tsr_status load_vocab(tsr_tokenizer *t, const char *folder) {
    enum { MERGES_BYTES = 256 << 20 };
    const tsr__tokenizer_class *class = tsr__tokenizer_class_find(t->class_name);
    if (!class)
        return tsr__fail(
            t->engine, TSR_UNSUPPORTED,
            "%s: vocab.json and merges.txt of tokenizer_class \"%s\" (tokenizer_config.json): Tessera knows "
            "how Qwen2Tokenizer splits text; convert the tokenizer to a tokenizer.json",
            folder, t->class_name);
    t->nfc = true;
    TSR__TRY(tsr__split_create(t->engine, class->split, strlen(class->split), &t->split));
    char *path = tsr__path_join(t->engine, folder, "merges.txt"), *merges = NULL;
    size_t n = 0;
    tsr_status status = path ? tsr__file_read(t->engine, path, MERGES_BYTES, &merges, &n) : TSR_NOMEM;
    if (status == TSR_OK) status = tsr__file_refuse_impostor(t->engine, path, merges, n);
    if (status == TSR_OK) status = read_vocab_and_merges(t, folder, merges, n);
    tsr__free(t->engine, merges);
    tsr__free(t->engine, path);
    return status == TSR_OK ? load_added_tokens(t, folder) : status;
}

/* The first layout whose files are all there is the one. A layout without a reader is refused by name. */
/* clang-format off */
static const struct layout {
    const char *files[2];
    tsr_status (*load)(tsr_tokenizer *t, const char *folder);
} layouts[] = {
    {{"tokenizer.json", NULL},       load_json},
    {{"vocab.json", "merges.txt"},   load_vocab},
    {{"tekken.json", NULL},          NULL},
    {{"spiece.model", NULL},         NULL},
    {{"tokenizer.model", NULL},      NULL},
};
/* clang-format on */

static tsr_status has_files(tsr_tokenizer *t, const char *folder, const struct layout *layout, bool *has) {
    bool all = true;
    for (size_t i = 0; i < TSR__COUNT(layout->files) && layout->files[i]; i++) {
        char *path = tsr__path_join(t->engine, folder, layout->files[i]);
        if (!path) return TSR_NOMEM;
        all = all && tsr__path_exists(path);
        tsr__free(t->engine, path);
    }
    *has = all;
    return TSR_OK;
}

static tsr_status load_model(tsr_tokenizer *t, const char *folder) {
    for (size_t i = 0; i < TSR__COUNT(layouts); i++) {
        bool has = false;
        TSR__TRY(has_files(t, folder, &layouts[i], &has));
        if (!has) continue;
        if (layouts[i].load) return layouts[i].load(t, folder);
        return tsr__fail(t->engine, TSR_UNSUPPORTED, "%s: holds %s only; Tessera reads tokenizer.json", folder,
                         layouts[i].files[0]);
    }
    return tsr__fail(t->engine, TSR_IO,
                     "%s: no tokenizer there: looked for tokenizer.json, and for vocab.json with merges.txt", folder);
}

/* Counts the vocabulary. An added token may be in the vocabulary as well, with the same id. */
static tsr_status count_vocab(tsr_tokenizer *t, const char *folder) {
    t->vocab_size = (int64_t)tsr__bpe_count(t->bpe);
    for (size_t i = 0; i < t->added.n; i++) {
        const tsr__added *added = &t->added.tokens[i];
        int64_t id = tsr__bpe_find(t->bpe, added->text, added->length);
        t->vocab_size += id < 0;
        if (id >= 0 && id != added->id)
            return tsr__fail(t->engine, TSR_FORMAT, "%s: added token \"%s\" has the id %d, but %d in the vocabulary",
                             folder, added->text, (int)added->id, (int)id);
    }
    return TSR_OK;
}

static const char config_name[] = "tokenizer_config.json";

tsr_status tsr__tokenizer_max_length(tsr_engine *engine, const char *folder, int64_t *out) {
    json_t *config = NULL;
    TSR__TRY(load_part(engine, folder, config_name, true, &config));
    tsr_status status = tsr__tokenizer_read_max_length(engine, config, out);
    json_decref(config);
    return status == TSR_OK ? TSR_OK : tsr__context(engine, status, "%s/%s", folder, config_name);
}

static tsr_status load_folder(tsr_tokenizer *t, const char *folder) {
    json_t *config = NULL;
    TSR__TRY(load_part(t->engine, folder, config_name, true, &config));
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    t->class_name = tsr__strdup(t->engine, name ? name : "");
    tsr_status status = t->class_name ? load_model(t, folder) : TSR_NOMEM;
    if (status == TSR_OK) {
        status = tsr__tokenizer_read_config(t, config);
        if (status != TSR_OK) status = tsr__context(t->engine, status, "%s/%s", folder, config_name);
    }
    json_decref(config);
    return status == TSR_OK ? count_vocab(t, folder) : status;
}

tsr_status tsr_tokenizer_from_pretrained(tsr_engine *engine, const char *folder, tsr_tokenizer **out) {
    tsr_tokenizer *t = tsr__calloc(engine, 1, sizeof *t);
    if (!t) return TSR_NOMEM;
    t->engine = t->added.engine = engine;
    tsr_status status = load_folder(t, folder);
    tsr__memory_trim(); /* the JSON trees of a large vocabulary are tens of megabytes in small pieces */
    if (status != TSR_OK) {
        tsr_tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return TSR_OK;
}

void tsr_tokenizer_destroy(tsr_tokenizer *t) {
    if (!t) return;
    tsr__bpe_destroy(t->bpe);
    tsr__split_destroy(t->split);
    tsr__added_free(&t->added);
    tsr__free(t->engine, t->class_name);
    tsr__free(t->engine, t);
}

/* What encode_piece needs. */
typedef struct encoding {
    tsr_tokenizer *tokenizer;
    tsr__ids ids;
} encoding;

static tsr_status encode_piece(void *user, const char *bytes, size_t n) {
    encoding *e = user;
    return tsr__bpe_encode(e->tokenizer->bpe, bytes, n, &e->ids);
}

/* The text between two added tokens. */
static tsr_status encode_gap(encoding *e, const char *text, size_t n) {
    tsr_tokenizer *t = e->tokenizer;
    if (n == 0) return TSR_OK;
    if (!t->nfc) return tsr__split_each(t->split, text, n, encode_piece, e);
    char *normal = NULL;
    TSR__TRY(tsr__nfc(t->engine, text, n, &normal, &n));
    tsr_status status = tsr__split_each(t->split, normal, n, encode_piece, e);
    tsr__free(t->engine, normal);
    return status;
}

static tsr_status encode_text(encoding *e, const char *text, size_t n) {
    for (size_t from = 0, at = 0; from < n;) {
        const tsr__added *added = tsr__added_next(&e->tokenizer->added, text, n, from, &at);
        TSR__TRY(encode_gap(e, text + from, at - from));
        if (added) TSR__TRY(tsr__ids_add(&e->ids, added->id));
        from = at + (added ? added->length : 0);
    }
    return TSR_OK;
}

tsr_status tsr__tokenizer_check_text(tsr_engine *engine, const char *what, const char *text, size_t length) {
    size_t valid = tsr__utf8_valid(text, length);
    if (valid == length) return TSR_OK;
    return tsr__fail(engine, TSR_ARG, "%s is not UTF-8 at byte %zu (0x%02x); give it in UTF-8", what, valid,
                     (unsigned)(unsigned char)text[valid]);
}

tsr_status tsr_tokenizer_encode(tsr_tokenizer *t, const char *text, size_t length, bool add_special_tokens,
                                int64_t **ids, size_t *n) {
    enum { LONGEST = 1 << 28 }; /* NFC makes it three times as long at most, and positions are int32_t */
    (void)add_special_tokens;   /* no supported kind adds any: see check_post_processor */
    if (length > LONGEST) return tsr__fail(t->engine, TSR_ARG, "a text of %zu bytes is too long to tokenize", length);
    TSR__TRY(tsr__tokenizer_check_text(t->engine, "the text", text, length));
    encoding e = {.tokenizer = t, .ids = {.engine = t->engine}};
    tsr_status status = encode_text(&e, text, length);
    if (status != TSR_OK) {
        tsr__free(t->engine, e.ids.data);
        return status;
    }
    *ids = e.ids.data;
    *n = e.ids.n;
    return TSR_OK;
}

int64_t tsr_tokenizer_pad_id(const tsr_tokenizer *t) { return t->pad_id; }
int64_t tsr_tokenizer_vocab_size(const tsr_tokenizer *t) { return t->vocab_size; }
int64_t tsr_tokenizer_model_max_length(const tsr_tokenizer *t) { return t->model_max_length; }
const char *tsr_tokenizer_class_name(const tsr_tokenizer *t) { return t->class_name; }
