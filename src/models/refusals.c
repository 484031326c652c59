/* What diffusers can do at loading and Tessera does not, refused by name: asked for by an argument, or by a folder. */
#include "io/file.h"
#include "models/model.h"

#include <string.h>

/* Name, the value that changes nothing here ("": none does), and what to do about another. */
/* clang-format off */
static const struct argument { const char *name, *harmless, *advice; } arguments[] = {
    {"device_map", "", "weights are split over ranks by a plan"},
    {"max_memory", "", "weights are split over ranks by a plan; `tessera plan` shows what each holds"},
    {"offload_folder", "", "nothing is offloaded; split the model over more ranks"},
    {"offload_state_dict", "False", "nothing is offloaded; split the model over more ranks"},
    {"low_cpu_mem_usage", "True", "weights are always read straight to where they stay"},
    {"quantization_config", "", "Tessera reads unquantized weights only"},
    {"use_flashpack", "False", "Tessera reads safetensors only"},
    {"use_safetensors", "True", "Tessera reads safetensors only"},
    {"variant", "", "Tessera opens the weights that a folder names without a variant"},
    {"from_flax", "False", "Tessera reads safetensors only"},
    {"ignore_mismatched_sizes", "False", "a weight of another shape than the config's is an error"},
    {"custom_pipeline", "", "Tessera draws with the pipelines that it has"},
    {"trust_remote_code", "False", "Tessera runs no code of a model's folder"},
};
/* clang-format on */

tsr_status tsr__arguments_check(tsr_engine *engine, const char *const *given) {
    for (; given && given[0]; given += 2) {
        const struct argument *known = NULL;
        for (size_t i = 0; i < TSR__COUNT(arguments) && !known; i++)
            if (strcmp(arguments[i].name, given[0]) == 0) known = &arguments[i];
        if (!known) return tsr__fail(engine, TSR_ARG, "from_pretrained: Tessera has no argument \"%s\"", given[0]);
        if (!given[1] || !*known->harmless || strcmp(given[1], known->harmless) != 0)
            return tsr__fail(engine, TSR_UNSUPPORTED, "from_pretrained: %s=%s is not supported: %s", given[0],
                             given[1] ? given[1] : "", known->advice);
    }
    return TSR_OK;
}

/* Files that ask for something. */
/* clang-format off */
static const struct sign {
    const char *file;
    bool always; /* else only where what should be there is missing */
    const char *what;
} signs[] = {
    {"adapter_config.json", true, "LoRA adapters, which Tessera does not load; merge them (fuse_lora or merge_and_unload, then save_pretrained)"},
    {"pytorch_lora_weights.safetensors", false, "LoRA adapters, which Tessera does not load; merge them (fuse_lora, then save_pretrained)"},
    {"model.flashpack", false, "a flashpack, which Tessera does not read; save the model as safetensors"},
    {"flashpack_config.json", false, "a flashpack, which Tessera does not read; save the model as safetensors"},
};
/* clang-format on */

static tsr_status look(tsr_engine *engine, const char *folder, const char *file, bool *found) {
    char *path = tsr__path_join(engine, folder, file);
    if (!path) return TSR_NOMEM;
    *found = tsr__path_exists(path);
    tsr__free(engine, path);
    return TSR_OK;
}

tsr_status tsr__folder_check(tsr_engine *engine, const char *folder, const char *wanted) {
    bool there = false, found = false;
    TSR__TRY(look(engine, folder, wanted, &there));
    for (size_t i = 0; i < TSR__COUNT(signs); i++) {
        if (there && !signs[i].always) continue;
        TSR__TRY(look(engine, folder, signs[i].file, &found));
        if (found) return tsr__fail(engine, TSR_UNSUPPORTED, "%s: holds %s (%s)", folder, signs[i].what, signs[i].file);
    }
    return TSR_OK;
}
