/* tessera-compare GOT EXPECTED: do two safetensors files, or two pictures, agree?
 *
 *   --tolerance T    |a - b| <= T (1 + |b|); of pictures, levels of 255 (default 0: equal)
 *   --relative T     |a - b| <= T |b| instead
 *   --exact P,P      tensors of these names: equal, also in dtype, whatever the tolerance
 *   --only P,P       compare these of EXPECTED alone; --except P,P: all but these   (P: shell patterns)
 *   --pair GOT=EXPECTED   one tensor that is called otherwise in GOT
 *   --colour R,G,B   no EXPECTED: every pixel of the picture GOT has this colour
 *   --row N          EXPECTED is a safetensors file, and GOT the picture of row N of its image_u8
 *   --verbose        a line for each tensor
 *
 * Every tensor chosen from EXPECTED must be in GOT, and there must be one. Prints the worst. 0: agree, 1: not, 2:
 * usage. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/checkpoint.h>

#include "io/png.h"

typedef struct run {
    tsr_engine *engine;
    const char *got, *expected, *exact, *only, *except, *pair, *colour;
    double tolerance;
    bool relative, verbose;
    long row;
    size_t compared, wrong;
    double worst;
    char worst_name[256];
} run;

static bool in_list(const char *list, const char *name) {
    char pattern[256];
    for (; list && *list; list += strcspn(list, ","), list += *list == ',') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(list, ","), list);
        if (fnmatch(pattern, name, 0) == 0) return true;
    }
    return false;
}

static void note(run *r, const char *name, double difference, bool good, const char *why) {
    r->compared++;
    r->wrong += !good;
    if (difference >= r->worst) {
        r->worst = difference;
        snprintf(r->worst_name, sizeof r->worst_name, "%s", name);
    }
    if (!good || r->verbose) printf("%s %-60s %.3g %s\n", good ? "  ok " : "WRONG", name, difference, why);
}

/* The largest difference by the rule in use. A NaN on one side alone is infinitely far. */
static double difference(const run *r, const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double scale = r->relative ? fabs((double)b[i]) : 1.0 + fabs((double)b[i]);
        double d = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ? 0 : fabs((double)a[i] - (double)b[i]) / scale;
        if (isnan(d)) d = INFINITY;
        if (d > worst) worst = d;
    }
    return worst;
}

static void *read_whole(run *r, tsr_checkpoint *file, const tsr_tensor_info *info) {
    void *data = malloc((size_t)info->size + 1);
    if (data && tsr_checkpoint_read(file, info, 0, NULL, 0, data, (size_t)info->size) == TSR_OK) return data;
    fprintf(stderr, "%s: %s\n", info->name, tsr_engine_message(r->engine));
    exit(2);
}

static float *as_f32(const tsr_tensor_info *info, const void *data, size_t n) {
    float *values = malloc(n * sizeof *values + 1);
    if (values && tsr_convert_to_f32(info->dtype, data, values, n)) return values;
    fprintf(stderr, "%s: dtype %s cannot be compared\n", info->name, tsr_dtype_name(info->dtype));
    exit(2);
}

static void compare_data(run *r, const char *name, const tsr_tensor_info *a, const void *a_data,
                         const tsr_tensor_info *b, const void *b_data) {
    if (in_list(r->exact, name)) {
        bool same = a->dtype == b->dtype && a->size == b->size && memcmp(a_data, b_data, (size_t)a->size) == 0;
        note(r, name, same ? 0 : INFINITY, same, same ? "exact" : "not exactly equal");
        return;
    }
    size_t n = (size_t)(b->size * 8 / tsr_dtype_bits(b->dtype));
    float *x = as_f32(a, a_data, n), *y = as_f32(b, b_data, n);
    double d = difference(r, x, y, n);
    note(r, name, d, d <= r->tolerance, d <= r->tolerance ? "" : "too far");
    free(x);
    free(y);
}

static void compare_tensor(run *r, tsr_checkpoint *got, const char *got_name, tsr_checkpoint *expected,
                           const tsr_tensor_info *b) {
    const tsr_tensor_info *a = tsr_checkpoint_find(got, got_name);
    if (!a) {
        note(r, b->name, INFINITY, false, "missing");
    } else if (a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0) {
        note(r, b->name, INFINITY, false, "of another shape");
    } else {
        void *x = read_whole(r, got, a), *y = read_whole(r, expected, b);
        compare_data(r, b->name, a, x, b, y);
        free(x);
        free(y);
    }
}

static void compare_pair(run *r, tsr_checkpoint *got, tsr_checkpoint *expected) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(r->pair, "="), r->pair);
    const char *other = strchr(r->pair, '=');
    const tsr_tensor_info *b = other ? tsr_checkpoint_find(expected, other + 1) : NULL;
    if (b)
        compare_tensor(r, got, name, expected, b);
    else
        note(r, r->pair, INFINITY, false, "not in EXPECTED");
}

static tsr_checkpoint *open_file(run *r, const char *path) {
    tsr_checkpoint *file = NULL;
    if (tsr_checkpoint_open(r->engine, path, &file) == TSR_OK) return file;
    fprintf(stderr, "%s\n", tsr_engine_message(r->engine));
    exit(2);
}

