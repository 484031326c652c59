#include "exec/split.h"

#include "comm/comm.h"
#include "exec/ops.h"

#include <stdio.h>
#include <string.h>

/* --- pieces --- */

tsr_range tsr__split_piece(const tsr__split *split, size_t part, int rank) {
    return tsr__tensor_split(split->parts[part], split->pieces, (int64_t)rank * split->pieces / split->comm->size);
}

int64_t tsr__split_length(const tsr__split *split, int rank) {
    int64_t length = 0;
    for (size_t p = 0; p < split->n_parts; p++) {
        tsr_range piece = rank < 0 ? (tsr_range){0, split->parts[p]} : tsr__split_piece(split, p, rank);
        length += piece.end - piece.begin;
    }
    return length;
}

static bool same_split(const tsr__split *a, const tsr__split *b) {
    return a->comm == b->comm && (!a->comm || (a->pieces == b->pieces && a->n_parts == b->n_parts &&
                                               memcmp(a->parts, b->parts, a->n_parts * sizeof *a->parts) == 0));
}

static const tsr__split whole = {.comm = NULL};

/* --- messages --- */

static const char *axis_name(tsr__axis axis) { return axis == TSR__AXIS_TP ? "tensor" : "context"; }

/* "transformer_blocks.0.attn.to_q" */
static const char *origin(const tsr__split *split, char *text, size_t size) {
    return split->origin_path ? split->origin_path(split->origin, text, size) : "an input";
}

static void refuse(tsr__exec *x, const char *what, tsr__axis axis, const tsr__split *split, const char *why) {
    char path[256];
    (void)tsr__exec_fail(x, TSR_SHAPE, "%s: what %s has split over ranks (%s parallel) %s", what,
                         origin(split, path, sizeof path), axis_name(axis), why);
}

const char *tsr__split_note(const tsr__exec *x, tsr__value v, char *text, size_t size) {
    char path[256];
    *text = '\0';
    for (tsr__axis axis = 0; axis < TSR__N_AXES && !tsr__is_none(v); axis++) {
        const tsr__split *split = tsr__value_split(x, v, axis);
        if (split->comm) snprintf(text, size, " (split over ranks by %s)", origin(split, path, sizeof path));
    }
    return text;
}

/* --- operations --- */

/* Operands as in torch.einsum: one letter a dimension, "*" for any number of leading ones. Equal letters are split
 * alike or not at all. A capital must be whole. A letter that only inputs have: any split (key/value heads follow the
 * query heads), or, behind "|", a sum over it, which leaves a partial sum on each rank. Operations that are not here
 * take whole values only. */
static const char *const formulas[TSR__OP_COUNT] = {
    [TSR__OP_matmul] = "*k,nk,n->*n|k",
    [TSR__OP_attention] = "bshD,bTgD,bTgD,bT->bshD,bshC",
    [TSR__OP_rms_norm] = "*D,D->*D",
    [TSR__OP_layer_norm] = "*D,D,D->*D",
    [TSR__OP_modulate] = "bsd,bd,bd->bsd",
    [TSR__OP_gated_add] = "bsd,bd,bsd->bsd",
    [TSR__OP_add] = "*,*->*",
    [TSR__OP_sub] = "*,*->*",
    [TSR__OP_axpy] = "*,*->*",
    [TSR__OP_silu] = "*->*",
    [TSR__OP_swiglu] = "*,*->*",
    [TSR__OP_embedding] = "*,vd->*d|v",
    [TSR__OP_sinusoid] = "b->bC",
    [TSR__OP_rope_table] = "sA->sC,sC",
    [TSR__OP_rope] = "bshD,sD,sD->bshD",
    [TSR__OP_copy] = "*->*",
    [TSR__OP_concat] = "*,*->*",
    [TSR__OP_index_select] = "bSd,n->bnd",
    [TSR__OP_index_copy] = "bSd,N,bNd->bSd",
    [TSR__OP_flat_index] = "s,s->s",
};
/* The same with an index as their fourth input. */
static const char *const indexed_formulas[TSR__OP_COUNT] = {
    [TSR__OP_modulate] = "bsd,Td,Td,s->bsd",
    [TSR__OP_gated_add] = "bsd,Td,bsd,s->bsd",
};

enum { MAX_LABELS = 128 };

/* Labels of the dimensions of an operand of a formula, which ends at one of ",->|"; "*" stands for 1, 2, ... Returns
 * where it ends. */
static const char *read_labels(const char *operand, int ndim, char *labels) {
    size_t named = strcspn(operand, ",-|");
    int d = 0;
    if (*operand == '*')
        for (; d < ndim - (int)(named - 1); d++) labels[d] = (char)(d + 1);
    for (const char *c = operand + (*operand == '*'); c < operand + named && d < ndim; c++) labels[d++] = *c;
    return operand + named;
}

/* What is known of each label: unseen (NULL), or the split of it, which is `whole` for none. */
typedef struct labelled {
    const tsr__split *of[MAX_LABELS];
} labelled;

static bool is_capital(char label) { return label >= 'A' && label <= 'Z'; }

