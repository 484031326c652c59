/* JSON text (jansson) and typed access to config.json files. */
#ifndef TSR_IO_JSON_H
#define TSR_IO_JSON_H

#include <jansson.h>

#include "base/engine.h"

/* Parses n bytes of JSON: an object or a list. Every number becomes a real, because real tokenizer configs hold
 * integers near 1e30. `what` says in messages what is parsed: a path. Errors: FORMAT (with line and column; also a
 * duplicate key, too deep nesting, a byte order mark), NOMEM. Owner: the caller (json_decref). */
TSR_NODISCARD tsr_status tsr__json_parse(tsr_engine *engine, const char *what, const char *bytes, size_t n,
                                         json_t **out);
/* The same for a file of at most 256 MB. Errors: also IO, and FORMAT for a Git LFS pointer or HTML page. */
TSR_NODISCARD tsr_status tsr__json_load(tsr_engine *engine, const char *path, json_t **out);

/* The text of a value, with jansson's flags; *n bytes and a NUL. Errors: NOMEM. Owner of *text: the caller. */
TSR_NODISCARD tsr_status tsr__json_dump(tsr_engine *engine, const json_t *root, size_t flags, char **text, size_t *n);

enum { TSR__JSON_DESCRIPTION_BYTES = 96 };
/* A short form of a value for messages: 1.5, "text", true, a list. */
void tsr__json_describe(const json_t *value, char text[TSR__JSON_DESCRIPTION_BYTES]);
/* Whether value is an integer from min to max; at most 2^53 in magnitude, where a real still tells integers apart. */
bool tsr__json_integer(const json_t *value, int64_t min, int64_t max, int64_t *out);

/* A config.json. The getters take a key or a dotted path of keys ("rope_parameters.rope_theta") and return the fallback
 * where it is absent or null. The first wrong value sets `status` and the engine's message; from then on they return
 * fallbacks, so that a constructor reads everything and checks the status once. */
typedef struct tsr__config {
    tsr_engine *engine;
    char *path;
    json_t *root;
    tsr_status status;
} tsr__config;

/* Errors: those of tsr__json_load; FORMAT where it is not an object. Owner: the caller (tsr__config_free). */
TSR_NODISCARD tsr_status tsr__config_load(tsr_engine *engine, const char *path, tsr__config *out);
void tsr__config_free(tsr__config *config);

bool tsr__config_has(const tsr__config *config, const char *key); /* present and not null */
int64_t tsr__config_int(tsr__config *config, const char *key, int64_t fallback, int64_t min, int64_t max);
double tsr__config_double(tsr__config *config, const char *key, double fallback, double min, double max);
bool tsr__config_bool(tsr__config *config, const char *key, bool fallback);
/* Keys of which only some values are known, written as tsr__json_describe does: {"hidden_act", {"\"silu\""}}. All items
 * of a list must be among them. Another value is UNSUPPORTED, by name. */
enum { TSR__MAX_KNOWN = 2 };
typedef struct tsr__known {
    const char *key, *values[TSR__MAX_KNOWN];
} tsr__known;
void tsr__config_check_known(tsr__config *config, const tsr__known *rows, size_t n);
/* Valid as long as the config. */
const char *tsr__config_string(tsr__config *config, const char *key, const char *fallback);
/* A list of at most max_n integers; returns how many, 0 where absent or wrong (values is then untouched). */
int tsr__config_ints(tsr__config *config, const char *key, int64_t *values, int max_n, int64_t min, int64_t max);

#endif
