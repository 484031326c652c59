/* The pictures drawn, small, on the terminal. */
#include "preview.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PICTURES = 6, MAX_COLUMNS = 3, GAP = 8 };

/* Longest side: three of several, with gaps, still fit 80 columns of 8 pixels. */
static int64_t longest_side(size_t n) { return n == 1 ? 256 : 192; }

/* Height and width of a picture in the sheet; enlarged by whole factors alone, so that its pixels stay square. */
static void fit(int64_t height, int64_t width, int64_t longest, int64_t out[2]) {
    int64_t side = height > width ? height : width, times = longest, by = side;
    if (side <= longest) {
        times = longest / side;
        by = 1;
    }
    out[0] = height * times >= by ? height * times / by : 1;
    out[1] = width * times >= by ? width * times / by : 1;
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

cli_bitmap cli_preview_sheet(const tsr_images *images) {
    int64_t n = images->n < MAX_PICTURES ? (int64_t)images->n : MAX_PICTURES, size[2];
    int64_t columns = n == 4 ? 2 : n < MAX_COLUMNS ? n : MAX_COLUMNS, rows = (n + columns - 1) / columns;
    fit(images->height, images->width, longest_side(images->n), size);
    cli_bitmap sheet = {columns * (size[1] + GAP) - GAP, rows * (size[0] + GAP) - GAP, NULL};
    sheet.rgb = cli_alloc((size_t)(sheet.width * sheet.height), 3);
    for (int64_t i = 0; i < n; i++) {
        int64_t top = i / columns * (size[0] + GAP), left = i % columns * (size[1] + GAP);
        scale(images->pixels + 3 * i * images->height * images->width, images, size,
              sheet.rgb + 3 * (top * sheet.width + left), sheet.width);
    }
    return sheet;
}

static tsr_status write_png(tsr_engine *engine, cli_graphics graphics, const cli_bitmap *sheet, FILE *out) {
    tsr_images one = {.n = 1, .height = sheet->height, .width = sheet->width, .pixels = sheet->rgb};
    char *png = NULL;
    size_t n = 0;
    tsr_status status = tsr_images_encode(engine, &one, 0, NULL, &png, &n);
    if (status != TSR_OK) return status;
    if (graphics == CLI_KITTY)
        cli_write_kitty(out, png, n);
    else
        cli_write_iterm2(out, png, n, sheet);
    tsr_free(engine, png);
    return TSR_OK;
}

/* Collected first: stderr has no buffer, and one call keeps the progress thread out. Where memory is short there is no
 * preview: the pictures are saved. */
static void show(cli_session *session, cli_graphics graphics, const tsr_images *images) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return;
    cli_bitmap sheet = cli_preview_sheet(images);
    tsr_status status = TSR_OK;
    if (graphics == CLI_SIXEL)
        cli_write_sixel(out, &sheet);
    else
        status = write_png(session->engine, graphics, &sheet, out);
    fputc('\n', out);
    if (fclose(out) == 0 && status == TSR_OK) fwrite(text, 1, n, stderr);
    free(sheet.rgb);
    free(text);
}

void cli_preview(cli_session *session, const tsr_images *images) {
    const cli_options *o = session->options;
    if (session->quiet || o->no_show) return;
    cli_graphics graphics = cli_terminal_graphics();
    if (graphics != CLI_NO_GRAPHICS)
        show(session, graphics, images);
    else if (o->show)
        cli_progress_log(
            session->progress, TSR_LOG_WARNING,
            "--show: no preview, as stderr is not the foreground of a terminal that shows pictures; kitty, Ghostty, "
            "iTerm2, WezTerm and those with sixel graphics (foot, mlterm, Konsole, xterm -ti vt340) show them");
}
