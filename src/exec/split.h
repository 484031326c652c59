/* How splits go through operations. Private to src/exec. */
#ifndef TSR_EXEC_SPLIT_H
#define TSR_EXEC_SPLIT_H

#include "exec/exec.h"
#include "exec/graph.h"

#include <tessera/checkpoint.h>

/* Where part `part` of a split value begins on rank `rank`, counted from the part's own beginning, and how long that
 * piece is. */
tsr_range tsr__split_piece(const tsr__split *split, size_t part, int rank);
/* Length of the split dimension on rank `rank`, and of the whole (rank < 0). */
int64_t tsr__split_length(const tsr__split *split, int rank);

/* Gives the outputs of an operation that is being recorded the splits that follow from its inputs. Refuses what would
 * mix pieces of different ranks, or of one rank with a whole. */
void tsr__split_operation(tsr__exec *x, const tsr__emission *e, const tsr__value *out);
/* The same for views: `out` shows the elements of `in` in another shape; indices [begin, end) of a dimension; dimension
 * i of out is dimension order[i] of in. */
void tsr__split_reshape(tsr__exec *x, tsr__value in, tsr__value out);
void tsr__split_slice(tsr__exec *x, tsr__value in, int dim, tsr_range taken, tsr__value out);
void tsr__split_permute(tsr__exec *x, tsr__value in, const int *order, tsr__value out);

/* " (split over ranks by blocks.0.to_q)" into text, "" for a value that is whole. For messages. Returns text. */
const char *tsr__split_note(const tsr__exec *x, tsr__value v, char *text, size_t size);
/* Refuses a value that is split or waits for a sum. */
void tsr__check_whole(tsr__exec *x, const char *what, tsr__value v);

/* Of the executor. */
tsr__value_record *tsr__value_record_of(const tsr__exec *x, tsr__value v);
bool tsr__exec_recording(const tsr__exec *x);
tsr_status tsr__exec_status(const tsr__exec *x);
tsr_engine *tsr__exec_engine(const tsr__exec *x);

#endif
