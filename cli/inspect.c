#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* What lies at a path. Texts are for free(3). */
typedef struct found {
    char *config_path, *config; /* of model_index.json, config.json or scheduler_config.json, and its text; or NULL */
    char *class_name;
    bool is_pipeline;
    tsr_checkpoint *weights;
    tsr_tokenizer *tokenizer;
    size_t tensors;
    uint64_t parameters, bytes;
    char *degrees; /* of tensor parallelism, "1, 2, 4"; NULL: the class has no plan */
} found;

static bool is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

/* Does the folder hold what could be weights? One with a config alone is no fault. */
static bool holds_weights(const char *folder) {
    static const char *const ends[] = {".safetensors", ".safetensors.index.json", ".bin"};
    DIR *stream = opendir(folder);
    bool holds = false;
    for (const struct dirent *entry; stream && !holds && (entry = readdir(stream));)
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) holds |= cli_has_extension(entry->d_name, ends[i]);
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

/* diffusers writes _class_name, transformers architectures: [name]. */
static char *class_of(const char *config) {
    const char *list = cli_json_member(config, "architectures");
    char *name = string_at(cli_json_member(config, "_class_name"));
    if (!name && list && *list == '[') name = string_at(list + 1 + strspn(list + 1, " \t\r\n"));
    return name;
}

/* Cuts off the white space around the text; false unless what is left is one object. */
static bool trim_object(char *text) {
    size_t skip = strspn(text, " \t\r\n"), n = strlen(text);
    memmove(text, text + skip, n - skip + 1);
    for (n -= skip; n && strchr(" \t\r\n", text[n - 1]);) text[--n] = '\0';
    return *text == '{' && cli_json_skip(text) == text + n;
}

/* NULL, or what is wrong, for free(3). */
static char *read_config(const char *folder, found *f) {
    static const char *const names[] = {"model_index.json", "config.json", "scheduler_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !f->config_path; i++) {
        if (!cli_folder_has(folder, names[i])) continue;
        f->config_path = cli_format("%s/%s", folder, names[i]);
        f->is_pipeline = i == 0;
    }
    if (!f->config_path) return NULL;
    f->config = cli_read_file(f->config_path, NULL);
    if (!f->config) return cli_format("%s: %m", f->config_path);
    if (!trim_object(f->config)) return cli_format("%s: this is no JSON object", f->config_path);
    f->class_name = class_of(f->config);
    return NULL;
}

static void count_weights(found *f) {
    f->tensors = tsr_checkpoint_count(f->weights);
    for (size_t i = 0; i < f->tensors; i++) {
        const tsr_tensor_info *t = tsr_checkpoint_at(f->weights, i);
        f->parameters += t->size * 8 / tsr_dtype_bits(t->dtype);
        f->bytes += t->size;
    }
}

/* A folder that no plan can be made for is no fault: it may hold a scheduler. */
static void find_degrees(tsr_engine *engine, const char *path, found *f) {
    tsr_plan *plans = NULL;
    size_t n = 0;
    if (tsr_plan_make(engine, path, NULL, &plans, &n) != TSR_OK) return;
    for (size_t i = 0; i < plans->n_degrees && plans->n_degrees > 1; i++) {
        char *longer = cli_format("%s%s%d", i ? f->degrees : "", i ? ", " : "", plans->degrees[i]);
        free(f->degrees);
        f->degrees = longer;
    }
    tsr_plans_free(engine, plans, n);
}

/* NULL, or what is wrong, for free(3). *f is to be forgotten in either case. */
static char *look(tsr_engine *engine, const char *path, found *f) {
    bool folder = is_folder(path);
    char *problem = folder ? read_config(path, f) : NULL;
    if (problem) return problem;
    tsr_status status = TSR_OK;
    if (!f->config && cli_folder_is(path, CLI_TOKENIZER)) {
        status = tsr_tokenizer_from_pretrained(engine, path, &f->tokenizer);
    } else if (!f->config || (!f->is_pipeline && holds_weights(path))) {
        status = tsr_checkpoint_open(engine, path, &f->weights);
        if (status == TSR_OK) count_weights(f);
    }
    if (status != TSR_OK) return cli_format("%s", tsr_engine_message(engine));
    if (f->config && !f->is_pipeline) find_degrees(engine, path, f);
    return NULL;
}

static void forget(found *f) {
    tsr_tokenizer_destroy(f->tokenizer);
    tsr_checkpoint_close(f->weights);
    free(f->config_path);
    free(f->config);
    free(f->class_name);
    free(f->degrees);
}

/* ---- the folders of a pipeline: those that model_index.json names ---- */

static int is_entry(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Calls show for each component, in order of name. */
static void each_component(tsr_engine *engine, const char *path, const found *pipeline,
                           void (*show)(const char *name, const char *path, const found *f, const char *problem,
                                        size_t i)) {
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_entry, alphasort);
    size_t shown = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *row = cli_json_member(pipeline->config, name);
        char *below = cli_format("%s/%s", path, name);
        if (row && *row == '[' && is_folder(below)) {
            found f = {0};
            char *problem = look(engine, below, &f);
            show(name, below, &f, problem, shown++);
            free(problem);
            forget(&f);
        }
        free(below);
        free(entries[i]);
    }
    free(entries);
}

/* ---- for people ---- */

