/* A model that several ranks hold, saved: the same tensors in files of the size asked for, and nothing at all where one
 * rank fails. Device ref. */
#include "ranks.h"

#include "io/checkpoint.h"
#include "io/file.h"

#include <tessera/tessera.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SHARD = 60000, PATH = 2048 };

/* A save, in a temporary folder that all ranks know. */
typedef struct place {
    char parent[64], folder[96], source[PATH];
} place;

static bool is_first(const tsr_engine *engine) { return tsr_engine_rank(engine) == 0; }

static tsr_status make_place(tsr_engine *engine, const char *fixture, place *p) {
    const char *root = getenv("TESSERA_SOURCE");
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* no disk to wait for */
    snprintf(p->parent, sizeof p->parent, "%s/tessera-save-XXXXXX", memory);
    snprintf(p->source, sizeof p->source, "%s/tests/fixtures/%s", root ? root : ".", fixture);
    if (is_first(engine)) RANK_CHECK(engine, mkdtemp(p->parent) != NULL);
    TSR__TRY(tsr__broadcast(tsr__world(engine), p->parent, sizeof p->parent, 0));
    snprintf(p->folder, sizeof p->folder, "%s/saved", p->parent);
    return TSR_OK;
}

static tsr_status remove_place(tsr_engine *engine, const place *p, tsr_status status) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", p->parent);
    status = tsr_status_agree(engine, status); /* the others may still look at it */
    if (is_first(engine) && system(command) != 0) fprintf(stderr, "could not remove %s\n", p->parent);
    return status;
}

static tsr_status load(tsr_engine *engine, const char *folder, tsr_model **model) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    tensor.tp_degree = tsr_engine_size(engine);
    parallel.tensor_parallel = &tensor;
    how.parallel = &parallel;
    return tsr_model_from_pretrained(engine, folder, &how, model);
}

/* Whole on every rank, then split where it is. */
static tsr_status load_and_split(tsr_engine *engine, const char *folder, tsr_model **model) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tensor.tp_degree = tsr_engine_size(engine);
    TSR__TRY(tsr_model_from_pretrained(engine, folder, NULL, model));
    return tsr_apply_tensor_parallel(*model, &tensor, NULL, false);
}

/* Whole on every rank, and that is all. */
static tsr_status load_whole(tsr_engine *engine, const char *folder, tsr_model **model) {
    return tsr_model_from_pretrained(engine, folder, NULL, model);
}

typedef tsr_status (*load_function)(tsr_engine *engine, const char *folder, tsr_model **model);

static tsr_save_options shards_of(uint64_t bytes) {
    tsr_save_options options = TSR_SAVE_OPTIONS_INIT;
    options.max_shard_size = bytes;
    return options;
}

/* --- the same tensors --- */

static tsr_status same_tensor(tsr_engine *engine, tsr_checkpoint *a, tsr_checkpoint *b, size_t i) {
    const tsr_tensor_info *x = tsr_checkpoint_at(a, i), *y = tsr_checkpoint_at(b, i);
    RANK_CHECK(engine, strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->ndim == y->ndim);
    RANK_CHECK(engine, x->size == y->size && memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0);
    char *left = malloc((size_t)x->size + 1), *right = malloc((size_t)x->size + 1);
    tsr_status status = tsr_checkpoint_read(a, x, 0, NULL, 0, left, (size_t)x->size);
    if (status == TSR_OK) status = tsr_checkpoint_read(b, y, 0, NULL, 0, right, (size_t)x->size);
    if (status == TSR_OK && memcmp(left, right, (size_t)x->size) != 0)
        status = tsr__fail(engine, TSR_INTERNAL, "%s: other bytes", x->name);
    free(left);
    free(right);
    return status;
}

/* Each file holds at most `most` bytes of tensors, or one tensor; the tensors are those of the source. */
static tsr_status check_files(tsr_engine *engine, tsr_checkpoint *saved, tsr_checkpoint *source, uint64_t most) {
    RANK_CHECK(engine, tsr_checkpoint_count(saved) == tsr_checkpoint_count(source));
    RANK_CHECK(engine, strcmp(saved->stem, source->stem) == 0);
    RANK_CHECK(engine, strcmp(tsr_checkpoint_metadata(saved, "format"), "pt") == 0);
    RANK_CHECK(engine, saved->n_files > 1);
    for (size_t f = 0; f < saved->n_files; f++) {
        uint64_t bytes = 0;
        size_t n = 0;
        for (size_t i = 0; i < saved->n; i++) {
            if (saved->tensors[i].file != saved->files[f].path) continue;
            bytes += saved->tensors[i].size;
            n++;
        }
        RANK_CHECK(engine, n == 1 || (n > 1 && bytes <= most));
    }
    for (size_t i = 0; i < tsr_checkpoint_count(source); i++) TSR__TRY(same_tensor(engine, saved, source, i));
    return TSR_OK;
}

