/* The three ways of `bench load`: a plain read, the streamed load, everything and then the part. */
#include "pipelines/bench_load.h"

#include "device/host.h"
#include "io/checkpoint.h"
#include "io/file.h"

#include <string.h>
#include <unistd.h>

enum { BLOCK = 8 << 20 };

tsr_status tsr__bench_load_open(const tsr__bench_load *b, tsr_model **out) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__model_open(b->engine, b->folder, "model", NULL, &model));
    tsr_status status = tsr__model_split(model, NULL, b->rank, b->degree);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

/* --- plain --- */

static uint64_t size_of(const tsr__safetensors *file) { return (uint64_t)lseek(file->fd, 0, SEEK_END); }

/* From `from` to the end of the file, until *bytes are as many as wanted. */
static tsr_status read_file(const tsr__safetensors *file, uint64_t from, uint64_t wanted, char *memory,
                            uint64_t *bytes) {
    uint64_t size = size_of(file);
    while (from < size && *bytes < wanted) {
        uint64_t n = size - from < BLOCK ? size - from : BLOCK;
        if (n > wanted - *bytes) n = wanted - *bytes;
        TSR__TRY(tsr__file_read_at(file->engine, file->fd, file->path, from, memory + *bytes, (size_t)n));
        from += n;
        *bytes += n;
    }
    return TSR_OK;
}

/* Ranks begin at different places, so that none finds in the page cache what another one has just read. */
static tsr_status read_plain(const tsr__bench_load *b, const tsr_checkpoint *checkpoint, char *memory,
                             uint64_t *bytes) {
    uint64_t wanted = b->weight_bytes, total = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++) total += size_of(&checkpoint->files[i]);
    uint64_t skip = total ? (uint64_t)b->rank * wanted % total : 0;
    for (size_t i = 0; i < 2 * checkpoint->n_files; i++) {
        const tsr__safetensors *file = &checkpoint->files[i % checkpoint->n_files];
        uint64_t size = size_of(file), from = skip < size ? skip : size;
        skip -= from;
        TSR__TRY(read_file(file, from, wanted, memory, bytes));
    }
    return TSR_OK;
}

tsr_status tsr__bench_load_plain(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr__device *device = b->engine->device;
    tsr_checkpoint *checkpoint = NULL;
    char *memory = tsr__host_alloc(device, b->weight_bytes);
    tsr_status status = memory ? tsr_checkpoint_open(b->engine, b->folder, &checkpoint) : TSR_NOMEM;
    if (status == TSR_OK) status = read_plain(b, checkpoint, memory, &out->bytes_read);
    out->seconds = tsr__seconds() - start;
    tsr_checkpoint_close(checkpoint);
    tsr__host_free(device, memory);
    return status;
}

/* --- streamed --- */

tsr_status tsr__bench_load_streamed(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__bench_load_open(b, &model));
    tsr_status status = tsr__model_load(model);
    out->seconds = tsr__seconds() - start;
    out->bytes_read = tsr_checkpoint_bytes_read(model->checkpoint);
    tsr_model_destroy(model);
    return status;
}

/* --- whole, then cut --- */

tsr_status tsr__bench_load_whole(const tsr__bench_load *b, double start, tsr_bench_load_part *out) {
    tsr_model *model = NULL;
    tsr_status status = tsr__model_open(b->engine, b->folder, "model", NULL, &model);
    if (status == TSR_OK) status = tsr__model_load(model);
    if (status == TSR_OK) out->bytes_read = tsr_checkpoint_bytes_read(model->checkpoint);
    if (status == TSR_OK) status = tsr__model_split(model, NULL, b->rank, b->degree);
    if (status == TSR_OK) status = tsr__model_keep_part(model);
    out->seconds = tsr__seconds() - start;
    tsr_model_destroy(model);
    return status;
}
