/* Byte-level BPE tokenizers: ids against transformers (../shared/golden), and a small tokenizer made here. */
#include "support.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tokenizer.h>
#include <utf8proc.h>

#include "base/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/pretokenize.h"

static size_t baseline; /* bytes that the engine itself holds */

/* ---- a small tokenizer: byte b has the id b, then come these merges, then these added tokens ---- */

static const char *const merges[][2] = {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"Ġ", "hello"},
                                        {"Ġ", "Ġ"}, {"a", "a"}, {"aa", "aa"}, {"b", "a"}};
static const char *const added[] = {"<|endoftext|>", "<|im", "<|im_start|>", "<think>"};
enum { N_MERGES = TSR__COUNT(merges), FIRST_ADDED = 256 + N_MERGES };

static const char *const skeleton =
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": "
    "\"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r"
    "\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": "
    "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}, \"post_processor\": {\"type\": "
    "\"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"end_of_word_suffix\": \"\", \"merges\": []}}";
static const char *const config_text =
    "{\"tokenizer_class\": \"Qwen2Tokenizer\", \"model_max_length\": "
    "1000000000000000019884624838656, \"pad_token\": {\"content\": \"<|endoftext|>\"}}";

/* The character that stands for a byte. */
static const char *symbol_of(unsigned byte) {
    static char text[8];
    int32_t code = (int32_t)byte, hidden = 0x100;
    for (unsigned b = 0; b <= byte; b++) {
        bool shown = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && !shown) code = hidden;
        hidden += !shown;
    }
    text[utf8proc_encode_char(code, (utf8proc_uint8_t *)text)] = '\0';
    return text;
}

static json_t *tiny_vocab(void) {
    json_t *vocab = json_object();
    for (unsigned byte = 0; byte < 256; byte++) json_object_set_new(vocab, symbol_of(byte), json_integer(byte));
    for (int i = 0; i < N_MERGES; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s%s", merges[i][0], merges[i][1]);
        json_object_set_new(vocab, text, json_integer(256 + i));
    }
    return vocab;
}

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (!json) fail_msg("%s: %s", error.text, text);
    return json;
}

static json_t *tiny_json(void) {
    json_t *root = parse(skeleton), *model = json_object_get(root, "model");
    json_object_set_new(model, "vocab", tiny_vocab());
    for (int i = 0; i < N_MERGES; i++)
        json_array_append_new(json_object_get(model, "merges"), json_pack("[ss]", merges[i][0], merges[i][1]));
    for (int i = 0; i < (int)TSR__COUNT(added); i++)
        json_array_append_new(json_object_get(root, "added_tokens"),
                              json_pack("{sisssb}", "id", FIRST_ADDED + i, "content", added[i], "lstrip", 0));
    return root;
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_write_file(path, text, strlen(text));
}

static void write_json(const char *folder, const char *name, json_t *json) {
    char *text = json_dumps(json, 0);
    write_text(folder, name, text);
    free(text);
    json_decref(json);
}

static const char *tiny_folder(void) {
    const char *folder = test_folder();
    write_json(folder, "tokenizer.json", tiny_json());
    write_text(folder, "tokenizer_config.json", config_text);
    return folder;
}

