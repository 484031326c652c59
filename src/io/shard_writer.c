/* One rank's hand in files that several ranks write. */
#include <fcntl.h>
#include <string.h>

#include "io/file.h"
#include "io/sharded_save.h"

enum { BUFFER = 1 << 20 };

tsr_status tsr__shard_writer_open(const tsr__sharded *sharded, const char *folder, tsr__shard_writer *out) {
    tsr__shard_writer w = {.sharded = sharded, .folder = folder, .fd = -1};
    w.buffer = tsr__alloc(sharded->engine, BUFFER);
    if (!w.buffer) return TSR_NOMEM;
    *out = w;
    return TSR_OK;
}

static tsr_status flush(tsr__shard_writer *w) {
    if (!w->used) return TSR_OK;
    TSR__TRY(tsr__file_write_at(w->sharded->engine, w->fd, w->path, w->at, w->buffer, w->used));
    w->at += w->used;
    w->used = 0;
    return TSR_OK;
}

/* What this writer has put into its file is on the disk after this. */
static tsr_status leave_file(tsr__shard_writer *w, tsr_status status) {
    if (w->fd < 0) return status;
    if (status == TSR_OK) status = flush(w);
    status = tsr__file_finish(w->sharded->engine, w->fd, w->path, status);
    tsr__free(w->sharded->engine, w->path);
    w->fd = -1;
    w->path = NULL;
    w->used = 0;
    return status;
}

static tsr_status enter_file(tsr__shard_writer *w, size_t file) {
    tsr_engine *engine = w->sharded->engine;
    w->path = tsr__path_join(engine, w->folder, w->sharded->files[file].name);
    if (!w->path) return TSR_NOMEM;
    w->file = file;
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    if (w->fd >= 0) return TSR_OK;
    tsr_status status = tsr__fail(engine, TSR_IO, "%s: cannot be written: %m", w->path);
    tsr__free(engine, w->path);
    w->path = NULL;
    return status;
}

tsr_status tsr__shard_writer_seek(tsr__shard_writer *w, const tsr__placed_tensor *tensor) {
    if (w->fd >= 0 && w->file == tensor->file)
        TSR__TRY(flush(w));
    else
        TSR__TRY(leave_file(w, TSR_OK));
    if (w->fd < 0) TSR__TRY(enter_file(w, tensor->file));
    w->at = tensor->offset;
    return TSR_OK;
}

tsr_status tsr__shard_writer_put(tsr__shard_writer *w, const void *bytes, size_t n) {
    if (n > BUFFER - w->used) TSR__TRY(flush(w));
    if (n > BUFFER) {
        TSR__TRY(tsr__file_write_at(w->sharded->engine, w->fd, w->path, w->at, bytes, n));
        w->at += n;
    } else if (n) {
        memcpy(w->buffer + w->used, bytes, n);
        w->used += n;
    }
    return TSR_OK;
}

tsr_status tsr__shard_writer_copy(tsr__shard_writer *w, tsr_checkpoint *source, const tsr_tensor_info *info) {
    TSR__TRY(flush(w));
    for (uint64_t done = 0; done < info->size; done += w->used) {
        TSR__TRY(flush(w));
        size_t n = info->size - done < BUFFER ? (size_t)(info->size - done) : BUFFER;
        TSR__TRY(tsr__checkpoint_read_bytes(source, info, done, w->buffer, n));
        w->used = n;
    }
    return TSR_OK;
}

tsr_status tsr__shard_writer_close(tsr__shard_writer *w, tsr_status status) {
    if (!w->sharded) return status;
    status = leave_file(w, status);
    tsr__free(w->sharded->engine, w->buffer);
    *w = (tsr__shard_writer){.fd = -1};
    return status;
}
