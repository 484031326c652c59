/* The safetensors header: every hostile one is refused with the words that help, every odd but valid one is read. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/safetensors.h"

static tsr_engine *engine;

static char *new_path(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/weights.safetensors", test_folder());
    return path;
}

/* length of the header, header, data (byte i is i). */
static void write_raw(const char *path, const char *header, size_t length, size_t data) {
    char *bytes = malloc(8 + length + data);
    for (size_t i = 0; i < 8; i++) bytes[i] = (char)(length >> (8 * i) & 255);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++) bytes[8 + length + i] = (char)i;
    test_write_file(path, bytes, 8 + length + data);
    free(bytes);
}

static void assert_header_refused(const char *path, const char *header, size_t data, const char *words) {
    tsr__safetensors f = {0};
    write_raw(path, header, strlen(header), data);
    assert_refused(engine, tsr__safetensors_open(engine, path, &f), TSR_FORMAT, words);
    assert_non_null(strstr(tsr_engine_message(engine), path));
}

#define ONE(fields) "{\"a\":{" fields "}}"
static void test_hostile_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } rows[] = {
        /* JSON */
        {"", 0, "not valid JSON"},
        {"[]", 0, "must be an object"},
        {"{\"a\":", 0, "not valid JSON"},
        {"{} x", 0, "not valid JSON"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_"
         "offsets\":[1,2]}}",
         2, "duplicate object key"},
        {ONE("\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]"), 1, "duplicate object key"},
        {"{\"a\":5}", 0, "tensor 'a': the entry is 5, but must be an object"},
        /* fields */
        {ONE(""), 0, "tensor 'a': dtype is absent"},
        {ONE("\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]"), 4, "tensor 'a': dtype is \"F99\""},
        {ONE("\"dtype\":\"bfloat16\",\"shape\":[1],\"data_offsets\":[0,2]"), 2, "dtype is \"bfloat16\""},
        {ONE("\"dtype\":\"U8\\u0000\",\"shape\":[1],\"data_offsets\":[0,1]"), 1, "dtype is \"U8\""},
        {ONE("\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]"), 4, "dtype is 3"},
        {ONE("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "shape is absent"},
        {ONE("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), 1, "shape is 1, but must be a list"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1]"), 1, "data_offsets is absent"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1,
         "data_offsets is a list, but must be a list of"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1, "a list of two"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]"), 1, "9 dimensions"},
        /* numbers */
        {ONE("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, "tensor 'a': shape is -1"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]"), 1, "tensor 'a': shape is 1.5"},
        {ONE("\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]"), 1, "tensor 'a': shape is \"1\""},
        {ONE("\"dtype\":\"U8\",\"shape\":[1000000000000000000000000000000],\"data_offsets\":[0,1]"), 1,
         "tensor 'a': shape is 1e+30"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]"), 1, "tensor 'a': data_offsets is -1"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,18446744073709551617]"), 1, "data_offsets is 1.8"},
        {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]"), 1, "end before they begin"},
        {ONE("\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0, "too large"},
        {ONE("\"dtype\":\"F64\",\"shape\":[9007199254740992,256],\"data_offsets\":[0,0]"), 0, "too large"},
        {ONE("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]"), 1, "no whole number of bytes"},
        {ONE("\"dtype\":\"F6_E2M3\",\"shape\":[5],\"data_offsets\":[0,4]"), 4, "no whole number of bytes"},
        /* sizes */
        {ONE("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4, "need 8 bytes, but data_offsets span 4"},
        {ONE("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,0]"), 0, "need 4 bytes, but data_offsets span 0"},
        {ONE("\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,4]"), 4, "need 0 bytes, but data_offsets span 4"},
        {ONE("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]"), 6, "hole of 2 bytes lies before tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
         "offsets\":[2,6]}}",
         6, "tensor 'b' overlaps tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
         "offsets\":[0,4]}}",
         4, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"inside\":{\"dtype\":\"F32\",\"shape\":[0,4],"
         "\"data_offsets\":[2,2]}}",
         4, "'inside' overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
         "offsets\":[6,7]}}",
         7, "hole of 2 bytes lies before tensor 'b'"},
        {ONE("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"), 2, "too short (incomplete download?)"},
        {ONE("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"), 6, "too long (bytes behind the last tensor)"},
        {"{}", 1, "too long"},
        /* metadata */
        {"{\"__metadata__\":5}", 0, "__metadata__ must be an object of strings"},
        {"{\"__metadata__\":{\"format\":5}}", 0, "__metadata__ must be an object of strings"},
    };
    char *path = new_path();
    for (size_t i = 0; i < TSR__COUNT(rows); i++)
        assert_header_refused(path, rows[i].header, rows[i].data, rows[i].words);
}

static void test_wrong_files(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } rows[] = {
        {"", 0, "expected at least 8 bytes, has 0"},
        {"abc", 3, "expected at least 8 bytes, has 3"},
        {"\20\0\0\0\0\0\0\0{\"a\"", 12, "its header alone needs 24 bytes, it has 12 (incomplete download?)"},
        {"\1\341\365\5\0\0\0\0{", 9, "header of 100000001 bytes, more than the 100000000"},
        {"\377\377\377\377\377\377\377\377{", 9, "header of 18446744073709551615 bytes"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", 64, "Git LFS pointer"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", 64, "git lfs pull"},
        {"<!DOCTYPE html><html><body>404</body></html>", 44, "HTML page"},
        {"\n<html><body>404</body></html>", 30, "HTML page"},
        {"PK\3\4\0\0\0\0\0\0\0\0\0\0", 14, "pickle"},
        {"\x80\2}q\0X\3\0\0\0", 10, "pickle"},
        {"\x80\2\0\0\0\0\0\0}q", 10, "pickle"},
        {"{\"error\":\"not found\"}", 21, "not a safetensors file"},
    };
    char *path = new_path(), folder[600];
    tsr__safetensors f = {0};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        test_write_file(path, rows[i].bytes, rows[i].n);
        assert_refused(engine, tsr__safetensors_open(engine, path, &f), TSR_FORMAT, rows[i].words);
        assert_non_null(strstr(tsr_engine_message(engine), path));
    }
    assert_refused(engine, tsr__safetensors_open(engine, "/no/such", &f), TSR_IO,
                   "/no/such: cannot be opened: No such");
    snprintf(folder, sizeof folder, "%s.fifo", path);
    assert_int_equal(mkfifo(folder, 0600), 0);
    assert_refused(engine, tsr__safetensors_open(engine, folder, &f), TSR_IO, "not a regular file");
}

static const tsr_tensor_info *named(const tsr__safetensors *f, const char *name) {
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void test_valid_oddities(void **state) {
    (void)state;
    static const char header[] =
        " {\"big\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[2,10],\"unknown\":null},"
        "\"half\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]},"
        "\"\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[13,13]},"
        "\"empty at a start\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[2,2]},"
        "\"empty and huge\":{\"dtype\":\"F32\",\"shape\":[9007199254740992,0,9007199254740992],\"data_offsets\":[0,0]},"
        "\"ž\\u0161\":{\"dtype\":\"F6_E3M2\",\"shape\":[4],\"data_offsets\":[10,13]},"
        "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"}}   ";
    char *path = new_path(), padded[sizeof header + 8];
    for (size_t pad = 0; pad < 8; pad++) { /* every alignment of the data */
        tsr__safetensors f = {0};
        size_t length = sizeof header - 1;
        memcpy(padded, header, length);
        memset(padded + length, ' ', pad);
        write_raw(path, padded, length + pad, 13);
        assert_ok(engine, tsr__safetensors_open(engine, path, &f));
        assert_int_equal(f.n, 6);
        assert_int_equal(named(&f, "big")->offset, 8 + length + pad + 2);
        assert_int_equal(named(&f, "big")->size, 8);
        assert_int_equal(named(&f, "half")->ndim, 0);
        assert_int_equal(named(&f, "")->size, 0);
        assert_int_equal(named(&f, "empty at a start")->shape[1], 4);
        assert_int_equal(named(&f, "žš")->dtype, TSR_F6_E3M2);
        assert_string_equal(json_string_value(json_object_get(f.metadata, "format")), "pt");
        tsr__safetensors_close(&f);
        tsr__safetensors_close(&f);
    }
    static const char *const empty[] = {"{}", "{\"__metadata__\":null}", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < TSR__COUNT(empty); i++) {
        tsr__safetensors f = {0};
        write_raw(path, empty[i], strlen(empty[i]), 0);
        assert_ok(engine, tsr__safetensors_open(engine, path, &f));
        assert_int_equal(f.n, 0);
        tsr__safetensors_close(&f);
    }
}