static const char *tiny_other_layout(void) {
    const char *folder = test_folder();
    char text[1024] = "#version: 0.2\n";
    for (int i = 0; i < N_MERGES; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s\r\n", merges[i][0], merges[i][1]);
    write_json(folder, "vocab.json", tiny_vocab());
    write_text(folder, "merges.txt", text);
    write_json(folder, "added_tokens.json", json_pack("{sisi}", added[0], FIRST_ADDED, added[1], FIRST_ADDED + 1));
    json_t *config = parse(config_text), *decoder = json_object();
    for (int i = 0; i < (int)TSR__COUNT(added); i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", FIRST_ADDED + i);
        json_object_set_new(decoder, id, json_pack("{sssb}", "content", added[i], "normalized", 0));
    }
    json_object_set_new(config, "added_tokens_decoder", decoder);
    write_json(folder, "tokenizer_config.json", config);
    return folder;
}

static tsr_tokenizer *open_tokenizer(tsr_engine *engine, const char *folder) {
    tsr_tokenizer *t = NULL;
    assert_ok(engine, tsr_tokenizer_from_pretrained(engine, folder, &t));
    return t;
}

static void expect_ids(tsr_engine *engine, tsr_tokenizer *t, const char *text, size_t length, const int64_t *expected,
                       size_t n_expected) {
    int64_t *ids = NULL;
    size_t n = 0;
    assert_ok(engine, tsr_tokenizer_encode(t, text, length, true, &ids, &n));
    bool same = n == n_expected;
    for (size_t i = 0; same && i < n; i++) same = ids[i] == expected[i];
    if (!same) {
        for (size_t i = 0; i < n; i++) print_error("%lld ", (long long)ids[i]);
        fail_msg("are the ids of \"%s\"; %zu were expected", text, n_expected);
    }
    tsr_free(engine, ids);
}
#define EXPECT_IDS(engine, t, text, ...)                                                                               \
    expect_ids(engine, t, text, sizeof(text) - 1, (const int64_t[]){__VA_ARGS__},                                      \
               TSR__COUNT(((const int64_t[]){__VA_ARGS__})))

static void test_tiny(void **state) {
    tsr_engine *engine = *state;
    for (int layout = 0; layout < 2; layout++) {
        tsr_tokenizer *t = open_tokenizer(engine, layout ? tiny_other_layout() : tiny_folder());
        expect_ids(engine, t, "", 0, NULL, 0);
        EXPECT_IDS(engine, t, "hello hello", 259, 260);
        EXPECT_IDS(engine, t, "aaaaa", 263, 'a');     /* leftmost first */
        EXPECT_IDS(engine, t, "baab", 'b', 262, 'b'); /* lowest rank before leftmost */
        EXPECT_IDS(engine, t, "a\0b", 'a', 0, 'b');
        EXPECT_IDS(engine, t, "<|im_start|>hello", 267, 259); /* longest */
        EXPECT_IDS(engine, t, "<|im_sta", 266, '_', 's', 't', 'a');
        EXPECT_IDS(engine, t, "<<think>", '<', 268);
        EXPECT_IDS(engine, t, "e\xcc\x81", 0xc3, 0xa9);    /* NFC */
        EXPECT_IDS(engine, t, "a   hello", 'a', 261, 260); /* \s+(?!\S) leaves one blank */
        EXPECT_IDS(engine, t, "it's'LL", 'i', 't', '\'', 's', '\'', 'L', 'L');
        assert_int_equal(tsr_tokenizer_pad_id(t), FIRST_ADDED);
        assert_int_equal(tsr_tokenizer_vocab_size(t), 256 + N_MERGES + (int)TSR__COUNT(added));
        assert_true(tsr_tokenizer_model_max_length(t) == INT64_MAX);
        assert_string_equal(tsr_tokenizer_class_name(t), "Qwen2Tokenizer");
        tsr_tokenizer_destroy(t);
    }
    assert_int_equal(tsr_engine_memory_current(engine), baseline);
}

/* Pieces in order, separated by |. */
static tsr_status join_piece(void *user, const char *bytes, size_t n) {
    char *text = user;
    snprintf(text + strlen(text), 64 - strlen(text), "%.*s|", (int)n, bytes);
    return TSR_OK;
}

static void expect_split(tsr_engine *engine, const char *pattern, const char *text, const char *expected) {
    tsr__split *split = NULL;
    char pieces[64] = "";
    assert_ok(engine, tsr__split_create(engine, pattern, strlen(pattern), &split));
    assert_ok(engine, tsr__split_each(split, text, strlen(text), join_piece, pieces));
    assert_string_equal(pieces, expected);
    tsr__split_destroy(split);
}

/* \s is White_Space of Unicode, neither less nor (U+180E, U+200B) more. */
static void test_split(void **state) {
    static const int32_t blanks[] = {9,      10,     11,     12,     13,     32,     0x85,   0xa0,
                                     0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
                                     -1,     0x180e, 0x200b, 0x1c,   0xfeff, 0x2060};
    bool blank = true;
    for (size_t i = 0; i < TSR__COUNT(blanks); i++) {
        char text[8] = "", expected[16];
        if (blanks[i] < 0) {
            blank = false;
            continue;
        }
        text[utf8proc_encode_char(blanks[i], (utf8proc_uint8_t *)text)] = '\0';
        snprintf(expected, sizeof expected, "%s|", text);
        expect_split(*state, blank ? "\\s" : "\\S", text, expected);
        snprintf(text + strlen(text), 3, "ab");
        snprintf(expected, sizeof expected, blank ? "%.*s|ab|" : "%.*sab|", (int)strlen(text) - 2, text);
        expect_split(*state, blank ? "\\s+" : "[^\\s]+", text, expected);
    }
    expect_split(*state, "[0-9]{1,3}", "ab12345cd", "ab|123|45|cd|"); /* gaps are kept */
    expect_split(*state, "(?i:'s)",
                 "a'\xc5\xbf"
                 "b",
                 "a|'\xc5\xbf|b|");
}

static void test_steps_are_limited(void **state) {
    const char *pattern = "(?:a+)+(?=[bc])";
    char text[100];
    memset(text, 'a', sizeof text);
    tsr__split *split = NULL;
    char pieces[64] = "";
    assert_ok(*state, tsr__split_create(*state, pattern, strlen(pattern), &split));
    assert_refused(*state, tsr__split_each(split, text, sizeof text, join_piece, pieces), TSR_INTERNAL, "limit");
    tsr__split_destroy(split);
}

static void test_bad_text(void **state) {
    static const char *const bad[] = {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xc0\x80", "ab\xf4\x90\x80\x80"};
    tsr_tokenizer *t = open_tokenizer(*state, tiny_folder());
    int64_t *ids = NULL;
    size_t n = 7;
    for (size_t i = 0; i < TSR__COUNT(bad); i++)
        assert_refused(*state, tsr_tokenizer_encode(t, bad[i], strlen(bad[i]), true, &ids, &n), TSR_ARG, "byte 2");
    assert_true(ids == NULL && n == 7);
    tsr_tokenizer_destroy(t);
}

/* ---- heap against the definition: merge the leftmost pair of lowest rank until there is none ---- */

enum { LETTERS = 4, RANDOM_TOKENS = 60 };
typedef struct random_model {
    char text[RANDOM_TOKENS][16];
    int n, left[4 * RANDOM_TOKENS], right[4 * RANDOM_TOKENS], n_merges;
} random_model;

static int find_token(const random_model *m, const char *text) {
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->text[i], text) == 0) return i;
    return -1;
}

