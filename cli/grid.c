/* Several pictures as one. */
#include "grid.h"

#include <math.h>
#include <stdlib.h>

enum { GAP = 8 };

static int64_t longer_side(const tsr_images *images) {
    return images->height > images->width ? images->height : images->width;
}

/* Height and width of a picture in the grid; enlarged by whole factors alone, so that its pixels stay square. */
static void fit(const tsr_images *images, int64_t longest, int64_t out[2]) {
    int64_t side = longer_side(images), times = longest, by = side;
    if (side <= longest) {
        times = longest / side;
        by = 1;
    }
    out[0] = images->height * times >= by ? images->height * times / by : 1;
    out[1] = images->width * times >= by ? images->width * times / by : 1;
}

/* The mean of rows y0 to y1 and columns x0 to x1 of a picture `width` wide. */
static void average_box(const uint8_t *rgb, int64_t width, const int64_t y[2], const int64_t x[2], uint8_t out[3]) {
    uint64_t sum[3] = {0}, n = (uint64_t)((y[1] - y[0]) * (x[1] - x[0]));
    for (int64_t row = y[0]; row < y[1]; row++)
        for (int64_t i = 3 * (row * width + x[0]); i < 3 * (row * width + x[1]); i++) sum[i % 3] += rgb[i];
    for (int c = 0; c < 3; c++) out[c] = (uint8_t)((sum[c] + n / 2) / n);
}

/* Where pixel i of `to` lies in `from` pixels: at least one of them, so this also repeats pixels. */
static void find_box(int64_t i, int64_t from, int64_t to, int64_t out[2]) {
    out[0] = i * from / to;
    out[1] = (i + 1) * from / to > out[0] ? (i + 1) * from / to : out[0] + 1;
}

static void scale(const uint8_t *rgb, const tsr_images *images, const int64_t size[2], uint8_t *out, int64_t stride) {
    int64_t y[2], x[2];
    for (int64_t row = 0; row < size[0]; row++)
        for (int64_t column = 0; column < size[1]; column++) {
            find_box(row, images->height, size[0], y);
            find_box(column, images->width, size[1], x);
            average_box(rgb, images->width, y, x, out + 3 * (row * stride + column));
        }
}

cli_bitmap cli_grid(const tsr_images *images, size_t n, int64_t longest) {
    int64_t columns = (int64_t)ceil(sqrt((double)n)), rows = ((int64_t)n + columns - 1) / columns, size[2];
    fit(images, longest, size);
    cli_bitmap grid = {columns * (size[1] + GAP) - GAP, rows * (size[0] + GAP) - GAP, NULL};
    grid.rgb = cli_alloc((size_t)(grid.width * grid.height), 3);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        int64_t top = i / columns * (size[0] + GAP), left = i % columns * (size[1] + GAP);
        scale(images->pixels + 3 * i * images->height * images->width, images, size,
              grid.rgb + 3 * (top * grid.width + left), grid.width);
    }
    return grid;
}

tsr_status cli_grid_save(tsr_engine *engine, const tsr_images *images, const char *path) {
    int64_t side = longer_side(images);
    cli_bitmap grid = cli_grid(images, images->n, side > CLI_GRID_SIDE ? side : CLI_GRID_SIDE);
    tsr_images one = {.n = 1, .height = grid.height, .width = grid.width, .pixels = grid.rgb};
    tsr_status status = tsr_images_save(engine, &one, 0, path, NULL);
    free(grid.rgb);
    return status;
}