static tsr_status check_config(tsr_engine *engine, const place *p) {
    char *bytes[2] = {NULL, NULL}, path[PATH];
    size_t n[2] = {0, 1};
    const char *const folders[] = {p->source, p->folder};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%.1900s/config.json", folders[i]);
        TSR__TRY(tsr__file_read(engine, path, 1 << 20, &bytes[i], &n[i]));
    }
    bool same = n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0;
    for (int i = 0; i < 2; i++) tsr__free(engine, bytes[i]);
    RANK_CHECK(engine, same);
    return TSR_OK;
}

static tsr_status check_saved(tsr_engine *engine, const place *p) {
    tsr_checkpoint *saved = NULL, *source = NULL;
    tsr_status status = tsr_checkpoint_open(engine, p->folder, &saved);
    if (status == TSR_OK) status = tsr_checkpoint_open(engine, p->source, &source);
    if (status == TSR_OK) status = check_files(engine, saved, source, SHARD);
    tsr_checkpoint_close(saved);
    tsr_checkpoint_close(source);
    return status == TSR_OK ? check_config(engine, p) : status;
}

/* A forward of the transformer on numbers that are the same on every rank. */
static tsr_status run(tsr_engine *engine, tsr_model *model, tsr_tensor **out, size_t *n) {
    enum { L = 4, S = 3 };
    float hidden[L * 32], text[S * 72], timestep[] = {0.5f};
    int64_t img_ids[L * 4] = {0}, txt_ids[S * 4] = {0};
    for (size_t i = 0; i < TSR__COUNT(hidden); i++) hidden[i] = 0.01f * (float)(i % 37) - 0.2f;
    for (size_t i = 0; i < TSR__COUNT(text); i++) text[i] = 0.02f * (float)(i % 23) - 0.2f;
    const tsr_tensor inputs[] = {{"hidden_states", TSR_F32, 3, {1, L, 32}, hidden},
                                 {"encoder_hidden_states", TSR_F32, 3, {1, S, 72}, text},
                                 {"timestep", TSR_F32, 1, {1}, timestep},
                                 {"img_ids", TSR_I64, 2, {L, 4}, img_ids},
                                 {"txt_ids", TSR_I64, 2, {S, 4}, txt_ids}};
    (void)engine;
    return tsr_model_forward(model, inputs, TSR__COUNT(inputs), out, n);
}

static tsr_status same_forward(tsr_engine *engine, const place *p, tsr_model *model) {
    tsr_model *again = NULL;
    tsr_tensor *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    tsr_status status = load(engine, p->folder, &again);
    if (status == TSR_OK) status = run(engine, model, &a, &n);
    if (status == TSR_OK) status = run(engine, again, &b, &m);
    if (status == TSR_OK && (n != 1 || m != 1 || tsr_tensor_bytes(a) != tsr_tensor_bytes(b) ||
                             memcmp(a->data, b->data, tsr_tensor_bytes(a)) != 0))
        status = tsr__fail(engine, TSR_INTERNAL, "the saved model computes something else");
    tsr_tensors_free(engine, a, n);
    tsr_tensors_free(engine, b, m);
    tsr_model_destroy(again);
    return status;
}

/* What a rank takes for saving: one tensor, the buffers it is written and described with. */
static tsr_status save_in_little_memory(tsr_engine *engine, const place *p, tsr_model *model) {
    enum { LARGEST = 65536, BUFFERS = 1 << 20, LISTS = 150000 };
    const tsr_save_options options = shards_of(SHARD);
    size_t before = tsr_engine_memory_current(engine);
    tsr__memory_peak_reset(engine);
    TSR__TRY(tsr_model_save_pretrained(model, p->folder, &options));
    RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
    RANK_CHECK(engine, tsr_engine_memory_peak(engine) - before <= LARGEST + BUFFERS + LISTS);
    return TSR_OK;
}

static tsr_status saves(tsr_engine *engine, const char *fixture, load_function load_as, bool runs) {
    place p;
    tsr_model *model = NULL;
    TSR__TRY(make_place(engine, fixture, &p));
    tsr_status status = load_as(engine, p.source, &model);
    if (status == TSR_OK) status = tsr_status_agree(engine, save_in_little_memory(engine, &p, model));
    if (status == TSR_OK) status = tsr_status_agree(engine, is_first(engine) ? check_saved(engine, &p) : TSR_OK);
    if (status == TSR_OK && runs) status = same_forward(engine, &p, model);
    tsr_model_destroy(model);
    return remove_place(engine, &p, status);
}