/* Ranks are in no order that makes sense, and a pair may come twice: both occur in tekken files. */
static void make_random_model(random_model *m, unsigned *seed) {
    m->n = LETTERS;
    m->n_merges = 0;
    for (int i = 0; i < LETTERS; i++) snprintf(m->text[i], sizeof m->text[i], "%c", 'a' + i);
    while (m->n < RANDOM_TOKENS) {
        int a = rand_r(seed) % m->n, b = rand_r(seed) % m->n;
        char text[32];
        snprintf(text, sizeof text, "%s%s", m->text[a], m->text[b]);
        if (strlen(text) > 8 || find_token(m, text) >= 0) continue;
        snprintf(m->text[m->n++], sizeof m->text[0], "%.15s", text);
    }
    while (m->n_merges < 4 * RANDOM_TOKENS) {
        int token = rand_r(seed) % m->n, length = (int)strlen(m->text[token]), cut = 1 + rand_r(seed) % 8;
        char left[16] = "";
        if (cut >= length) continue;
        memcpy(left, m->text[token], (size_t)cut);
        int a = find_token(m, left), b = find_token(m, m->text[token] + cut);
        if (a < 0 || b < 0) continue;
        m->left[m->n_merges] = a;
        m->right[m->n_merges++] = b;
    }
}

static size_t naive_encode(const random_model *m, const char *word, int64_t *ids) {
    size_t n = strlen(word);
    for (size_t i = 0; i < n; i++) ids[i] = word[i] - 'a';
    for (;;) {
        int best = -1;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (int r = m->n_merges - 1; r >= 0; r--) {
                if (m->left[r] != ids[i] || m->right[r] != ids[i + 1]) continue;
                if (best < 0 || r < best) best = r, where = i;
                break; /* the last line of a pair counts */
            }
        if (best < 0) return n;
        char text[32];
        snprintf(text, sizeof text, "%s%s", m->text[m->left[best]], m->text[m->right[best]]);
        ids[where] = find_token(m, text);
        memmove(ids + where + 1, ids + where + 2, (--n - where - 1) * sizeof *ids);
    }
}

