#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct job {
    const cli_options *options;
    cli_session session;
    tsr_tokenizer *tokenizer; /* with --raw; else pipeline */
    tsr_pipeline *pipeline;
} job;

static tsr_status encode(job *j, const char *text, size_t length, int64_t **ids, size_t *n) {
    const cli_options *o = j->options;
    if (j->tokenizer) return tsr_tokenizer_encode(j->tokenizer, text, length, !o->no_special, ids, n);
    return tsr_pipeline_tokenize(j->pipeline, text, o->max_sequence_length, ids, n);
}

/* Prints the ids of a text as one line. where: for the message, or NULL. */
static int print_ids(job *j, const char *text, size_t length, const char *where) {
    int64_t *ids = NULL;
    size_t n = 0;
    if (!j->tokenizer && strlen(text) != length)
        return cli_error("%s: a prompt with a NUL character can be tokenized with --raw only", where);
    tsr_status status = encode(j, text, length, &ids, &n);
    if (status != TSR_OK) return cli_session_error(&j->session, where, status);
    putchar('[');
    for (size_t i = 0; i < n; i++) printf("%s%" PRId64, i ? ", " : "", ids[i]);
    puts("]");
    tsr_free(j->session.engine, ids);
    return CLI_DONE;
}

static int print_line(job *j, const char *line, size_t length, size_t number) {
    char *text = cli_alloc(length + 1, 1), where[40];
    const char *at = line + strspn(line, " \t");
    size_t n = 0;
    snprintf(where, sizeof where, "standard input, line %zu", number);
    const char *fault = strlen(line) == length ? cli_json_string(&at, text, &n) : "it holds a NUL byte";
    if (!fault && at[strspn(at, " \t\r\n")]) fault = "something follows the JSON string";
    int result = fault ? cli_error("%s: %s", where, fault) : CLI_DONE;
    if (result == CLI_DONE) {
        text[n] = '\0';
        result = print_ids(j, text, n, where);
    }
    if (result == CLI_DONE && (fflush(stdout) != 0 || ferror(stdout))) /* whoever asks line by line waits for it */
        result = cli_error("standard output: %s", strerror(errno));
    free(text);
    return result;
}

static int print_lines(job *j) {
    char *line = NULL;
    size_t room = 0, number = 0;
    int result = CLI_DONE;
    ssize_t n = 0;
    while (result == CLI_DONE && (n = getline(&line, &room, stdin)) >= 0)
        result = print_line(j, line, (size_t)n, ++number);
    if (result == CLI_DONE && !feof(stdin)) result = cli_error("standard input: %s", strerror(errno));
    free(line);
    return result;
}

static int run(job *j) {
    const cli_options *o = j->options;
    tsr_status status;
    if (o->raw)
        status = tsr_tokenizer_from_pretrained(j->session.engine, o->arguments[0], &j->tokenizer);
    else
        status = tsr_pipeline_from_pretrained(j->session.engine, o->arguments[0], NULL, &j->pipeline);
    if (status != TSR_OK) return cli_session_error(&j->session, NULL, status);
    if (o->from_stdin) return print_lines(j);
    return print_ids(j, o->arguments[1], strlen(o->arguments[1]), NULL);
}

static int check_usage(const cli_options *o) {
    if (o->from_stdin && o->n_arguments == 2)
        return cli_usage(o->command, "--stdin reads the prompts; '%s' is too much", o->arguments[1]);
    if (!o->from_stdin && o->n_arguments < 2) return cli_usage(o->command, "there is no prompt");
    if (o->no_special && !o->raw) return cli_usage(o->command, "--no-special needs --raw");
    if (o->raw && o->max_sequence_length)
        return cli_usage(o->command, "--max-sequence-length belongs to the pipeline's form; --raw does not pad");
    return CLI_DONE;
}

int cli_tokenize(const cli_options *options) {
    job j = {.options = options};
    int result = check_usage(options);
    if (result == CLI_DONE)
        result = cli_want_folder(options->arguments[0], options->raw ? CLI_TOKENIZER : CLI_PIPELINE);
    if (result == CLI_DONE) result = cli_session_open(options, &j.session);
    if (result != CLI_DONE) return result;
    result = run(&j);
    tsr_tokenizer_destroy(j.tokenizer);
    tsr_pipeline_destroy(j.pipeline);
    cli_session_close(&j.session);
    return result;
}