static void test_every_dtype(void **state) {
    (void)state;
    char *path = new_path(), header[256];
    for (int d = 1; d < TSR_DTYPE_COUNT; d++) {
        tsr__safetensors f = {0};
        unsigned bytes = tsr_dtype_bits((tsr_dtype)d); /* of 8 elements */
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%u]}}",
                 tsr_dtype_name((tsr_dtype)d), bytes);
        write_raw(path, header, strlen(header), bytes);
        assert_ok(engine, tsr__safetensors_open(engine, path, &f));
        assert_int_equal(f.tensors[0].dtype, d);
        tsr__safetensors_close(&f);
    }
}

static void test_save(void **state) {
    (void)state;
    float a[3] = {1, 2, 3};
    uint8_t b[5] = "bytes";
    tsr_tensor tensors[] = {
        {"z \"quoted\" ž", TSR_F32, 2, {1, 3}, a}, {"empty", TSR_BF16, 1, {0}, NULL}, {"a", TSR_U8, 1, {5}, b}};
    static const char *const metadata[] = {"format", "pt", "note", "kůň", NULL};
    char *path = new_path();
    size_t n = 0, again = 0;
    assert_ok(engine, tsr_safetensors_save(engine, path, tensors, 3, metadata));
    char *first = test_read_file(path, &n);
    assert_ok(engine, tsr_safetensors_save(engine, path, tensors, 3, metadata));
    char *second = test_read_file(path, &again);
    assert_int_equal(n, again);
    assert_memory_equal(first, second, n);
    tsr__safetensors f = {0};
    assert_ok(engine, tsr__safetensors_open(engine, path, &f));
    const tsr_tensor_info *z = named(&f, "z \"quoted\" ž"), *last = named(&f, "a");
    assert_int_equal(z->offset % 8, 0);
    assert_memory_equal(first + z->offset, a, sizeof a);
    assert_memory_equal(first + last->offset, b, sizeof b);
    assert_int_equal(last->offset, z->offset + sizeof a);
    assert_string_equal(json_string_value(json_object_get(f.metadata, "note")), "kůň");
    tsr__safetensors_close(&f);
    free(first);
    free(second);
    assert_ok(engine, tsr_safetensors_save(engine, path, NULL, 0, NULL));
    assert_ok(engine, tsr__safetensors_open(engine, path, &f));
    tsr__safetensors_close(&f);
}