static tsr__bpe *make_bpe(tsr_engine *engine, const random_model *m) {
    tsr__bpe *bpe = NULL;
    assert_ok(engine, tsr__bpe_create(engine, RANDOM_TOKENS + 256, (size_t)m->n_merges, false, &bpe));
    for (int i = 0; i < m->n; i++) assert_ok(engine, tsr__bpe_add_token(bpe, m->text[i], strlen(m->text[i]), i));
    for (unsigned byte = 0; byte < 256; byte++)
        if (byte < 'a' || byte >= 'a' + LETTERS)
            assert_ok(engine, tsr__bpe_add_token(bpe, symbol_of(byte), strlen(symbol_of(byte)), 1000 + byte));
    assert_ok(engine, tsr__bpe_end_tokens(bpe));
    for (int i = 0; i < m->n_merges; i++) {
        const char *left = m->text[m->left[i]], *right = m->text[m->right[i]];
        assert_ok(engine, tsr__bpe_add_merge(bpe, left, strlen(left), right, strlen(right)));
    }
    return bpe;
}

static void test_merges_by_rank(void **state) {
    tsr_engine *engine = *state;
    unsigned seed = 1;
    for (int round = 0; round < 20; round++) {
        random_model m;
        make_random_model(&m, &seed);
        tsr__bpe *bpe = make_bpe(engine, &m);
        for (int i = 0; i < 200; i++) {
            char word[48] = "";
            int64_t expected[48];
            for (int k = 1 + rand_r(&seed) % 40; k > 0; k--) word[k - 1] = (char)('a' + rand_r(&seed) % LETTERS);
            size_t n = naive_encode(&m, word, expected);
            tsr__ids ids = {.engine = engine};
            assert_ok(engine, tsr__bpe_encode(bpe, word, strlen(word), &ids));
            assert_int_equal(ids.n, n);
            assert_memory_equal(ids.data, expected, n * sizeof *expected);
            tsr__free(engine, ids.data);
        }
        tsr__bpe_destroy(bpe);
    }
}

/* ---- the tokens of a text, put together, are the NFC of the text ---- */

static size_t random_text(unsigned *seed, char *text) {
    static const int32_t limits[] = {0x80, 0x250, 0x370, 0x3000, 0xd800, 0x110000};
    size_t length = 0;
    for (int k = rand_r(seed) % 60; k > 0; k--) {
        int32_t code = rand_r(seed) % limits[rand_r(seed) % 6];
        if (code >= 0xd800 && code < 0xe000) code = ' ';
        if (rand_r(seed) % 4 == 0) code = 0x300 + rand_r(seed) % 0x70;
        length += (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)text + length);
    }
    return length;
}

static void decode(const int64_t *ids, size_t n, tsr__text *out) {
    for (size_t i = 0; i < n; i++) {
        char byte = (char)ids[i];
        if (ids[i] >= 256) {
            const char *const *pair = merges[ids[i] - 256];
            for (int side = 0; side < 2; side++) {
                bool blank = strcmp(pair[side], "Ġ") == 0;
                tsr__text_add(out, blank ? " " : pair[side], blank ? 1 : strlen(pair[side]));
            }
        } else {
            tsr__text_add(out, &byte, 1);
        }
    }
}

static void test_round_trip(void **state) {
    tsr_engine *engine = *state;
    tsr_tokenizer *t = open_tokenizer(engine, tiny_folder());
    unsigned seed = 5;
    for (int i = 0; i < 5000; i++) {
        char text[512];
        size_t length = random_text(&seed, text), n = 0;
        int64_t *ids = NULL;
        utf8proc_uint8_t *nfc = NULL;
        utf8proc_ssize_t n_nfc = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &nfc,
                                              UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        tsr__text decoded = {.engine = engine};
        assert_ok(engine, tsr_tokenizer_encode(t, text, length, true, &ids, &n));
        decode(ids, n, &decoded);
        assert_int_equal(decoded.length, n_nfc);
        if (n_nfc > 0) assert_memory_equal(decoded.data, nfc, (size_t)n_nfc);
        tsr__text_free(&decoded);
        tsr_free(engine, ids);
        free(nfc);
    }
    tsr_tokenizer_destroy(t);
}

