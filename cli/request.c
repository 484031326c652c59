/* What the command line asks a pipeline to draw. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int check_text(const char *where, const char *text) {
    size_t valid = cli_utf8_valid(text);
    if (!text[valid]) return CLI_DONE;
    return cli_error("%s is not UTF-8 at byte %zu (0x%02x); give it in UTF-8", where, valid,
                     (unsigned char)text[valid]);
}

static int add_prompt(cli_request *r, const char *prompt, const char *source, size_t number) {
    char *where = cli_format("%s %zu", source, number);
    int result = check_text(where, prompt);
    free(where);
    r->prompts[r->n_prompts++] = prompt;
    return result;
}

/* Every line of text that is not empty, as one more prompt; cuts the text into lines. */
static int add_lines(cli_request *r, char *text) {
    char *source = cli_format("%s: line", r->source);
    int result = CLI_DONE;
    size_t number = 0;
    for (char *line = text, *next; line && result == CLI_DONE; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = '\0';
        number++;
        if (*line) result = add_prompt(r, line, source, number);
    }
    free(source);
    return result;
}

static size_t count_lines(const char *text, size_t n) {
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    return lines;
}

static int check_seeds(const cli_request *r) {
    const cli_options *o = r->options;
    if (o->n_seeds <= 1 || o->n_seeds == r->n_images) return CLI_DONE;
    return cli_usage(o->command, "--seed lists %zu seeds for %zu pictures; give one, or one a picture", o->n_seeds,
                     r->n_images);
}

/* Of --prompt-file; a launcher gives the standard input to its first process alone. */
static int read_file(cli_request *r, size_t *bytes) {
    const cli_options *o = r->options;
    bool standard = strcmp(o->prompt_file, "-") == 0;
    if (standard && tsr_launcher_size() > 1)
        return cli_usage(o->command, "--prompt-file -: only one of the launcher's processes has a standard input; "
                                     "give a file");
    r->source = standard ? "standard input" : o->prompt_file;
    r->file = cli_read_file(standard ? "/dev/stdin" : o->prompt_file, bytes);
    if (!r->file) return cli_error("%s: %s", r->source, strerror(errno));
    return strlen(r->file) == *bytes ? CLI_DONE : cli_error("%s: it holds a NUL byte", r->source);
}

static int add_prompts(cli_request *r, size_t bytes) {
    const cli_options *o = r->options;
    size_t given = (size_t)o->n_arguments - 1;
    int result = CLI_DONE;
    r->prompts = cli_alloc(given + (r->file ? count_lines(r->file, bytes) : 0), sizeof *r->prompts);
    for (size_t i = 1; i <= given && result == CLI_DONE; i++) result = add_prompt(r, o->arguments[i], "prompt", i);
    return r->file && result == CLI_DONE ? add_lines(r, r->file) : result;
}

int cli_request_open(const cli_options *o, cli_request *r) {
    size_t bytes = 0;
    *r = (cli_request){.options = o};
    int result = o->prompt_file ? read_file(r, &bytes) : CLI_DONE;
    if (result == CLI_DONE) result = add_prompts(r, bytes);
    if (result != CLI_DONE) return result;
    r->n_images = r->n_prompts * (o->images ? (size_t)o->images : 1);
    if (r->n_prompts) return check_seeds(r);
    return cli_usage(o->command, "there is no prompt%s%s", r->file ? " in " : "", r->file ? r->source : "");
}

void cli_request_close(cli_request *r) {
    free(r->prompts);
    free(r->file);
}

tsr_generate_options cli_request_options(const cli_request *r) {
    const cli_options *o = r->options;
    tsr_generate_options g = TSR_GENERATE_OPTIONS_INIT;
    g.prompts = r->prompts;
    g.n_prompts = r->n_prompts;
    g.height = o->height;
    g.width = o->width;
    g.num_inference_steps = (int)o->steps;
    g.guidance_scale = o->guidance_scale;
    g.num_images_per_prompt = (int)o->images;
    g.max_sequence_length = o->max_sequence_length;
    g.sigmas = o->sigmas;
    g.n_sigmas = o->n_sigmas;
    g.seeds = o->seeds ? o->seeds : &r->seed;
    g.n_seeds = o->seeds ? o->n_seeds : 1;
    return g;
}
