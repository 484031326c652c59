/* tessera-reshard FOLDER BYTES: the weights of FOLDER again, in shards of at most BYTES (diffusers' max_shard_size; a
 * larger tensor is alone in its shard), with an index. Replaces the files that were there. Prints how many shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint.h"

enum { MOST = 4096, PATH_LENGTH = 4096 };

static const char *const index_name = "diffusion_pytorch_model.safetensors.index.json";

static void need(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "tessera-reshard: %s\n", what);
    exit(2);
}

static tsr_tensor read_tensor(tsr_engine *engine, tsr_checkpoint *checkpoint, size_t i) {
    const tsr_tensor_info *info = tsr_checkpoint_at(checkpoint, i);
    tsr_tensor t = {
        .name = strdup(info->name), .dtype = info->dtype, .ndim = info->ndim, .data = malloc(info->size + 1)};
    need(t.name && t.data, "out of memory");
    memcpy(t.shape, info->shape, sizeof t.shape);
    need(tsr_checkpoint_read(checkpoint, info, 0, NULL, 0, t.data, info->size) == TSR_OK, tsr_engine_message(engine));
    return t;
}

/* All tensors of the folder, whose files are then removed. */
static size_t take_all(tsr_engine *engine, const char *folder, tsr_tensor *tensors) {
    tsr_checkpoint *checkpoint = NULL;
    char path[PATH_LENGTH];
    need(tsr_checkpoint_open(engine, folder, &checkpoint) == TSR_OK, tsr_engine_message(engine));
    size_t n = tsr_checkpoint_count(checkpoint);
    need(n <= MOST, "too many tensors");
    for (size_t i = 0; i < n; i++) tensors[i] = read_tensor(engine, checkpoint, i);
    for (size_t i = 0; i < checkpoint->n_files; i++)
        need(unlink(checkpoint->files[i].path) == 0, "cannot remove a file");
    snprintf(path, sizeof path, "%s/%s", folder, index_name);
    (void)unlink(path);
    tsr_checkpoint_close(checkpoint);
    return n;
}

/* How many tensors from `first` on fill a shard. */
static size_t fill(const tsr_tensor *tensors, size_t first, size_t n, size_t most) {
    size_t bytes = 0, end = first;
    while (end < n && (end == first || bytes + tsr_tensor_bytes(&tensors[end]) <= most))
        bytes += tsr_tensor_bytes(&tensors[end++]);
    return end - first;
}

int main(int argc, char **argv) {
    static tsr_tensor tensors[MOST];
    char path[PATH_LENGTH], name[64];
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    tsr_engine *engine = NULL;
    options.device = "ref";
    need(argc == 3, "usage: FOLDER BYTES");
    need(tsr_engine_create(&options, &engine) == TSR_OK, "no engine");
    size_t n = take_all(engine, argv[1], tensors), most = strtoull(argv[2], NULL, 10), shards = 0;
    for (size_t i = 0; i < n; i += fill(tensors, i, n, most)) shards++;
    snprintf(path, sizeof path, "%s/%s", argv[1], index_name);
    FILE *index = fopen(path, "w");
    need(index != NULL, "cannot write the index");
    fputs("{\"metadata\": {}, \"weight_map\": {", index);
    for (size_t i = 0, shard = 1, count; i < n; i += count, shard++) {
        count = fill(tensors, i, n, most);
        snprintf(name, sizeof name, "diffusion_pytorch_model-%05zu-of-%05zu.safetensors", shard, shards);
        snprintf(path, sizeof path, "%s/%s", argv[1], name);
        need(tsr_safetensors_save(engine, path, tensors + i, count, NULL) == TSR_OK, tsr_engine_message(engine));
        for (size_t j = i; j < i + count; j++)
            fprintf(index, "%s\n\"%s\": \"%s\"", j ? "," : "", tensors[j].name, name);
    }
    fputs("}}\n", index);
    need(fclose(index) == 0, "cannot write the index");
    for (size_t i = 0; i < n; i++) {
        free((char *)(uintptr_t)tensors[i].name);
        free(tensors[i].data);
    }
    tsr_engine_destroy(engine);
    printf("%zu\n", shards);
    return 0;
}
