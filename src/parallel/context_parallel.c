#include "parallel/context_parallel.h"

#include <string.h>

tsr_status tsr__context_config_check(tsr_engine *engine, const tsr_context_parallel_config *c) {
    const tsr_device_mesh *mesh = c->mesh;
    int ring = mesh ? tsr_device_mesh_size(mesh, "ring") : c->ring_degree;
    int ulysses = mesh ? tsr_device_mesh_size(mesh, "ulysses") : c->ulysses_degree;
    const struct {
        bool broken;
        const char *what;
    } rules[] = {
        {ring < 1 || ulysses < 1, "ring_degree and ulysses_degree must be at least 1"},
        {mesh && !(tsr__mesh_has(mesh, "ring") && tsr__mesh_has(mesh, "ulysses")),
         "its mesh must have the axes \"ring\" and \"ulysses\", of size 1 where unused"},
        {ring == 1 && ulysses == 1, "ring_degree or ulysses_degree must be greater than 1"},
        {c->ring_anything && ring == 1, "ring_anything needs a ring_degree greater than 1"},
        {c->ulysses_anything && ulysses == 1, "ulysses_anything needs a ulysses_degree greater than 1"},
        {(int)c->rotate_method < 0 || c->rotate_method >= TSR_N_ROTATE_METHODS,
         "unknown rotate_method; there are allgather and alltoall"},
    };
    for (size_t i = 0; i < TSR__COUNT(rules); i++)
        if (rules[i].broken)
            return tsr__fail(engine, TSR_ARG, "context parallelism (ring %d, ulysses %d): %s", ring, ulysses,
                             rules[i].what);
    if (!c->convert_to_fp32 && engine->rank == 0)
        tsr__log(engine, TSR_LOG_WARNING,
                 "convert_to_fp32=false changes nothing: activations are float32, in which partial results merge");
    return TSR_OK;
}

tsr_status tsr__cp_check_heads(tsr_engine *engine, const char *class_name, int64_t heads, int tp,
                               const tsr__sequence *sequence) {
    int ulysses = sequence->ulysses ? sequence->ulysses->size : 1;
    if (heads / tp % ulysses == 0 || sequence->uneven_heads) return TSR_OK;
    return tsr__fail(engine, TSR_SHAPE,
                     "%s has %lld attention heads on each rank (tp %d), which ulysses %d does not divide; "
                     "ulysses_anything (--ulysses-anything) allows that",
                     class_name, (long long)(heads / tp), tp, ulysses);
}

/* --- rows over the tree --- */

typedef struct placing {
    tsr__tree *tree;
    tsr__port port; /* of the row */
    size_t matches;
} placing;

static tsr_status place(void *user, tsr__module *module) {
    placing *p = user;
    tsr__port *port = tsr__tree_alloc(p->tree, 1, sizeof *port);
    if (!port) return TSR_NOMEM;
    *port = p->port;
    port->next = module->ports;
    module->ports = port;
    p->matches++;
    return TSR_OK;
}

static tsr_status place_row(tsr__tree *tree, tsr__module *root, const char *glob, tsr__port port) {
    placing p = {tree, port, 0};
    tsr__glob_found found = {false, false};
    const char *star = strchr(glob, '*');
    if (star && strchr(star + 1, '*'))
        return tsr__fail(tree->engine, TSR_ARG, "context plan, \"%s\": a row may hold one \"*\" only", glob);
    TSR__TRY(tsr__module_match(root, glob, place, &p, &found));
    if ((p.matches || found.no_items) && !found.misplaced) return TSR_OK;
    return tsr__fail(tree->engine, TSR_ARG, "context plan, \"%s\": %s", glob,
                     found.misplaced ? "\"*\" stands where there is no list of modules" : "it matches no module");
}

static tsr_status place_rows(tsr__tree *tree, tsr__module *root, const tsr_cp_plan *plan,
                             const tsr__sequence *sequence) {
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const tsr_cp_input *row = &plan->inputs[i];
        const tsr__port port = {.argument = row->argument,
                                .output = row->output,
                                .dim = row->split_dim,
                                .expected_dims = row->expected_dims,
                                .sequence = sequence};
        TSR__TRY(place_row(tree, root, row->module, port));
    }
    for (size_t i = 0; i < plan->n_outputs; i++) {
        const tsr_cp_output *row = &plan->outputs[i];
        const tsr__port port = {.output = row->output,
                                .gathers = true,
                                .dim = row->gather_dim,
                                .expected_dims = row->expected_dims,
                                .sequence = sequence};
        TSR__TRY(place_row(tree, root, row->module, port));
    }
    return TSR_OK;
}

static tsr_status take_off(void *user, tsr__module *module) {
    (void)user;
    module->ports = NULL;
    return TSR_OK;
}

void tsr__cp_undo(tsr__module *root) { (void)!tsr__module_visit(root, take_off, NULL); }

tsr_status tsr__cp_apply(tsr__tree *tree, tsr__module *root, const tsr_cp_plan *plan, const tsr__sequence *sequence) {
    tsr_status status = place_rows(tree, root, plan, sequence);
    if (status != TSR_OK) tsr__cp_undo(root);
    return status;
}

static tsr_status check_used(void *user, tsr__module *module) {
    tsr__exec *x = user;
    char path[TSR__PATH_BYTES];
    for (const tsr__port *p = module->ports; p; p = p->next) {
        if (p->used) continue;
        tsr__module_path(module, path, sizeof path);
        if (p->argument)
            (void)tsr__exec_fail(x, TSR_ARG, "context plan, \"%s\": it has no argument \"%s\"", path, p->argument);
        else
            (void)tsr__exec_fail(x, TSR_ARG, "context plan, \"%s\": it has no output %d", path, p->output);
    }
    return TSR_OK;
}

void tsr__cp_check_used(tsr__exec *x, tsr__module *root) { (void)!tsr__module_visit(root, check_used, x); }