static void print_tensors(const found *f) {
    size_t width = 4;
    for (size_t i = 0; i < f->tensors; i++) {
        size_t n = strlen(tsr_checkpoint_at(f->weights, i)->name);
        if (n > width) width = n;
    }
    for (size_t i = 0; i < f->tensors; i++) {
        const tsr_tensor_info *t = tsr_checkpoint_at(f->weights, i);
        const char *slash = strrchr(t->file, '/');
        char shape[TSR_MAX_DIMS * 24 + 8];
        int at = snprintf(shape, sizeof shape, "[");
        for (int d = 0; d < t->ndim; d++)
            at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%" PRId64, d ? ", " : "", t->shape[d]);
        snprintf(shape + at, sizeof shape - (size_t)at, "]");
        printf("%-*s  %-8s  %-22s  %12" PRIu64 "  %s\n", (int)width, t->name, tsr_dtype_name(t->dtype), shape, t->size,
               slash ? slash + 1 : t->file);
    }
}

static void print_summary(const found *f, const char *problem) {
    char size[32];
    cli_size_text((double)f->bytes, size);
    if (problem)
        printf("cannot be opened: %s\n", problem);
    else if (f->tokenizer)
        printf("%s, %" PRId64 " tokens, padding %" PRId64 "\n", tsr_tokenizer_class_name(f->tokenizer),
               tsr_tokenizer_vocab_size(f->tokenizer), tsr_tokenizer_pad_id(f->tokenizer));
    else if (f->weights)
        printf("%s%s%zu tensors, %" PRIu64 " parameters, %s%s%s\n", f->class_name ? f->class_name : "",
               f->class_name ? ", " : "", f->tensors, f->parameters, size,
               f->degrees ? ", tensor parallel: degrees " : "", f->degrees ? f->degrees : "");
    else
        printf("%s, no weights\n", f->class_name ? f->class_name : "class unknown");
}

static void show_component(const char *name, const char *path, const found *f, const char *problem, size_t i) {
    (void)path;
    (void)i;
    printf("%-16s ", name);
    print_summary(f, problem);
}

static void print_all(tsr_engine *engine, const char *path, const found *f) {
    printf("%s: ", path);
    if (f->is_pipeline) {
        printf("%s\n", f->class_name ? f->class_name : "class unknown");
        each_component(engine, path, f, show_component);
    } else {
        print_summary(f, NULL);
    }
    if (f->tokenizer && tsr_tokenizer_model_max_length(f->tokenizer) != INT64_MAX)
        printf("at most %" PRId64 " tokens\n", tsr_tokenizer_model_max_length(f->tokenizer));
    if (f->config) printf("%s:\n%s\n", strrchr(f->config_path, '/') + 1, f->config);
    if (f->weights) print_tensors(f);
}

/* ---- for programs ---- */

static void print_member(const char *key, const char *value) {
    printf("\"%s\": ", key);
    if (value)
        cli_print_json_string(value);
    else
        fputs("null", stdout);
}

static void print_json_weights(const found *f) {
    printf(", \"parameters\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"tensors\": [", f->parameters, f->bytes);
    for (size_t i = 0; i < f->tensors; i++) {
        const tsr_tensor_info *t = tsr_checkpoint_at(f->weights, i);
        printf("%s{", i ? ", " : "");
        print_member("name", t->name);
        printf(", \"dtype\": \"%s\", \"shape\": [", tsr_dtype_name(t->dtype));
        for (int d = 0; d < t->ndim; d++) printf("%s%" PRId64, d ? ", " : "", t->shape[d]);
        printf("], \"bytes\": %" PRIu64 ", ", t->size);
        print_member("file", t->file);
        putchar('}');
    }
    putchar(']');
}

/* The members of an object, without its braces. */
static void print_json_members(const char *path, const found *f, const char *problem) {
    print_member("path", path);
    if (problem) {
        fputs(", ", stdout);
        print_member("problem", problem);
        return;
    }
    fputs(", ", stdout);
    print_member("class", f->tokenizer ? tsr_tokenizer_class_name(f->tokenizer) : f->class_name);
    if (f->config) printf(", \"config\": %s", f->config);
    if (f->degrees) printf(", \"tp_degrees\": [%s]", f->degrees);
    if (f->weights) print_json_weights(f);
    if (!f->tokenizer) return;
    printf(", \"vocab_size\": %" PRId64 ", \"pad_id\": %" PRId64, tsr_tokenizer_vocab_size(f->tokenizer),
           tsr_tokenizer_pad_id(f->tokenizer));
    if (tsr_tokenizer_model_max_length(f->tokenizer) != INT64_MAX)
        printf(", \"model_max_length\": %" PRId64, tsr_tokenizer_model_max_length(f->tokenizer));
}

static void show_json(const char *name, const char *path, const found *f, const char *problem, size_t i) {
    printf("%s{", i ? ", " : "");
    print_member("name", name);
    fputs(", ", stdout);
    print_json_members(path, f, problem);
    putchar('}');
}

static void print_json(tsr_engine *engine, const char *path, const found *f) {
    putchar('{');
    print_json_members(path, f, NULL);
    if (f->is_pipeline) {
        fputs(", \"components\": [", stdout);
        each_component(engine, path, f, show_json);
        putchar(']');
    }
    puts("}");
}

int cli_inspect(const cli_options *options) {
    const char *path = options->arguments[0];
    struct stat at;
    cli_session session;
    char *folder = NULL, *problem = NULL;
    int result = cli_session_open(options, &session);
    if (result != CLI_DONE) return result;
    found f = {0};
    if (stat(path, &at) != 0 && tsr_hub_resolve(session.engine, path, &folder) != TSR_OK)
        problem = cli_format("%s", tsr_engine_message(session.engine));
    if (folder) path = folder;
    if (!problem) problem = look(session.engine, path, &f);
    if (problem)
        result = cli_error("%s", problem);
    else
        (options->json ? print_json : print_all)(session.engine, path, &f);
    free(problem);
    forget(&f);
    tsr_free(session.engine, folder);
    cli_session_close(&session);
    return result;
}
