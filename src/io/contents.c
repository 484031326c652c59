#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/file.h"
#include "io/output_folder.h"

enum { MAX_PLACES = 8, MAX_DEPTH = 16 };

typedef struct copy {
    char *from, *to; /* `to` is relative to the contents' root */
} copy;

typedef struct place {
    char *from, *to;
    bool component;
} place;

struct tsr__contents {
    tsr_engine *engine;
    copy *copies; /* [n] */
    size_t n, capacity, n_places;
    place places[MAX_PLACES];
    uint64_t bytes;
};

tsr_status tsr__contents_create(tsr_engine *engine, tsr__contents **out) {
    tsr__contents *c = tsr__calloc(engine, 1, sizeof *c);
    if (!c) return TSR_NOMEM;
    c->engine = engine;
    *out = c;
    return TSR_OK;
}

void tsr__contents_free(tsr__contents *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n; i++) {
        tsr__free(c->engine, c->copies[i].from);
        tsr__free(c->engine, c->copies[i].to);
    }
    for (size_t i = 0; i < c->n_places; i++) {
        tsr__free(c->engine, c->places[i].from);
        tsr__free(c->engine, c->places[i].to);
    }
    tsr__free(c->engine, c->copies);
    tsr__free(c->engine, c);
}

/* Weights in any form: those of the source are written anew, others would contradict them. */
static bool is_weight(const char *name) {
    static const char *const endings[] = {".safetensors", ".index.json", ".bin", ".pt",   ".pth",      ".ckpt",
                                          ".gguf",        ".msgpack",    ".h5",  ".onnx", ".onnx_data"};
    for (size_t i = 0; i < TSR__COUNT(endings); i++)
        if (tsr__path_ends(name, endings[i])) return true;
    return false;
}

/* Takes from and to over, also where it fails. */
static tsr_status add_copy(tsr__contents *c, char *from, char *to, uint64_t bytes) {
    copy *copies = c->copies;
    if (from && to && c->n == c->capacity) {
        c->capacity = 2 * c->capacity + 16;
        copies = tsr__realloc(c->engine, c->copies, c->capacity * sizeof *copies);
        if (copies) c->copies = copies;
    }
    if (from && to && copies) {
        c->copies[c->n++] = (copy){from, to};
        c->bytes += bytes;
        return TSR_OK;
    }
    tsr__free(c->engine, from);
    tsr__free(c->engine, to);
    return TSR_NOMEM;
}

/* How a folder is walked through. */
typedef struct walk {
    tsr__contents *c;
    const char *const *except; /* NULL: no subfolders */
    int depth;
} walk;

static bool is_left_out(const walk *w, const char *name, bool folder) {
    if (name[0] == '.') return true;
    if (!folder) return w->depth == 0 && is_weight(name);
    for (size_t i = 0; w->except && w->depth == 0 && w->except[i]; i++)
        if (strcmp(w->except[i], name) == 0) return true;
    return !w->except;
}

static tsr_status add_folder(const walk *w, const char *from, const char *to);

/* Takes from and to over. */
static tsr_status add_entry(const walk *w, const char *name, char *from, char *to) {
    tsr_engine *engine = w->c->engine;
    struct stat at;
    tsr_status status = TSR_OK;
    if (!from || !to)
        status = TSR_NOMEM;
    else if (stat(from, &at) != 0)
        status = name[0] == '.' ? TSR_OK : tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", from);
    else if (is_left_out(w, name, S_ISDIR(at.st_mode)))
        status = TSR_OK;
    else if (S_ISDIR(at.st_mode))
        status = add_folder(&(walk){w->c, w->except, w->depth + 1}, from, to);
    else if (S_ISREG(at.st_mode))
        return add_copy(w->c, from, to, (uint64_t)at.st_size);
    tsr__free(engine, from);
    tsr__free(engine, to);
    return status;
}

static tsr_status add_folder(const walk *w, const char *from, const char *to) {
    tsr_engine *engine = w->c->engine;
    if (w->depth > MAX_DEPTH)
        return tsr__fail(engine, TSR_IO, "%s: lies in more than %d folders; is a link to a folder around it there?",
                         from, MAX_DEPTH);
    DIR *folder = opendir(from);
    if (!folder) return tsr__fail(engine, TSR_IO, "%s: cannot be read: %m", from);
    tsr_status status = TSR_OK;
    for (struct dirent *entry; status == TSR_OK && (entry = readdir(folder));)
        status = add_entry(w, entry->d_name, tsr__path_join(engine, from, entry->d_name),
                           tsr__path_join(engine, to, entry->d_name));
    closedir(folder);
    return status;
}

tsr_status tsr__contents_add(tsr__contents *c, const char *from, const char *to, const char *const *except) {
    if (c->n_places == MAX_PLACES) return tsr__fail(c->engine, TSR_INTERNAL, "more than %d source folders", MAX_PLACES);
    place *p = &c->places[c->n_places++];
    *p = (place){tsr__strdup(c->engine, from), tsr__strdup(c->engine, to), !except};
    if (!p->from || !p->to) return TSR_NOMEM;
    return add_folder(&(walk){c, except, 0}, from, to);
}

/* Is `path` a file of weights, as they are written, directly in the folder `to`? */
static bool is_weight_in(const char *path, const char *to) {
    size_t n = strlen(to);
    if (n && (strncmp(path, to, n) != 0 || path[n++] != '/')) return false;
    return !strchr(path + n, '/') &&
           (tsr__path_ends(path, ".safetensors") || tsr__path_ends(path, ".safetensors.index.json"));
}

bool tsr__contents_has(const tsr__contents *c, const char *path) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->copies[i].to, path) == 0) return true;
    for (size_t i = 0; i < c->n_places; i++)
        if (c->places[i].component && is_weight_in(path, c->places[i].to)) return true;
    return false;
}

uint64_t tsr__contents_bytes(const tsr__contents *c) { return c->bytes; }

const char *tsr__contents_source(const tsr__contents *c, size_t i) {
    return i < c->n_places ? c->places[i].from : NULL;
}

static tsr_status make_folder(tsr_engine *engine, const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return TSR_OK;
    return tsr__fail(engine, TSR_IO, "%s: cannot be made: %m", path);
}

/* Makes every folder on the way to path, from the one at `begin` on. */
static tsr_status make_folders(tsr_engine *engine, char *path, size_t begin) {
    tsr_status status = TSR_OK;
    for (char *slash = strchr(path + begin, '/'); slash && status == TSR_OK; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = make_folder(engine, path);
        *slash = '/';
    }
    return status;
}

tsr_status tsr__contents_make_folders(const tsr__contents *c, const char *folder) {
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < c->n_places && status == TSR_OK; i++) {
        if (!*c->places[i].to) continue;
        char *path = tsr__path_join(c->engine, folder, c->places[i].to);
        status = path ? make_folder(c->engine, path) : TSR_NOMEM;
        tsr__free(c->engine, path);
    }
    return status;
}

tsr_status tsr__contents_copy(const tsr__contents *c, const char *folder) {
    tsr_status status = TSR_OK;
    for (size_t i = 0; i < c->n && status == TSR_OK; i++) {
        char *path = tsr__path_join(c->engine, folder, c->copies[i].to);
        status = path ? make_folders(c->engine, path, strlen(folder) + 1) : TSR_NOMEM;
        if (status == TSR_OK) status = tsr__file_copy(c->engine, c->copies[i].from, path);
        tsr__free(c->engine, path);
    }
    return status;
}
