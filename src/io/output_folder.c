#include "io/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "io/file.h"

struct tsr__output_folder {
    tsr_engine *engine;
    const tsr__contents *contents;
    char *path;   /* as the caller gave it, for messages */
    char *parent; /* absolute, without links */
    char *target; /* parent/name */
    char *aside;  /* target.tmp-<random>, NULL until it is there */
};

/* --- checks --- */

static tsr_status refuse(const tsr__output_folder *o, const char *what) {
    return tsr__fail(o->engine, TSR_IO, "%s: %s: %m", o->path, what);
}

/* The real path of what is at o->path. */
static tsr_status resolve_old(tsr__output_folder *o, char real[PATH_MAX]) {
    struct stat at;
    if (!realpath(o->path, real)) return refuse(o, "cannot be written");
    if (stat(real, &at) != 0 || !S_ISDIR(at.st_mode))
        return tsr__fail(o->engine, TSR_ARG, "%s: is there and is no folder; give another name", o->path);
    if (strcmp(real, "/") == 0)
        return tsr__fail(o->engine, TSR_ARG, "%s: is the root folder; give another name", o->path);
    o->target = tsr__strdup(o->engine, real);
    return o->target ? TSR_OK : TSR_NOMEM;
}

static tsr_status resolve_new(tsr__output_folder *o, char real[PATH_MAX]) {
    const char *slash = strrchr(o->path, '/');
    char *parent =
        slash ? tsr__strndup(o->engine, o->path, (size_t)(slash - o->path) + 1) : tsr__strdup(o->engine, ".");
    if (!parent) return TSR_NOMEM;
    bool found = realpath(parent, real) != NULL;
    int reason = errno;
    tsr__free(o->engine, parent);
    errno = reason;
    if (!found) return refuse(o, "cannot be written: its folder");
    o->target = tsr__path_join(o->engine, real, slash ? slash + 1 : o->path);
    return o->target ? TSR_OK : TSR_NOMEM;
}

/* Target and, where all is well, its parent; what is there already is found through its links. */
static tsr_status resolve(tsr__output_folder *o) {
    char real[PATH_MAX];
    struct stat at;
    size_t n = strlen(o->path);
    while (n > 1 && o->path[n - 1] == '/') o->path[--n] = '\0';
    if (!n) return tsr__fail(o->engine, TSR_ARG, "the output path is empty; name a folder");
    tsr_status status = lstat(o->path, &at) == 0 ? resolve_old(o, real) : resolve_new(o, real);
    if (!o->target) return status;
    const char *slash = strrchr(o->target, '/');
    o->parent = tsr__strndup(o->engine, o->target, slash == o->target ? 1 : (size_t)(slash - o->target));
    return o->parent ? TSR_OK : TSR_NOMEM;
}

static bool is_within(const char *path, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0' || folder[n - 1] == '/');
}

/* What is saved is still read from where it lies. */
static tsr_status check_sources(const tsr__output_folder *o) {
    const char *source;
    char real[PATH_MAX];
    for (size_t i = 0; (source = tsr__contents_source(o->contents, i)); i++) {
        if (!realpath(source, real)) return tsr__fail(o->engine, TSR_IO, "%s: cannot be read: %m", source);
        if (is_within(o->target, real) || is_within(real, o->target))
            return tsr__fail(o->engine, TSR_ARG,
                             "%s: is, holds or lies in the folder that is being saved (%s); save it elsewhere", o->path,
                             source);
    }
    return TSR_OK;
}

static tsr_status check_old(const tsr__output_folder *o, const char *relative);

/* A folder is looked into, all else (a link too) must be what a save writes. Takes relative over. */
static tsr_status check_entry(const tsr__output_folder *o, char *relative) {
    struct stat at;
    char *path = relative ? tsr__path_join(o->engine, o->target, relative) : NULL;
    tsr_status status = path ? TSR_OK : TSR_NOMEM;
    if (path && lstat(path, &at) != 0)
        status = refuse(o, relative);
    else if (path && S_ISDIR(at.st_mode))
        status = check_old(o, relative);
    else if (path && !tsr__contents_has(o->contents, relative))
        status = tsr__fail(o->engine, TSR_ARG,
                           "%s: holds \"%s\", which is not of a saved model and would be lost; move it away, or save "
                           "elsewhere",
                           o->path, relative);
    tsr__free(o->engine, path);
    tsr__free(o->engine, relative);
    return status;
}

