#ifndef TSR_PIPELINES_REGISTRY_H
#define TSR_PIPELINES_REGISTRY_H

#include "pipelines/pipeline.h"

extern const tsr_pipeline_desc tsr__flux2_klein; /* Flux2KleinPipeline */

#endif