static tsr_status transformer_is_the_same(tsr_engine *engine, void *user) {
    (void)user;
    return saves(engine, "klein/transformer", load, true);
}

/* On 4 ranks two of them hold the same key/value head; some tensors of the file are in no rank's memory. */
static tsr_status text_encoder_is_the_same(tsr_engine *engine, void *user) {
    (void)user;
    return saves(engine, "klein/text_encoder", load, false);
}

/* float32 and bfloat16 in one file; weights split by their input. */
static tsr_status mixed_dtypes_are_the_same(tsr_engine *engine, void *user) {
    (void)user;
    return saves(engine, "minimax_h3/transformer", load, false);
}

static tsr_status split_in_memory_is_the_same(tsr_engine *engine, void *user) {
    (void)user;
    TSR__TRY(saves(engine, "klein/transformer", load_and_split, false));
    return saves(engine, "klein/vae", load_whole, false);
}

/* Nothing was read of a model on the device "meta". */
static tsr_status meta_is_refused(tsr_engine *engine, void *user) {
    (void)user;
    place p;
    tsr_model *model = NULL;
    tsr_model_options how = TSR_MODEL_OPTIONS_INIT;
    how.meta = true;
    TSR__TRY(make_place(engine, "klein/transformer", &p));
    tsr_status status = tsr_model_from_pretrained(engine, p.source, &how, &model);
    if (status == TSR_OK && (tsr_model_save_pretrained(model, p.folder, NULL) != TSR_ARG ||
                             !strstr(tsr_engine_message(engine), "no weights in memory") || tsr__path_exists(p.folder)))
        status = tsr__fail(engine, TSR_INTERNAL, "not refused: %s", tsr_engine_message(engine));
    tsr_model_destroy(model);
    return remove_place(engine, &p, status);
}

/* --- failures --- */

/* On every rank: this status, which is everybody's, and nothing beside the old folder. entries: in the parent. */
static tsr_status check_failed(tsr_engine *engine, const place *p, tsr_status own, int entries) {
    int status = (int)own, found = 0;
    TSR__TRY(tsr__broadcast(tsr__world(engine), &status, sizeof status, 0));
    DIR *parent = is_first(engine) ? opendir(p->parent) : NULL;
    for (const struct dirent *e; parent && (e = readdir(parent));) found += e->d_name[0] != '.';
    if (parent) closedir(parent);
    tsr_status same = TSR_OK;
    if (status != (int)own)
        same = tsr__fail(engine, TSR_INTERNAL, "rank %d ended with %d, rank 0 with %d", tsr_engine_rank(engine),
                         (int)own, status);
    else if (parent && found != entries)
        same = tsr__fail(engine, TSR_INTERNAL, "%d entries are beside the folder instead of %d", found, entries);
    return tsr_status_agree(engine, same);
}

static tsr_status save_component(tsr_engine *engine, const place *p, const tsr_save_options *options) {
    tsr_model *model = NULL;
    tsr_status status = load(engine, p->source, &model);
    if (status == TSR_OK) status = tsr_model_save_pretrained(model, p->folder, options);
    tsr_model_destroy(model);
    return status;
}

static tsr_status save_pipeline(tsr_engine *engine, const place *p, const tsr_save_options *options) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr_pipeline_options how = TSR_PIPELINE_OPTIONS_INIT;
    tsr_pipeline *pipeline = NULL;
    tensor.tp_degree = tsr_engine_size(engine);
    parallel.tensor_parallel = &tensor;
    how.parallel = &parallel;
    tsr_status status = tsr_pipeline_from_pretrained(engine, p->source, &how, &pipeline);
    if (status == TSR_OK) status = tsr_pipeline_save_pretrained(pipeline, p->folder, options);
    tsr_pipeline_destroy(pipeline);
    return status;
}

typedef struct saving_case {
    const char *fixture;
    tsr_status (*save)(tsr_engine *engine, const place *p, const tsr_save_options *options, tsr_model *model);
    int64_t growth, least; /* steps grow by 1 / growth; failures that must be met */
} saving_case;

static tsr_status save_loaded(tsr_engine *engine, const place *p, const tsr_save_options *options, tsr_model *model) {
    (void)engine;
    return tsr_model_save_pretrained(model, p->folder, options);
}

static tsr_status save_whole(tsr_engine *engine, const place *p, const tsr_save_options *options, tsr_model *model) {
    (void)model;
    return save_pipeline(engine, p, options);
}