static void test_long_texts(void **state) {
    static const char *const units[] = {"a", " ", "ab", " \n", "<", "<|im_start|", "\xcc\x81\xcc\xa3", "\xe4\xb8\x80"};
    tsr_engine *engine = *state;
    tsr_tokenizer *t = open_tokenizer(engine, tiny_folder());
    enum { BYTES = 200000 };
    for (size_t u = 0; u < TSR__COUNT(units); u++) {
        char *text = malloc(BYTES + 16);
        size_t length = 0, unit = strlen(units[u]), n = 0;
        for (; length < BYTES; length += unit) memcpy(text + length, units[u], unit);
        int64_t *ids = NULL;
        double start = tsr__seconds();
        assert_ok(engine, tsr_tokenizer_encode(t, text, length, true, &ids, &n));
        double seconds = tsr__seconds() - start;
        if (seconds > 5.0) fail_msg("%zu bytes of \"%s\" took %.1f s", length, units[u], seconds);
        assert_true(n > 0);
        tsr_free(engine, ids);
        free(text);
    }
    tsr_tokenizer_destroy(t);
}

/* ---- refusals ---- */

/* Replaces what a dotted path names by a JSON text. */
static void replace(json_t *root, const char *path, const char *value) {
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    json_t *at = root;
    for (char *dot; (dot = strchr(rest, '.')); rest = dot + 1) {
        *dot = '\0';
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(rest)) : json_object_get(at, rest);
        assert_non_null(at);
    }
    assert_int_equal(json_object_set_new(at, rest, parse(value)), 0);
}

#define PARTS "pre_tokenizer.pretokenizers."
static const struct refusal {
    const char *path, *value;
    tsr_status status;
    const char *words;
} json_refusals[] = {
    {"normalizer", "{\"type\": \"Lowercase\"}", TSR_UNSUPPORTED, "Lowercase"},
    {"pre_tokenizer", "{\"type\": \"Whitespace\"}", TSR_UNSUPPORTED, "Whitespace"},
    {"pre_tokenizer", "null", TSR_UNSUPPORTED, "null"},
    {PARTS "0.behavior", "\"Removed\"", TSR_UNSUPPORTED, "Removed"},
    {PARTS "0.invert", "true", TSR_UNSUPPORTED, "invert"},
    {PARTS "0.pattern", "{\"String\": \" \"}", TSR_UNSUPPORTED, "Regex"},
    {PARTS "0.pattern", "{\"Regex\": \"a*\"}", TSR_UNSUPPORTED, "empty"},
    {PARTS "0.pattern", "{\"Regex\": \"a|\\\\w+\"}", TSR_UNSUPPORTED, "character 2"},
    {PARTS "0.pattern", "{\"Regex\": \"[a-z&&[^b]]\"}", TSR_UNSUPPORTED, "character 4"},
    {PARTS "0.pattern", "{\"Regex\": \"\\\\p{Han}+\"}", TSR_UNSUPPORTED, "character 0"},
    {PARTS "0.pattern", "{\"Regex\": \"a$\"}", TSR_UNSUPPORTED, "character 1"},
    {PARTS "0.pattern", "{\"Regex\": \"(?:a\"}", TSR_FORMAT, "regular expression"},
    {PARTS "1.use_regex", "true", TSR_UNSUPPORTED, "use_regex"},
    {PARTS "1.type", "\"Metaspace\"", TSR_UNSUPPORTED, "Metaspace"},
    {"post_processor", "{\"type\": \"RobertaProcessing\"}", TSR_UNSUPPORTED, "RobertaProcessing"},
    {"model.type", "\"Unigram\"", TSR_UNSUPPORTED, "Unigram"},
    {"model.end_of_word_suffix", "\"</w>\"", TSR_UNSUPPORTED, "end_of_word_suffix"},
    {"model.merges", "[[\"a\", \"zz\"]]", TSR_FORMAT, "\"zz\""},
    {"model.merges", "[\"a b\"]", TSR_FORMAT, "\"b\""},
    {"model.merges", "[\"ab\"]", TSR_FORMAT, "space"},
    {"model.merges", "[[\"a\"]]", TSR_FORMAT, "merge"},
    {"model.merges", "null", TSR_FORMAT, "merges"},
    {"model.vocab", "{}", TSR_FORMAT, "byte 0x00"},
    {"model.vocab", "[]", TSR_FORMAT, "vocabulary"},
    {"model.vocab.a", "1.5", TSR_FORMAT, "1.5"},
    {"model.vocab.a", "2147483648", TSR_FORMAT, "2^31"},
    {"model.vocab.a", "\"x\"", TSR_FORMAT, "id"},
    {"model.vocab.a", "98", TSR_FORMAT, "id 98"},
    {"added_tokens.0.lstrip", "true", TSR_UNSUPPORTED, "lstrip"},
    {"added_tokens.0.content", "\"\"", TSR_FORMAT, "text"},
    {"added_tokens.0.content", "\"<|im\"", TSR_FORMAT, "two ids"},
    {"added_tokens.0.content", "\"a\"", TSR_FORMAT, "no id"}, /* pad_token is gone */
    {"added_tokens.1.content", "\"a\"", TSR_FORMAT, "in the vocabulary"},
    {"added_tokens.0.id", "-1", TSR_FORMAT, "-1"},
};

