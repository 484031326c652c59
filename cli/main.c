#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const cli_command commands[] = {
    {"generate", CLI_GENERATE, "MODEL PROMPT [PROMPT ...] [options]",
     "Draws pictures. MODEL is a diffusers pipeline folder, or a Hub name (org/name) that the local\n"
     "Hugging Face cache holds. Several prompts are one batch. A prompt that begins with '-' goes behind '--'.",
     "tessera generate ./FLUX.2-klein-4B \"a red fox beside a frozen lake\" --seed 42 -o fox.png", 1, INT_MAX, true,
     cli_generate},
    {"forward", CLI_FORWARD, "COMPONENT --inputs FILE -o FILE [options]",
     "Runs one component (a folder with config.json and weights) once on saved tensors. A leading\n"
     "'transformer_in.' or 'in.' of their names is stripped; names that the class does not know are ignored.",
     "tessera forward ./FLUX.2-klein-4B/transformer --inputs in.safetensors -o out.safetensors", 1, 1, true,
     cli_forward},
    {"inspect", CLI_INSPECT, "FILE_OR_DIR [--json]",
     "Lists the tensors of a safetensors file, or the configs, tensors and tokenizers of a folder or a Hub name.",
     "tessera inspect ./FLUX.2-klein-4B/transformer", 1, 1, false, cli_inspect},
    {"tokenize", CLI_TOKENIZE, "MODEL PROMPT | MODEL --stdin [options]",
     "Prints the token ids of a prompt as the pipeline makes them: template, truncation, padding.",
     "tessera tokenize ./FLUX.2-klein-4B \"a red fox\" --max-sequence-length 64", 1, 2, false, cli_tokenize},
    {"plan", CLI_PLAN, "MODEL_OR_COMPONENT [--tp N] [--json] [options]",
     "What each rank would hold, read, compute and send, from configs and file headers: no weight is read.\n"
     "A step is one of denoising, the encoding of a prompt, or the decoding of its pictures.",
     "tessera plan ./FLUX.2-klein-4B --tp 2 --memory-per-rank 8GB", 1, 1, false, cli_plan},
    {"save", CLI_SAVE, "MODEL_OR_COMPONENT -o DIR [--max-shard-size SIZE] [--tp N] [options]",
     "Writes a model back as a diffusers folder, its ranks in parallel: all tensors with the same bytes, in files of\n"
     "at most --max-shard-size. DIR appears complete or not at all. MODEL is a pipeline folder or a Hub name.",
     "tessera save ./FLUX.2-klein-4B -o ./resharded --max-shard-size 2GB --tp 2", 1, 1, true, cli_save},
    {"verify", CLI_VERIFY, "MODEL PROMPT [PROMPT ...] | COMPONENT --inputs FILE [options]",
     "Runs a model as configured and on one rank, and compares what every module gives in the first step, the latents\n"
     "of every step and the picture. Says which output departs first and by how much, and the worst; exit status 1 if\n"
     "one does. Of a module's output with more than 65536 elements so many are compared, by a fixed pseudo-random\n"
     "sequence; all of them with --against.",
     "tessera verify ./FLUX.2-klein-4B \"a red fox\" -H 256 -W 256 --tp 2", 1, INT_MAX, true, cli_verify},
    {"bench", CLI_BENCH, "step --config FILE --random-weights | load FOLDER | collectives [options]",
     "step: one step of a transformer with random weights; no checkpoint is needed. load: a component's weights\n"
     "streamed, each rank its part, against loaded whole and then cut, beside a plain read of as many bytes.\n"
     "collectives: latency and bandwidth between the ranks, and how much of an exchange hides behind work.",
     "tessera bench step --config transformer/config.json --random-weights --num-layers 1 --num-single-layers 2", 1, 2,
     true, cli_bench},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int print_overview(void) {
    puts("usage: tessera COMMAND ...   |   tessera --version\n\ncommands:");
    for (size_t i = 0; i < N_COMMANDS; i++) printf("  tessera %-9s %s\n", commands[i].name, commands[i].usage);
    puts("\n'tessera COMMAND --help' says more. Exit status: 0 done, 1 a failure, 2 wrong usage.\n\nexample:");
    printf("  %s\n", commands[0].example);
    return CLI_DONE;
}

static int print_version(void) {
    cli_options none = {.quiet = true};
    cli_session session;
    int status = cli_session_open(&none, &session);
    if (status != CLI_DONE) return status;
    printf("tessera %s\n%s\nMPI: %s\n", tsr_version(), tsr_engine_device_description(session.engine),
           tsr_mpi_version());
    cli_session_close(&session);
    return CLI_DONE;
}

static int refuse_command(const char *name) {
    const char *names[N_COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *near = cli_nearest(name, names);
    if (near) return cli_usage(NULL, "unknown command '%s'; did you mean '%s'?", name, near);
    return cli_usage(NULL, "unknown command '%s'", name);
}

static int run_command(const cli_command *command, int n, char **words) {
    cli_options options;
    int status = cli_options_parse(command, n, words, &options);
    bool first = tsr_launcher_rank() == 0;
    if (status == CLI_DONE && options.help && first)
        cli_print_help(command);
    else if (status == CLI_DONE && !options.help && (first || command->on_ranks))
        status = command->run(&options);
    cli_options_free(&options);
    return status;
}

static int run(int argc, char **argv) {
    if (argc < 2) return cli_usage(NULL, "no command is given");
    bool first = tsr_launcher_rank() == 0; /* what needs no ranks is done by one of them */
    if (strcmp(argv[1], "--version") == 0) return first ? print_version() : CLI_DONE;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return first ? print_overview() : CLI_DONE;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) return run_command(&commands[i], argc - 2, argv + 2);
    }
    return refuse_command(argv[1]);
}

/* A closed stdin, stdout or stderr would give its number to the next file that is opened, and messages would go there.
 * What takes the place of the first two fails when it is used: nobody wants an input or a result lost. */
static void open_standard_files(void) {
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", modes[fd]); /* the lowest free number is fd */
}

int main(int argc, char **argv) {
    open_standard_files();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error like others, */
    signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
    int status = run(argc, argv);
    bool lost = ferror(stdout) != 0; /* errno is still that of the write, or fclose sets it */
    if ((fclose(stdout) != 0 || lost) && status == CLI_DONE) status = cli_error("standard output: %s", strerror(errno));
    return status;
}