/* Takes in an input; false after a refusal. */
static bool take_input(tsr__exec *x, const tsr__emission *e, tsr__axis axis, int i, const char *labels,
                       labelled *known) {
    const tsr__split *split = tsr__value_split(x, e->in[i], axis);
    const char *name = tsr__op_name(e->op.kind);
    for (int d = 0; d < e->in[i].ndim; d++) {
        const tsr__split *here = split->comm && split->dim == d ? split : &whole;
        const tsr__split **seen = &known->of[(int)labels[d]];
        bool joined = e->op.kind == TSR__OP_concat && d == e->op.param.axis; /* its parts may differ */
        const tsr__split *culprit = here->comm || !*seen ? here : *seen;
        if (here->comm && is_capital(labels[d])) {
            refuse(x, name, axis, culprit, "is needed whole here");
            return false;
        }
        if (*seen && !(joined ? here->comm == (*seen)->comm : same_split(here, *seen))) {
            refuse(x, name, axis, culprit, "meets what is not split in the same way");
            return false;
        }
        if (!*seen) *seen = here;
    }
    return true;
}

/* Queries and keys: both split by heads or neither. */
static bool heads_fit(tsr__exec *x, const labelled *known, tsr__axis axis) {
    const tsr__split *q = known->of['h'], *k = known->of['g'];
    if (!q || !k || q->comm == k->comm) return true;
    refuse(x, "attention", axis, q->comm ? q : k, "are heads, but queries and keys are not split alike");
    return false;
}

/* The parts of both inputs one after another. */
static tsr__split joined_parts(tsr__exec *x, const tsr__emission *e, tsr__axis axis) {
    tsr__split split = *tsr__value_split(x, e->in[0], axis);
    const tsr__split *more = tsr__value_split(x, e->in[1], axis);
    if (split.n_parts + more->n_parts > TSR__MAX_PARTS) refuse(x, "concat", axis, &split, "would have too many parts");
    for (size_t p = 0; p < more->n_parts && split.n_parts < TSR__MAX_PARTS; p++)
        split.parts[split.n_parts++] = more->parts[p];
    return split;
}

static void give_output(tsr__exec *x, const tsr__emission *e, tsr__axis axis, const labelled *known, const char *labels,
                        tsr__value out) {
    for (int d = 0; d < out.ndim; d++) {
        const tsr__split *from = known->of[(int)labels[d]];
        if (!from || !from->comm) continue;
        bool joined = e->op.kind == TSR__OP_concat && d == e->op.param.axis;
        tsr__split split = joined ? joined_parts(x, e, axis) : *from;
        split.dim = d;
        tsr__set_split(x, out, axis, &split);
    }
}

static void infer(tsr__exec *x, const tsr__emission *e, tsr__axis axis, const char *formula, const tsr__value *out) {
    labelled known = {{NULL}};
    char labels[TSR_MAX_DIMS] = {0};
    const char *at = formula;
    for (int i = 0; *at != '-'; i++) {
        bool given = i < TSR__MAX_INPUTS && !tsr__is_none(e->in[i]);
        at = read_labels(at, given ? e->in[i].ndim : 0, labels);
        if (given && !take_input(x, e, axis, i, labels, &known)) return;
        if (*at == ',') at++;
    }
    if (e->op.kind == TSR__OP_attention && !heads_fit(x, &known, axis)) return;
    at += strlen("->");
    for (int i = 0; *at && *at != '|' && i < e->n_out; i++) {
        at = read_labels(at, out[i].ndim, labels);
        give_output(x, e, axis, &known, labels, out[i]);
        if (*at == ',') at++;
    }
    const char *summed = strchr(formula, '|');
    const tsr__split *over = summed ? known.of[(int)summed[1]] : NULL;
    if (over && over->comm) tsr__value_record_of(x, out[0])->partial = over->comm;
}

static bool is_partial(tsr__exec *x, const char *what, tsr__value v) {
    const tsr__value_record *r = tsr__value_record_of(x, v);
    if (!r->partial || r->summed) return false;
    (void)tsr__exec_fail(x, TSR_SHAPE, "%s: an input is a partial sum, which must be summed over ranks first", what);
    return true;
}

void tsr__check_whole(tsr__exec *x, const char *what, tsr__value v) {
    if (!tsr__exec_recording(x) || tsr__is_none(v) || is_partial(x, what, v)) return;
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        const tsr__split *split = tsr__value_split(x, v, axis);
        if (split->comm) refuse(x, what, axis, split, "is needed whole here");
    }
}

void tsr__split_operation(tsr__exec *x, const tsr__emission *e, const tsr__value *out) {
    bool indexed = indexed_formulas[e->op.kind] && !tsr__is_none(e->in[3]);
    const char *formula = (indexed ? indexed_formulas : formulas)[e->op.kind], *name = tsr__op_name(e->op.kind);
    for (int i = 0; i < TSR__MAX_INPUTS && tsr__exec_recording(x); i++) {
        if (tsr__is_none(e->in[i])) continue;
        if (formula)
            (void)is_partial(x, name, e->in[i]);
        else
            tsr__check_whole(x, name, e->in[i]);
    }
    for (tsr__axis axis = 0; axis < TSR__N_AXES && formula && tsr__exec_recording(x); axis++)
        infer(x, e, axis, formula, out);
}

