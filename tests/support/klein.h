/* The tiny klein pipeline of tests/fixtures, and comparison with what diffusers computed. */
#ifndef TESTS_SUPPORT_KLEIN_H
#define TESTS_SUPPORT_KLEIN_H

#include "support.h"

#include <tessera/tessera.h>

/* A case of expected values: what was asked for. */
typedef struct klein_case {
    const char *name; /* <folder>/<prefix><name>.safetensors */
    const char *prompts[2];
    int64_t height, width;
    int steps;
    double guidance;
    int images_per_prompt;
    int64_t max_sequence_length; /* 0: the default */
    bool base;                   /* model_index_base.json */
} klein_case;

/* Opens `folder` (a pipeline), with model_index_base.json as its index where base, in float32. */
tsr_pipeline *open_klein(tsr_engine *engine, const char *folder, bool base);
/* Options of a case; seed 42. The case must outlive them. */
tsr_generate_options klein_options(const klein_case *c);
/* All tensors of `expected` that `actual` has too: integers and `exact` names equal, floats within tolerance. Returns
 * how many were compared; names of the others are counted into *missing. */
size_t compare_tensors(tsr_engine *engine, const char *actual, const char *expected, double tolerance, size_t *missing);

#endif