static const struct refusal config_refusals[] = {
    {"padding_side", "\"left\"", TSR_UNSUPPORTED, "left"},
    {"add_bos_token", "true", TSR_UNSUPPORTED, "add_bos_token"},
    {"model_max_length", "0", TSR_FORMAT, "model_max_length"},
    {"eos_token", "\"</s>\"", TSR_FORMAT, "</s>"},
    {"added_tokens_decoder", "{\"x1\": {\"content\": \"<a>\"}}", TSR_FORMAT, "<a>"},
};

static void refuse(tsr_engine *engine, const char *folder, tsr_status status, const char *words) {
    tsr_tokenizer *t = NULL;
    assert_refused(engine, tsr_tokenizer_from_pretrained(engine, folder, &t), status, words);
    assert_null(t);
    assert_int_equal(tsr_engine_memory_current(engine), baseline);
    if (!strstr(tsr_engine_message(engine), folder)) fail_msg("no path: %s", tsr_engine_message(engine));
}

static void test_refusals(void **state) {
    for (size_t i = 0; i < TSR__COUNT(json_refusals); i++) {
        const struct refusal *r = &json_refusals[i];
        const char *folder = tiny_folder();
        json_t *root = tiny_json();
        replace(root, r->path, r->value);
        write_json(folder, "tokenizer.json", root);
        refuse(*state, folder, r->status, r->words);
    }
    for (size_t i = 0; i < TSR__COUNT(config_refusals); i++) {
        const struct refusal *r = &config_refusals[i];
        const char *folder = tiny_folder();
        json_t *root = parse(config_text);
        replace(root, r->path, r->value);
        write_json(folder, "tokenizer_config.json", root);
        refuse(*state, folder, r->status, r->words);
    }
}

