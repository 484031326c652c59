#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* A folder or file as far as it can be told. Text members are for free(3), but file_of_config is a constant. */
typedef struct found {
    const char *file_of_config; /* "model_index.json", "config.json", "scheduler_config.json", or NULL */
    char *config;               /* its text */
    char *class_name;
    tsr_checkpoint *weights;
    tsr_tokenizer *tokenizer;
} found;

static bool exists(const char *folder, const char *name) {
    struct stat at;
    char *path = cli_format("%s/%s", folder, name);
    bool there = stat(path, &at) == 0;
    free(path);
    return there;
}

static bool is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

/* Does the folder hold something that could be weights? A folder with a config alone is no fault. */
static bool holds_weights(const char *folder) {
    static const char *const ends[] = {".safetensors", ".safetensors.index.json", ".bin"};
    DIR *stream = opendir(folder);
    bool holds = false;
    for (const struct dirent *entry; stream && !holds && (entry = readdir(stream));) {
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) holds |= cli_has_extension(entry->d_name, ends[i]);
    }
    if (stream) closedir(stream);
    return holds;
}

/* The string at `at`, decoded; NULL where there is none. */
static char *string_at(const char *at) {
    if (!at || *at != '"') return NULL;
    char *text = cli_alloc(strlen(at) + 1, 1);
    size_t n = 0;
    if (!cli_json_string(&at, text, &n)) return text;
    free(text);
    return NULL;
}

static char *class_of(const char *config) {
    const char *list = cli_json_member(config, "architectures");
    char *name = string_at(cli_json_member(config, "_class_name"));
    if (!name && list && *list == '[') name = string_at(list + 1 + strspn(list + 1, " \t\r\n"));
    return name;
}

/* Cuts off white space at the end; false unless it is one object. */
static bool trim_object(char *text) {
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) text[--n] = '\0';
    const char *at = text + strspn(text, " \t\r\n");
    return *at == '{' && cli_json_skip(at) == text + n;
}

static int read_config(cli_session *session, const char *folder, found *f) {
    static const char *const names[] = {"model_index.json", "config.json", "scheduler_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !f->file_of_config; i++) {
        if (exists(folder, names[i])) f->file_of_config = names[i];
    }
    if (!f->file_of_config) return CLI_DONE;
    char *path = cli_format("%s/%s", folder, f->file_of_config);
    f->config = cli_read_file(path, NULL);
    char *line = NULL;
    if (!f->config)
        line = cli_format("error: %s: %m", path);
    else if (!trim_object(f->config))
        line = cli_format("error: %s: not a JSON object", path);
    else
        f->class_name = class_of(f->config);
    if (line) cli_progress_say(session->progress, line);
    int result = line ? CLI_FAILED : CLI_DONE;
    free(line);
    free(path);
    return result;
}

static int look(cli_session *session, const char *path, found *f) {
    tsr_status status = TSR_OK;
    bool folder = is_folder(path);
    if (folder && read_config(session, path, f) != CLI_DONE) return CLI_FAILED;
    bool tokenizer = folder && !f->config && (exists(path, "tokenizer_config.json") || exists(path, "tokenizer.json") ||
                                              exists(path, "vocab.json"));
    if (tokenizer)
        status = tsr_tokenizer_from_pretrained(session->engine, path, &f->tokenizer);
    else if (!f->config || holds_weights(path))
        status = tsr_checkpoint_open(session->engine, path, &f->weights);
    return status == TSR_OK ? CLI_DONE : cli_session_error(session, NULL, status);
}

static void forget(found *f) {
    tsr_tokenizer_destroy(f->tokenizer);
    tsr_checkpoint_close(f->weights);
    free(f->config);
    free(f->class_name);
}

static uint64_t bytes_of(const found *f, const char *prefix, int64_t *elements) {
    uint64_t bytes = 0;
    (void)prefix;
    for (size_t i = 0; i < tsr_checkpoint_count(f->weights); i++) {
        const tsr_tensor_info *t = tsr_checkpoint_at(f->weights, i);
        int64_t n = 1;
        for (int d = 0; d < t->ndim; d++) n *= t->shape[d];
        *elements += n;
        bytes += t->size;
    }
    return bytes;
}
