#include "io/file.h"

#include <tessera/checkpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

struct tsr__output {
    tsr_engine *engine;
    char *path;   /* as the caller gave it */
    char *target; /* what commit replaces; NULL: written in place */
    char *aside;  /* where the bytes go until then */
    int fd;
};

enum { MAX_LINKS = 40 };

static tsr_status refuse(tsr_engine *engine, const char *path, int reason) {
    errno = reason;
    return tsr__fail(engine, TSR_IO, "%s: cannot be written: %m", path);
}

/* "a/b/" of "a/b/c", "" of "c": as a length, for "%.*s". */
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

static char *folder_of(tsr_engine *engine, const char *path) {
    int length = folder_length(path);
    return length ? tsr__strndup(engine, path, (size_t)length) : tsr__strdup(engine, "./");
}

/* A link in /proc stands for an open file (/dev/stdout leads there); the name behind it may be gone, or be another file
 * by now. */
static bool in_proc(const char *folder) {
    struct statfs at;
    return statfs(folder, &at) == 0 && at.f_type == PROC_SUPER_MAGIC;
}

/* One step of follow_links: *next is the name behind the link `path`, NULL where it is no link. */
static tsr_status follow_link(tsr_engine *engine, const char *path, char **next, bool *proc) {
    char link[PATH_MAX];
    char *folder = folder_of(engine, path);
    if (!folder) return TSR_NOMEM;
    *proc = in_proc(folder);
    tsr__free(engine, folder);
    ssize_t n = *proc ? -1 : readlink(path, link, sizeof link - 1);
    *next = NULL;
    if (n < 0) return TSR_OK;
    link[n] = '\0';
    *next = tsr__format(engine, "%.*s%s", link[0] == '/' ? 0 : folder_length(path), path, link);
    return *next ? TSR_OK : TSR_NOMEM;
}

/* The name that open(2) would create or open: `path` with the links at its end followed, dangling ones too. NULL where
 * they lead into /proc. */
static tsr_status follow_links(tsr_engine *engine, const char *path, char **out) {
    char *at = tsr__strdup(engine, path), *next = NULL;
    tsr_status status = at ? TSR_OK : TSR_NOMEM;
    bool proc = false;
    for (int links = 0; status == TSR_OK; links++) {
        status = links < MAX_LINKS ? follow_link(engine, at, &next, &proc) : refuse(engine, path, ELOOP);
        if (status == TSR_OK && !next) break;
        tsr__free(engine, at);
        at = status == TSR_OK ? next : NULL;
    }
    if (proc) {
        tsr__free(engine, at);
        at = NULL;
    }
    if (status == TSR_OK) *out = at;
    return status;
}

static tsr_status check_folder_of(tsr_engine *engine, const char *path, const char *target) {
    if (target[folder_length(target)] == '\0') return refuse(engine, path, EISDIR);
    char *folder = folder_of(engine, target);
    if (!folder) return TSR_NOMEM;
    tsr_status status = TSR_OK;
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        status = tsr__fail(engine, TSR_IO, "%s: cannot be written: its folder: %m", path);
    tsr__free(engine, folder);
    return status;
}

/* Decides, without touching anything, whether and how `path` can be written. *target NULL: in place. *mode: the
 * permissions of the file that is replaced, 0 where there is none. */
static tsr_status examine(tsr_engine *engine, const char *path, char **target, mode_t *mode) {
    struct stat at = {0};
    if (!*path) return tsr__fail(engine, TSR_ARG, "the output path is empty; name a file");
    bool exists = stat(path, &at) == 0;
    if (!exists && errno != ENOENT) return refuse(engine, path, errno);
    if (S_ISDIR(at.st_mode)) return refuse(engine, path, EISDIR);
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) return refuse(engine, path, errno);
    char *name = NULL;
    tsr_status status = TSR_OK;
    if (!exists || S_ISREG(at.st_mode)) TSR__TRY(follow_links(engine, path, &name));
    if (name)
        status = check_folder_of(engine, path, name);
    else if (!exists)
        status = refuse(engine, path, ENOENT); /* in /proc */
    if (status != TSR_OK) {
        tsr__free(engine, name);
        return status;
    }
    *target = name;
    *mode = at.st_mode & 0777;
    return TSR_OK;
}

tsr_status tsr_output_check(tsr_engine *engine, const char *path) {
    char *target = NULL;
    mode_t mode = 0;
    TSR__TRY(examine(engine, path, &target, &mode));
    tsr__free(engine, target);
    return TSR_OK;
}

/* A new file beside the target. Not mkstemp: open(2) itself applies the umask, which threads cannot ask for safely. */
static tsr_status create_aside(tsr__output *o, mode_t mode) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (long attempt = 0; attempt < 100; attempt++) {
        tsr__free(o->engine, o->aside);
        o->aside = tsr__format(o->engine, "%.*s.tessera-%ld-%lx", folder_length(o->target), o->target, (long)getpid(),
                               (unsigned long)(now.tv_nsec + attempt));
        if (!o->aside) return TSR_NOMEM;
        o->fd = open(o->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd >= 0 || errno != EEXIST) break;
    }
    if (o->fd < 0) {
        int reason = errno;
        tsr__free(o->engine, o->aside); /* it is not ours to unlink */
        o->aside = NULL;
        return refuse(o->engine, o->path, reason);
    }
    struct stat at;
    if (fstat(o->fd, &at) != 0 || (mode && mode != (at.st_mode & 0777) && fchmod(o->fd, mode) != 0))
        return refuse(o->engine, o->path, errno);
    return TSR_OK;
}

static tsr_status open_in_place(tsr__output *o) {
    o->fd = open(o->path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    return o->fd < 0 ? refuse(o->engine, o->path, errno) : TSR_OK;
}

tsr_status tsr__output_open(tsr_engine *engine, const char *path, tsr__output **out) {
    tsr__output *o = tsr__calloc(engine, 1, sizeof *o);
    if (!o) return TSR_NOMEM;
    mode_t mode = 0;
    o->engine = engine;
    o->fd = -1;
    o->path = tsr__strdup(engine, path);
    tsr_status status = o->path ? examine(engine, path, &o->target, &mode) : TSR_NOMEM;
    if (status == TSR_OK) status = o->target ? create_aside(o, mode) : open_in_place(o);
    if (status == TSR_OK)
        *out = o;
    else
        tsr__output_discard(o);
    return status;
}

tsr_status tsr__output_write(tsr__output *o, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n) {
        ssize_t wrote = write(o->fd, at, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return refuse(o->engine, o->path, errno);
        at += wrote;
        n -= (size_t)wrote;
    }
    return TSR_OK;
}

tsr_status tsr__output_commit(tsr__output *o) {
    bool closed = close(o->fd) == 0 || errno == EINTR; /* Linux has closed it all the same */
    o->fd = -1;
    tsr_status status = TSR_OK;
    if (!closed || (o->aside && rename(o->aside, o->target) != 0)) {
        status = refuse(o->engine, o->path, errno);
    } else {
        tsr__free(o->engine, o->aside);
        o->aside = NULL;
    }
    tsr__output_discard(o);
    return status;
}

void tsr__output_discard(tsr__output *o) {
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    if (o->aside) unlink(o->aside);
    tsr__free(o->engine, o->aside);
    tsr__free(o->engine, o->target);
    tsr__free(o->engine, o->path);
    tsr__free(o->engine, o);
}
