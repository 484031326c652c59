/* Tensors laid out anew in files, and the folder that appears complete or not at all. */
#include "support.h"

#include "io/file.h"
#include "io/output_folder.h"
#include "io/sharded_save.h"

#include <dirent.h>
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
    snprintf(joined, sizeof joined, "%.900s/%.100s", folder, name);
    return strcpy(paths[next++ % 4], joined);
}

static char *copy_of(const char *path) { return strcpy(malloc(strlen(path) + 1), path); }

static void write_text(const char *folder, const char *name, const char *text) {
    test_write_file(in(folder, name), text, strlen(text));
}

/* --- layout --- */

static void save_source(const char *path) {
    static char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)i;
    const tsr_tensor tensors[] = {{"c", TSR_BF16, 1, {3}, bytes},        {"a", TSR_F32, 2, {2, 2}, bytes + 8},
                                  {"none", TSR_F32, 1, {0}, bytes},      {"b", TSR_U8, 1, {3}, bytes + 24},
                                  {"wide", TSR_I64, 1, {4}, bytes + 32}, {"e", TSR_F16, 0, {0}, bytes + 62}};
    assert_ok(engine, tsr_safetensors_save(engine, path, tensors, TSR__COUNT(tensors), NULL));
}

/* "c:0 a:0 ..." */
static const char *layout(const tsr__sharded *s, char *text) {
    *text = '\0';
    for (size_t i = 0; i < s->n; i++)
        sprintf(text + strlen(text), "%s%s:%zu", i ? " " : "", s->tensors[i].info->name, s->tensors[i].file);
    return text;
}

static void test_layout(void **state) {
    (void)state;
    static const struct {
        uint64_t most;
        size_t files;
        const char *tensors;
    } cases[] = {
        /* in the order of the source; wider dtypes first within a file; what is too large alone */
        {1000, 1, "wide:0 a:0 none:0 c:0 e:0 b:0"},
        {25, 3, "a:0 none:0 c:0 b:0 wide:1 e:2"},
        {22, 4, "a:0 none:0 c:0 b:1 wide:2 e:3"},
        {1, 5, "c:0 a:1 none:2 b:2 wide:3 e:4"},
    };
    const char *folder = test_folder();
    char text[256];
    save_source(in(folder, "model.safetensors"));
    tsr_checkpoint *source = NULL;
    assert_ok(engine, tsr_checkpoint_open(engine, folder, &source));
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        tsr__sharded s = {0};
        assert_ok(engine, tsr__sharded_plan(source, cases[i].most, &s));
        assert_string_equal(layout(&s, text), cases[i].tensors);
        assert_int_equal(s.n_files, cases[i].files);
        assert_int_equal(s.data_bytes, 6 + 16 + 3 + 32 + 2);
        assert_true((s.index == NULL) == (s.n_files == 1));
        for (size_t t = 0; t < s.n; t++)
            assert_int_equal(s.tensors[t].offset * 8 % tsr_dtype_bits(s.tensors[t].info->dtype), 0);
        tsr__sharded_free(&s);
    }
    tsr_checkpoint_close(source);
}

static void write_all(const tsr__sharded *s, tsr_checkpoint *source, const char *folder) {
    tsr__shard_writer w;
    assert_ok(engine, tsr__sharded_create(s, folder));
    assert_ok(engine, tsr__shard_writer_open(s, folder, &w));
    for (size_t i = s->n; i-- > 0;) { /* backwards: any order will do */
        assert_ok(engine, tsr__shard_writer_seek(&w, &s->tensors[i]));
        assert_ok(engine, tsr__shard_writer_copy(&w, source, s->tensors[i].info));
    }
    assert_ok(engine, tsr__shard_writer_close(&w, TSR_OK));
}

static void test_files(void **state) {
    (void)state;
    char *folder = copy_of(test_folder()), *saved = copy_of(test_folder()), bytes[2][64];
    save_source(in(folder, "diffusion_pytorch_model.safetensors"));
    tsr_checkpoint *source = NULL, *copy = NULL;
    tsr__sharded s = {0};
    assert_ok(engine, tsr_checkpoint_open(engine, folder, &source));
    assert_ok(engine, tsr__sharded_plan(source, 22, &s));
    write_all(&s, source, saved);
    assert_true(tsr__path_exists(in(saved, "diffusion_pytorch_model-00004-of-00004.safetensors")));
    assert_ok(engine, tsr_checkpoint_open(engine, saved, &copy));
    assert_int_equal(tsr_checkpoint_count(copy), s.n);
    for (size_t i = 0; i < s.n; i++) {
        const tsr_tensor_info *a = tsr_checkpoint_at(source, i), *b = tsr_checkpoint_find(copy, a->name);
        assert_non_null(b);
        assert_ok(engine, tsr_checkpoint_read(source, a, 0, NULL, 0, bytes[0], (size_t)a->size));
        assert_ok(engine, tsr_checkpoint_read(copy, b, 0, NULL, 0, bytes[1], (size_t)a->size));
        assert_memory_equal(bytes[0], bytes[1], a->size);
    }
    tsr_checkpoint_close(copy);
    tsr__sharded_free(&s);
    tsr_checkpoint_close(source);
    free(saved);
    free(folder);
}

