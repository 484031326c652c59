#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"

static const size_t max_json_bytes = 256u << 20;
static const double max_exact = 9007199254740992.0; /* 2^53 */

tsr_status tsr__json_parse(tsr_engine *engine, const char *what, const char *bytes, size_t n, json_t **out) {
    if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        return tsr__fail(engine, TSR_FORMAT, "%s: line 1: starts with a byte order mark; save it as plain UTF-8", what);
    json_error_t error = {.line = -1};
    json_t *root = json_loadb(bytes, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return tsr__fail(engine, TSR_NOMEM, "%s: no memory to parse %zu bytes of JSON", what, n);
    if (!root)
        return tsr__fail(engine, TSR_FORMAT, "%s: line %d, column %d: not valid JSON: %s", what, error.line,
                         error.column, error.text);
    *out = root;
    return TSR_OK;
}

tsr_status tsr__json_load(tsr_engine *engine, const char *path, json_t **out) {
    char *bytes = NULL;
    size_t n = 0;
    TSR__TRY(tsr__file_read(engine, path, max_json_bytes, &bytes, &n));
    tsr_status status = tsr__file_refuse_impostor(engine, path, bytes, n);
    if (status == TSR_OK) status = tsr__json_parse(engine, path, bytes, n, out);
    tsr__free(engine, bytes);
    return status;
}

tsr_status tsr__json_dump(tsr_engine *engine, const json_t *root, size_t flags, char **text, size_t *n) {
    size_t length = json_dumpb(root, NULL, 0, flags);
    char *bytes = length ? tsr__alloc(engine, length + 1) : NULL;
    if (!bytes || json_dumpb(root, bytes, length, flags) != length) {
        tsr__free(engine, bytes);
        return tsr__fail(engine, TSR_NOMEM, "no memory for %zu bytes of JSON", length);
    }
    bytes[length] = '\0';
    *text = bytes;
    *n = length;
    return TSR_OK;
}

void tsr__json_describe(const json_t *value, char text[TSR__JSON_DESCRIPTION_BYTES]) {
    static const char *const names[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "a list",
                                        [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",
                                        [JSON_NULL] = "null"};
    if (!value)
        snprintf(text, TSR__JSON_DESCRIPTION_BYTES, "absent");
    else if (json_is_number(value))
        snprintf(text, TSR__JSON_DESCRIPTION_BYTES, "%.15g", json_number_value(value));
    else if (json_is_string(value))
        snprintf(text, TSR__JSON_DESCRIPTION_BYTES, "\"%.80s\"", json_string_value(value));
    else
        snprintf(text, TSR__JSON_DESCRIPTION_BYTES, "%s", names[json_typeof(value)]);
}

bool tsr__json_integer(const json_t *value, int64_t min, int64_t max, int64_t *out) {
    double number = json_is_number(value) ? json_number_value(value) : 0.5;
    if (number != floor(number) || fabs(number) > max_exact) return false;
    int64_t integer = (int64_t)number;
    if (integer < min || integer > max) return false;
    *out = integer;
    return true;
}

tsr_status tsr__config_load(tsr_engine *engine, const char *path, tsr__config *out) {
    tsr__config config = {.engine = engine};
    TSR__TRY(tsr__json_load(engine, path, &config.root));
    tsr_status status = TSR_OK;
    if (!json_is_object(config.root))
        status = tsr__fail(engine, TSR_FORMAT, "%s: line 1: is a list, but must be an object", path);
    else if (!(config.path = tsr__strdup(engine, path)))
        status = TSR_NOMEM;
    if (status == TSR_OK)
        *out = config;
    else
        json_decref(config.root);
    return status;
}

void tsr__config_free(tsr__config *config) {
    if (!config->engine) return;
    json_decref(config->root);
    tsr__free(config->engine, config->path);
    *config = (tsr__config){0};
}

/* Follows the dotted path. Where it meets something that holds no keys, *stop is the length of the path up to there. */
static const json_t *walk(const tsr__config *config, const char *key, size_t *stop) {
    const json_t *at = config->root;
    for (const char *part = key; at && !json_is_null(at);) {
        if (!json_is_object(at)) {
            *stop = (size_t)(part - key) - 1;
            return at;
        }
        size_t length = strcspn(part, ".");
        at = json_object_getn(at, part, length);
        if (!part[length]) break;
        part += length + 1;
    }
    return at && !json_is_null(at) ? at : NULL;
}

bool tsr__config_has(const tsr__config *config, const char *key) {
    size_t stop = 0;
    return walk(config, key, &stop) && !stop;
}

static void refuse(tsr__config *config, const char *key, const json_t *value, const char *wanted) {
    char found[TSR__JSON_DESCRIPTION_BYTES];
    if (config->status != TSR_OK) return;
    tsr__json_describe(value, found);
    config->status =
        tsr__fail(config->engine, TSR_FORMAT, "%s: %s is %s, but must be %s", config->path, key, found, wanted);
}

/* The value, or NULL where the fallback holds: absent, null, or something was wrong. */
static const json_t *find(tsr__config *config, const char *key) {
    size_t stop = 0;
    const json_t *value = config->status == TSR_OK ? walk(config, key, &stop) : NULL;
    if (!stop) return value;
    char parent[128];
    snprintf(parent, sizeof parent, "%.*s", (int)stop, key);
    refuse(config, parent, value, "an object");
    return NULL;
}

static void refuse_integer(tsr__config *config, const char *key, const json_t *value, int64_t min, int64_t max) {
    char wanted[96];
    snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)min, (long long)max);
    refuse(config, key, value, wanted);
}