static void test_broken_files(void **state) {
    const char *lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 11422654\n";
    const char *folder = test_folder();
    refuse(*state, folder, TSR_IO, "vocab.json with merges.txt");
    write_text(folder, "tekken.json", "{}");
    refuse(*state, folder, TSR_UNSUPPORTED, "tekken.json");
    write_text(folder, "tokenizer.json", lfs);
    refuse(*state, folder, TSR_FORMAT, "LFS");
    write_text(folder, "tokenizer.json", "[1, 2]");
    refuse(*state, folder, TSR_FORMAT, "object");
    write_text(folder, "tokenizer.json", "{\"model\": 1, \"model\": 2}");
    refuse(*state, folder, TSR_FORMAT, "duplicate");
    char deep[20001];
    memset(deep, '[', 20000);
    deep[20000] = '\0';
    write_text(folder, "tokenizer.json", deep);
    refuse(*state, folder, TSR_FORMAT, "tokenizer.json");
    folder = tiny_other_layout();
    write_text(folder, "merges.txt", lfs);
    refuse(*state, folder, TSR_FORMAT, "LFS");
    write_text(folder, "merges.txt", "h e\nl zz\n");
    refuse(*state, folder, TSR_FORMAT, "\"zz\"");
    write_text(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
    refuse(*state, folder, TSR_UNSUPPORTED, "GPT2Tokenizer");
}

static void test_ignore_merges(void **state) {
    for (int ignore = 0; ignore < 2; ignore++) {
        const char *folder = tiny_folder();
        json_t *root = tiny_json();
        replace(root, "model.ignore_merges", ignore ? "true" : "false");
        replace(root, "model.vocab.xyz", "5000");
        replace(root, "pad", "0");
        write_json(folder, "tokenizer.json", root);
        tsr_tokenizer *t = open_tokenizer(*state, folder);
        if (ignore)
            EXPECT_IDS(*state, t, "xyz hello!", 5000, 260, '!');
        else
            EXPECT_IDS(*state, t, "xyz hello!", 'x', 'y', 'z', 260, '!');
        tsr_tokenizer_destroy(t);
    }
}

/* Without a pad_token the class has one, and without a class (or a config) Qwen2Tokenizer's; null is none. A special
 * token of the vocabulary is found in the raw text. */
static void test_config(void **state) {
    const char *folder = tiny_folder();
    write_text(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"Qwen2Tokenizer\", \"model_max_length\": 512}");
    tsr_tokenizer *t = open_tokenizer(*state, folder);
    assert_int_equal(tsr_tokenizer_pad_id(t), FIRST_ADDED);
    assert_int_equal(tsr_tokenizer_model_max_length(t), 512);
    tsr_tokenizer_destroy(t);
    write_text(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"Other\"}");
    t = open_tokenizer(*state, folder);
    assert_int_equal(tsr_tokenizer_pad_id(t), -1);
    tsr_tokenizer_destroy(t);
    write_text(folder, "tokenizer_config.json", "{}");
    t = open_tokenizer(*state, folder);
    assert_int_equal(tsr_tokenizer_pad_id(t), FIRST_ADDED);
    tsr_tokenizer_destroy(t);
    write_text(folder, "tokenizer_config.json",
               "{\"pad_token\": null, \"additional_special_tokens\": [\"aa\"], \"model_max_length\": null}");
    t = open_tokenizer(*state, folder);
    assert_int_equal(tsr_tokenizer_pad_id(t), -1);
    assert_true(tsr_tokenizer_model_max_length(t) == INT64_MAX);
    EXPECT_IDS(*state, t, "baab", 'b', 262, 'b');
    EXPECT_IDS(*state, t, "aaaa", 262, 262);
    tsr_tokenizer_destroy(t);
}

/* Fails each allocation in turn: NOMEM, nothing left behind, and the next try works. */
static void test_allocation_failures(void **state) {
    tsr_engine *engine = *state;
    for (int layout = 0; layout < 2; layout++) {
        const char *folder = layout ? tiny_other_layout() : tiny_folder();
        tsr_status status = TSR_NOMEM;
        for (long long k = 0; status != TSR_OK; k++) {
            tsr_tokenizer *t = NULL;
            int64_t *ids = NULL;
            size_t n = 0;
            atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
            status = tsr_tokenizer_from_pretrained(engine, folder, &t);
            if (status == TSR_OK) status = tsr_tokenizer_encode(t, "<|im_start|>e\xcc\x81 aaaa", 20, true, &ids, &n);
            atomic_store(&engine->allocator.fail_at, -1);
            if (status != TSR_OK) assert_int_equal(status, TSR_NOMEM);
            if (t && status != TSR_OK) EXPECT_IDS(engine, t, "<think>aaaa", 268, 263);
            tsr_free(engine, ids);
            tsr_tokenizer_destroy(t);
            assert_int_equal(tsr_engine_memory_current(engine), baseline);
        }
    }
}

/* ---- golden data ---- */

/* The ids as the pipeline passes them on: klein pads or cuts on the right (fixed), Qwen-Image cuts at 1024 + 34. */
static void expect_row(tsr_engine *engine, tsr_tokenizer *t, const tsr__text *text, const json_t *expected,
                       bool fixed) {
    size_t n = json_array_size(expected), own = 0;
    int64_t *ids = NULL;
    assert_ok(engine, tsr_tokenizer_encode(t, text->data, text->length, true, &ids, &own));
    if (!fixed) assert_int_equal(own < 1058 ? own : 1058, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(i < own ? ids[i] : tsr_tokenizer_pad_id(t), json_integer_value(json_array_get(expected, i)));
    tsr_free(engine, ids);
}

static void check_rows(tsr_engine *engine, tsr_tokenizer *t, const json_t *rows, const char *key) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *text = json_object_get(row, "text"), *expected = NULL;
        size_t n = json_array_size(expected = json_object_get(row, key));
        int64_t ids[4096];
        assert_true(n <= TSR__COUNT(ids));
        for (size_t k = 0; k < n; k++) ids[k] = json_integer_value(json_array_get(expected, k));
        expect_ids(engine, t, json_string_value(text), json_string_length(text), ids, n);
    }
}