static void test_save_refused(void **state) {
    (void)state;
    uint8_t data[8] = {0};
    static const struct {
        tsr_tensor tensor;
        const char *words;
    } rows[] = {
        {{"a", TSR_U8, 1, {8}, NULL}, "has no data"},
        {{"twice", TSR_U8, 0, {0}, (void *)"x"}, "'twice' would be saved twice"},
        {{NULL, TSR_U8, 0, {0}, (void *)"x"}, "must have a name"},
        {{"__metadata__", TSR_U8, 0, {0}, (void *)"x"}, "must have a name other than"},
        {{"\xff", TSR_U8, 0, {0}, (void *)"x"}, "not UTF-8"},
        {{"a", TSR_DTYPE_NONE, 0, {0}, (void *)"x"}, "no valid dtype"},
        {{"a", TSR_U8, 1, {-1}, (void *)"x"}, "no valid dtype"},
        {{"a", TSR_F4, 1, {3}, (void *)"x"}, "no valid dtype"},
        {{"a", TSR_U8, 9, {1}, (void *)"x"}, "number of dimensions"},
        {{"a", TSR_F32, 2, {INT64_MAX, INT64_MAX}, (void *)"x"}, "no valid dtype"},
    };
    static const char *const odd[] = {"key", "\xff", NULL};
    char *path = new_path();
    test_write_file(path, "old", 3);
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_tensor both[] = {{"twice", TSR_U8, 1, {8}, data}, rows[i].tensor};
        assert_refused(engine, tsr_safetensors_save(engine, path, both, 2, NULL), TSR_ARG, rows[i].words);
    }
    assert_refused(engine, tsr_safetensors_save(engine, path, NULL, 0, odd), TSR_ARG, "not UTF-8");
    tsr_tensor one = {"a", TSR_U8, 1, {8}, data};
    assert_refused(engine, tsr_safetensors_save(engine, "/dev/full", &one, 1, NULL), TSR_IO, strerror(ENOSPC));
    char *bytes = test_read_file(path, NULL);
    assert_string_equal(bytes, "old");
    free(bytes);
}