/* Pieces shorter and longer than the buffer, side by side. */
static void test_pieces(void **state) {
    (void)state;
    enum { N = 3000000 };
    static const size_t pieces[] = {1, 1048575, 2, 1048577, 7, 1048576};
    char *folder = copy_of(test_folder()), *saved = copy_of(test_folder()), *bytes = malloc(N), *found = malloc(N);
    for (size_t i = 0; i < N; i++) bytes[i] = (char)(i * 31 + i / 251);
    const tsr_tensor tensor = {"x", TSR_U8, 1, {N}, bytes};
    assert_ok(engine, tsr_safetensors_save(engine, in(folder, "model.safetensors"), &tensor, 1, NULL));
    tsr_checkpoint *source = NULL, *copy = NULL;
    tsr__sharded s = {0};
    tsr__shard_writer w;
    assert_ok(engine, tsr_checkpoint_open(engine, folder, &source));
    assert_ok(engine, tsr__sharded_plan(source, N, &s));
    assert_ok(engine, tsr__sharded_create(&s, saved));
    assert_ok(engine, tsr__shard_writer_open(&s, saved, &w));
    assert_ok(engine, tsr__shard_writer_seek(&w, &s.tensors[0]));
    for (size_t at = 0, i = 0; at < N; i++) {
        size_t n = pieces[i % TSR__COUNT(pieces)];
        if (n > N - at) n = N - at;
        assert_ok(engine, tsr__shard_writer_put(&w, bytes + at, n));
        at += n;
    }
    assert_ok(engine, tsr__shard_writer_close(&w, TSR_OK));
    assert_ok(engine, tsr_checkpoint_open(engine, saved, &copy));
    assert_ok(engine, tsr_checkpoint_read(copy, tsr_checkpoint_at(copy, 0), 0, NULL, 0, found, N));
    assert_memory_equal(bytes, found, N);
    tsr_checkpoint_close(copy);
    tsr__sharded_free(&s);
    tsr_checkpoint_close(source);
    free(bytes);
    free(found);
    free(saved);
    free(folder);
}

/* --- the folder --- */

/* A pipeline with a component, a subfolder, hidden files and weights that are of no component. */
static char *make_source(void) {
    char *folder = copy_of(test_folder());
    static const char *const folders[] = {"part", "part/inner", "words", "words/deep", ".cache"};
    static const char *const files[] = {
        "model_index.json", "single.safetensors", ".hidden",          "part/config.json",
        "part/inner/x",     "part/a.safetensors", "words/deep/a.bin", ".cache/y"};
    for (size_t i = 0; i < TSR__COUNT(folders); i++) assert_int_equal(mkdir(in(folder, folders[i]), 0700), 0);
    for (size_t i = 0; i < TSR__COUNT(files); i++) write_text(folder, files[i], files[i]);
    return folder;
}

static tsr__contents *contents_of(const char *source) {
    static const char *const except[] = {"part", NULL};
    tsr__contents *c = NULL;
    assert_ok(engine, tsr__contents_create(engine, &c));
    assert_ok(engine, tsr__contents_add(c, source, "", except));
    assert_ok(engine, tsr__contents_add(c, in(source, "part"), "part", NULL));
    return c;
}

static tsr_status open_and_commit(const char *path, const tsr__contents *contents) {
    tsr__output_folder *o = NULL;
    TSR__TRY(tsr__output_folder_open(engine, path, contents, 4, &o));
    write_text(tsr__output_folder_path(o), "part/model.safetensors", "new!");
    return tsr__output_folder_commit(o);
}

