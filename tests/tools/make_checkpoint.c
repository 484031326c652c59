/* tessera-make-checkpoint FOLDER SHARD_MB INPUTS TOKENS TEXT_TOKENS: random bfloat16 weights for FOLDER/config.json, in
 * shards of about SHARD_MB with an index, and INPUTS (.safetensors) for one forward of so many tokens.
 * tessera-make-checkpoint FOLDER --sparse: one file with a header and nothing but a hole behind it, which reads as
 * zeros and takes no room on the disk. Prints the bytes of all weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/models.h"

enum { MAX_PARAMS = 4096, PATH_LENGTH = 4096 };

typedef struct job {
    tsr_engine *engine;
    const char *folder;
    size_t shard_bytes;
    char *names[MAX_PARAMS]; /* [n] all so far; file [n]: which shard */
    int file[MAX_PARAMS];
    size_t n, n_shards;
    tsr_tensor tensors[MAX_PARAMS]; /* [held] of the shard that is being filled */
    size_t held, held_bytes, all_bytes;
    uint64_t random;
} job;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "tessera-make-checkpoint: %s %s\n", what, detail);
    exit(2);
}

static void *need(void *memory) {
    if (!memory) die("out of memory", "");
    return memory;
}

static void check(const job *j, tsr_status status) {
    if (status != TSR_OK) die("failed:", tsr_engine_message(j->engine));
}

/* xorshift64* */
static uint64_t draw(job *j) {
    j->random ^= j->random >> 12;
    j->random ^= j->random << 25;
    j->random ^= j->random >> 27;
    return j->random * 0x2545f4914f6cdd1du;
}

/* bfloat16 of any sign and mantissa, exponents 2^-9 to 2^-6: rms 0.014, about the inverse root of the fan-in of klein
 * 4B, so that activations neither grow nor vanish from block to block. */
static void fill_weight(job *j, uint16_t *data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = draw(j);
        data[i] = (uint16_t)((bits & 0x807f) | (118 + (bits >> 16 & 3)) << 7);
    }
}

/* transformers and diffusers number shards from 1 and say of how many, which is known at the end only. */
static void shard_name(char *text, const char *folder, size_t i, size_t n) {
    const char *slash = *folder ? "/" : "";
    snprintf(text, PATH_LENGTH, "%s%sdiffusion_pytorch_model-%05zu-of-%05zu.safetensors", folder, slash, i + 1, n);
}

static void save_shard(job *j) {
    char path[PATH_LENGTH];
    if (!j->held) return;
    shard_name(path, j->folder, j->n_shards, 0);
    check(j, tsr_safetensors_save(j->engine, path, j->tensors, j->held, NULL));
    for (size_t i = 0; i < j->held; i++) free(j->tensors[i].data);
    j->held = j->held_bytes = 0;
    j->n_shards++;
}

static tsr_status add_param(void *user, tsr__param *param) {
    job *j = user;
    char path[TSR__PATH_BYTES];
    size_t elements = (size_t)tsr__view_elements(&param->view);
    if (j->n == MAX_PARAMS) die("too many weights", "");
    j->names[j->n] = need(strdup(tsr__param_path(param, path, sizeof path)));
    j->file[j->n] = (int)j->n_shards;
    tsr_tensor *t = &j->tensors[j->held++];
    *t = (tsr_tensor){.name = j->names[j->n++], .dtype = TSR_BF16, .ndim = param->view.ndim};
    memcpy(t->shape, param->whole, sizeof t->shape);
    t->data = need(malloc(2 * elements));
    fill_weight(j, t->data, elements);
    j->held_bytes += 2 * elements;
    j->all_bytes += 2 * elements;
    if (j->held_bytes >= j->shard_bytes) save_shard(j);
    return TSR_OK;
}

static void rename_shards(const job *j) {
    char from[PATH_LENGTH], to[PATH_LENGTH];
    for (size_t i = 0; i < j->n_shards; i++) {
        shard_name(from, j->folder, i, 0);
        shard_name(to, j->folder, i, j->n_shards);
        if (rename(from, to) != 0) die("cannot rename", from);
    }
}

