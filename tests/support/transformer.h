/* Parts of the tiny klein pipeline on several ranks, each from the same random inputs everywhere. */
#ifndef TESTS_TRANSFORMER_H
#define TESTS_TRANSFORMER_H

#include "models/model.h"

enum { RANK_FLOATS = 4096, RANK_AXES = 4, RANK_ALL = -1 };

/* Opens a component of tests/fixtures/klein ("transformer"). config NULL: whole on every rank. meta: nothing is read.
 * Collective. */
tsr_status rank_open_part(tsr_engine *engine, const char *part, const tsr_parallel_config *config, bool meta,
                          tsr_model **out);
/* Two rows of text and image tokens, 8 and 12 each; odd: 7 and 13. *n floats of the output, all in out [RANK_FLOATS].
 * Collective. */
tsr_status rank_forward(tsr_engine *engine, tsr_model *model, bool odd, float *out, size_t *n);

/* An axis of a mesh; size RANK_ALL: all ranks. */
typedef struct rank_axis {
    const char *name;
    int size;
} rank_axis;
/* Of at most RANK_AXES axes, in order; fewer are ended by a name of NULL. None: no mesh. Collective. */
tsr_status rank_open_mesh(tsr_engine *engine, const rank_axis *axes, tsr_device_mesh **out);

#endif
