/* The pipeline classes that there are. */
#include "pipelines/registry.h"

#include <stdio.h>
#include <string.h>

static const tsr_pipeline_desc *const all[] = {&tsr__flux2_klein};

const tsr_pipeline_desc *tsr__pipeline_desc_find(const char *class_name) {
    for (size_t i = 0; i < TSR__COUNT(all); i++)
        if (strcmp(all[i]->class_name, class_name) == 0) return all[i];
    return NULL;
}

const char *tsr__pipeline_classes(char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < TSR__COUNT(all) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", all[i]->class_name);
    return text;
}
