/* The preview on a terminal: how it is scaled, and how it is written. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cli/preview.h"

static void test_base64(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}}; /* RFC 4648, 10 */
    for (size_t i = 0; i < TSR__COUNT(pairs); i++) {
        char *text = cli_base64(pairs[i][0], strlen(pairs[i][0]));
        assert_string_equal(text, pairs[i][1]);
        free(text);
    }
    char *text = cli_base64("\xff\xfe\xfb\xef\xbe", 5);
    assert_string_equal(text, "//77774=");
    free(text);
}

static void test_answers(void **state) {
    (void)state;
    static const char *const yes[] = {"\033[?62;4c", "\033[?63;1;2;4;6;9;15;22c", "x\033[?65;4;6c"};
    static const char *const no[] = {"", "\033[?62;c", "\033[?6c", "\033[?4;6c", "\033[?64;1;9;14;24;44c", "62;4c"};
    for (size_t i = 0; i < TSR__COUNT(yes); i++) assert_true(cli_answer_names_sixel(yes[i]));
    for (size_t i = 0; i < TSR__COUNT(no); i++) assert_false(cli_answer_names_sixel(no[i]));
}

/* The text without the palette. */
static char *sixels(int64_t width, int64_t height, uint8_t *rgb) {
    const cli_bitmap picture = {width, height, rgb};
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    cli_write_sixel(out, &picture);
    fclose(out);
    char *last = strstr(text, "#215;2;100;100;100");
    assert_non_null(last);
    last += strlen("#215;2;100;100;100");
    memmove(strchr(text, '#'), last, strlen(last) + 1);
    return text;
}

static void test_sixel(void **state) {
    (void)state;
    uint8_t red[3] = {255, 0, 0}, column[7 * 3] = {0}, row[9 * 3] = {0};
    char *text = sixels(1, 1, red);
    assert_string_equal(text, "\033P0;1q\"1;1;1;1#180@\033\\");
    free(text);
    memset(column + 3, 255, 3); /* black but for the second pixel; the seventh begins another band */
    text = sixels(1, 7, column);
    assert_string_equal(text, "\033P0;1q\"1;1;1;7#0|$#215A-#0@\033\\");
    free(text);
    for (size_t i = 2; i < 7; i++) memcpy(row + 3 * i, (uint8_t[]){0, 51, 204}, 3);
    text = sixels(9, 1, row);
    assert_string_equal(text, "\033P0;1q\"1;1;9;1#0@@!5?@@$#10?\?!5@\033\\");
    free(text);
}

/* Between two levels: as many pixels of either as give the colour. */
static void test_dither(void **state) {
    (void)state;
    uint8_t grey[4 * 4 * 3];
    memset(grey, 51 + 13, sizeof grey); /* a quarter of the way from level 1 to level 2 */
    char *text = sixels(4, 4, grey), *at = strstr(text, "#86");
    int n = 0;
    assert_non_null(strstr(text, "#43"));
    assert_non_null(at);
    for (at += 3; *at >= '?' && *at <= '~'; at++)
        for (int bits = *at - '?'; bits; bits &= bits - 1) n++;
    assert_int_equal(n, 4);
    free(text);
}

static tsr_images pictures(size_t n, int64_t height, int64_t width, uint8_t *rgb) {
    return (tsr_images){.n = n, .height = height, .width = width, .pixels = rgb};
}

static cli_bitmap grid_of(const tsr_images *images) { return cli_grid(images, images->n, images->n == 1 ? 256 : 192); }

