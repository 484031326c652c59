/* PNG files: pixels and texts survive, errors are reported. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spng.h>

#include "io/file.h"
#include "io/png.h"

static tsr_engine *engine;

static char *out_path(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/out.png", test_folder());
    return path;
}

static uint8_t *noise(size_t n) {
    uint8_t *bytes = malloc(n);
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    return bytes;
}

static void test_round_trip(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 2}, {64, 48}, {1, 300}, {65536, 1}};
    for (size_t i = 0; i < TSR__COUNT(sizes); i++) {
        int64_t w = sizes[i][0], h = sizes[i][1], width = 0, height = 0;
        uint8_t *rgb = noise((size_t)(w * h * 3)), *back = NULL;
        char *path = out_path();
        assert_ok(engine, tsr__png_write(engine, path, rgb, w, h, NULL));
        assert_ok(engine, tsr__png_read(engine, path, &back, &width, &height));
        assert_int_equal(width, w);
        assert_int_equal(height, h);
        assert_memory_equal(back, rgb, (size_t)(w * h * 3));
        tsr__free(engine, back);
        free(rgb);
    }
}

static void test_encode_is_the_file(void **state) {
    (void)state;
    static const char *const text[] = {"prompt", "a cat", NULL};
    uint8_t *rgb = noise(48 * 20 * 3);
    char *png = NULL, *path = out_path();
    size_t n = 0, m = 0;
    assert_ok(engine, tsr__png_write(engine, path, rgb, 48, 20, text));
    assert_ok(engine, tsr__png_encode(engine, rgb, 48, 20, text, &png, &n));
    char *file = test_read_file(path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(png, file, n);
    assert_refused(engine, tsr__png_encode(engine, rgb, 0, 1, NULL, &png, &n), TSR_ARG, "0 x 1");
    tsr__free(engine, png);
    free(file);
    free(rgb);
}

static void test_text(void **state) {
    (void)state;
    static const char *const text[] = {"prompt",   "a cat\nand \"%s\" {}",
                                       "Comment",  "kočka a kůň 猫",
                                       "tab",      "a\tb",
                                       "Software", "Tessera",
                                       "negative", "",
                                       NULL};
    static const int types[] = {SPNG_TEXT, SPNG_ITXT, SPNG_ITXT, SPNG_TEXT};
    uint8_t rgb[12] = {0};
    char *path = out_path();
    size_t n = 0;
    assert_ok(engine, tsr__png_write(engine, path, rgb, 2, 2, text));
    char *bytes = test_read_file(path, &n);
    spng_ctx *ctx = spng_ctx_new(0);
    struct spng_text found[8];
    struct spng_ihdr header;
    uint32_t count = 0;
    assert_int_equal(spng_set_png_buffer(ctx, bytes, n), 0);
    assert_int_equal(spng_get_ihdr(ctx, &header), 0);
    assert_int_equal(header.bit_depth, 8);
    assert_int_equal(header.color_type, SPNG_COLOR_TYPE_TRUECOLOR);
    assert_int_equal(spng_get_text(ctx, NULL, &count), 0);
    assert_int_equal(count, TSR__COUNT(types));
    assert_int_equal(spng_get_text(ctx, found, &count), 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(found[i].keyword, text[2 * i]);
        assert_int_equal(found[i].length, strlen(text[2 * i + 1]));
        assert_memory_equal(found[i].text, text[2 * i + 1], found[i].length);
        assert_int_equal(found[i].type, types[i]);
    }
    uint8_t intent;
    double gamma;
    assert_int_equal(spng_get_gama(ctx, &gamma), SPNG_ECHUNKAVAIL);
    assert_int_equal(spng_get_srgb(ctx, &intent), SPNG_ECHUNKAVAIL);
    spng_ctx_free(ctx);
    free(bytes);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad_key[] = {"", "x", NULL}, *const blank_key[] = {" a", "x", NULL},
                             *const odd_key[] = {"k\xc3\xbc", "x", NULL}, *const odd_value[] = {"key", "\xff", NULL};
    uint8_t rgb[3] = {0}, *back = NULL;
    int64_t w = 0, h = 0;
    char *path = out_path();
    assert_refused(engine, tsr__png_write(engine, path, rgb, 0, 1, NULL), TSR_ARG, "0 x 1");
    assert_refused(engine, tsr__png_write(engine, path, rgb, 1, 65537, NULL), TSR_ARG, "1 x 65537");
    assert_refused(engine, tsr__png_write(engine, path, rgb, 1, 1, bad_key), TSR_ARG, "key");
    assert_refused(engine, tsr__png_write(engine, path, rgb, 1, 1, blank_key), TSR_ARG, "key");
    assert_refused(engine, tsr__png_write(engine, path, rgb, 1, 1, odd_key), TSR_ARG, "key");
    assert_refused(engine, tsr__png_write(engine, path, rgb, 1, 1, odd_value), TSR_ARG, "UTF-8");
    assert_refused(engine, tsr__png_write(engine, "/dev/full", rgb, 1, 1, NULL), TSR_IO, strerror(ENOSPC));
    assert_refused(engine, tsr__png_write(engine, "/no/such/out.png", rgb, 1, 1, NULL), TSR_IO, strerror(ENOENT));
    assert_false(tsr__path_exists(path));
    test_write_file(path, "no picture", 10);
    assert_refused(engine, tsr__png_read(engine, path, &back, &w, &h), TSR_FORMAT, path);
    test_write_file(path, "", 0);
    assert_refused(engine, tsr__png_read(engine, path, &back, &w, &h), TSR_FORMAT, path);
}

static void test_cut_and_no_memory(void **state) {
    (void)state;
    uint8_t *rgb = noise(48 * 48 * 3), *back = NULL;
    int64_t w = 0, h = 0;
    char *path = out_path();
    size_t n = 0;
    static const char *const text[] = {"key", "value", NULL};
    assert_ok(engine, tsr__png_write(engine, path, rgb, 48, 48, text));
    char *bytes = test_read_file(path, &n);
    test_write_file(path, bytes, n / 2);
    size_t before = tsr_engine_memory_current(engine);
    assert_refused(engine, tsr__png_read(engine, path, &back, &w, &h), TSR_FORMAT, path);
    tsr_status status = TSR_NOMEM;
    for (int k = 0; status != TSR_OK; k++) {
        atomic_store(&engine->allocator.count, 0);
        atomic_store(&engine->allocator.fail_at, k);
        status = tsr__png_write(engine, path, rgb, 48, 48, text);
        if (status == TSR_OK) status = tsr__png_read(engine, path, &back, &w, &h);
        char *png = NULL;
        if (status == TSR_OK) {
            status = tsr__png_encode(engine, rgb, 48, 48, text, &png, &n);
            if (status != TSR_OK) tsr__free(engine, back);
        }
        if (status == TSR_OK) tsr__free(engine, png);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_true(status == TSR_OK || status == TSR_NOMEM);
        if (status == TSR_OK) tsr__free(engine, back);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
    free(bytes);
    free(rgb);
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_encode_is_the_file), cmocka_unit_test(test_text),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_cut_and_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
