/* Hub names in the local Hugging Face cache: <cache>/models--org--name/snapshots/<revision>. */
#include "base/text.h"
#include "io/file.h"
#include "pipelines/pipeline.h"

#include <stdlib.h>
#include <string.h>

/* Where huggingface_hub looks, in its order: variable, and the folder below its value. */
static const struct {
    const char *variable, *below;
} caches[] = {
    {"HF_HUB_CACHE", ""},
    {"HUGGINGFACE_HUB_CACHE", ""},
    {"HF_HOME", "/hub"},
    {"XDG_CACHE_HOME", "/huggingface/hub"},
    {"HOME", "/.cache/huggingface/hub"},
};

static char *cache_folder(tsr_engine *engine) {
    for (size_t i = 0; i < TSR__COUNT(caches); i++) {
        const char *value = getenv(caches[i].variable);
        if (value && *value) return tsr__format(engine, "%s%s", value, caches[i].below);
    }
    return tsr__format(engine, "/root/.cache/huggingface/hub");
}

/* "org/name" with the letters that the Hub allows. */
static bool is_hub_name(const char *model) {
    const char *slash = strchr(model, '/');
    if (!slash || slash == model || !slash[1] || strchr(slash + 1, '/') || model[0] == '.') return false;
    for (const char *c = model; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./", *c)) return false;
    return true;
}

/* The snapshot that refs/main names. */
static char *snapshot(tsr_engine *engine, const char *repository) {
    char *ref = tsr__format(engine, "%s/refs/main", repository), *revision = NULL, *folder = NULL;
    size_t n = 0;
    if (ref && tsr__path_exists(ref) && tsr__file_read(engine, ref, 256, &revision, &n) == TSR_OK) {
        revision[strcspn(revision, "\r\n ")] = '\0';
        folder = tsr__format(engine, "%s/snapshots/%s", repository, revision);
    }
    tsr__free(engine, ref);
    tsr__free(engine, revision);
    return folder;
}

static char *find_in_cache(tsr_engine *engine, const char *model) {
    const char *slash = strchr(model, '/');
    char *cache = cache_folder(engine), *folder = NULL;
    char *repository =
        cache ? tsr__format(engine, "%s/models--%.*s--%s", cache, (int)(slash - model), model, slash + 1) : NULL;
    if (repository) folder = snapshot(engine, repository);
    tsr__free(engine, cache);
    tsr__free(engine, repository);
    return folder;
}

tsr_status tsr_hub_resolve(tsr_engine *engine, const char *model, char **folder) {
    if (tsr__path_exists(model)) {
        if (!tsr__path_is_folder(model))
            return tsr__fail(engine, TSR_ARG, "%s: not a folder; give the folder that holds model_index.json", model);
        *folder = tsr__strdup(engine, model);
        return *folder ? TSR_OK : TSR_NOMEM;
    }
    if (!is_hub_name(model)) return tsr__fail(engine, TSR_IO, "%s: no such folder or file", model);
    char *found = find_in_cache(engine, model);
    if (!found || !tsr__path_is_folder(found)) {
        tsr__free(engine, found);
        return tsr__fail(engine, TSR_IO,
                         "%s: no such folder, and not in the local Hugging Face cache; download it with: hf "
                         "download %s",
                         model, model);
    }
    *folder = found;
    return TSR_OK;
}
