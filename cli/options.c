#include "options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

enum {
    G = CLI_GENERATE,
    F = CLI_FORWARD,
    I = CLI_INSPECT,
    T = CLI_TOKENIZE,
    P = CLI_PLAN,
    S = CLI_SAVE,
    V = CLI_VERIFY,
    VP = CLI_VERIFY_PROMPT,
    B = CLI_BENCH,
    BS = CLI_BENCH_STEP,
    BL = CLI_BENCH_LOAD,
    BC = CLI_BENCH_COLLECTIVES
};

typedef enum kind { FLAG, WHOLE, REAL, SIGMAS, SEEDS, SIZE, TEXT, CHOICE } kind;

typedef struct option {
    char letter;
    const char *name;
    kind kind;
    unsigned commands;
    size_t offset;
    int64_t min, max;
    const char *value; /* how help calls it; of a CHOICE: the choices */
    const char *help;  /* NULL: another name of the option above */
} option;

#define AT(member) offsetof(cli_options, member)

/* clang-format off */
static const option table[] = {
    {'o', "output", TEXT, G, AT(output), 0, 0, "FILE", "where the result goes (out.png, of several pictures out.0.png ...; latents: out.safetensors)"},
    {'o', "output", TEXT, F, AT(output), 0, 0, "FILE", "where the result goes (.safetensors)"},
    {'o', "output", TEXT, S, AT(output), 0, 0, "DIR", "the folder to write; replaced if it holds nothing but a saved model"},
    {0, "grid", TEXT, G, AT(grid), 0, 0, "FILE", "all pictures in one PNG as well, small ones enlarged"},
    {0, "max-shard-size", SIZE, S, AT(max_shard_size), 1, INT64_C(1) << 53, "SIZE", "most bytes of weights in a file: 5GB (the default), 500MB, or a number of bytes"},
    {'H', "height", WHOLE, G | P | VP, AT(height), 1, 65536, "N", "pixels (the model's own size); rounded down to a multiple of its unit (16 for FLUX.2)"},
    {'W', "width", WHOLE, G | P | VP, AT(width), 1, 65536, "N", "pixels (the model's own size); rounded down to a multiple of its unit (16 for FLUX.2)"},
    {0, "num-inference-steps", WHOLE, G | VP, AT(steps), 1, 10000, "N", "denoising steps (4 for a distilled model, else 50); also --steps"},
    {0, "steps", WHOLE, G | VP, AT(steps), 1, 10000, "N", NULL},
    {0, "guidance-scale", REAL, G | VP, AT(guidance_scale), 0, 1000, "X", "classifier-free guidance (1 for a distilled model, else 4)"},
    {0, "sigmas", SIGMAS, G | VP, AT(sigmas), 0, 0, "A,B,...", "noise levels to step through, instead of evenly spaced ones; --steps then sets their shift alone, as in diffusers"},
    {0, "seed", SEEDS, G | VP, AT(seeds), 0, 0, "N[,N...]", "one: a generator for the batch, as diffusers (random, printed; verify: 0); a list: one a picture"},
    {'n', "num-images-per-prompt", WHOLE, G | P | VP, AT(images), 1, 4096, "N", "pictures of each prompt (1)"},
    {0, "prompt-file", TEXT, G | VP, AT(prompt_file), 0, 0, "FILE", "more prompts, one a line; - is the standard input"},
    {0, "max-sequence-length", WHOLE, G | T | P | VP, AT(max_sequence_length), 1, 1048576, "N", "tokens of the padded prompt (512, or fewer if the tokenizer takes no more)"},
    {0, "output-type", CHOICE, G, AT(output_type), 0, 0, "png|latent", "pictures (png), or what the VAE would decode, as .safetensors"},
    {0, "dump", TEXT, G, AT(dump), 0, 0, "DIR", "write DIR/stages.safetensors: ids, embeddings, latents of every step"},
    {0, "dump-blocks", FLAG, G, AT(dump_blocks), 0, 0, NULL, "with --dump: also every submodule of the first step"},
    {0, "inputs", TEXT, F | V, AT(inputs), 0, 0, "FILE", "tensors by the names of the diffusers forward's arguments (.safetensors)"},
    {0, "against", TEXT, V, AT(against), 0, 0, "DUMP", "outputs to compare with instead of one rank's: a folder of --dump, or a .safetensors file"},
    {0, "atol", REAL, V, AT(atol), 0, 1000000, "X", "allowed are |a - b| <= atol + rtol |b| (0.001)"},
    {0, "rtol", REAL, V, AT(rtol), 0, 1000000, "X", "the same (0.001)"},
    {0, "dtype", CHOICE, G | F | BS | V, AT(dtype), 0, 0, "bfloat16|float32|float16", "diffusers' torch_dtype (generate: the checkpoint's; forward, bench: float32)"},
    {0, "device", CHOICE, G | F | B | S | P | V, AT(device), 0, 0, "cpu|ref", "cpu (fast), or ref (plain C, the oracle)"},
    {0, "threads", WHOLE, G | F | B | S | P | V, AT(threads), 1, 4096, "N", "threads of each rank (its share of the cores that may be used)"},
    {0, "tp", WHOLE, G | F | B | P | S | V, AT(tp), 1, 1024, "N", "ranks that share the weights (1); without a launcher they are threads"},
    {0, "text-encoder-tp", WHOLE, G | P | S | VP, AT(text_encoder_tp), 1, 1024, "N", "ranks that share the text encoder (as many of them as its plan allows)"},
    {0, "tp-plan", TEXT, G | F | P | S | V, AT(tp_plan), 0, 0, "PLAN", "full (default), reference (what diffusers splits), or a JSON file of rules"},
    {0, "mesh", TEXT, G | F | B | P | S | V, AT(mesh), 0, 0, "AXES", "the same as named axes: \"ring=2,ulysses=1,tp=2\""},
    {0, "ring", WHOLE, G | F | BS | BC | P | S | V, AT(ring), 1, 1024, "N", "ranks that share the sequence: keys and values come round (1)"},
    {0, "ulysses", WHOLE, G | F | BS | BC | P | S | V, AT(ulysses), 1, 1024, "N", "ranks that share the sequence: tokens are traded for heads (1)"},
    {0, "ring-anything", FLAG, G | F | BS | BC | P | S | V, AT(ring_anything), 0, 0, NULL, "allow any number of tokens with --ring"},
    {0, "ulysses-anything", FLAG, G | F | BS | BC | P | S | V, AT(ulysses_anything), 0, 0, NULL, "allow any number of tokens and heads with --ulysses"},
    {0, "rotate-method", CHOICE, G | F | BS | BC | P | S | V, AT(rotate_method), 0, 0, "allgather|alltoall", "keys and values of a ring: all at once, or block after block"},
    {0, "no-convert-to-fp32", FLAG, G | F | BS | BC | P | S | V, AT(no_convert_to_fp32), 0, 0, NULL, "diffusers' convert_to_fp32=False; changes nothing here"},
    {0, "as-rank", WHOLE, BL | P, AT(as_rank), 0, 1023, "R", "one rank's part alone, on this machine (plan, bench load)"},
    {0, "of", WHOLE, BL | P, AT(of), 1, 1024, "N", "of so many ranks, with --as-rank"},
    {0, "memory-per-rank", SIZE, P, AT(memory_per_rank), 1, INT64_C(1) << 53, "SIZE", "what a rank has, to compare with: 24GB, 22.5GiB, or a number of bytes"},
    {0, "force", FLAG, G | F | BS | BL | S | V, AT(force), 0, 0, NULL, "go on although the memory check says no"},
    {0, "config", TEXT, BS, AT(config), 0, 0, "FILE", "config.json of a transformer, or its folder"},
    {0, "random-weights", FLAG, BS, AT(random), 0, 0, NULL, "with step, required: no checkpoint is read"},
    {0, "tokens", WHOLE, BS, AT(tokens), 1, 1048576, "N", "image tokens (1024)"},
    {0, "text-tokens", WHOLE, BS, AT(text_tokens), 1, 1048576, "N", "text tokens (512)"},
    {0, "num-layers", WHOLE, BS, AT(layers), 0, 10000, "N", "double-stream blocks (the config's)"},
    {0, "num-single-layers", WHOLE, BS, AT(single_layers), 0, 10000, "N", "single-stream blocks (the config's)"},
    {0, "weights", CHOICE, BS, AT(weights), 0, 0, "bfloat16|float32", "dtype of the weights in memory (bfloat16)"},
    {0, "bytes", SIZE, BC, AT(bytes), 1 << 22, INT64_C(1) << 40, "SIZE", "with collectives: payload of a call (32MiB)"},
    {0, "repeats", WHOLE, B, AT(repeats), 1, 1000, "N", "how often; the best counts (step: 3, load: 5)"},
    {0, "mode", CHOICE, BL, AT(mode), 0, 0, "streamed|whole|both", "with load: the ways to measure beside the plain read (both)"},
    {0, "cold", FLAG, BL, AT(cold), 0, 0, NULL, "with load: drop the files from the page cache before each load"},
    {0, "raw", FLAG, T, AT(raw), 0, 0, NULL, "MODEL is a bare tokenizer folder: the text alone, no template, no padding"},
    {0, "no-special", FLAG, T, AT(no_special), 0, 0, NULL, "with --raw: without the special tokens that the tokenizer adds"},
    {0, "stdin", FLAG, T, AT(from_stdin), 0, 0, NULL, "one JSON string a line in, one JSON array of ids a line out"},
    {0, "json", FLAG, I | B | P | V, AT(json), 0, 0, NULL, "one JSON object instead of a table"},
    {0, "no-metadata", FLAG, G, AT(no_metadata), 0, 0, NULL, "no text (prompt, seed, ...) in the PNG"},
    {0, "show", FLAG, G, AT(show), 0, 0, NULL, "a small preview on the terminal; the default where stderr is one that can (kitty, iTerm2, sixel)"},
    {0, "no-show", FLAG, G, AT(no_show), 0, 0, NULL, "no preview"},
    {0, "no-progress", FLAG, G | F | B | S | V, AT(no_progress), 0, 0, NULL, "no progress on stderr"},
    {0, "quiet", FLAG, G | F | B | S | V, AT(quiet), 0, 0, NULL, "nothing on stderr but an error"},
    {0, "verbose", FLAG, G | F | B | P | S | V, AT(verbose), 0, 0, NULL, "say more on stderr; plan: every weight"},
    {'h', "help", FLAG, ~0u, AT(help), 0, 0, NULL, "this text"},
};

