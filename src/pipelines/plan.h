/* Plans of components. */
#ifndef TSR_PIPELINES_PLAN_H
#define TSR_PIPELINES_PLAN_H

#include "models/models.h"

#include <tessera/plan.h>

/* What the plans of one call have in common. */
typedef struct tsr__planning {
    tsr_engine *engine;
    tsr_plan_options options;
    tsr_parallel_config parallel;
    int ranks;        /* that are imagined */
    bool is_pipeline; /* whose components are held by some of the ranks only, and which keeps values across steps */
    tsr__picture picture;
    int counts[TSR_MAX_DEGREES]; /* numbers of ranks to show sizes for */
    size_t n_counts;
} tsr__planning;

/* The degrees that the plan of a model allows, up to 16: counts [*n]. Marks the model. */
TSR_NODISCARD tsr_status tsr__plan_degrees(tsr_model *model, int counts[TSR_MAX_DEGREES], size_t *n);
/* Fills the plan of a model that is open and whole; leaves what it has allocated in it, also after a failure. The model
 * can only be destroyed afterwards. */
TSR_NODISCARD tsr_status tsr__plan_component(const tsr__planning *p, tsr_model *model, tsr_plan *plan);

#endif
