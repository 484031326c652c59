/* Checkpoints: folders with an index and shards, and parts of tensors against a naive copy. */
#include "support.h"

#include <tessera/checkpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tsr_engine *engine;

/* folder/name in one of four buffers in turn. */
static const char *in(const char *folder, const char *name) {
    static char paths[4][1024];
    static int next;
    char joined[1024]; /* folder may lie in a buffer itself */
    snprintf(joined, sizeof joined, "%s/%s", folder, name);
    return strcpy(paths[next++ % 4], joined);
}

static void write_text(const char *folder, const char *name, const char *text) {
    test_write_file(in(folder, name), text, strlen(text));
}

/* A file that holds one byte tensors of these one-letter names; each byte is its name. */
static void write_shard(const char *folder, const char *name, const char *letters) {
    tsr_tensor tensors[8];
    char names[8][2] = {{0}};
    size_t n = strlen(letters);
    for (size_t i = 0; i < n; i++) {
        names[i][0] = letters[i];
        tensors[i] = (tsr_tensor){names[i], TSR_U8, 1, {1}, names[i]};
    }
    assert_ok(engine, tsr_safetensors_save(engine, in(folder, name), tensors, n, NULL));
}

static const char index_name[] = "diffusion_pytorch_model.safetensors.index.json";
static const char sound_index[] = "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"b\":\"two.safetensors\","
                                  "\"d\":\"one.safetensors\",\"a\":\"one.safetensors\",\"c\":\"two.safetensors\"}}";

static const char *sharded_folder(void) {
    const char *folder = test_folder();
    write_shard(folder, "one.safetensors", "da");
    write_shard(folder, "two.safetensors", "cb");
    write_text(folder, index_name, sound_index);
    return folder;
}

/* Opens, checks that a, b, c, d are there in order and hold their names. */
static void assert_abcd(const char *path) {
    tsr_checkpoint *c = NULL;
    assert_ok(engine, tsr_checkpoint_open(engine, path, &c));
    assert_int_equal(tsr_checkpoint_count(c), 4);
    for (size_t i = 0; i < 4; i++) {
        char byte = 0;
        const tsr_tensor_info *info = tsr_checkpoint_at(c, i);
        assert_ok(engine, tsr_checkpoint_read(c, info, 0, NULL, 0, &byte, 1));
        assert_int_equal(byte, "abcd"[i]);
        assert_ptr_equal(tsr_checkpoint_find(c, info->name), info);
    }
    assert_int_equal(tsr_checkpoint_bytes_read(c), 4);
    assert_null(tsr_checkpoint_find(c, "e"));
    assert_null(tsr_checkpoint_find(c, ""));
    assert_null(tsr_checkpoint_at(c, 4));
    assert_null(tsr_checkpoint_metadata(c, "format"));
    tsr_checkpoint_close(c);
}

static void test_forms_of_folders(void **state) {
    (void)state;
    const char *folder = sharded_folder();
    assert_abcd(folder);
    assert_abcd(in(folder, ""));
    write_shard(folder, "diffusion_pytorch_model.safetensors", "x"); /* the index goes before it */
    assert_abcd(folder);
    static const char *const singles[] = {"diffusion_pytorch_model.safetensors", "model.safetensors"};
    for (size_t i = 0; i < TSR__COUNT(singles); i++) {
        folder = test_folder();
        write_shard(folder, singles[i], "cabd");
        assert_abcd(folder);
        assert_abcd(in(folder, singles[i]));
    }
    folder = test_folder();
    write_shard(folder, "other.safetensors", "cabd");
    assert_abcd(in(folder, "other.safetensors"));
}