/* Options that people try, and why they are not here. */
static const struct refusal { const char *name, *why; } refused[] = {
    {"negative-prompt", "Flux2KleinPipeline takes no negative prompt (its second pass encodes an empty one)"},
    {"true-cfg-scale", "Flux2KleinPipeline takes no true_cfg_scale; use --guidance-scale with a model that is not distilled"},
    {"prompt-2", "Flux2KleinPipeline takes no prompt_2; it has one text encoder"},
    {"image", "this version draws from text only; reference images are not supported"},
    {"strength", "Flux2KleinPipeline takes no strength; it draws from noise only"},
    {"lora", "Tessera loads no LoRA adapters; merge them with diffusers (fuse_lora, then save_pretrained)"},
    {"device-map", "Tessera has no device map; weights are split over ranks by a plan"},
    {"max-memory", "Tessera has no device map; `tessera plan` shows what each rank holds"},
    {"offload", "nothing is offloaded; split the model over more ranks (--tp)"},
    {"cpu-offload", "nothing is offloaded; split the model over more ranks (--tp)"},
    {"enable-model-cpu-offload", "nothing is offloaded; each component leaves memory after its phase by itself"},
    {"enable-sequential-cpu-offload", "nothing is offloaded; split the model over more ranks (--tp)"},
    {"low-cpu-mem-usage", "weights are always read straight to where they stay; there is nothing to turn off"},
    {"flashpack", "Tessera reads safetensors only"},
    {"use-flashpack", "Tessera reads safetensors only"},
    {"use-safetensors", "Tessera always reads safetensors"},
    {"quantization", "Tessera reads unquantized weights only"},
    {"quantization-config", "Tessera reads unquantized weights only"},
    {"scheduler", "Tessera takes the scheduler that the model's folder names"},
    {"variant", "Tessera opens the weights that a folder names without a variant"},
};
/* clang-format on */