static void save_index(const job *j) {
    char path[PATH_LENGTH], name[PATH_LENGTH];
    snprintf(path, sizeof path, "%s/diffusion_pytorch_model.safetensors.index.json", j->folder);
    FILE *file = fopen(path, "w");
    if (!file) die("cannot write", path);
    fprintf(file, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", j->all_bytes);
    for (size_t i = 0; i < j->n; i++) {
        shard_name(name, "", (size_t)j->file[i], j->n_shards);
        fprintf(file, "%s\n\"%s\": \"%s\"", i ? "," : "", j->names[i], name);
    }
    fputs("}}\n", file);
    if (fclose(file) != 0) die("cannot write", path);
}

static void save_inputs(job *j, const tsr_model *model, const char *path, const char *tokens, const char *text_tokens) {
    const tsr__picture picture = {atoll(tokens), 1, 1, atoll(text_tokens), 1, 1};
    tsr__call call = tsr__call_for_picture(model, &picture);
    tsr_tensor inputs[TSR__MAX_ARGUMENTS];
    size_t n = 0;
    for (int i = 0; model->desc->inputs[i].name; i++) {
        if (!call.inputs[i].ndim) continue;
        inputs[n] = call.inputs[i];
        inputs[n].dtype = TSR_F32;
        int64_t elements = tsr_tensor_elements(&inputs[n]);
        float *data = inputs[n++].data = need(calloc((size_t)elements, sizeof *data));
        bool random = call.inputs[i].dtype == TSR_F32;
        for (int64_t k = 0; k < elements && random; k++) data[k] = (float)(draw(j) >> 40) * 0x1p-24f;
    }
    check(j, tsr_safetensors_save(j->engine, path, inputs, n, NULL));
    for (size_t i = 0; i < n; i++) free(inputs[i].data);
}

/* --- a sparse file --- */

typedef struct header {
    FILE *file;
    size_t bytes; /* of the weights so far */
} header;

static tsr_status add_entry(void *user, tsr__param *param) {
    header *h = user;
    char path[TSR__PATH_BYTES];
    size_t n = 2 * (size_t)tsr__view_elements(&param->view);
    fprintf(h->file, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[", h->bytes ? "," : "{",
            tsr__param_path(param, path, sizeof path));
    for (int i = 0; i < param->view.ndim; i++) fprintf(h->file, "%s%lld", i ? "," : "", (long long)param->whole[i]);
    fprintf(h->file, "],\"data_offsets\":[%zu,%zu]}", h->bytes, h->bytes + n);
    h->bytes += n;
    return TSR_OK;
}

static void save_sparse(job *j, tsr_model *model) {
    char path[PATH_LENGTH];
    unsigned char length[8];
    snprintf(path, sizeof path, "%s/diffusion_pytorch_model.safetensors", j->folder);
    header h = {.file = fopen(path, "wb")};
    if (!h.file || fseek(h.file, sizeof length, SEEK_SET) != 0) die("cannot write", path);
    check(j, tsr__module_visit_params(model->self, add_entry, &h));
    fputc('}', h.file);
    size_t end = (size_t)ftell(h.file), n = end - sizeof length;
    for (size_t i = 0; i < sizeof length; i++) length[i] = (unsigned char)(n >> 8 * i);
    rewind(h.file);
    if (fwrite(length, sizeof length, 1, h.file) != 1 || fflush(h.file) != 0) die("cannot write", path);
    if (ftruncate(fileno(h.file), (off_t)(end + h.bytes)) != 0 || fclose(h.file) != 0) die("cannot write", path);
    j->all_bytes = h.bytes;
}

static void save_random(job *j, tsr_model *model, char **arguments) {
    j->shard_bytes = strtoull(arguments[0], NULL, 10) * 1000000;
    check(j, tsr__module_visit_params(model->self, add_param, j));
    save_shard(j);
    rename_shards(j);
    save_index(j);
    save_inputs(j, model, arguments[1], arguments[2], arguments[3]);
}

int main(int argc, char **argv) {
    bool sparse = argc == 3 && strcmp(argv[2], "--sparse") == 0;
    if (argc != 6 && !sparse) die("usage:", "FOLDER SHARD_MB INPUTS TOKENS TEXT_TOKENS | FOLDER --sparse");
    job *j = need(calloc(1, sizeof *j));
    char config[PATH_LENGTH];
    const int64_t layers[2] = {-1, -1};
    tsr_model *model = NULL;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref";
    if (tsr_engine_create(&options, &j->engine) != TSR_OK) die("no engine", "");
    j->folder = argv[1];
    j->random = 88172645463325252u;
    snprintf(config, sizeof config, "%s/config.json", j->folder);
    check(j, tsr__model_from_config(j->engine, config, TSR_BF16, layers, &model));
    if (sparse)
        save_sparse(j, model);
    else
        save_random(j, model, argv + 2);
    printf("%zu\n", j->all_bytes);
    tsr_model_destroy(model);
    tsr_engine_destroy(j->engine);
    for (size_t i = 0; i < j->n; i++) free(j->names[i]);
    free(j);
    return 0;
}