/* snapshots/<revision>/<name> -> ../../blobs/<hash>, as huggingface_hub lays a model out */
static void test_cache_of_the_hub(void **state) {
    (void)state;
    const char *folder = test_folder(), *source = sharded_folder();
    static const char *const names[] = {"one.safetensors", "two.safetensors", index_name};
    char snapshot[512], blob[64], from[512];
    assert_int_equal(mkdir(in(folder, "blobs"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "snapshots"), 0700), 0);
    snprintf(snapshot, sizeof snapshot, "%s/snapshots/0123abc", folder);
    assert_int_equal(mkdir(snapshot, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(blob, sizeof blob, "../../blobs/%d", i);
        snprintf(from, sizeof from, "%s/%s", source, names[i]);
        assert_int_equal(rename(from, in(folder, blob + 6)), 0);
        assert_int_equal(symlink(blob, in(snapshot, names[i])), 0);
    }
    assert_abcd(snapshot);
    assert_int_equal(unlink(in(folder, "blobs/1")), 0);
    tsr_checkpoint *c = NULL;
    assert_refused(engine, tsr_checkpoint_open(engine, snapshot, &c), TSR_FORMAT,
                   "missing from its folder; download "
                   "them: two.safetensors");
    assert_int_equal(unlink(in(folder, "blobs/2")), 0);
    assert_refused(engine, tsr_checkpoint_open(engine, snapshot, &c), TSR_IO, index_name);
}

static void test_odd_paths(void **state) {
    (void)state;
    char folder[900], name[200];
    snprintf(folder, sizeof folder, "%s/my models/klein 4B (v2) %%s Ž'ü", test_folder());
    char *slash = strrchr(folder, '/');
    *slash = '\0';
    assert_int_equal(mkdir(folder, 0700), 0);
    *slash = '/';
    assert_int_equal(mkdir(folder, 0700), 0);
    memset(name, 'l', sizeof name);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 2; i++) { /* longer than 256 bytes */
        strcat(strcat(folder, "/"), name);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    write_shard(folder, "model.safetensors", "abcd");
    assert_abcd(folder);
    strcat(folder, "/absent");
    tsr_checkpoint *c = NULL;
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_IO, folder);
}

static void test_broken_folders(void **state) {
    (void)state;
    static const struct {
        const char *index, *words;
    } rows[] = {
        {"{", "not valid JSON"},
        {"{}", "has no weight_map"},
        {"{\"weight_map\":{}}", "has no weight_map"},
        {"{\"weight_map\":[\"a\"]}", "has no weight_map"},
        {"{\"weight_map\":{\"a\":5}}", "tensor 'a' is said to lie in 5"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\\u0000\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"z.safetensors\",\"b\":\"y.safetensors\",\"c\":\"one.safetensors\",\"d\":\"z."
         "safetensors\"}}",
         "download them: y.safetensors, z.safetensors"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"d\":\"one.safetensors\",\"e\":\"one.safetensors\",\"f\":\"one."
         "safetensors\"}}",
         "lack these tensors that it places in them; download them again: e, f"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\",\"d\":\"one.safetensors\"}}",
         "does not name these tensors of its shards: c"},
        {"{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"two.safetensors\",\"c\":\"two.safetensors\",\"d\":\"one."
         "safetensors\"}}",
         "places in them; download them again: a"},
    };
    const char *folder = sharded_folder();
    tsr_checkpoint *c = NULL;
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        write_text(folder, index_name, rows[i].index);
        assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_FORMAT, rows[i].words);
        assert_non_null(strstr(tsr_engine_message(engine), in(folder, index_name)));
    }
    write_text(folder, index_name, sound_index);
    write_shard(folder, "two.safetensors", "cba"); /* a is in both */
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_FORMAT, "tensors of its shards: a");
    write_text(folder, "two.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_FORMAT,
                   "two.safetensors: is a Git LFS pointer");
}

static void test_folders_without_safetensors(void **state) {
    (void)state;
    tsr_checkpoint *c = NULL;
    const char *folder = test_folder();
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_IO, "holds no diffusion_pytorch_model.");
    write_text(folder, "pytorch_model.bin", "PK\3\4");
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_UNSUPPORTED, "needs safetensors");
    assert_refused(engine, tsr_checkpoint_open(engine, in(folder, "pytorch_model.bin"), &c), TSR_FORMAT, "pickle");
    write_shard(folder, "model.fp16.safetensors", "a");
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_IO, "give its path");
}

/* Hundreds of missing shards: as many names as the message holds, and how many more. */
static void test_long_lists(void **state) {
    (void)state;
    const char *folder = test_folder();
    char *text = malloc(100000), *at = text + sprintf(text, "{\"weight_map\":{");
    for (int i = 0; i < 500; i++)
        at += sprintf(at, "%s\"t%d\":\"shard-%05d-of-00500.safetensors\"", i ? "," : "", i, i);
    strcpy(at, "}}");
    write_text(folder, index_name, text);
    tsr_checkpoint *c = NULL;
    assert_refused(engine, tsr_checkpoint_open(engine, folder, &c), TSR_FORMAT, "shard-00000-of-00500.safetensors, ");
    assert_non_null(strstr(tsr_engine_message(engine), " more"));
    free(text);
}