enum { N_OPTIONS = sizeof table / sizeof table[0], N_REFUSED = sizeof refused / sizeof refused[0], MAX_WORD = 63 };

/* Levenshtein distance of words of at most MAX_WORD letters. */
static size_t distance(const char *a, const char *b) {
    size_t row[MAX_WORD + 1], n = strlen(b);
    if (n > MAX_WORD) return SIZE_MAX;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = corner + (a[i] != b[j]);
            corner = row[j + 1];
            size_t shift = (row[j] < corner ? row[j] : corner) + 1;
            row[j + 1] = change < shift ? change : shift;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names) {
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2; /* further away is no slip of the fingers */
    for (; *names; names++) {
        size_t d = distance(word, *names);
        if (d < least) {
            least = d;
            best = *names;
        }
    }
    return best;
}

typedef struct parser {
    const cli_command *command;
    cli_options *out;
    bool given[N_OPTIONS]; /* of the table's */
    char **next, **end;    /* words not read yet */
} parser;

static int unknown(const parser *p, const char *dashes, const char *name) {
    const char *names[N_OPTIONS + 1];
    size_t n = 0;
    for (size_t i = 0; i < N_REFUSED; i++) {
        if (*dashes && dashes[1] && strcmp(name, refused[i].name) == 0)
            return cli_usage(p->command->name, "--%s: %s", name, refused[i].why);
    }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (table[i].commands & p->command->mask) names[n++] = table[i].name;
    }
    names[n] = NULL;
    const char *near = strlen(name) > 1 ? cli_nearest(name, names) : NULL;
    if (near) return cli_usage(p->command->name, "unknown option %s%s; did you mean --%s?", dashes, name, near);
    return cli_usage(p->command->name, "unknown option %s%s", dashes, name);
}

