#include "io/checkpoint.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/file.h"

/* The names diffusers and transformers give their weights; an index stands before the single file. */
static const struct {
    const char *name, *stem;
} weight_files[] = {
    {"diffusion_pytorch_model.safetensors.index.json", "diffusion_pytorch_model"},
    {"diffusion_pytorch_model.safetensors", "diffusion_pytorch_model"},
    {"model.safetensors.index.json", "model"},
    {"model.safetensors", "model"},
};

/* A list of names for a message: all of them, or as many as a message holds and the number of the others. */
typedef struct name_list {
    tsr__text text;
    size_t n, left_out;
} name_list;

static void list_add(name_list *list, const char *name) {
    if (list->text.length > TSR__MESSAGE_BYTES * 2 / 3)
        list->left_out++;
    else
        tsr__text_format(&list->text, "%s%.200s", list->n++ ? ", " : "", name);
}

/* OK where the list is empty, else FORMAT: "<path>: <what>: names". Frees the list. */
static tsr_status list_refuse(name_list *list, const char *path, const char *what) {
    tsr_engine *engine = list->text.engine;
    tsr_status status = TSR_OK;
    if (list->left_out) tsr__text_format(&list->text, " and %zu more", list->left_out);
    if (list->text.failed)
        status = TSR_NOMEM;
    else if (list->n)
        status = tsr__fail(engine, TSR_FORMAT, "%s: %s: %s", path, what, list->text.data);
    tsr__text_free(&list->text);
    return status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A shard must be a plain name: an index may not lead out of its folder. */
static bool plain_name(const json_t *value) {
    const char *name = json_string_value(value);
    return name && *name && strlen(name) == json_string_length(value) && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static tsr_status refuse_place(tsr_engine *engine, const char *index, const char *tensor, const json_t *value) {
    char found[TSR__JSON_DESCRIPTION_BYTES];
    tsr__json_describe(value, found);
    return tsr__fail(engine, TSR_FORMAT, "%s: tensor '%.200s' is said to lie in %s, which is no plain file name", index,
                     tensor, found);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The file names in a weight map, each once, in order. names has room for one a tensor. */
static tsr_status list_shards(tsr_engine *engine, const char *index, json_t *map, const char **names, size_t *n) {
    const char *key;
    json_t *value;
    size_t all = 0, unique = 0;
    json_object_foreach(map, key, value) {
        if (!plain_name(value)) return refuse_place(engine, index, key, value);
        names[all++] = json_string_value(value);
    }
    qsort(names, all, sizeof *names, by_text);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || strcmp(names[i], names[unique - 1]) != 0) names[unique++] = names[i];
    *n = unique;
    return TSR_OK;
}

/* Every tensor must lie in the shard that the index names, and every name in the index must be found. */
static tsr_status check_placement(tsr_checkpoint *c, const char *index, json_t *map) {
    name_list missing = {.text = {.engine = c->engine}}, unlisted = missing;
    const char *key;
    json_t *value;
    for (size_t i = 0; i < c->n; i++) {
        const char *file = json_string_value(json_object_get(map, c->tensors[i].name));
        if (file && strcmp(file, base_name(c->tensors[i].file)) == 0)
            json_object_del(map, c->tensors[i].name);
        else
            list_add(&unlisted, c->tensors[i].name);
    }
    json_object_foreach(map, key, value) list_add(&missing, key);
    tsr_status absent =
        list_refuse(&missing, index, "its shards lack these tensors that it places in them; download them again");
    if (absent != TSR_OK) {
        tsr__text_free(&unlisted.text);
        return absent;
    }
    return list_refuse(&unlisted, index,
                       "the index is incomplete (download it again): it does not name these tensors of its shards");
}

static tsr_status open_shards(tsr_checkpoint *c, const char *folder, const char *index, const char *const *names,
                              size_t n) {
    name_list missing = {.text = {.engine = c->engine}};
    char **paths = tsr__calloc(c->engine, n, sizeof *paths);
    tsr_status status = paths ? TSR_OK : TSR_NOMEM;
    for (size_t i = 0; i < n && status == TSR_OK; i++) {
        paths[i] = tsr__path_join(c->engine, folder, names[i]);
        if (!paths[i])
            status = TSR_NOMEM;
        else if (!tsr__path_exists(paths[i]))
            list_add(&missing, names[i]);
    }
    if (status == TSR_OK)
        status = list_refuse(&missing, index, "files that it names are missing from its folder; download them");
    else
        tsr__text_free(&missing.text);
    if (status == TSR_OK) status = tsr__checkpoint_open_files(c, paths, n);
    for (size_t i = 0; paths && i < n; i++) tsr__free(c->engine, paths[i]);
    tsr__free(c->engine, paths);
    return status;
}

static tsr_status open_mapped(tsr_checkpoint *c, const char *folder, const char *index, json_t *root) {
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return tsr__fail(c->engine, TSR_FORMAT, "%s: has no weight_map with names of tensors and files", index);
    size_t n = 0;
    const char **names = tsr__calloc(c->engine, json_object_size(map), sizeof *names);
    if (!names) return TSR_NOMEM;
    tsr_status status = list_shards(c->engine, index, map, names, &n);
    if (status == TSR_OK) status = open_shards(c, folder, index, names, n);
    tsr__free(c->engine, names);
    return status == TSR_OK ? check_placement(c, index, map) : status;
}

static tsr_status open_index(tsr_checkpoint *c, const char *folder, const char *index) {
    json_t *root = NULL;
    TSR__TRY(tsr__json_load(c->engine, index, &root));
    tsr_status status = open_mapped(c, folder, index, root);
    json_decref(root);
    return status;
}

/* None of the known names is there: says what is there instead. */
static tsr_status refuse_folder(tsr_engine *engine, const char *folder) {
    bool pickle = false, safetensors = false;
    DIR *listing = opendir(folder);
    if (!listing) return tsr__fail(engine, TSR_IO, "%s: cannot be listed: %m", folder);
    for (const struct dirent *entry; (entry = readdir(listing));) {
        pickle = pickle || tsr__path_ends(entry->d_name, ".bin") || tsr__path_ends(entry->d_name, ".bin.index.json");
        safetensors = safetensors || tsr__path_ends(entry->d_name, ".safetensors");
    }
    closedir(listing);
    if (pickle && !safetensors)
        return tsr__fail(engine, TSR_UNSUPPORTED,
                         "%s: holds .bin (pickle) weights only; Tessera needs safetensors: download or convert them",
                         folder);
    return tsr__fail(engine, TSR_IO, "%s: holds no %s, no %s and no index of either%s", folder, weight_files[1].name,
                     weight_files[3].name,
                     safetensors ? "; to open another .safetensors file of it, give its path" : "");
}

tsr_status tsr__checkpoint_open_folder(tsr_checkpoint *c, const char *folder) {
    for (size_t i = 0; i < TSR__COUNT(weight_files); i++) {
        struct stat at;
        char *path = tsr__path_join(c->engine, folder, weight_files[i].name);
        if (!path) return TSR_NOMEM;
        tsr_status status = TSR_OK;
        c->stem = weight_files[i].stem;
        bool there = lstat(path, &at) == 0; /* a dangling link is there, and opening it says so */
        if (there)
            status =
                tsr__path_ends(path, ".json") ? open_index(c, folder, path) : tsr__checkpoint_open_files(c, &path, 1);
        tsr__free(c->engine, path);
        if (there) return status;
    }
    return refuse_folder(c->engine, folder);
}
