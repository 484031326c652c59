#include <string.h>

#include "cli.h"

static const char *blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Behind a string's closing quote; *at is the opening one. */
static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++) {
        if (*at == '\\' && !*++at) return NULL;
    }
    return *at ? at + 1 : NULL;
}

const char *cli_json_skip(const char *at) {
    size_t depth = 0; /* a counter, so that deep nesting costs nothing */
    do {
        at = blanks(at);
        if (*at == '"') {
            at = skip_string(at);
            if (!at) return NULL;
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (depth && (*at == '}' || *at == ']')) {
            depth--;
            at++;
        } else if (depth && (*at == ',' || *at == ':')) {
            at++;
        } else {
            size_t n = strcspn(at, "{}[]\",: \t\r\n");
            if (n == 0) return NULL;
            at += n;
        }
    } while (depth);
    return at;
}

static bool hex4(const char *at, uint32_t *out) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static size_t put_utf8(uint32_t point, char *out) {
    size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(lead[n] | point);
    return n;
}

/* The four hexadecimal digits behind \u, with those of the second half of a pair. */
static const char *unicode_escape(const char **at, uint32_t *point) {
    uint32_t low;
    if (!hex4(*at, point)) return "\\u needs four hexadecimal digits";
    *at += 4;
    if ((*point & ~0x7ffu) != 0xd800) return NULL;
    bool pair =
        *point < 0xdc00 && (*at)[0] == '\\' && (*at)[1] == 'u' && hex4(*at + 2, &low) && (low & ~0x3ffu) == 0xdc00;
    if (!pair) return "half of a surrogate pair stands alone";
    *point = 0x10000 + ((*point & 0x3ff) << 10 | (low & 0x3ff));
    *at += 6;
    return NULL;
}

const char *cli_json_string(const char **at, char *out, size_t *length) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *from = *at, *fault;
    size_t n = 0;
    if (*from++ != '"') return "not a JSON string";
    while (*from != '"') {
        uint32_t point = (unsigned char)*from++;
        if (point < 0x20) return point ? "a control character must be written as an escape" : "the string does not end";
        if (point != '\\') {
            out[n++] = (char)point;
            continue;
        }
        const char *name = *from ? strchr(names, *from) : NULL;
        if (!name && *from != 'u') return "an unknown escape";
        from++;
        if (name) {
            out[n++] = values[name - names];
            continue;
        }
        fault = unicode_escape(&from, &point);
        if (fault) return fault;
        n += put_utf8(point, out + n);
    }
    *at = from + 1;
    *length = n;
    return NULL;
}

const char *cli_json_member(const char *object, const char *key) {
    size_t n = strlen(key);
    const char *at = blanks(object);
    if (*at != '{') return NULL;
    for (at = blanks(at + 1); *at == '"'; at = blanks(at + 1)) {
        bool found = strncmp(at + 1, key, n) == 0 && at[1 + n] == '"';
        at = skip_string(at);
        if (!at) return NULL;
        at = blanks(at);
        if (*at != ':') return NULL;
        at = blanks(at + 1);
        if (found) return at;
        at = cli_json_skip(at);
        if (!at) return NULL;
        at = blanks(at);
        if (*at != ',') return NULL;
    }
    return NULL;
}