static void compare_files(run *r) {
    tsr_checkpoint *got = open_file(r, r->got), *expected = open_file(r, r->expected);
    for (size_t i = 0; !r->pair && i < tsr_checkpoint_count(expected); i++) {
        const tsr_tensor_info *b = tsr_checkpoint_at(expected, i);
        if ((!r->only || in_list(r->only, b->name)) && !in_list(r->except, b->name))
            compare_tensor(r, got, b->name, expected, b);
    }
    if (r->pair) compare_pair(r, got, expected);
    tsr_checkpoint_close(got);
    tsr_checkpoint_close(expected);
}

static uint8_t *read_picture(run *r, const char *path, int64_t size[2]) {
    uint8_t *rgb = NULL;
    if (tsr__png_read(r->engine, path, &rgb, &size[1], &size[0]) == TSR_OK) return rgb;
    fprintf(stderr, "%s\n", tsr_engine_message(r->engine));
    exit(2);
}

/* Row r->row of image_u8 [n, H, W, 3]. */
static uint8_t *read_row(run *r, int64_t size[2]) {
    tsr_checkpoint *file = open_file(r, r->expected);
    const tsr_tensor_info *t = tsr_checkpoint_find(file, "image_u8");
    const tsr_range rows = {r->row, r->row + 1};
    if (!t || t->ndim != 4 || t->dtype != TSR_U8 || r->row >= t->shape[0]) {
        fprintf(stderr, "%s: it has no picture %ld\n", r->expected, r->row);
        exit(2);
    }
    size_t bytes = (size_t)(t->shape[1] * t->shape[2] * 3);
    uint8_t *rgb = malloc(bytes + 1);
    if (!rgb || tsr_checkpoint_read(file, t, 0, &rows, 1, rgb, bytes) != TSR_OK) exit(2);
    memcpy(size, t->shape + 1, 2 * sizeof *size);
    tsr_checkpoint_close(file);
    return rgb;
}

static void compare_pictures(run *r) {
    int64_t size[2], other[2];
    uint8_t *a = read_picture(r, r->got, size),
            *b = r->row < 0 ? read_picture(r, r->expected, other) : read_row(r, other);
    bool same_size = size[0] == other[0] && size[1] == other[1];
    int worst = 0;
    for (int64_t i = 0; same_size && i < 3 * size[0] * size[1]; i++)
        if (abs(a[i] - b[i]) > worst) worst = abs(a[i] - b[i]);
    note(r, r->got, same_size ? (double)worst : INFINITY, same_size && worst <= r->tolerance,
         same_size ? "levels" : "of another size");
    tsr_free(r->engine, a);
    if (r->row < 0)
        tsr_free(r->engine, b);
    else
        free(b);
}

static void compare_colour(run *r) {
    int64_t size[2];
    int colour[3] = {-1, -1, -1}, worst = 0;
    if (sscanf(r->colour, "%d,%d,%d", &colour[0], &colour[1], &colour[2]) != 3) exit(2);
    uint8_t *rgb = read_picture(r, r->got, size);
    for (int64_t i = 0; i < 3 * size[0] * size[1]; i++)
        if (abs(rgb[i] - colour[i % 3]) > worst) worst = abs(rgb[i] - colour[i % 3]);
    note(r, r->got, worst, worst <= r->tolerance, "levels");
    tsr_free(r->engine, rgb);
}

static bool parse(run *r, int argc, char **argv) {
    struct {
        const char *name, **text;
    } texts[] = {{"--exact", &r->exact},
                 {"--only", &r->only},
                 {"--except", &r->except},
                 {"--pair", &r->pair},
                 {"--colour", &r->colour}};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool known = false;
        for (size_t k = 0; k < sizeof texts / sizeof texts[0] && !known && next; k++)
            if ((known = strcmp(word, texts[k].name) == 0)) *texts[k].text = argv[++i];
        if (known) continue;
        if (strcmp(word, "--verbose") == 0)
            r->verbose = true;
        else if (next && (strcmp(word, "--tolerance") == 0 || strcmp(word, "--relative") == 0)) {
            r->relative = strcmp(word, "--relative") == 0;
            r->tolerance = atof(argv[++i]);
        } else if (next && strcmp(word, "--row") == 0)
            r->row = atol(argv[++i]);
        else if (word[0] == '-' || r->expected)
            return false;
        else
            *(r->got ? &r->expected : &r->got) = word;
    }
    return r->expected || (r->got && r->colour);
}

static bool is_png(const char *path) {
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".png") == 0;
}

int main(int argc, char **argv) {
    run r = {.row = -1};
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref"; /* no arithmetic is done; the oracle starts at once */
    options.log_level = TSR_LOG_ERROR;
    if (!parse(&r, argc, argv) || tsr_engine_create(&options, &r.engine) != TSR_OK) {
        fprintf(stderr, "usage: tessera-compare GOT EXPECTED [options]; see tests/tools/compare.c\n");
        return 2;
    }
    if (r.colour)
        compare_colour(&r);
    else if (is_png(r.got))
        compare_pictures(&r);
    else
        compare_files(&r);
    tsr_engine_destroy(r.engine);
    printf("%zu compared, %zu wrong; the worst is %s: %.3g\n", r.compared, r.wrong, r.compared ? r.worst_name : "none",
           r.worst);
    return r.compared && !r.wrong ? 0 : 1;
}