static void test_sizes(void **state) {
    (void)state;
    static const int64_t cases[][5] = {/* n, height, width, of the grid: height, width */
                                       {1, 64, 64, 256, 256},   {1, 256, 256, 256, 256}, {1, 1024, 512, 256, 128},
                                       {1, 100, 60, 200, 120},  {1, 257, 256, 256, 255}, {1, 16, 8192, 1, 256},
                                       {2, 64, 64, 192, 392},   {3, 128, 64, 264, 136},  {4, 256, 256, 392, 392},
                                       {5, 512, 256, 392, 304}, {6, 64, 64, 392, 592},   {9, 64, 64, 592, 592}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        const int64_t *c = cases[i];
        uint8_t *rgb = calloc((size_t)(c[0] * c[1] * c[2]), 3);
        tsr_images images = pictures((size_t)c[0], c[1], c[2], rgb);
        cli_bitmap grid = grid_of(&images);
        assert_int_equal(grid.height, c[3]);
        assert_int_equal(grid.width, c[4]);
        free(grid.rgb);
        free(rgb);
    }
}

static void test_mean_and_copies(void **state) {
    (void)state;
    uint8_t *large = calloc(512 * 512, 3), two[6] = {10, 20, 30, 40, 50, 60};
    for (size_t i = 0; i < 512 * 512; i++) large[3 * i] = i % 2 ? 200 : 101; /* columns, finer than the preview */
    tsr_images images = pictures(1, 512, 512, large);
    cli_bitmap grid = grid_of(&images);
    for (size_t i = 0; i < 256 * 256; i++) {
        assert_int_equal(grid.rgb[3 * i], 151); /* 150.5 */
        assert_int_equal(grid.rgb[3 * i + 1], 0);
    }
    free(grid.rgb);
    free(large);
    images = pictures(1, 1, 2, two);
    grid = grid_of(&images);
    assert_int_equal(grid.width, 256);
    assert_int_equal(grid.height, 128);
    for (size_t i = 0; i < 128 * 256; i++) assert_memory_equal(grid.rgb + 3 * i, two + (i % 256 < 128 ? 0 : 3), 3);
    free(grid.rgb);
}

/* Each of several is at its own place. */
static void test_grid(void **state) {
    (void)state;
    uint8_t rgb[6 * 3];
    for (int i = 0; i < 6; i++) memset(rgb + 3 * i, 40 * (i + 1), 3);
    tsr_images images = pictures(6, 1, 1, rgb);
    cli_bitmap grid = grid_of(&images);
    for (int64_t i = 0; i < 6; i++) {
        int64_t top = i / 3 * 200, left = i % 3 * 200;
        assert_memory_equal(grid.rgb + 3 * (top * grid.width + left), rgb + 3 * i, 3);
        assert_memory_equal(grid.rgb + 3 * ((top + 191) * grid.width + left + 191), rgb + 3 * i, 3);
    }
    assert_int_equal(grid.rgb[3 * 192], 0);
    free(grid.rgb);
}

static void test_kitty_chunks(void **state) {
    (void)state;
    static const size_t sizes[] = {3, 3072, 3073, 9000};
    for (size_t i = 0; i < TSR__COUNT(sizes); i++) {
        char *bytes = calloc(sizes[i], 1), *text = NULL;
        size_t n = 0, chunks = 0, letters = 0;
        FILE *out = open_memstream(&text, &n);
        cli_write_kitty(out, bytes, sizes[i]);
        fclose(out);
        assert_int_equal(strncmp(text, "\033_Ga=T,f=100,q=2,m=", 19), 0);
        for (char *at = text; *at; chunks++) {
            char *data = strchr(at, ';') + 1, *end = strstr(data, "\033\\");
            assert_true(end - data <= 4096);
            assert_int_equal(data[-2], end[2] ? '1' : '0');
            letters += (size_t)(end - data);
            at = end + 2;
        }
        assert_int_equal(letters, (sizes[i] + 2) / 3 * 4);
        assert_int_equal(chunks, (letters + 4095) / 4096);
        free(bytes);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64), cmocka_unit_test(test_answers),      cmocka_unit_test(test_sixel),
        cmocka_unit_test(test_dither), cmocka_unit_test(test_sizes),        cmocka_unit_test(test_mean_and_copies),
        cmocka_unit_test(test_grid),   cmocka_unit_test(test_kitty_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
