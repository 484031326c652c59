/* Outputs of two runs, side by side. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "cli.h"

enum { CLI_SAMPLE = 65536 };

/* An output, or some of its elements, as float32. */
typedef struct cli_output {
    char *name;
    tsr_dtype dtype; /* as it was told */
    int ndim;
    int64_t shape[TSR_MAX_DIMS];
    size_t n; /* of values */
    float *values;
} cli_output;

/* Takes all elements, or, of more than CLI_SAMPLE where `sampled`, so many by a fixed pseudo-random sequence. False
 * where the dtype cannot be converted. Owner of *out: the caller (cli_output_free). */
bool cli_output_take(const tsr_tensor *tensor, bool sampled, cli_output *out);
void cli_output_free(cli_output *output);

/* How far an output a is from the expected b. Allowed: |a - b| <= atol + rtol |b|; of integers nothing, of the picture
 * one level. */
typedef struct cli_difference {
    char *name;
    int ndim;
    int64_t shape[TSR_MAX_DIMS]; /* of a */
    char *expected_shape;        /* NULL: the same */
    bool floating, picture;
    size_t compared, departed, not_finite; /* elements: all, those that differ, those that are NaN or infinite */
    double largest, figure;                /* most |a - b|; most |a - b| / (1 + |b|), of floating outputs */
    float a, b;                            /* where |a - b| is largest */
} cli_difference;

typedef struct cli_comparison {
    char layout[64];     /* "ring 2 x tp 2" */
    const char *against; /* the dump; NULL: one rank */
    double atol, rtol;
    cli_difference *all; /* in the order of the run */
    size_t n, capacity, departed;
    size_t unmatched; /* outputs that only one side has */
} cli_comparison;

/* Adds an output and what it should be, taken alike. */
void cli_compare(cli_comparison *comparison, const cli_output *a, const cli_output *b);
void cli_comparison_free(cli_comparison *comparison);
/* The first that departs; NULL: none. */
const cli_difference *cli_comparison_first(const cli_comparison *comparison);
/* On stdout: how many were compared, which departs first and by how much, which is worst, the picture. json: one
 * object, with all outputs. */
void cli_comparison_print(const cli_comparison *comparison, bool agrees, bool json);

#endif
