/* Tessera: diffusion transformers over many devices. This header includes all others. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <tessera/bench.h>
#include <tessera/checkpoint.h>
#include <tessera/mesh.h>
#include <tessera/model.h>
#include <tessera/parallel.h>
#include <tessera/pipeline.h>
#include <tessera/plan.h>
#include <tessera/status.h>
#include <tessera/tensor.h>
#include <tessera/tokenizer.h>

#endif