static uint32_t random_number(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* 20000 files with some bytes of the header changed: opened or refused, never more. */
static void test_mutations(void **state) {
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[2,"
                                 "3],\"data_offsets\":[0,12]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
                                 "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[0,4],\"data_offsets\":[16,16]},"
                                 "\"d\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[16,24]}}";
    static const char json[] = "{}[]\":,0123456789-.eE\\u \t";
    enum { LENGTH = 8 + sizeof header - 1 };
    char *path = new_path(), bytes[LENGTH];
    write_raw(path, header, sizeof header - 1, 24);
    char *valid = test_read_file(path, NULL);
    int fd = open(path, O_WRONLY), opened = 0;
    uint32_t seed = 20240607;
    for (int i = 0; i < 20000; i++) {
        memcpy(bytes, valid, LENGTH);
        for (uint32_t k = random_number(&seed) % 4 + 1; k > 0; k--) {
            /* the length seldom; bytes that JSON is made of as often as any others */
            uint32_t from = random_number(&seed) % 16 ? 8 : 0, at = from + random_number(&seed) % (LENGTH - from);
            uint32_t byte = random_number(&seed);
            bytes[at] = byte & 256 ? json[byte % (sizeof json - 1)] : (char)(byte & 255);
        }
        assert_int_equal(pwrite(fd, bytes, LENGTH, 0), LENGTH);
        tsr__safetensors f = {0};
        tsr_status status = tsr__safetensors_open(engine, path, &f);
        if (status == TSR_OK)
            opened++;
        else if (status != TSR_FORMAT || !strstr(tsr_engine_message(engine), path))
            fail_msg("mutation %d: %s", i, tsr_engine_message(engine));
        tsr__safetensors_close(&f);
    }
    print_message("%d of 20000 mutations were still valid\n", opened);
    assert_in_range(opened, 1, 19999);
    assert_int_equal(close(fd), 0);
    free(valid);
}

static void test_no_memory(void **state) {
    (void)state;
    uint8_t data[8] = {0};
    tsr_tensor tensor = {"a", TSR_U8, 1, {8}, data};
    char *path = new_path();
    size_t before = tsr_engine_memory_current(engine);
    tsr_status status = TSR_NOMEM;
    for (int k = 0; status != TSR_OK; k++) {
        tsr__safetensors f = {0};
        atomic_store(&engine->allocator.count, 0);
        atomic_store(&engine->allocator.fail_at, k);
        status = tsr_safetensors_save(engine, path, &tensor, 1, NULL);
        if (status == TSR_OK) status = tsr__safetensors_open(engine, path, &f);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_true(status == TSR_OK || status == TSR_NOMEM);
        tsr__safetensors_close(&f);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_valid_oddities),
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_save_refused),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
