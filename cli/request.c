/* What the command line asks a pipeline to draw. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Every line of text that is not empty, as one more prompt; cuts the text into lines. */
static void add_lines(cli_request *r, char *text) {
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = '\0';
        if (*line) r->prompts[r->n_prompts++] = line;
    }
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

int cli_request_open(const cli_options *o, cli_request *r) {
    size_t bytes = 0, given = (size_t)o->n_arguments - 1;
    *r = (cli_request){.options = o};
    if (o->prompt_file) r->file = cli_read_file(o->prompt_file, &bytes);
    if (o->prompt_file && !r->file) return cli_error("%s: %s", o->prompt_file, strerror(errno));
    if (r->file && strlen(r->file) != bytes) return cli_error("%s: it holds a NUL byte", o->prompt_file);
    r->prompts = cli_alloc(given + (r->file ? count_lines(r->file, bytes) : 0), sizeof *r->prompts);
    for (size_t i = 0; i < given; i++) r->prompts[r->n_prompts++] = o->arguments[i + 1];
    if (r->file) add_lines(r, r->file);
    r->n_images = r->n_prompts * (o->images ? (size_t)o->images : 1);
    if (r->n_prompts) return check_seeds(r);
    return cli_usage(o->command, "there is no prompt%s%s", r->file ? " in " : "", r->file ? o->prompt_file : "");
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
