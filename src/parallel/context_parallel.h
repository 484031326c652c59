/* Context-parallel plans: from rows over module names to ports where the sequence is split and gathered. */
#ifndef TSR_PARALLEL_CONTEXT_PARALLEL_H
#define TSR_PARALLEL_CONTEXT_PARALLEL_H

#include "nn/attention.h"

#include <tessera/parallel.h>

/* The rules of a config. Local. Errors: ARG. Source: diffusers, ContextParallelConfig.__post_init__. */
TSR_NODISCARD tsr_status tsr__context_config_check(tsr_engine *engine, const tsr_context_parallel_config *config);

/* Puts the plan's ports on the modules of a tree, all or, after a failure, none. class_name, heads: of the model; each
 * rank has heads / tp of them. sequence lives as long as the tree. Local. Errors: ARG (a row that matches no module, or
 * breaks the rules of globs), SHAPE (heads that ulysses does not divide). */
TSR_NODISCARD tsr_status tsr__cp_apply(tsr__tree *tree, tsr__module *root, const tsr_cp_plan *plan,
                                       const tsr__sequence *sequence);
TSR_NODISCARD tsr_status tsr__cp_check_heads(tsr_engine *engine, const char *class_name, int64_t heads, int tp,
                                             const tsr__sequence *sequence);
/* Takes all ports off a tree again. */
void tsr__cp_undo(tsr__module *root);
/* At the end of a meta run: refuses a row whose module has no such argument or output. */
void tsr__cp_check_used(tsr__exec *x, tsr__module *root);

#endif
