/* Tensors of a file as the arguments of a component's forward. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Names in files of saved stages; a tensor of such a name goes before one of the bare name. */
static const char *const prefixes[] = {"transformer_in.", "in."};
enum { N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };

/* The argument that a tensor of that name stands for, or NULL. */
static const char *argument_name(const cli_inputs *in, const tsr_model *model, const char *name) {
    const char *argument = name;
    bool outranked = false;
    for (size_t i = 0; i < N_PREFIXES; i++) {
        size_t n = strlen(prefixes[i]);
        if (argument == name && strncmp(name, prefixes[i], n) == 0) argument = name + n;
        char *other = cli_format("%s%s", prefixes[i], name);
        outranked |= tsr_checkpoint_find(in->file, other) != NULL;
        free(other);
    }
    return !outranked && tsr_model_has_input(model, argument) ? argument : NULL;
}

static tsr_status read_tensor(cli_inputs *in, const tsr_tensor_info *info, const char *name) {
    tsr_tensor *t = &in->tensors[in->n];
    *t = (tsr_tensor){.name = name, .dtype = info->dtype, .ndim = info->ndim};
    memcpy(t->shape, info->shape, sizeof t->shape);
    t->data = cli_alloc(1, (size_t)info->size);
    in->n++;
    return tsr_checkpoint_read(in->file, info, 0, NULL, 0, t->data, (size_t)info->size);
}

enum { SHOWN = 8 };

/* Names that are no arguments; of `names`, with commas between, the first SHOWN. */
typedef struct ignored {
    char *names;
    size_t n;
} ignored;

static void ignore(ignored *all, const char *name) {
    if (all->n++ >= SHOWN) return;
    char *longer = cli_format("%s%s%s", all->names ? all->names : "", all->names ? ", " : "", name);
    free(all->names);
    all->names = longer;
}

static tsr_status read_all(cli_session *session, const tsr_model *model, cli_inputs *in, ignored *others) {
    size_t count = tsr_checkpoint_count(in->file);
    in->tensors = cli_alloc(count, sizeof *in->tensors);
    for (size_t i = 0; i < count; i++) {
        const tsr_tensor_info *info = tsr_checkpoint_at(in->file, i);
        const char *name = argument_name(in, model, info->name);
        if (!name) {
            ignore(others, info->name);
            continue;
        }
        for (size_t k = 0; k < in->n; k++) {
            if (strcmp(in->tensors[k].name, name) == 0)
                return cli_session_refuse(session, "%s: '%s' is there twice", session->options->inputs, name);
        }
        tsr_status status = read_tensor(in, info, name);
        if (status != TSR_OK) return status;
    }
    return TSR_OK;
}

tsr_status cli_inputs_open(cli_session *session, cli_inputs *out) {
    *out = (cli_inputs){NULL, NULL, 0};
    return tsr_checkpoint_open(session->engine, session->options->inputs, &out->file);
}

tsr_status cli_inputs_read(cli_session *session, const tsr_model *model, cli_inputs *in) {
    ignored others = {NULL, 0};
    tsr_status status = read_all(session, model, in, &others);
    if (status == TSR_OK && others.n > SHOWN)
        cli_session_note(session, "ignored (no arguments of %s): %s and %zu more", tsr_model_class_name(model),
                         others.names, others.n - SHOWN);
    else if (status == TSR_OK && others.n)
        cli_session_note(session, "ignored (no arguments of %s): %s", tsr_model_class_name(model), others.names);
    free(others.names);
    return status;
}

void cli_inputs_close(cli_inputs *in) {
    for (size_t i = 0; i < in->n; i++) free(in->tensors[i].data);
    free(in->tensors);
    tsr_checkpoint_close(in->file);
}
