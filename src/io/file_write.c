/* New files, written at offsets. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static tsr_status refuse(tsr_engine *engine, const char *path) {
    return tsr__fail(engine, TSR_IO, "%s: cannot be written: %m", path);
}

static tsr_status reserve(tsr_engine *engine, int fd, const char *path, uint64_t bytes) {
    int result = 0;
    do result = bytes ? fallocate(fd, 0, 0, (off_t)bytes) : 0;
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EOPNOTSUPP) result = ftruncate(fd, (off_t)bytes);
    return result == 0 ? TSR_OK : refuse(engine, path);
}

tsr_status tsr__file_create(tsr_engine *engine, const char *path, uint64_t bytes, int *fd) {
    int opened = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0) return refuse(engine, path);
    tsr_status status = reserve(engine, opened, path, bytes);
    if (status == TSR_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}

tsr_status tsr__file_write_at(tsr_engine *engine, int fd, const char *path, uint64_t offset, const void *src,
                              size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t wrote = pwrite(fd, (const char *)src + done, n - done, (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return refuse(engine, path);
        done += (size_t)wrote;
    }
    return TSR_OK;
}

tsr_status tsr__file_finish(tsr_engine *engine, int fd, const char *path, tsr_status status) {
    if (status == TSR_OK && fsync(fd) != 0) status = refuse(engine, path);
    if (close(fd) != 0 && errno != EINTR && status == TSR_OK) status = refuse(engine, path);
    return status;
}

tsr_status tsr__file_put(tsr_engine *engine, const char *path, const void *src, size_t n) {
    int fd = -1;
    TSR__TRY(tsr__file_create(engine, path, n, &fd));
    return tsr__file_finish(engine, fd, path, tsr__file_write_at(engine, fd, path, 0, src, n));
}

static tsr_status copy_all(tsr_engine *engine, int in, int out, const char *from, const char *to) {
    enum { BLOCK = 1 << 20 };
    char *block = tsr__alloc(engine, BLOCK);
    tsr_status status = block ? TSR_OK : TSR_NOMEM;
    for (uint64_t at = 0; status == TSR_OK;) {
        ssize_t got = read(in, block, BLOCK);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        status = got < 0 ? tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", from)
                         : tsr__file_write_at(engine, out, to, at, block, (size_t)got);
        at += got > 0 ? (uint64_t)got : 0;
    }
    tsr__free(engine, block);
    return status;
}

tsr_status tsr__file_copy(tsr_engine *engine, const char *from, const char *to) {
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
    if (in < 0) return tsr__fail(engine, TSR_IO, "%s: cannot be opened: %m", from);
    tsr_status status = tsr__file_create(engine, to, 0, &out);
    if (status == TSR_OK) status = tsr__file_finish(engine, out, to, copy_all(engine, in, out, from, to));
    close(in);
    return status;
}