static uint32_t random_below(uint32_t n) {
    static uint32_t seed = 7;
    return ((seed = seed * 1664525u + 1013904223u) >> 8) % n;
}

/* The oracle: element by element through the index of each dimension. Returns the bytes written. */
static size_t copy_part(const tsr_tensor *t, int dim, const tsr_range *ranges, size_t n, char *dst) {
    size_t bytes = tsr_dtype_bits(t->dtype) / 8, outer = 1, inner = 1, used = 0;
    for (int i = 0; i < dim; i++) outer *= (size_t)t->shape[i];
    for (int i = dim + 1; i < t->ndim; i++) inner *= (size_t)t->shape[i];
    for (size_t o = 0; o < outer; o++)
        for (size_t r = 0; r < n; r++)
            for (int64_t k = ranges[r].begin; k < ranges[r].end; k++)
                for (size_t i = 0; i < inner; i++, used += bytes)
                    memcpy(dst + used, (char *)t->data + ((o * (size_t)t->shape[dim] + (size_t)k) * inner + i) * bytes,
                           bytes);
    return used;
}

static void compare_parts(tsr_checkpoint *c, const tsr_tensor *t) {
    enum { MOST = 4 };
    tsr_range ranges[MOST];
    const tsr_tensor_info *info = tsr_checkpoint_find(c, t->name);
    char *expected = malloc(MOST * info->size + 1), *part = malloc(MOST * info->size + 1);
    for (int trial = 0; trial < 40; trial++) {
        int dim = (int)random_below((uint32_t)t->ndim);
        size_t n = 1 + random_below(MOST);
        for (size_t r = 0; r < n; r++) {
            ranges[r].begin = random_below((uint32_t)t->shape[dim] + 1);
            ranges[r].end = ranges[r].begin + random_below((uint32_t)(t->shape[dim] - ranges[r].begin) + 1);
            if (r && trial % 4 == 0) ranges[r].begin = ranges[r - 1].end; /* adjacent */
            if (ranges[r].end < ranges[r].begin) ranges[r].end = ranges[r].begin;
        }
        size_t bytes = copy_part(t, dim, ranges, n, expected);
        uint64_t before = tsr_checkpoint_bytes_read(c);
        part[bytes] = 'X';
        assert_ok(engine, tsr_checkpoint_read(c, info, dim, ranges, n, part, bytes));
        assert_memory_equal(part, expected, bytes);
        assert_int_equal(part[bytes], 'X');
        assert_int_equal(tsr_checkpoint_bytes_read(c) - before, bytes);
        assert_refused(engine, tsr_checkpoint_read(c, info, dim, ranges, n, part, bytes + 1), TSR_ARG,
                       "the memory for");
    }
    assert_ok(engine, tsr_checkpoint_read(c, info, 0, NULL, 0, part, info->size));
    assert_memory_equal(part, t->data, info->size);
    free(expected);
    free(part);
}

static void test_parts_against_oracle(void **state) {
    (void)state;
    static const tsr_dtype dtypes[] = {TSR_U8, TSR_BF16, TSR_F32, TSR_I64};
    const char *path = in(test_folder(), "x.safetensors");
    for (int file = 0; file < 60; file++) {
        tsr_tensor t[2];
        for (int k = 0; k < 2; k++) { /* two, so that the offset in the file is not the first one */
            t[k] = (tsr_tensor){k ? "second" : "first", dtypes[random_below(4)], 1 + (int)random_below(4), {0}, NULL};
            for (int i = 0; i < t[k].ndim; i++) t[k].shape[i] = file % 20 == 19 ? random_below(3) : 1 + random_below(7);
            size_t bytes = tsr_tensor_bytes(&t[k]);
            t[k].data = malloc(bytes + 1);
            for (size_t i = 0; i < bytes; i++) ((uint8_t *)t[k].data)[i] = (uint8_t)random_below(256);
        }
        tsr_checkpoint *c = NULL;
        assert_ok(engine, tsr_safetensors_save(engine, path, t, 2, NULL));
        assert_ok(engine, tsr_checkpoint_open(engine, path, &c));
        for (int k = 0; k < 2; k++) {
            compare_parts(c, &t[k]);
            free(t[k].data);
        }
        tsr_checkpoint_close(c);
    }
}