const tsr__split *tsr__value_split(const tsr__exec *x, tsr__value v, tsr__axis axis) {
    return &tsr__value_record_of(x, v)->split[axis];
}

void tsr__set_split(tsr__exec *x, tsr__value v, tsr__axis axis, const tsr__split *split) {
    if (tsr__exec_recording(x) && !tsr__is_none(v)) tsr__value_record_of(x, v)->split[axis] = *split;
}

/* --- views --- */

static bool may_view(tsr__exec *x, tsr__value in) { return tsr__exec_recording(x) && !is_partial(x, "view", in); }

/* The dimensions [in, in_end) of one shape that hold the same elements as [out, out_end) of the other: the next group
 * of a reshape. */
typedef struct group {
    int in, in_end, out, out_end;
} group;

static group next_group(const tsr__value *in, const tsr__value *out, group last) {
    group g = {last.in_end, last.in_end + 1, last.out_end, last.out_end + 1};
    int64_t a = in->shape[g.in], b = out->shape[g.out];
    while (a != b && (a < b ? g.in_end < in->ndim : g.out_end < out->ndim)) {
        if (a < b)
            a *= in->shape[g.in_end++];
        else
            b *= out->shape[g.out_end++];
    }
    return g;
}

/* How many elements of the dimensions behind `first` go to one index of it. */
static int64_t inner(const tsr__value *v, int first, int end) {
    int64_t n = 1;
    for (int d = first + 1; d < end; d++) n *= v->shape[d];
    return n;
}

static void reshape_axis(tsr__exec *x, tsr__value in, tsr__value out, tsr__axis axis) {
    tsr__split split = *tsr__value_split(x, in, axis);
    if (!split.comm) return;
    group g = {0, 0, 0, 0};
    while (g.in_end <= split.dim) g = next_group(&in, &out, g);
    int64_t from = inner(&in, g.in, g.in_end), to = inner(&out, g.out, g.out_end);
    bool outermost = split.dim == g.in; /* whose pieces stay together */
    for (size_t p = 0; p < split.n_parts; p++) {
        bool even = split.parts[p] % split.pieces == 0 && split.parts[p] * from % (to * split.pieces) == 0;
        outermost &= even || from == to;
        split.parts[p] = split.parts[p] * from / to;
    }
    if (!outermost) {
        refuse(x, "reshape", axis, &split, "cannot be viewed in this shape without mixing ranks");
        return;
    }
    split.dim = g.out;
    tsr__set_split(x, out, axis, &split);
}

void tsr__split_reshape(tsr__exec *x, tsr__value in, tsr__value out) {
    if (!may_view(x, in)) return;
    for (tsr__axis axis = 0; axis < TSR__N_AXES && tsr__exec_recording(x); axis++) reshape_axis(x, in, out, axis);
}

/* A slice may take some of the parts, each of them altogether. */
static void slice_axis(tsr__exec *x, tsr__value in, int dim, tsr_range taken, tsr__value out, tsr__axis axis) {
    const tsr__split *from = tsr__value_split(x, in, axis);
    tsr__split split = *from;
    if (!split.comm) return;
    if (dim == split.dim) {
        int64_t at = 0;
        bool begins = false, ends = false;
        split.n_parts = 0;
        for (size_t p = 0; p < from->n_parts; p++) {
            tsr_range piece = tsr__split_piece(from, p, split.comm->rank);
            begins |= at == taken.begin;
            if (at >= taken.begin && at < taken.end) split.parts[split.n_parts++] = from->parts[p];
            at += piece.end - piece.begin;
            ends |= at == taken.end;
        }
        if (!begins || !ends) {
            refuse(x, "slice", axis, from,
                   from->n_parts == 1
                       ? "is cut as one block, but a part of it is taken: is it a fused projection that "
                         "needs a packed style?"
                       : "is cut in blocks, but what is taken is no whole block: do they fit the forward?");
            return;
        }
    }
    tsr__set_split(x, out, axis, &split);
}

void tsr__split_slice(tsr__exec *x, tsr__value in, int dim, tsr_range taken, tsr__value out) {
    if (!may_view(x, in)) return;
    for (tsr__axis axis = 0; axis < TSR__N_AXES && tsr__exec_recording(x); axis++)
        slice_axis(x, in, dim, taken, out, axis);
}

void tsr__split_permute(tsr__exec *x, tsr__value in, const int *order, tsr__value out) {
    if (!may_view(x, in)) return;
    for (tsr__axis axis = 0; axis < TSR__N_AXES; axis++) {
        tsr__split split = *tsr__value_split(x, in, axis);
        if (!split.comm) continue;
        for (int d = 0; d < out.ndim; d++)
            if (order[d] == tsr__value_split(x, in, axis)->dim) split.dim = d;
        tsr__set_split(x, out, axis, &split);
    }
}
