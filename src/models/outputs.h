/* Output hooks: who is told what modules and stages give (torch's forward hooks). Private to the library. */
#ifndef TSR_MODELS_OUTPUTS_H
#define TSR_MODELS_OUTPUTS_H

#include "models/model.h"

enum { TSR__MAX_HOOKS = 2 }; /* a dump and the caller's */

/* The same on every rank, because looking at a value that is split takes all who hold it; only rank 0 calls hooks. */
typedef struct tsr__outputs {
    tsr_engine *engine;
    struct {
        tsr_output_hook call;
        void *user;
        bool modules; /* wants outputs of modules too, not the stages alone */
    } hooks[TSR__MAX_HOOKS];
    size_t n;
    const tsr_model *model; /* whose modules are watched */
    tsr_status status;      /* the first failure of a hook; after it nobody is told anything */
} tsr__outputs;

void tsr__outputs_add(tsr__outputs *outputs, tsr_output_hook call, void *user, bool modules);
bool tsr__outputs_modules_wanted(const tsr__outputs *outputs);
/* Does this rank tell anybody anything? */
bool tsr__outputs_told(const tsr__outputs *outputs);

/* Tells a stage, on rank 0. Its failure stays in outputs->status. Local. */
void tsr__outputs_stage(tsr__outputs *outputs, const char *name, tsr_dtype dtype, int ndim, const int64_t *shape,
                        const void *data);
/* From here on runs of x tell the outputs of model's modules, gathered, as "<component>.<path>#<index>", and the root's
 * as <component>_out, the second time neg_<component>_out. model NULL: no more. The runs are then collective over the
 * ranks that share the model, also after a failure of one. */
void tsr__outputs_watch(tsr__outputs *outputs, tsr__exec *x, const tsr_model *model);

#endif