/* Calls of read(2) and pread(2) so far, by the system's count; -1 where it gives none. */
static long reads_so_far(void) {
    char line[256];
    long n = -1;
    FILE *file = fopen("/proc/self/io", "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "syscr: %ld", &n) == 1) break;
    fclose(file);
    return n;
}

static void test_reads_are_merged(void **state) {
    (void)state;
    static uint8_t data[64 * 10 * 2], part[sizeof data];
    static const struct {
        int dim;
        size_t n;
        tsr_range ranges[2];
        long reads;
    } rows[] = {
        {0, 0, {{0, 0}, {0, 0}}, 1},    {0, 1, {{3, 17}, {0, 0}}, 1},  {0, 2, {{3, 17}, {17, 40}}, 1},
        {0, 2, {{3, 17}, {20, 40}}, 2}, {1, 1, {{0, 10}, {0, 0}}, 1},  {1, 1, {{0, 5}, {0, 0}}, 64},
        {1, 2, {{2, 4}, {4, 7}}, 64},   {1, 2, {{0, 2}, {8, 10}}, 65}, /* the end of a row meets the next */
        {1, 2, {{3, 3}, {4, 4}}, 0},
    };
    tsr_tensor t = {"t", TSR_BF16, 2, {64, 10}, data};
    const char *path = in(test_folder(), "x.safetensors");
    tsr_checkpoint *c = NULL;
    assert_ok(engine, tsr_safetensors_save(engine, path, &t, 1, NULL));
    assert_ok(engine, tsr_checkpoint_open(engine, path, &c));
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        size_t bytes = copy_part(&t, rows[i].dim, rows[i].ranges, rows[i].n, (char *)part);
        if (rows[i].n == 0) bytes = sizeof data;
        long first = reads_so_far(), second = reads_so_far();
        assert_ok(engine,
                  tsr_checkpoint_read(c, tsr_checkpoint_at(c, 0), rows[i].dim, rows[i].ranges, rows[i].n, part, bytes));
        if (first >= 0) assert_int_equal(reads_so_far() - second, rows[i].reads + second - first);
    }
    tsr_checkpoint_close(c);
}