/* An allocation of one rank alone fails, a later one each time, until the save succeeds. */
static tsr_status fail_each(tsr_engine *engine, const place *p, const saving_case *c, int rank, tsr_model *model) {
    const tsr_save_options options = shards_of(SHARD);
    int64_t failures = 0;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    for (int64_t k = 0;; k += 1 + k / c->growth) {
        size_t before = tsr_engine_memory_current(engine);
        if (tsr_engine_rank(engine) == rank)
            atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr_status status = c->save(engine, p, &options, model);
        atomic_store(&engine->allocator.fail_at, -1);
        TSR__TRY(check_failed(engine, p, status, status == TSR_OK));
        RANK_CHECK(engine, tsr_engine_memory_current(engine) == before);
        RANK_CHECK(engine, status == TSR_OK || status == TSR_NOMEM);
        if (status == TSR_OK) break;
        failures++;
    }
    RANK_CHECK(engine, failures >= c->least);
    if (is_first(engine)) RANK_CHECK(engine, system(command) == 0);
    return TSR_OK;
}

/* The first rank has more to do than the others, of which the last stands for all. */
static tsr_status one_rank_runs_out_of_memory(tsr_engine *engine, void *user) {
    (void)user;
    static const saving_case cases[] = {{"klein/transformer", save_loaded, INT64_MAX, 50},
                                        {"klein", save_whole, 12, 25}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        place p;
        tsr_model *model = NULL;
        TSR__TRY(make_place(engine, cases[i].fixture, &p));
        tsr_status status = i == 0 ? load(engine, p.source, &model) : TSR_OK;
        if (status == TSR_OK) status = fail_each(engine, &p, &cases[i], 0, model);
        if (status == TSR_OK) status = fail_each(engine, &p, &cases[i], tsr_engine_size(engine) - 1, model);
        tsr_model_destroy(model);
        TSR__TRY(remove_place(engine, &p, status));
    }
    return TSR_OK;
}

static bool cancel_midway(void *user, const tsr_progress *progress) {
    (void)user;
    return progress->phase != TSR_PHASE_SAVE || progress->done < progress->total / 2;
}

/* From the middle on nothing can be written by rank 0, as with a full disk; room was there when it was reserved. */
static bool limit_midway(void *user, const tsr_progress *progress) {
    struct rlimit *limit = user;
    if (progress->phase == TSR_PHASE_SAVE && progress->done >= progress->total / 2) setrlimit(RLIMIT_FSIZE, limit);
    return true;
}

/* Over a folder that is there, and stays as it was. */
static tsr_status fail_midway(tsr_engine *engine, const place *p) {
    const tsr_save_options first = shards_of(SHARD), second = shards_of(2 * SHARD);
    struct rlimit usual, none;
    getrlimit(RLIMIT_FSIZE, &usual);
    none = (struct rlimit){0, usual.rlim_max};
    TSR__TRY(save_component(engine, p, &first));
    for (int i = 0; i < 2; i++) {
        if (is_first(engine)) {
            engine->options.progress = i ? limit_midway : cancel_midway;
            engine->options.progress_user = &none;
        }
        tsr_status status = save_component(engine, p, &second);
        engine->options.progress = NULL;
        setrlimit(RLIMIT_FSIZE, &usual);
        TSR__TRY(check_failed(engine, p, status, 1));
        RANK_CHECK(engine, status == (i ? TSR_IO : TSR_CANCELLED));
    }
    TSR__TRY(tsr_status_agree(engine, is_first(engine) ? check_saved(engine, p) : TSR_OK));
    return save_component(engine, p, &second);
}

static tsr_status a_failure_midway_leaves_the_old(tsr_engine *engine, void *user) {
    (void)user;
    place p;
    TSR__TRY(make_place(engine, "klein/transformer", &p));
    tsr_status status = fail_midway(engine, &p);
    if (status == TSR_OK) status = check_failed(engine, &p, TSR_OK, 1);
    return remove_place(engine, &p, status);
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"transformer_is_the_same", transformer_is_the_same},
                                      {"text_encoder_is_the_same", text_encoder_is_the_same},
                                      {"mixed_dtypes_are_the_same", mixed_dtypes_are_the_same},
                                      {"split_in_memory_is_the_same", split_in_memory_is_the_same},
                                      {"meta_is_refused", meta_is_refused},
                                      {"one_rank_runs_out_of_memory", one_rank_runs_out_of_memory},
                                      {"a_failure_midway_leaves_the_old", a_failure_midway_leaves_the_old}};
    signal(SIGXFSZ, SIG_IGN); /* a write above the limit is to be an error */
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
