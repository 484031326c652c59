#include "comm/comm.h"
#include "comm/meta/meta.h"

#include "base/text.h"

#include <string.h>

enum { MAX_AXES = 8 };

typedef struct axis {
    char *name;
    int size, rank;
    tsr__comm *comm; /* NULL where size is 1 */
} axis;

struct tsr_device_mesh {
    tsr_engine *engine;
    int n;
    axis axes[MAX_AXES];
};

/* "ring 2 x tp 4" */
static char *describe(tsr_engine *engine, const int *shape, const char *const *names, int n) {
    tsr__text text = {.engine = engine};
    for (int i = 0; i < n; i++) tsr__text_format(&text, "%s%s %d", i ? " x " : "", names[i], shape[i]);
    if (!text.failed) return text.data;
    tsr__text_free(&text);
    return NULL;
}

static tsr_status check_product(tsr_engine *engine, const int *shape, const char *const *names, int n) {
    int64_t product = 1;
    for (int i = 0; i < n && product <= TSR__MAX_RANKS; i++) product *= shape[i];
    if (product == engine->size) return TSR_OK;
    char *text = describe(engine, shape, names, n);
    if (!text) return TSR_NOMEM;
    tsr_status status = product <= TSR__MAX_RANKS
                            ? tsr__fail(engine, TSR_ARG,
                                        "the mesh %s wants %lld rank%s, but there %s %d: change an axis or the number "
                                        "of ranks",
                                        text, (long long)product, product == 1 ? "" : "s",
                                        engine->size == 1 ? "is" : "are", engine->size)
                            : tsr__fail(engine, TSR_ARG, "the mesh %s wants more than %d ranks, but there %s %d", text,
                                        TSR__MAX_RANKS, engine->size == 1 ? "is" : "are", engine->size);
    tsr__free(engine, text);
    return status;
}

static tsr_status check_axes(tsr_engine *engine, const int *shape, const char *const *names, int n) {
    if (n < 1 || n > MAX_AXES)
        return tsr__fail(engine, TSR_ARG, "a mesh has 1 to %d axes, but %d are given", MAX_AXES, n);
    for (int i = 0; i < n; i++) {
        if (!names[i] || !*names[i]) return tsr__fail(engine, TSR_ARG, "axis %d of the mesh has no name", i);
        if (shape[i] < 1)
            return tsr__fail(engine, TSR_ARG, "axis %s of the mesh has size %d; it must be at least 1", names[i],
                             shape[i]);
        for (int j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                return tsr__fail(engine, TSR_ARG, "the mesh has two axes %s (%d and %d); give one another name",
                                 names[i], j, i);
    }
    return TSR_OK;
}

/* Axes without communicators, for rank `rank`. */
static tsr_status fill(tsr_device_mesh *mesh, const int *shape, const char *const *names, int rank) {
    int rest = rank;
    for (int i = mesh->n - 1; i >= 0; i--) {
        axis *a = &mesh->axes[i];
        *a = (axis){.name = tsr__strdup(mesh->engine, names[i]), .size = shape[i], .rank = rest % shape[i]};
        if (!a->name) return TSR_NOMEM;
        rest /= shape[i];
    }
    return TSR_OK;
}

/* Every rank makes every split, whatever became of the last one, so that none waits for another. The color of a line
 * of ranks is the rank at its beginning. */
static tsr_status split(tsr_device_mesh *mesh) {
    tsr_status first = TSR_OK;
    int stride = 1;
    for (int i = mesh->n - 1; i >= 0; i--) {
        axis *a = &mesh->axes[i];
        if (a->size > 1) {
            int color = mesh->engine->rank - a->rank * stride;
            tsr_status status = tsr__comm_split(tsr__world(mesh->engine), color, &a->comm);
            if (a->comm) a->comm->axis = a->name;
            if (first == TSR_OK) first = status;
        }
        stride *= a->size;
    }
    return first;
}

tsr_status tsr_device_mesh_create(tsr_engine *engine, const int *shape, const char *const *names, int n,
                                  tsr_device_mesh **out) {
    tsr_device_mesh *mesh = NULL;
    tsr_status status = check_axes(engine, shape, names, n);
    if (status == TSR_OK) status = check_product(engine, shape, names, n);
    if (status == TSR_OK && !(mesh = tsr__calloc(engine, 1, sizeof *mesh))) status = TSR_NOMEM;
    if (mesh) {
        *mesh = (tsr_device_mesh){.engine = engine, .n = n};
        status = fill(mesh, shape, names, engine->rank);
    }
    status = tsr_status_agree(engine, status);
    if (status == TSR_OK && mesh) status = tsr_status_agree(engine, split(mesh));
    if (status != TSR_OK) {
        tsr_device_mesh_destroy(mesh);
        return status;
    }
    *out = mesh;
    return TSR_OK;
}

static tsr_status imagine(tsr_device_mesh *mesh, const int *shape, const char *const *names, int rank) {
    TSR__TRY(fill(mesh, shape, names, rank));
    for (int i = 0; i < mesh->n; i++) {
        axis *a = &mesh->axes[i];
        if (a->size > 1) TSR__TRY(tsr__meta_comm_create(mesh->engine, a->name, a->rank, a->size, &a->comm));
    }
    return TSR_OK;
}

tsr_status tsr__device_mesh_imagine(tsr_engine *engine, const int *shape, const char *const *names, int n, int rank,
                                    tsr_device_mesh **out) {
    int64_t product = 1;
    TSR__TRY(check_axes(engine, shape, names, n));
    for (int i = 0; i < n && product <= TSR__MAX_RANKS; i++) product *= shape[i];
    if (product > TSR__MAX_RANKS || rank < 0 || rank >= product)
        return tsr__fail(engine, TSR_ARG, "the mesh has no rank %d: it has %lld ranks, and %d at most can be imagined",
                         rank, (long long)product, TSR__MAX_RANKS);
    tsr_device_mesh *mesh = tsr__calloc(engine, 1, sizeof *mesh);
    if (!mesh) return TSR_NOMEM;
    *mesh = (tsr_device_mesh){.engine = engine, .n = n};
    tsr_status status = imagine(mesh, shape, names, rank);
    if (status != TSR_OK) {
        tsr_device_mesh_destroy(mesh);
        return status;
    }
    *out = mesh;
    return TSR_OK;
}

void tsr_device_mesh_destroy(tsr_device_mesh *mesh) {
    if (!mesh) return;
    for (int i = mesh->n - 1; i >= 0; i--) {
        tsr__comm_destroy(mesh->axes[i].comm);
        tsr__free(mesh->engine, mesh->axes[i].name);
    }
    tsr__free(mesh->engine, mesh);
}

static const axis *find(const tsr_device_mesh *mesh, const char *name) {
    for (int i = 0; i < mesh->n; i++)
        if (strcmp(mesh->axes[i].name, name) == 0) return &mesh->axes[i];
    return NULL;
}

int tsr_device_mesh_size(const tsr_device_mesh *mesh, const char *name) {
    const axis *a = find(mesh, name);
    return a ? a->size : 1;
}

int tsr_device_mesh_rank(const tsr_device_mesh *mesh, const char *name) {
    const axis *a = find(mesh, name);
    return a ? a->rank : 0;
}

tsr__comm *tsr__mesh_comm(const tsr_device_mesh *mesh, const char *name) {
    const axis *a = find(mesh, name);
    return a ? a->comm : NULL;
}
