#include "io/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

bool tsr__path_exists(const char *path) {
    struct stat at;
    return stat(path, &at) == 0;
}

bool tsr__path_is_folder(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

bool tsr__path_ends(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

char *tsr__path_join(tsr_engine *engine, const char *folder, const char *name) {
    size_t length = strlen(folder);
    return tsr__format(engine, "%s%s%s", folder, length && folder[length - 1] != '/' ? "/" : "", name);
}

/* read(2) or, with an offset, pread(2), once more where a signal came first. */
static ssize_t read_some(int fd, void *dst, size_t n, const uint64_t *offset) {
    ssize_t got;
    do got = offset ? pread(fd, dst, n, (off_t)*offset) : read(fd, dst, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Room for more: `at` bytes are used of *capacity. A byte is kept for the closing NUL. */
static char *grow(tsr_engine *engine, char *bytes, size_t at, size_t *capacity) {
    if (bytes && at + 1 < *capacity) return bytes;
    if (bytes) *capacity *= 2;
    char *more = tsr__realloc(engine, bytes, *capacity);
    if (!more) tsr__free(engine, bytes);
    return more;
}

static tsr_status read_all(tsr_engine *engine, int fd, const char *path, size_t max_bytes, char **out, size_t *n) {
    struct stat at;
    if (fstat(fd, &at) != 0) return tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", path);
    /* Two bytes more than a regular file has: one read then meets the end, and there is room for the NUL. */
    size_t used = 0, capacity = S_ISREG(at.st_mode) && (size_t)at.st_size <= max_bytes ? (size_t)at.st_size + 2 : 4096;
    char *bytes = NULL;
    for (;;) {
        bytes = grow(engine, bytes, used, &capacity);
        if (!bytes) return TSR_NOMEM;
        ssize_t got = read_some(fd, bytes + used, capacity - 1 - used, NULL);
        if (got == 0 && (used || !S_ISFIFO(at.st_mode))) break;
        tsr_status status = TSR_OK;
        if (got == 0)
            status = tsr__fail(engine, TSR_IO, "%s: is a pipe that nobody writes into, not a file", path);
        else if (got < 0)
            status = tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", path);
        else if ((used += (size_t)got) > max_bytes)
            status = tsr__fail(engine, TSR_FORMAT, "%s: is larger than the %zu bytes that are allowed here", path,
                               max_bytes);
        if (status == TSR_OK) continue;
        tsr__free(engine, bytes);
        return status;
    }
    bytes[used] = '\0';
    *out = bytes;
    *n = used;
    return TSR_OK;
}

/* Opened without blocking, for a pipe that nobody writes into would be waited for; then read as always. */
tsr_status tsr__file_read(tsr_engine *engine, const char *path, size_t max_bytes, char **bytes, size_t *n) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return tsr__fail(engine, TSR_IO, "%s: cannot be opened: %m", path);
    (void)fcntl(fd, F_SETFL, 0);
    tsr_status status = read_all(engine, fd, path, max_bytes, bytes, n);
    close(fd);
    return status;
}

tsr_status tsr__file_read_at(tsr_engine *engine, int fd, const char *path, uint64_t offset, void *dst, size_t n) {
    for (size_t done = 0; done < n;) {
        uint64_t at = offset + done;
        ssize_t got = read_some(fd, (char *)dst + done, n - done, &at);
        if (got < 0) return tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", path);
        if (got == 0)
            return tsr__fail(engine, TSR_IO, "%s: has no byte %llu any more; something changed it while it was in use",
                             path, (unsigned long long)at);
        done += (size_t)got;
    }
    return TSR_OK;
}

static const struct {
    const char *start;
    const char *advice;
} impostors[] = {
    {"version https://git-lfs", "a Git LFS pointer, not the file itself; run `git lfs pull` in its folder"},
    {"<!doctype", "an HTML page, as a failed download leaves; download the file again"},
    {"<html", "an HTML page, as a failed download leaves; download the file again"},
    {"<?xml", "an XML page, as a failed download leaves; download the file again"},
    {"PK\3\4", "a zip archive (PyTorch .bin or .pt pickle); save the model as safetensors"},
    {"\x80", "a pickle (PyTorch .bin or .pt); save the model as safetensors"},
    {"\x89PNG", "a PNG picture, which holds no model"},
    {"GGUF", "a GGUF file; use the model's diffusers folder with safetensors"},
};

tsr_status tsr__file_refuse_impostor(tsr_engine *engine, const char *path, const char *bytes, size_t n) {
    while (n && isspace((unsigned char)*bytes)) bytes++, n--;
    for (size_t i = 0; i < TSR__COUNT(impostors); i++) {
        size_t length = strlen(impostors[i].start);
        if (n >= length && strncasecmp(bytes, impostors[i].start, length) == 0)
            return tsr__fail(engine, TSR_FORMAT, "%s: is %s", path, impostors[i].advice);
    }
    return TSR_OK;
}