static bool whole(const char *text, int64_t min, int64_t max, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool good = (*text == '-' || (*text >= '0' && *text <= '9')) && !*end && end != text && errno == 0;
    if (!good || value < min || value > max) return false;
    *out = value;
    return true;
}

/* A number of bytes, with a decimal or binary unit or none. Source: huggingface_hub, parse_size_to_int; accelerate,
 * convert_file_size_to_int. */
static bool read_size(const option *o, const char *text, int64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1.0},       {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},    {"TB", 1e12},
                 {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    double value = strtod(text, &end);
    if (end == text || end != text + strspn(text, "0123456789.")) return false;
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double bytes = value * units[i].bytes;
        if (strcasecmp(end, units[i].name) != 0 || !(bytes >= (double)o->min && bytes <= (double)o->max)) continue;
        *out = (int64_t)bytes;
        return true;
    }
    return false;
}

/* One number of a list. *end: behind it. */
static bool seed(const char *text, char **end, uint64_t *out) {
    errno = 0;
    *out = strtoull(text, end, 10);
    return *text >= '0' && *text <= '9' && errno == 0;
}

static bool real(const char *text, char **end, double *out) {
    *out = strtod(text, end);
    return *end != text && isfinite(*out);
}

static size_t count_commas(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == ',';
    return n;
}

static bool read_seeds(const char *text, cli_options *out) {
    char *end;
    free(out->seeds);
    out->seeds = cli_alloc(count_commas(text) + 1, sizeof *out->seeds);
    out->n_seeds = 0;
    do {
        if (!seed(text, &end, &out->seeds[out->n_seeds++])) return false;
        text = end + 1;
    } while (*end == ',');
    return !*end;
}

