/* The command line: one table of options for all subcommands. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <tessera/tessera.h>

enum { CLI_DONE, CLI_FAILED, CLI_USAGE }; /* exit statuses */

/* Who takes an option. */
enum {
    CLI_GENERATE = 1,
    CLI_FORWARD = 2,
    CLI_INSPECT = 4,
    CLI_TOKENIZE = 8,
    CLI_PLAN = 16,
    CLI_SAVE = 32,
    CLI_VERIFY_PROMPT = 64,
    CLI_VERIFY_INPUTS = 128,
    CLI_VERIFY = CLI_VERIFY_PROMPT | CLI_VERIFY_INPUTS,
    CLI_BENCH_STEP = 256,
    CLI_BENCH_LOAD = 512,
    CLI_BENCH_COLLECTIVES = 1024,
    CLI_BENCH = CLI_BENCH_STEP | CLI_BENCH_LOAD | CLI_BENCH_COLLECTIVES
};

/* What was asked for. Texts belong to argv; zero and NULL mean "not given" unless a comment says otherwise. */
typedef struct cli_options {
    const char *command;
    bool help, json, force, quiet, verbose, no_progress, no_metadata, dump_blocks, raw, no_special, from_stdin, random,
        cold, ring_anything, ulysses_anything, no_convert_to_fp32, show, no_show;
    int64_t height, width, steps, images, max_sequence_length, threads;
    int64_t tp, ring, ulysses;                                   /* degrees, after parsing at least 1 */
    int64_t text_encoder_tp;                                     /* 0: the largest that works */
    int64_t as_rank, of;                                         /* -1, 0: not given; else tp is `of` too */
    int64_t tokens, text_tokens, layers, single_layers, repeats; /* bench: 1024, 512, -1, -1, 0 */
    int64_t max_shard_size, memory_per_rank, bytes;              /* bytes; 0: not given */
    double guidance_scale;                                       /* -1: not given */
    double atol, rtol;                                           /* 0.001 */
    const char *output, *grid, *output_type, *dump, *prompt_file, *device, *dtype, *weights, *config, *inputs, *mesh,
        *tp_plan, *against, *mode, *rotate_method;
    double *sigmas;
    size_t n_sigmas;
    uint64_t *seeds;
    size_t n_seeds;
    const char **arguments; /* what is no option */
    int n_arguments;
} cli_options;

typedef struct cli_command {
    const char *name;
    unsigned mask;
    const char *usage, *summary, *example;
    int min_arguments, max_arguments;
    bool on_ranks; /* of a launcher all ranks run it; else the first alone */
    int (*run)(const cli_options *options);
} cli_command;

/* Reads the words after the subcommand. CLI_DONE, or CLI_USAGE after one message. *out is to be freed in either case.
 */
int cli_options_parse(const cli_command *command, int n, char **words, cli_options *out);
void cli_options_free(cli_options *options);
/* Degrees: --mesh, --tp and --of as one, what this version lacks refused. CLI_DONE, or CLI_USAGE after one message. */
int cli_degrees_resolve(cli_options *options);
/* The product of all degrees. */
int64_t cli_n_ranks(const cli_options *options);

void cli_print_help(const cli_command *command);

/* The name nearest to `word`, or NULL where none is near. names ends with NULL. */
const char *cli_nearest(const char *word, const char *const *names);

#endif