static void test_read_refused(void **state) {
    (void)state;
    uint8_t data[24] = {0};
    tsr_tensor tensors[] = {
        {"t", TSR_U8, 3, {2, 3, 4}, data}, {"f4", TSR_F4, 2, {2, 4}, data}, {"s", TSR_U8, 0, {0}, data}};
    const char *path = in(test_folder(), "x.safetensors");
    tsr_checkpoint *c = NULL, *other = NULL;
    assert_ok(engine, tsr_safetensors_save(engine, path, tensors, 3, NULL));
    assert_ok(engine, tsr_checkpoint_open(engine, path, &c));
    assert_ok(engine, tsr_checkpoint_open(engine, path, &other));
    static const struct {
        const char *name;
        int dim;
        tsr_range range;
        size_t bytes;
        tsr_status status;
        const char *words;
    } rows[] = {
        {"t", 3, {0, 1}, 1, TSR_ARG, "no dimension 3"},
        {"t", -1, {0, 1}, 1, TSR_ARG, "no dimension -1"},
        {"s", 0, {0, 1}, 1, TSR_ARG, "no dimension 0"},
        {"t", 1, {0, 4}, 32, TSR_SHAPE, "range 0 to 4 lies outside dimension 1 (0 to 3) of 't'"},
        {"t", 1, {-1, 2}, 24, TSR_SHAPE, "range -1 to 2"},
        {"t", 1, {2, 1}, 0, TSR_SHAPE, "range 2 to 1"},
        {"t", 1, {INT64_MIN, INT64_MAX}, 0, TSR_SHAPE, "outside"},
        {"t", 1, {0, 2}, 15, TSR_ARG, "has 16 bytes, the memory for it 15"},
        {"f4", 0, {0, 1}, 2, TSR_UNSUPPORTED, "is F4 and can only be read whole"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++)
        assert_refused(engine,
                       tsr_checkpoint_read(c, tsr_checkpoint_find(c, rows[i].name), rows[i].dim, &rows[i].range, 1,
                                           data, rows[i].bytes),
                       rows[i].status, rows[i].words);
    assert_refused(engine, tsr_checkpoint_read(c, tsr_checkpoint_at(other, 0), 0, NULL, 0, data, 4), TSR_ARG,
                   "checkpoint");
    assert_refused(engine, tsr_checkpoint_read(c, NULL, 0, NULL, 0, data, 4), TSR_ARG, "checkpoint");
    static const tsr_range all = {0, 4};
    assert_ok(engine, tsr_checkpoint_read(c, tsr_checkpoint_find(c, "f4"), 1, &all, 1, data, 4));
    assert_ok(engine, tsr_checkpoint_read(c, tsr_checkpoint_find(c, "s"), 0, NULL, 0, data, 1));
    assert_int_equal(tsr_checkpoint_bytes_read(c), 5);
    const tsr_tensor_info *cut = tsr_checkpoint_find(c, "t");
    char words[64];
    snprintf(words, sizeof words, "has no byte %d any more", (int)cut->offset + 10);
    assert_int_equal(truncate(path, (off_t)cut->offset + 10), 0);
    assert_refused(engine, tsr_checkpoint_read(c, cut, 0, NULL, 0, data, 24), TSR_IO, words);
    assert_int_equal(tsr_checkpoint_bytes_read(c), 5);
    tsr_checkpoint_close(c);
    tsr_checkpoint_close(other);
    tsr_checkpoint_close(NULL);
}

static void test_no_memory(void **state) {
    (void)state;
    const char *folders[] = {strdup(sharded_folder()), strdup(test_folder()), strdup(test_folder())};
    static const tsr_status ends[] = {TSR_OK, TSR_OK, TSR_FORMAT};
    write_shard(folders[1], "model.safetensors", "abcd");
    write_text(folders[2], index_name, sound_index); /* whose shards are missing */
    size_t before = tsr_engine_memory_current(engine);
    for (size_t i = 0; i < TSR__COUNT(folders); i++) {
        tsr_status status = TSR_NOMEM;
        int k = 0;
        for (; status == TSR_NOMEM; k++) {
            tsr_checkpoint *c = NULL;
            atomic_store(&engine->allocator.count, 0);
            atomic_store(&engine->allocator.fail_at, k);
            status = tsr_checkpoint_open(engine, folders[i], &c);
            atomic_store(&engine->allocator.fail_at, -1);
            assert_true(status == TSR_OK ? c != NULL : c == NULL);
            tsr_checkpoint_close(c);
            assert_int_equal(tsr_engine_memory_current(engine), before);
        }
        assert_int_equal(status, ends[i]);
        assert_true(k > 5);
        free((void *)folders[i]);
    }
}

static void test_golden_models(void **state) {
    (void)state;
    static const char *const folders[] = {"flux2-klein/transformer", "flux2-klein/text_encoder", "flux2-klein/vae",
                                          "qwenimage/text_encoder", "flux2/transformer"};
    for (size_t i = 0; i < TSR__COUNT(folders); i++) {
        char path[256];
        snprintf(path, sizeof path, "models/%s", folders[i]);
        tsr_checkpoint *c = NULL;
        assert_ok(engine, tsr_checkpoint_open(engine, test_golden(path), &c));
        assert_string_equal(tsr_checkpoint_metadata(c, "format"), "pt");
        assert_true(tsr_checkpoint_count(c) > 10);
        for (size_t k = 1; k < tsr_checkpoint_count(c); k++)
            assert_true(strcmp(tsr_checkpoint_at(c, k - 1)->name, tsr_checkpoint_at(c, k)->name) < 0);
        tsr_checkpoint_close(c);
    }
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_of_folders),
        cmocka_unit_test(test_cache_of_the_hub),
        cmocka_unit_test(test_odd_paths),
        cmocka_unit_test(test_broken_folders),
        cmocka_unit_test(test_folders_without_safetensors),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_parts_against_oracle),
        cmocka_unit_test(test_reads_are_merged),
        cmocka_unit_test(test_read_refused),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_golden_models),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