static int count_entries(const char *folder) {
    int n = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (const struct dirent *e; (e = readdir(open));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(open);
    return n;
}

static void test_contents(void **state) {
    (void)state;
    static const char *const there[] = {"model_index.json", "part/config.json", "part/model.safetensors",
                                        "words/deep/a.bin"};
    static const char *const absent[] = {"single.safetensors", ".hidden", "part/inner", "part/a.safetensors", ".cache"};
    char *source = make_source(), *parent = copy_of(test_folder());
    tsr__contents *c = contents_of(source);
    for (int i = 0; i < 2; i++) { /* new, then in place of what the first save wrote */
        assert_ok(engine, open_and_commit(in(parent, "out/"), c));
        for (size_t k = 0; k < TSR__COUNT(there); k++) assert_true(tsr__path_exists(in(in(parent, "out"), there[k])));
        for (size_t k = 0; k < TSR__COUNT(absent); k++)
            assert_false(tsr__path_exists(in(in(parent, "out"), absent[k])));
        assert_int_equal(count_entries(parent), 1);
        write_text(parent, "out/part/old-00001-of-00002.safetensors", "replaced");
    }
    tsr__contents_free(c);
    free(source);
    free(parent);
}

static void test_refusals(void **state) {
    (void)state;
    char *source = make_source(), *parent = copy_of(test_folder());
    tsr__contents *c = contents_of(source);
    tsr__output_folder *o = NULL;
    write_text(parent, "file", "x");
    static const char *const folders[] = {"full", "full/part", "full/part/sub", "linked", "empty"};
    for (size_t i = 0; i < TSR__COUNT(folders); i++) assert_int_equal(mkdir(in(parent, folders[i]), 0700), 0);
    write_text(parent, "full/part/sub/notes.txt", "x");
    assert_int_equal(symlink(source, in(parent, "linked/words")), 0);
    assert_int_equal(symlink("nowhere", in(parent, "dangling")), 0);
    assert_int_equal(symlink("empty", in(parent, "link")), 0);
    const struct {
        char *path;
        tsr_status status;
        const char *words;
    } cases[] = {
        {copy_of(""), TSR_ARG, "the output path is empty"},
        {copy_of("/"), TSR_ARG, "is the root folder"},
        {copy_of(in(parent, "missing/out")), TSR_IO, "its folder: No such file or directory"},
        {copy_of(in(parent, "file")), TSR_ARG, "is no folder"},
        {copy_of(in(parent, "file/out")), TSR_IO, "its folder: Not a directory"},
        {copy_of(in(parent, "dangling")), TSR_IO, "No such file or directory"},
        {copy_of(in(parent, "full")), TSR_ARG, "holds \"part/sub/notes.txt\", which is not of a saved model"},
        {copy_of(in(parent, "linked")), TSR_ARG, "holds \"words\""},
        {copy_of(source), TSR_ARG, "in the folder that is being saved"},
        {copy_of(in(source, "words/new")), TSR_ARG, "in the folder that is being saved"},
        {copy_of(in(source, "..")), TSR_ARG, "in the folder that is being saved"},
    };
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        assert_refused(engine, tsr__output_folder_open(engine, cases[i].path, c, 0, &o), cases[i].status,
                       cases[i].words);
        free(cases[i].path);
    }
    assert_refused(engine, tsr__output_folder_open(engine, in(parent, "out"), c, UINT64_MAX / 2, &o), TSR_IO,
                   "9223372036854.8 MB will be written, but its disk has ");
    assert_int_equal(count_entries(parent), 6);
    assert_ok(engine, open_and_commit(in(parent, "link"), c)); /* a link stays, what it leads to is replaced */
    assert_true(tsr__path_exists(in(parent, "empty/part/model.safetensors")));
    assert_int_equal(unlink(in(parent, "link")), 0);
    tsr__contents_free(c);
    free(source);
    free(parent);
}

/* What came into the old folder while the new one was written is not lost. */
static void test_latecomer(void **state) {
    (void)state;
    char *source = make_source(), *parent = copy_of(test_folder());
    tsr__contents *c = contents_of(source);
    tsr__output_folder *o = NULL;
    assert_ok(engine, open_and_commit(in(parent, "out"), c));
    assert_ok(engine, tsr__output_folder_open(engine, in(parent, "out"), c, 0, &o));
    char *aside = copy_of(tsr__output_folder_path(o));
    write_text(parent, "out/diary", "dear diary");
    assert_refused(engine, tsr__output_folder_commit(o), TSR_ARG, "holds \"diary\"");
    assert_true(tsr__path_exists(in(parent, "out/diary")) &&
                tsr__path_exists(in(parent, "out/part/model.safetensors")));
    assert_false(tsr__path_exists(aside));
    tsr__contents_free(c);
    free(aside);
    free(source);
    free(parent);
}

static void test_endless_links(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    char *source = make_source();
    tsr__contents *c = NULL;
    assert_int_equal(symlink("..", in(source, "words/up")), 0);
    assert_ok(engine, tsr__contents_create(engine, &c));
    assert_refused(engine, tsr__contents_add(c, source, "", none), TSR_IO, "is a link to a folder around it there?");
    tsr__contents_free(c);
    free(source);
}

static int set_up(void **state) {
    (void)state;
    engine = test_engine("ref");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tsr_engine_destroy(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),        cmocka_unit_test(test_files),    cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_contents),      cmocka_unit_test(test_refusals), cmocka_unit_test(test_latecomer),
        cmocka_unit_test(test_endless_links),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
