/* What the subcommands share: messages, an engine with its progress, names of outputs, a little JSON. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "options.h"

/* The subcommands; each returns the exit status. */
int cli_generate(const cli_options *options);
int cli_forward(const cli_options *options);
int cli_inspect(const cli_options *options);
int cli_tokenize(const cli_options *options);
int cli_plan(const cli_options *options);
int cli_save(const cli_options *options);
int cli_verify(const cli_options *options);
int cli_bench(const cli_options *options);
int cli_bench_load(const cli_options *options);
int cli_bench_collectives(const cli_options *options);

/* One line "tessera: error: ..." on stderr, of a launcher's processes from the first. Returns CLI_FAILED. */
int cli_error(const char *format, ...) TSR_PRINTF(1, 2);
/* The same for a wrong command line, with a hint at --help of the command (NULL: of tessera). Returns CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) TSR_PRINTF(2, 3);

/* Zeroed memory for free(3); ends the process with a message where there is none. */
void *cli_alloc(size_t n, size_t bytes);
/* The array [n], moved where it was full to have room for one more of `bytes`. NULL with n 0: a new one. */
void *cli_grow(void *array, size_t n, size_t *capacity, size_t bytes);
/* printf into such memory. */
char *cli_format(const char *format, ...) TSR_PRINTF(1, 2);
/* A whole file, NUL-terminated, in such memory; NULL with errno where it cannot be read. */
char *cli_read_file(const char *path, size_t *length);

/* ---- session.c: an engine that tells its progress ---- */

typedef struct cli_progress cli_progress;

typedef struct cli_session {
    const cli_options *options;
    tsr_engine *engine;
    cli_progress *progress;
    bool quiet;
    char refusal[2048]; /* an error that is in no engine: the library's where none can be made, or the command's own */
} cli_session;

/* What the library needs to know for an engine whose progress and notes the session tells. */
tsr_engine_options cli_engine_options(const cli_options *options, tsr_log_fn log, void *log_user,
                                      cli_progress *progress);
/* One engine. CLI_DONE, or CLI_FAILED after a message and with nothing to close. */
int cli_session_open(const cli_options *options, cli_session *out);
void cli_session_close(cli_session *session);
/* Prints the engine's message, after `where: ` unless that is NULL. Returns CLI_FAILED. */
int cli_session_error(cli_session *session, const char *where, tsr_status status);
/* A line on stderr, unless --quiet. */
void cli_session_note(cli_session *session, const char *format, ...) TSR_PRINTF(2, 3);

/* ---- ranks.c: a session on every rank ---- */

/* What a rank does. Its session is quiet unless it is the first. A failure is in the engine, or in session->refusal;
 * it is printed once, after all ranks have ended. */
typedef tsr_status (*cli_rank_body)(cli_session *session, void *user);
/* Runs body on all ranks that the options ask for. Returns the exit status. */
int cli_launch(const cli_options *options, cli_rank_body body, void *user);
/* A failure that the library knows nothing of: its sentence goes into session->refusal. Returns TSR_ARG. */
tsr_status cli_session_refuse(cli_session *session, const char *format, ...) TSR_PRINTF(2, 3);

/* ---- layout.c ---- */

/* The parallel options as the library takes them. Stays where it is: parallel points into it. */
typedef struct cli_layout {
    tsr_tensor_parallel_config tp;
    tsr_context_parallel_config cp;
    tsr_parallel_config parallel;
    tsr_tp_plan *plan; /* NULL: the full one */
} cli_layout;
/* Reads --tp-plan. Collective. Close it in either case, after everything that was opened with it. */
tsr_status cli_layout_open(cli_session *session, cli_layout *out);
/* "ring 2 x tp 2", "1 rank" */
void cli_layout_text(const cli_options *options, char *text, size_t size);
/* "--ring 2 --tp 2": the degrees as options; where none is above 1, those that would suit so many ranks. */
void cli_layout_options(const cli_options *options, int64_t ranks, char *text, size_t size);
void cli_layout_close(cli_session *session, cli_layout *layout);

/* ---- request.c: what generate and verify draw ---- */

