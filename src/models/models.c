/* The classes that there are. */
#include "models/models.h"

#include <stdio.h>
#include <string.h>

static const tsr_model_desc *const all[] = {&tsr__flux2_transformer, &tsr__minimax_h3_transformer, &tsr__qwen3,
                                            &tsr__autoencoder_kl_flux2};

const tsr_model_desc *tsr__model_desc_find(const char *class_name) {
    for (size_t i = 0; i < TSR__COUNT(all); i++)
        if (strcmp(all[i]->class_name, class_name) == 0) return all[i];
    return NULL;
}

static bool any(const tsr_model_desc *desc) { return desc != NULL; }
static bool planned(const tsr_model_desc *desc) { return desc->tp_plan.n > 0; }
static bool context_planned(const tsr_model_desc *desc) { return desc->cp_plan != NULL; }

static const char *list_classes(bool (*belongs)(const tsr_model_desc *desc), char *text, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < TSR__COUNT(all) && used < size; i++)
        if (belongs(all[i]))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", all[i]->class_name);
    return text;
}

const char *tsr__model_classes(char *text, size_t size) { return list_classes(any, text, size); }
const char *tsr__model_classes_with_plan(char *text, size_t size) { return list_classes(planned, text, size); }
const char *tsr__model_classes_with_cp_plan(char *text, size_t size) {
    return list_classes(context_planned, text, size);
}