/* The folder that will be replaced, from `relative` on, holds nothing of value to others. None is fine. */
static tsr_status check_old(const tsr__output_folder *o, const char *relative) {
    char *path = tsr__path_join(o->engine, o->target, relative);
    if (!path) return TSR_NOMEM;
    DIR *folder = opendir(path);
    int reason = errno;
    tsr__free(o->engine, path);
    errno = reason;
    if (!folder) return errno == ENOENT ? TSR_OK : refuse(o, "cannot be replaced");
    tsr_status status = TSR_OK;
    for (struct dirent *entry; status == TSR_OK && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = check_entry(o, tsr__path_join(o->engine, relative, entry->d_name));
    closedir(folder);
    return status;
}

static tsr_status check_disk(const tsr__output_folder *o, uint64_t weight_bytes) {
    const double mb = 1e6;
    struct statvfs disk;
    if (statvfs(o->parent, &disk) != 0) return refuse(o, "its disk");
    double need = (double)weight_bytes + (double)tsr__contents_bytes(o->contents);
    double have = (double)disk.f_bavail * (double)disk.f_frsize;
    if (need <= have) return TSR_OK;
    return tsr__fail(
        o->engine, TSR_IO,
        "%s: %.1f MB will be written, but its disk has %.1f MB free; an old folder is removed only after the "
        "new one is whole",
        o->path, need / mb, have / mb);
}

static tsr_status check(const tsr__output_folder *o, uint64_t weight_bytes) {
    TSR__TRY(check_sources(o));
    if (faccessat(AT_FDCWD, o->parent, W_OK | X_OK, AT_EACCESS) != 0) return refuse(o, "cannot be written: its folder");
    if (tsr__path_exists(o->target) && faccessat(AT_FDCWD, o->target, R_OK | W_OK | X_OK, AT_EACCESS) != 0)
        return refuse(o, "cannot be replaced");
    TSR__TRY(check_old(o, ""));
    return check_disk(o, weight_bytes);
}

/* --- the temporary folder --- */

static tsr_status make_aside(tsr__output_folder *o) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return refuse(o, "no random number for its name");
    char *aside = tsr__format(o->engine, "%s.tmp-%016" PRIx64, o->target, random);
    if (!aside) return TSR_NOMEM;
    if (mkdir(aside, 0777) == 0) {
        o->aside = aside;
        return tsr__contents_make_folders(o->contents, aside);
    }
    int reason = errno;
    tsr__free(o->engine, aside);
    errno = reason;
    return refuse(o, "cannot be written");
}

tsr_status tsr__output_folder_open(tsr_engine *engine, const char *path, const tsr__contents *contents,
                                   uint64_t weight_bytes, tsr__output_folder **out) {
    tsr__output_folder *o = tsr__calloc(engine, 1, sizeof *o);
    if (!o) return TSR_NOMEM;
    *o = (tsr__output_folder){.engine = engine, .contents = contents, .path = tsr__strdup(engine, path)};
    tsr_status status = o->path ? resolve(o) : TSR_NOMEM;
    if (o->parent) status = check(o, weight_bytes);
    if (status == TSR_OK) status = make_aside(o);
    if (status == TSR_OK)
        *out = o;
    else
        tsr__output_folder_discard(o);
    return status;
}

const char *tsr__output_folder_path(const tsr__output_folder *o) { return o->aside; }

static int remove_entry(const char *path, const struct stat *at, int type, struct FTW *place) {
    (void)at;
    (void)type;
    (void)place;
    return remove(path);
}

static bool remove_tree(const char *path) { return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0; }

void tsr__output_folder_discard(tsr__output_folder *o) {
    if (!o) return;
    if (o->aside && !remove_tree(o->aside))
        tsr__log(o->engine, TSR_LOG_WARNING, "%s: cannot be removed (%m); remove it by hand", o->aside);
    tsr__free(o->engine, o->aside);
    tsr__free(o->engine, o->target);
    tsr__free(o->engine, o->parent);
    tsr__free(o->engine, o->path);
    tsr__free(o->engine, o);
}

/* --- into its place --- */

static int sync_folder(const char *path, const struct stat *at, int type, struct FTW *place) {
    (void)at;
    (void)place;
    if (type != FTW_DP) return 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd);
    close(fd);
    return result;
}

/* Where two folders cannot change places, the old one leaves the name first; killed in between, it is <aside>-old. */
static int exchange_slowly(tsr__output_folder *o, char **away) {
    if (rename(o->target, *away) != 0) return -1;
    int result = rename(o->aside, o->target), reason = errno;
    if (result != 0) {
        (void)rename(*away, o->target);
    } else {
        tsr__free(o->engine, o->aside);
        o->aside = *away;
        *away = NULL;
    }
    errno = reason;
    return result;
}

/* Afterwards `aside` is the old folder, or nothing is there. */
static tsr_status put_in_place(tsr__output_folder *o) {
    char *away = tsr__format(o->engine, "%s-old", o->aside);
    if (!away) return TSR_NOMEM;
    int result = renameat2(AT_FDCWD, o->aside, AT_FDCWD, o->target, RENAME_EXCHANGE), reason = errno;
    bool nothing_there = result != 0 && !tsr__path_exists(o->target);
    errno = reason;
    if (nothing_there)
        result = rename(o->aside, o->target);
    else if (result != 0 && (reason == EINVAL || reason == ENOSYS))
        result = exchange_slowly(o, &away);
    tsr_status status = result == 0 ? TSR_OK : refuse(o, "the new folder cannot be put in its place");
    tsr__free(o->engine, away);
    return status;
}

static tsr_status finish(tsr__output_folder *o) {
    TSR__TRY(tsr__contents_copy(o->contents, o->aside));
    if (nftw(o->aside, sync_folder, 16, FTW_DEPTH | FTW_PHYS) != 0) return refuse(o, "cannot be written");
    TSR__TRY(check_old(o, "")); /* much may have happened since */
    return put_in_place(o);
}

tsr_status tsr__output_folder_commit(tsr__output_folder *o) {
    tsr_status status = finish(o);
    if (status == TSR_OK && sync_folder(o->parent, NULL, FTW_DP, NULL) != 0)
        tsr__log(o->engine, TSR_LOG_WARNING, "%s: is in its place, but the disk may not know it yet: %m", o->path);
    if (!tsr__path_exists(o->aside)) {
        tsr__free(o->engine, o->aside);
        o->aside = NULL;
    }
    tsr__output_folder_discard(o); /* with what is aside now: the new folder after a failure, else the old one */
    return status;
}