/* Noise only becomes less. */
static bool read_sigmas(const char *text, cli_options *out) {
    char *end;
    free(out->sigmas);
    out->sigmas = cli_alloc(count_commas(text) + 1, sizeof *out->sigmas);
    out->n_sigmas = 0;
    do {
        double *at = &out->sigmas[out->n_sigmas];
        if (!real(text, &end, at) || *at < 0 || (out->n_sigmas && *at > at[-1])) return false;
        out->n_sigmas++;
        text = end + 1;
    } while (*end == ',');
    return !*end;
}

static bool is_choice(const char *text, const char *choices) {
    size_t n = strlen(text);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        if (strncmp(at, text, n) == 0 && (at[n] == '|' || !at[n])) return true;
    }
    return false;
}

static bool read_real(const option *o, const char *text, double *out) {
    char *end;
    double value;
    if (!real(text, &end, &value) || *end || value < (double)o->min || value > (double)o->max) return false;
    *out = value;
    return true;
}

static int wrong(const parser *p, const option *o, const char *text) {
    const char *command = p->command->name;
    switch (o->kind) {
    case WHOLE:
        return cli_usage(command, "--%s takes a whole number from %lld to %lld, not '%s'", o->name, (long long)o->min,
                         (long long)o->max, text);
    case REAL:
        return cli_usage(command, "--%s takes a number from %lld to %lld, not '%s'", o->name, (long long)o->min,
                         (long long)o->max, text);
    case SIGMAS:
        return cli_usage(command,
                         "--%s takes numbers from 0 up with commas between them, none above the one before, not '%s'",
                         o->name, text);
    case SEEDS:
        return cli_usage(command,
                         "--%s takes whole numbers from 0 to 18446744073709551615 with commas between them, not '%s'",
                         o->name, text);
    case SIZE:
        return cli_usage(command,
                         "--%s takes a size like 5GB, 500MB or a number of bytes, at least %lld of them, not '%s'",
                         o->name, (long long)o->min, text);
    case TEXT:
    case CHOICE:
        return cli_usage(command, "--%s takes %s, not '%s'", o->name, o->value, text);
    default:
        return cli_usage(command, "--%s takes no value", o->name);
    }
}

static int store(const parser *p, const option *o, const char *text) {
    void *at = (char *)p->out + o->offset;
    bool good = true;
    switch (o->kind) {
    case FLAG:
        good = !text;
        *(bool *)at = true;
        break;
    case WHOLE:
        good = whole(text, o->min, o->max, at);
        break;
    case REAL:
        good = read_real(o, text, at);
        break;
    case SIGMAS:
        good = read_sigmas(text, p->out);
        break;
    case SEEDS:
        good = read_seeds(text, p->out);
        break;
    case SIZE:
        good = read_size(o, text, at);
        break;
    case TEXT:
    case CHOICE:
        good = o->kind == TEXT ? *text : is_choice(text, o->value);
        *(const char **)at = text;
        break;
    }
    return good ? CLI_DONE : wrong(p, o, text);
}

/* An option with what is attached to it: "=value" of a long one, the rest of the word of a short one; or NULL. */
static int read_option(parser *p, const char *dashes, const char *name, const char *attached) {
    const option *o = NULL;
    for (size_t i = 0; i < N_OPTIONS && !o; i++) {
        bool same = dashes[1] ? strcmp(table[i].name, name) == 0 : table[i].letter && table[i].letter == *name;
        if (same && table[i].commands & p->command->mask) o = &table[i];
    }
    if (!o) return unknown(p, dashes, name);
    p->given[o - table] = true;
    if (o->kind == FLAG || attached) return store(p, o, attached);
    if (p->next == p->end) return cli_usage(p->command->name, "%s%s needs a value", dashes, name);
    return store(p, o, *p->next++);
}

