/* Tensor-parallel plans: from rules over module names to a shard spec for every weight. */
#ifndef TSR_PARALLEL_TENSOR_PARALLEL_H
#define TSR_PARALLEL_TENSOR_PARALLEL_H

#include "comm/comm.h"
#include "parallel/shard.h"

enum { TSR__MAX_DEGREE = 16 }; /* of the degrees that messages and `plan` list */

/* A table of rules. */
typedef struct tsr__tp_rules {
    const tsr_tp_rule *rules;
    size_t n;
} tsr__tp_rules;
#define TSR__TP_RULES(table)                                                                                           \
    { table, TSR__COUNT(table) }

/* A plan and what it is checked against. */
typedef struct tsr__tp_plan {
    const char *class_name;
    tsr__tp_rules rules;
    tsr__tp_rules more; /* for what may as well stay whole: where a degree does not divide a module, or a model lacks
                           it, the rule does nothing */
    int64_t heads;      /* attention heads, which a degree must divide */
} tsr__tp_plan;

/* Marks every module that the plan names with its style and every weight with its spec. Once for a tree. Local.
 * Errors: ARG (a broken glob, a rule that matches nothing or names a module again, a style that does not fit the
 * module, packed blocks that do not). Source: diffusers, hooks/tensor_parallel.py. */
TSR_NODISCARD tsr_status tsr__tp_mark(tsr_engine *engine, tsr__module *root, const tsr__tp_plan *plan);
/* Gives every weight of a marked tree the shape of rank's part of `degree`. comm: the ranks that share the model, or
 * NULL where they are only imagined. Before any weight is read. Local. Errors: SHAPE (the degree does not divide: names
 * weight, sizes, degree, and the degrees that work). */
TSR_NODISCARD tsr_status tsr__tp_split(tsr_engine *engine, tsr__module *root, const tsr__tp_plan *plan, tsr__comm *comm,
                                       int rank, int degree);
/* Undoes both, so that the tree can be marked and split otherwise. No weight is in memory. Local. */
void tsr__tp_undo(tsr__module *root);
/* Does the degree divide the heads and every block of a marked tree? */
bool tsr__tp_degree_fits(tsr__module *root, const tsr__tp_plan *plan, int degree);
/* "1, 2, 3, 6": the degrees up to TSR__MAX_DEGREE that fit. Returns text. */
char *tsr__tp_degrees(tsr__module *root, const tsr__tp_plan *plan, char *text, size_t size);

#endif
