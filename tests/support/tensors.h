/* The tensors of a file in host memory, as inputs and expected outputs of a model. */
#ifndef TESTS_TENSORS_H
#define TESTS_TENSORS_H

#include "support.h"

#include <tessera/tensor.h>

/* All tensors of the file, at most `most`, names without "transformer_in." or "in.". Returns how many; release them
 * with test_tensors_release. */
size_t test_tensors_read(tsr_engine *engine, const char *path, tsr_tensor *tensors, size_t most);
/* The one of that name, or NULL. */
tsr_tensor *test_tensors_find(tsr_tensor *tensors, size_t n, const char *name);
void test_tensors_release(tsr_tensor *tensors, size_t n);

#endif
