/* Where values of a forward meet a context plan: arguments and outputs of modules. */
#include "nn/attention.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *path_of(const tsr__module *module, char *text, size_t size) {
    tsr__module_path(module, text, size);
    return *text ? text : "the model";
}

static tsr__value refuse(tsr__exec *x, const tsr__module *module, const tsr__port *port, const char *format, ...)
    TSR_PRINTF(4, 5);

static tsr__value refuse(tsr__exec *x, const tsr__module *module, const tsr__port *port, const char *format, ...) {
    char path[TSR__PATH_BYTES], what[96], why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (port->argument)
        snprintf(what, sizeof what, "argument \"%s\"", port->argument);
    else
        snprintf(what, sizeof what, "output %d", port->output);
    return tsr__exec_fail(x, TSR_SHAPE, "%s of %s: %s", what, path_of(module, path, sizeof path), why);
}

/* Does the length fit the ranks that share it? */
static bool divides(tsr__exec *x, const tsr__module *module, const tsr__port *port, int64_t length) {
    const tsr__sequence *s = port->sequence;
    int n = s->all->size, ring = s->ring ? s->ring->size : 1, ulysses = s->ulysses ? s->ulysses->size : 1;
    if (length < n)
        (void)refuse(x, module, port, "%lld tokens are fewer than the %d ranks that share them (ring %d x ulysses %d)",
                     (long long)length, n, ring, ulysses);
    else if (length % n != 0 && !s->uneven_lengths)
        (void)refuse(x, module, port, "%lld tokens do not divide over %d ranks (ring %d x ulysses %d); %s allows that",
                     (long long)length, n, ring, ulysses,
                     ring > 1 ? "ring_anything (--ring-anything)" : "ulysses_anything (--ulysses-anything)");
    else
        return true;
    return false;
}

static tsr__value apply(tsr__exec *x, const tsr__module *module, const tsr__port *port, tsr__value v, bool unbatched) {
    int dim = port->dim, expected = port->expected_dims;
    if (tsr__is_none(v) || tsr__exec_stopped(x)) return v;
    if (unbatched && v.ndim == expected - 1) dim--, expected--;
    if (v.ndim != expected || dim < 0 || dim >= v.ndim)
        return refuse(x, module, port, "the context-parallel plan expects %d dimensions, but it has %d",
                      port->expected_dims, v.ndim);
    const tsr__split *given = tsr__value_split(x, v, TSR__AXIS_SEQUENCE);
    if (port->gathers) {
        if (given->comm && given->dim == dim) return tsr__gather_over_ranks(x, v, TSR__AXIS_SEQUENCE);
        return refuse(x, module, port, "the context-parallel plan gathers dimension %d, which is not split", dim);
    }
    if (given->comm) return refuse(x, module, port, "the context-parallel plan splits it, but it is split already");
    if (!divides(x, module, port, v.shape[dim])) return tsr__none();
    const tsr__split split = {.comm = port->sequence->all,
                              .dim = dim,
                              .pieces = port->sequence->all->size,
                              .n_parts = 1,
                              .parts = {v.shape[dim]},
                              .origin = module,
                              .sequence = port->sequence,
                              .origin_path = tsr__owner_path};
    return tsr__take_piece(x, v, TSR__AXIS_SEQUENCE, &split);
}

tsr__value tsr__port_in(tsr__exec *x, const tsr__module *module, const char *argument, tsr__value v, bool unbatched) {
    for (tsr__port *p = module->ports; p; p = p->next) {
        if (!p->argument || strcmp(p->argument, argument) != 0) continue;
        p->used = true;
        v = apply(x, module, p, v, unbatched);
    }
    return v;
}

tsr__value tsr__port_out(tsr__exec *x, const tsr__module *module, int index, tsr__value v) {
    for (tsr__port *p = module->ports; p; p = p->next) {
        if (p->argument || p->output != index) continue;
        p->used = true;
        v = apply(x, module, p, v, false);
    }
    return v;
}

tsr__value tsr__tapped_at(tsr__exec *x, const tsr__module *module, int index, tsr__value v) {
    v = tsr__port_out(x, module, index, v);
    tsr__tap(x, module, index, v);
    return v;
}

tsr__value tsr__tapped(tsr__exec *x, const tsr__module *module, tsr__value v) {
    return tsr__tapped_at(x, module, 0, v);
}

tsr__value tsr__tapped_image(tsr__exec *x, const tsr__module *module, tsr__value v) {
    tsr__tap(x, module, 0, tsr__permute(x, v, TSR__ORDER(0, 3, 1, 2)));
    return v;
}