typedef struct cli_request {
    const cli_options *options;
    const char *source;   /* how messages call --prompt-file */
    char *file;           /* its bytes, which prompts point into */
    const char **prompts; /* [n_prompts] */
    size_t n_prompts, n_images;
    uint64_t seed; /* where the options name none */
} cli_request;
/* Collects the prompts and checks the seeds. CLI_DONE, or another exit status after one message. Close it in either
 * case. */
int cli_request_open(const cli_options *options, cli_request *out);
void cli_request_close(cli_request *request);
/* As the library takes it; points into the request. */
tsr_generate_options cli_request_options(const cli_request *request);

/* ---- inputs.c: --inputs ---- */

/* The arguments of a component's forward. */
typedef struct cli_inputs {
    tsr_checkpoint *file;
    tsr_tensor *tensors; /* [n]; their names belong to the file */
    size_t n;
} cli_inputs;
/* Opens the file; then reads the tensors that are arguments of the model, and names the others in one line. Local.
 * Close it in either case. */
tsr_status cli_inputs_open(cli_session *session, cli_inputs *out);
tsr_status cli_inputs_read(cli_session *session, const tsr_model *model, cli_inputs *inputs);
void cli_inputs_close(cli_inputs *inputs);

/* ---- progress.c ---- */

cli_progress *cli_progress_start(bool shown);
void cli_progress_stop(cli_progress *progress);
/* For tsr_engine_options: user is the cli_progress. Says no after a signal. */
bool cli_progress_report(void *user, const tsr_progress *report);
/* A line to say with the first report: as soon as all is checked and the work begins. */
void cli_progress_announce(cli_progress *progress, const char *line);
/* A line on stderr that does not collide with the bar; a line of the library's with its level in front. */
void cli_progress_say(cli_progress *progress, const char *line);
void cli_progress_log(cli_progress *progress, tsr_log_level level, const char *line);
/* From here on SIGINT and SIGTERM cancel at the next report; a second one ends the process. */
void cli_catch_signals(void);
/* The engine of this process where it is one of several ranks: a signal then also says where it came, and ends a rank
 * that makes no reports. NULL: no more. */
void cli_watch_engine(const tsr_engine *engine);
/* The name of the signal that came, or NULL. */
const char *cli_caught_signal(void);

/* ---- folder.c ---- */

typedef enum cli_folder { CLI_PIPELINE, CLI_COMPONENT, CLI_TOKENIZER } cli_folder;

bool cli_folder_has(const char *folder, const char *name);
bool cli_folder_is(const char *path, cli_folder kind);
/* A component and no pipeline. */
bool cli_is_component(const char *path);
/* CLI_FAILED after a message where the folder is of another kind alone. What else is wrong with it is for the library
 * to say. */
int cli_want_folder(const char *path, cli_folder wanted);

/* ---- output.c ---- */

bool cli_has_extension(const char *path, const char *extension);
/* CLI_USAGE with a message where the path that an option gave does not end as it must; devices and folders may have any
 * name. */
int cli_check_extension(const char *command, const char *option, const char *path, const char *extension);
/* The name of picture i of n: out.png, or out.<i>.png of several. free(3). */
char *cli_picture_name(const char *path, size_t i, size_t n);
/* Do both names lead to one file, or would they, once it is written? By any spelling and over links; not so for
 * devices, which lose nothing. */
bool cli_same_file(const char *a, const char *b);
/* "1.40 MB" */
void cli_size_text(double bytes, char out[32]);
/* Bytes of the UTF-8 character at text, 0 where there is none. */
size_t cli_utf8_length(const char *text);
/* Bytes of the text up to its end, or to the first that is not UTF-8. */
size_t cli_utf8_valid(const char *text);
/* As a JSON string; bytes that are not UTF-8 become U+FFFD. */
void cli_print_json_string(const char *text);

/* ---- json.c: just enough to read a line and to find a member ---- */

/* The end of the value at `at`, or NULL. */
const char *cli_json_skip(const char *at);
/* Decodes the string at *at into out (which has room for as many bytes as the text has), and moves *at behind it.
 * NULL, or what is wrong. */
const char *cli_json_string(const char **at, char *out, size_t *length);
/* The value of a member of the object at `object`, or NULL. */
const char *cli_json_member(const char *object, const char *key);

#endif