static int read_word(parser *p, const char *word) {
    char name[MAX_WORD + 1] = {word[1]};
    if (word[1] != '-') return read_option(p, "-", name, word[2] ? word + 2 : NULL);
    size_t n = strcspn(word + 2, "=");
    if (n > MAX_WORD) return cli_usage(p->command->name, "unknown option %s", word);
    memcpy(name, word + 2, n);
    return read_option(p, "--", name, word[2 + n] ? word + 2 + n + 1 : NULL);
}

static int check_arguments(const parser *p) {
    const cli_command *command = p->command;
    int n = p->out->n_arguments;
    if (n < command->min_arguments) return cli_usage(command->name, "something is missing: %s", command->usage);
    if (n > command->max_arguments) return cli_usage(command->name, "too much: '%s'", p->out->arguments[n - 1]);
    if (!*p->out->arguments[0]) return cli_usage(command->name, "the first argument is empty: %s", command->usage);
    return CLI_DONE;
}

/* Forms of a command that take some of its options alone. */
static const struct form {
    unsigned commands;
    const char *name;
} forms[] = {{BS, "bench step"},
             {BL, "bench load"},
             {BC, "bench collectives"},
             {VP, "verify with a prompt"},
             {CLI_VERIFY_INPUTS, "verify with --inputs"}};

static bool is_form(const parser *p, const struct form *f) {
    if (!(f->commands & p->command->mask)) return false;
    if (f->commands & B) return strcmp(f->name + strlen("bench "), p->out->arguments[0]) == 0;
    return (f->commands == VP) == !p->out->inputs;
}

static int check_form(const parser *p) {
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
        for (size_t i = 0; i < N_OPTIONS && is_form(p, &forms[f]); i++)
            if (p->given[i] && !(table[i].commands & forms[f].commands))
                return cli_usage(p->command->name, "--%s: %s takes no such option", table[i].name, forms[f].name);
    return CLI_DONE;
}

static int check_contradictions(const parser *p) {
    const cli_options *o = p->out;
    const struct {
        bool both;
        const char *names;
    } rows[] = {{o->quiet && o->verbose, "--quiet and --verbose"}, {o->show && o->no_show, "--show and --no-show"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].both) return cli_usage(p->command->name, "%s contradict each other", rows[i].names);
    return CLI_DONE;
}

/* Of what the command line says as a whole. */
static int check(const parser *p) {
    static int (*const checks[])(const parser *p) = {check_arguments, check_form, check_contradictions};
    int status = CLI_DONE;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && status == CLI_DONE; i++) status = checks[i](p);
    return status == CLI_DONE ? cli_degrees_resolve(p->out) : status;
}

int cli_options_parse(const cli_command *command, int n, char **words, cli_options *out) {
    *out = (cli_options){.command = command->name, .guidance_scale = -1.0};
    out->tokens = 1024;
    out->text_tokens = 512;
    out->layers = out->single_layers = -1;
    out->as_rank = -1;
    out->atol = out->rtol = 1e-3;
    out->arguments = cli_alloc((size_t)n + 1, sizeof *out->arguments);
    parser p = {.command = command, .out = out, .next = words, .end = words + n};
    bool options = true;
    while (p.next < p.end) {
        const char *word = *p.next++;
        int status = CLI_DONE;
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && word[0] == '-' && word[1])
            status = read_word(&p, word);
        else
            out->arguments[out->n_arguments++] = word;
        if (status != CLI_DONE) return status;
    }
    return out->help ? CLI_DONE : check(&p);
}

void cli_options_free(cli_options *options) {
    free(options->sigmas);
    free(options->seeds);
    free(options->arguments);
}

void cli_print_help(const cli_command *command) {
    printf("usage: tessera %s %s\n\n%s\n\noptions:\n", command->name, command->usage, command->summary);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const option *o = &table[i];
        if (!(o->commands & command->mask) || !o->help) continue;
        char left[80], letter[8] = "    ";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
        if (strlen(left) > 32)
            printf("  %s\n  %-32s  %s\n", left, "", o->help);
        else
            printf("  %-32s  %s\n", left, o->help);
    }
    printf("\nexample:\n  %s\n", command->example);
}
