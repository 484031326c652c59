/* What kind of folder a path leads to: each kind is known by a file in it. */
#include <stdlib.h>
#include <sys/stat.h>

#include "cli.h"

static const struct {
    cli_folder kind;
    const char *name, *file;
} marks[] = {
    {CLI_PIPELINE, "a pipeline", "model_index.json"},
    {CLI_COMPONENT, "a component", "config.json"},
    {CLI_TOKENIZER, "a tokenizer", "tokenizer_config.json"},
    {CLI_TOKENIZER, "a tokenizer", "tokenizer.json"},
    {CLI_TOKENIZER, "a tokenizer", "vocab.json"},
};
enum { N_MARKS = sizeof marks / sizeof marks[0] };

bool cli_folder_has(const char *folder, const char *name) {
    struct stat at;
    char *path = cli_format("%s/%s", folder, name);
    bool there = stat(path, &at) == 0;
    free(path);
    return there;
}

bool cli_folder_is(const char *path, cli_folder kind) {
    bool is = false;
    for (size_t i = 0; i < N_MARKS && !is; i++) is = marks[i].kind == kind && cli_folder_has(path, marks[i].file);
    return is;
}

bool cli_is_component(const char *path) {
    return cli_folder_is(path, CLI_COMPONENT) && !cli_folder_is(path, CLI_PIPELINE);
}

int cli_want_folder(const char *path, cli_folder wanted) {
    size_t found = 0, want = 0;
    if (cli_folder_is(path, wanted)) return CLI_DONE;
    while (found < N_MARKS && !cli_folder_has(path, marks[found].file)) found++;
    while (marks[want].kind != wanted) want++;
    if (found == N_MARKS) return CLI_DONE;
    return cli_error("%s: this is the folder of %s; give that of %s, which holds %s", path, marks[found].name,
                     marks[want].name, marks[want].file);
}