/* klein's rows hold the whole text, Qwen-Image's the prompt that goes into a template. */
static void check_pipeline_form(tsr_engine *engine, tsr_tokenizer *t, const json_t *form) {
    const char *template = json_string_value(json_object_get(form, "template"));
    const json_t *rows = json_object_get(form, "rows");
    assert_true(json_array_size(rows) > 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *part = json_object_get(row, template ? "prompt" : "text");
        const char *hole = template ? strstr(template, "{}") : NULL;
        tsr__text text = {.engine = engine};
        if (hole) tsr__text_add(&text, template, (size_t)(hole - template));
        tsr__text_add(&text, json_string_value(part), json_string_length(part));
        if (hole) tsr__text_add(&text, hole + 2, strlen(hole + 2));
        expect_row(engine, t, &text, json_object_get(row, "ids"), json_object_get(form, "max_length"));
        tsr__text_free(&text);
    }
}

static void check_golden(tsr_engine *engine, const char *name, const char *folder) {
    json_t *cases = json_load_file(test_golden("expected/tokenizer_cases.json"), JSON_ALLOW_NUL, NULL);
    assert_non_null(cases);
    json_t *c = json_object_get(json_object_get(cases, "tokenizers"), name), *rows = json_object_get(c, "rows");
    tsr_tokenizer *t = open_tokenizer(engine, test_golden(folder));
    assert_true(json_array_size(rows) >= 50);
    check_rows(engine, t, rows, "ids");
    check_rows(engine, t, rows, "ids_no_special");
    check_pipeline_form(engine, t, json_object_get(c, "pipeline_form"));
    assert_int_equal(tsr_tokenizer_vocab_size(t), json_integer_value(json_object_get(c, "vocab_size")));
    assert_int_equal(tsr_tokenizer_pad_id(t), json_integer_value(json_object_get(c, "pad_token_id")));
    assert_int_equal(tsr_tokenizer_model_max_length(t), 131072);
    tsr_tokenizer_destroy(t);
    json_decref(cases);
}

static void test_golden_klein(void **state) { check_golden(*state, "flux2-klein", "models/flux2-klein/tokenizer"); }
static void test_golden_qwen(void **state) { check_golden(*state, "qwenimage", "models/qwenimage/tokenizer"); }
static void test_golden_klein_vocab(void **state) {
    check_golden(*state, "flux2-klein", "tokenizers_other_layouts/flux2_klein_qwen2");
}
static void test_golden_qwen_vocab(void **state) {
    check_golden(*state, "qwenimage", "tokenizers_other_layouts/qwenimage_qwen2");
}

static void test_golden_other_kinds(void **state) {
    static const char *const kinds[][2] = {
        {"models/flux/tokenizer", "normalizer is Sequence"},  {"models/flux/tokenizer_2", "normalizer is Precompiled"},
        {"models/flux2/tokenizer", "special tokens"},         {"tokenizers_other_layouts/flux_clip", "CLIPTokenizer"},
        {"tokenizers_other_layouts/flux_t5", "spiece.model"}, {"tokenizers_other_layouts/flux2_tekken", "tekken.json"}};
    for (size_t i = 0; i < TSR__COUNT(kinds); i++)
        refuse(*state, test_golden(kinds[i][0]), TSR_UNSUPPORTED, kinds[i][1]);
}

static int setup(void **state) {
    tsr_engine *engine = test_engine("ref");
    baseline = tsr_engine_memory_current(engine);
    *state = engine;
    return 0;
}

static int teardown(void **state) {
    tsr_engine_destroy(*state);
    return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_tiny),
        TEST(test_split),
        TEST(test_steps_are_limited),
        TEST(test_bad_text),
        TEST(test_merges_by_rank),
        TEST(test_round_trip),
        TEST(test_long_texts),
        TEST(test_refusals),
        TEST(test_broken_files),
        TEST(test_ignore_merges),
        TEST(test_config),
        TEST(test_allocation_failures),
        TEST(test_golden_klein),
        TEST(test_golden_qwen),
        TEST(test_golden_klein_vocab),
        TEST(test_golden_qwen_vocab),
        TEST(test_golden_other_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