int64_t tsr__config_int(tsr__config *config, const char *key, int64_t fallback, int64_t min, int64_t max) {
    int64_t found = fallback;
    const json_t *value = find(config, key);
    if (value && !tsr__json_integer(value, min, max, &found)) refuse_integer(config, key, value, min, max);
    return found;
}

double tsr__config_double(tsr__config *config, const char *key, double fallback, double min, double max) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    double found = json_number_value(value);
    if (json_is_number(value) && found >= min && found <= max) return found;
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a number from %.15g to %.15g", min, max);
    refuse(config, key, value, wanted);
    return fallback;
}

bool tsr__config_bool(tsr__config *config, const char *key, bool fallback) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    refuse(config, key, value, "true or false");
    return fallback;
}

const char *tsr__config_string(tsr__config *config, const char *key, const char *fallback) {
    const json_t *value = find(config, key);
    if (!value) return fallback;
    const char *text = json_string_value(value);
    if (text && strlen(text) == json_string_length(value)) return text;
    refuse(config, key, value, "a string without NUL characters");
    return fallback;
}

static void check_known(tsr__config *config, const tsr__known *row, const char *verb, const json_t *value) {
    char found[TSR__JSON_DESCRIPTION_BYTES];
    tsr__json_describe(value, found);
    for (size_t i = 0; i < TSR__MAX_KNOWN && row->values[i]; i++)
        if (strcmp(found, row->values[i]) == 0) return;
    if (config->status == TSR_OK)
        config->status = tsr__fail(config->engine, TSR_UNSUPPORTED, "%s: %s %s %s; Tessera has %s only", config->path,
                                   row->key, verb, found, row->values[0]);
}

void tsr__config_check_known(tsr__config *config, const tsr__known *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const json_t *value = find(config, rows[i].key), *item;
        size_t index;
        json_array_foreach(value, index, item) check_known(config, &rows[i], "holds", item);
        if (value && !json_is_array(value)) check_known(config, &rows[i], "is", value);
    }
}

int tsr__config_ints(tsr__config *config, const char *key, int64_t *values, int max_n, int64_t min, int64_t max) {
    const json_t *list = find(config, key);
    char text[160];
    if (!list) return 0;
    if (!json_is_array(list) || json_array_size(list) > (size_t)max_n) {
        snprintf(text, sizeof text, "a list of at most %d integers", max_n);
        refuse(config, key, list, text);
        return 0;
    }
    int n = (int)json_array_size(list);
    for (int pass = 0; pass < 2; pass++) /* check all, then store all */
        for (int i = 0; i < n; i++) {
            int64_t value = 0;
            const json_t *item = json_array_get(list, (size_t)i);
            if (tsr__json_integer(item, min, max, pass ? &values[i] : &value)) continue;
            snprintf(text, sizeof text, "%.100s[%d]", key, i);
            refuse_integer(config, text, item, min, max);
            return 0;
        }
    return n;
}
