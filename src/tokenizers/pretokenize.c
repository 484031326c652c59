#include "tokenizers/pretokenize.h"

#include "base/text.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

/* Steps of one match, and KiB of memory for its backtracking. 10 MB of blanks stay below both. */
enum { MATCH_LIMIT = 50000000, HEAP_LIMIT_KIB = 256 * 1024 };

static const utf8proc_option_t NFC = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

struct tsr__split {
    tsr_engine *engine;
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *match;
};

size_t tsr__utf8_valid(const char *text, size_t n) {
    size_t at = 0;
    while (at < n) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &code);
        if (step <= 0) break;
        at += (size_t)step;
    }
    return at;
}

static unsigned mark_class(int32_t code) { return (unsigned char)utf8proc_get_property(code)->combining_class; }

/* Sorts combining marks by their class; marks of one class keep their order. */
static void sort_marks(int32_t *marks, size_t n, int32_t *scratch) {
    if (n < 2) return;
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[mark_class(marks[i]) + 1]++;
    for (size_t c = 0; c < 256; c++) start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++) scratch[start[mark_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

/* Canonical decomposition of UTF-8 into codes, and its length. utf8proc_decompose does the same, but takes quadratic
 * time where many marks follow each other. */
static size_t decompose(const char *text, size_t n, int32_t *codes, size_t capacity, int32_t *scratch) {
    size_t count = 0, marks = 0; /* the last `marks` codes are combining marks */
    for (size_t at = 0; at < n;) {
        int32_t code = 0;
        int boundary = 0;
        at += (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &code);
        size_t room = capacity - count;
        size_t more = (size_t)utf8proc_decompose_char(code, codes + count, (utf8proc_ssize_t)room, NFC, &boundary);
        for (size_t end = count + more; count < end; count++) {
            if (mark_class(codes[count]) > 0) {
                marks++;
                continue;
            }
            sort_marks(codes + count - marks, marks, scratch);
            marks = 0;
        }
    }
    sort_marks(codes + count - marks, marks, scratch);
    return count;
}

tsr_status tsr__nfc(tsr_engine *engine, const char *text, size_t n, char **out, size_t *n_out) {
    size_t capacity = 2 * n + 4; /* a character of 2 bytes becomes up to 3 codes, one of 3 bytes up to 4 */
    int32_t *codes = tsr__calloc(engine, capacity, sizeof *codes), *scratch = NULL;
    if (codes) scratch = tsr__calloc(engine, capacity, sizeof *scratch);
    if (!scratch) {
        tsr__free(engine, codes);
        return TSR_NOMEM;
    }
    size_t count = decompose(text, n, codes, capacity, scratch);
    tsr__free(engine, scratch);
    utf8proc_ssize_t length = utf8proc_reencode(codes, (utf8proc_ssize_t)count, NFC); /* in place */
    if (length < 0) {
        tsr__free(engine, codes);
        return tsr__fail(engine, TSR_INTERNAL, "normalizing a text failed: %s", utf8proc_errmsg(length));
    }
    *out = (char *)codes;
    *n_out = (size_t)length;
    return TSR_OK;
}

/* Tokenizer files hold patterns for Oniguruma. PCRE2 reads the constructs below differently, or they are not needed. */
static const char *const refused_outside[] = {"^", "$", ".", "(*", "(?", "{,", "}+"};
static const char *const refused_in_class[] = {"[", "&&"};
static const char *const groups[] = {"(?:", "(?i:", "(?=", "(?!", "(?>"};

/* The entry of a table that the rest of a pattern starts with, or NULL. */
static const char *entry_at(const char *const *table, size_t count, const char *rest, size_t n) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(table[i]);
        if (length <= n && memcmp(table[i], rest, length) == 0) return table[i];
    }
    return NULL;
}

/* Translates the escape at the start of the rest of a pattern; 0 where it is not one that both engines read alike.
 * \s must be Unicode's White_Space: PCRE2's own \s has U+180E on top. */
static size_t translate_escape(const char *rest, size_t n, tsr__text *out) {
    if (n < 2) return 0;
    size_t length = 2;
    switch (rest[1]) {
    case 's':
        tsr__text_format(out, "\\p{White_Space}");
        return 2;
    case 'S':
        tsr__text_format(out, "\\P{White_Space}");
        return 2;
    case 'p':
    case 'P': { /* general categories only: \p{L}, \p{Lu} */
        const char *close = memchr(rest, '}', n < 6 ? n : 6);
        if (!close || rest[2] != '{' || close - rest < 4) return 0;
        length = (size_t)(close - rest) + 1;
        break;
    }
    case 'd':
    case 'n':
    case 'r':
    case 't':
        break;
    default:
        if (!strchr("\\^$.|?*+()[]{}-/'\"<>#&~!%,:;=@_` ", rest[1]) || rest[1] == '\0') return 0;
    }
    tsr__text_add(out, rest, length);
    return length;
}

/* Translates what stands outside a class, or opens one; 0 where it is refused. */
static size_t translate_outside(const char *rest, size_t n, tsr__text *out, bool *in_class) {
    const char *group = entry_at(groups, TSR__COUNT(groups), rest, n);
    if (!group && entry_at(refused_outside, TSR__COUNT(refused_outside), rest, n)) return 0;
    size_t length = group ? strlen(group) : 1;
    if (*rest == '[') {
        *in_class = true;
        if (n > 1 && rest[1] == '^') length = 2;
        if (length < n && rest[length] == ']') return 0; /* a literal ] for one engine, the end for the other */
    }
    tsr__text_add(out, rest, length);
    return length;
}

static size_t translate_in_class(const char *rest, size_t n, tsr__text *out, bool *in_class) {
    if (entry_at(refused_in_class, TSR__COUNT(refused_in_class), rest, n)) return 0;
    if (*rest == ']') *in_class = false;
    tsr__text_add(out, rest, 1);
    return 1;
}

static tsr_status translate(tsr_engine *engine, const char *pattern, size_t n, tsr__text *out) {
    bool in_class = false;
    for (size_t i = 0, step; i < n; i += step) {
        if (pattern[i] == '\\')
            step = translate_escape(pattern + i, n - i, out);
        else if (in_class)
            step = translate_in_class(pattern + i, n - i, out, &in_class);
        else
            step = translate_outside(pattern + i, n - i, out, &in_class);
        if (step == 0)
            return tsr__fail(engine, TSR_UNSUPPORTED,
                             "the split pattern has at character %zu (\"%.8s\") what Tessera does not read", i,
                             pattern + i);
    }
    return out->failed ? TSR_NOMEM : TSR_OK;
}

static void *allocate(PCRE2_SIZE bytes, void *engine) { return tsr__alloc(engine, bytes); }
static void release(void *pointer, void *engine) { tsr__free(engine, pointer); }

static tsr_status refuse_pattern(tsr_engine *engine, int error, size_t offset) {
    char reason[256] = "";
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, sizeof reason);
    return tsr__fail(engine, TSR_FORMAT, "the split pattern is no regular expression: %s, near character %zu", reason,
                     offset);
}

static tsr_status compile(tsr__split *split, const tsr__text *pattern) {
    pcre2_compile_context *context = pcre2_compile_context_create(split->memory);
    if (!context) return TSR_NOMEM;
    int error = 0;
    PCRE2_SIZE offset = 0;
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    split->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->length, options, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (!split->code)
        return error == PCRE2_ERROR_HEAP_FAILED ? TSR_NOMEM : refuse_pattern(split->engine, error, offset);
    uint32_t matches_empty = 1;
    (void)pcre2_pattern_info(split->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty) return tsr__fail(split->engine, TSR_UNSUPPORTED, "the split pattern matches the empty text");
    (void)pcre2_jit_compile(split->code, PCRE2_JIT_COMPLETE); /* where it fails, matching is slower */
    return TSR_OK;
}

static tsr_status make_split(tsr__split *split, const char *pattern, size_t n) {
    tsr__text translated = {.engine = split->engine};
    tsr_status status = translate(split->engine, pattern, n, &translated);
    split->memory = status == TSR_OK ? pcre2_general_context_create(allocate, release, split->engine) : NULL;
    if (status == TSR_OK) status = split->memory ? compile(split, &translated) : TSR_NOMEM;
    tsr__text_free(&translated);
    TSR__TRY(status);
    split->limits = pcre2_match_context_create(split->memory);
    split->match = pcre2_match_data_create(1, split->memory);
    if (!split->limits || !split->match) return TSR_NOMEM;
    pcre2_set_match_limit(split->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(split->limits, HEAP_LIMIT_KIB);
    return TSR_OK;
}

tsr_status tsr__split_create(tsr_engine *engine, const char *pattern, size_t length, tsr__split **out) {
    tsr__split *split = tsr__calloc(engine, 1, sizeof *split);
    if (!split) return TSR_NOMEM;
    split->engine = engine;
    tsr_status status = make_split(split, pattern, length);
    if (status != TSR_OK) {
        tsr__split_destroy(split);
        return status;
    }
    *out = split;
    return TSR_OK;
}

void tsr__split_destroy(tsr__split *split) {
    if (!split) return;
    pcre2_match_data_free(split->match);
    pcre2_match_context_free(split->limits);
    pcre2_code_free(split->code);
    pcre2_general_context_free(split->memory);
    tsr__free(split->engine, split);
}

/* The next match at or after `from`; begin = end = n where there is none. */
static tsr_status next_match(tsr__split *split, const char *text, size_t n, size_t from, PCRE2_SIZE range[2]) {
    /* The text was checked once: checking it again at each match would take quadratic time. */
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(split->code, (PCRE2_SPTR)text, n, from, options, split->match, split->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter's stack grows up to its own limit */
        found =
            pcre2_match(split->code, (PCRE2_SPTR)text, n, from, options | PCRE2_NO_JIT, split->match, split->limits);
    range[0] = range[1] = n;
    if (found == PCRE2_ERROR_NOMATCH) return TSR_OK;
    if (found == PCRE2_ERROR_NOMEMORY) return TSR_NOMEM;
    if (found < 0) {
        char reason[256] = "";
        (void)pcre2_get_error_message(found, (PCRE2_UCHAR *)reason, sizeof reason);
        return tsr__fail(split->engine, TSR_INTERNAL,
                         "splitting a text of %zu bytes stopped at byte %zu: %s; use a shorter text", n, from, reason);
    }
    memcpy(range, pcre2_get_ovector_pointer(split->match), 2 * sizeof *range);
    return TSR_OK;
}

tsr_status tsr__split_each(tsr__split *split, const char *text, size_t n, tsr__piece_fn piece, void *user) {
    for (size_t at = 0; at < n;) {
        PCRE2_SIZE range[2];
        TSR__TRY(next_match(split, text, n, at, range));
        if (range[0] > at) TSR__TRY(piece(user, text + at, range[0] - at));
        if (range[1] > range[0]) TSR__TRY(piece(user, text + range[0], range[1] - range[0]));
        at = range[1];
    }
    return TSR_OK;
}
