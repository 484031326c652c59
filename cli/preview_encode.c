/* Pictures as terminals take them. Sources: the terminal graphics protocol (kitty's documentation), inline images
 * (iTerm2's), sixel graphics (DEC's manual of the VT330/VT340, chapter 14). */
#include "preview.h"

#include <stdlib.h>
#include <string.h>

char *cli_base64(const void *bytes, size_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    char *text = cli_alloc((n + 2) / 3 * 4 + 1, 1), *out = text;
    for (size_t i = 0; i < n; i += 3, out += 4) {
        size_t left = n - i;
        unsigned group = (unsigned)in[i] << 16 | (left > 1 ? in[i + 1] : 0u) << 8 | (left > 2 ? in[i + 2] : 0u);
        for (int k = 0; k < 4; k++) out[k] = letters[group >> (18 - 6 * k) & 63];
        if (left < 2) out[2] = '=';
        if (left < 3) out[3] = '=';
    }
    return text;
}

void cli_write_kitty(FILE *out, const void *png, size_t n) {
    enum { CHUNK = 4096 }; /* the most that a terminal need take at once */
    char *text = cli_base64(png, n);
    size_t length = strlen(text);
    for (size_t at = 0; at < length; at += CHUNK) {
        bool first = at == 0, more = length - at > CHUNK;
        /* Transmit and display a PNG; q=2: no answer, which would be typed into the shell. */
        fprintf(out, "\033_G%sq=2,m=%d;%.*s\033\\", first ? "a=T,f=100," : "", more, CHUNK, text + at);
    }
    free(text);
}

void cli_write_iterm2(FILE *out, const void *png, size_t n, const cli_bitmap *size) {
    char *text = cli_base64(png, n);
    fprintf(out, "\033]1337;File=inline=1;size=%zu;width=%lldpx;height=%lldpx:%s\a", n, (long long)size->width,
            (long long)size->height, text);
    free(text);
}

enum { LEVELS = 6, STEP = 51, N_COLOURS = LEVELS * LEVELS * LEVELS, BAND = 6 }; /* 255 = 5 steps */

/* Ordered dithering with a Bayer matrix: what lies between two levels becomes a pattern of both. A pixel's colour then
 * depends on nothing but the pixel, and flat parts keep their runs. */
static unsigned char nearest_colour(const uint8_t *rgb, int64_t y, int64_t x) {
    static const int bayer[4][4] = {{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}};
    int threshold = STEP * (2 * bayer[y % 4][x % 4] + 1) / 32, colour = 0;
    for (int c = 0; c < 3; c++) colour = colour * LEVELS + (rgb[c] + threshold) / STEP;
    return (unsigned char)colour;
}

static void write_palette(FILE *out) {
    for (int i = 0; i < N_COLOURS; i++) /* in percent */
        fprintf(out, "#%d;2;%d;%d;%d", i, i / (LEVELS * LEVELS) * 20, i / LEVELS % LEVELS * 20, i % LEVELS * 20);
}

static void write_run(FILE *out, int64_t n, int sixel) {
    if (n > 3)
        fprintf(out, "!%lld%c", (long long)n, '?' + sixel);
    else
        while (n-- > 0) fputc('?' + sixel, out);
}

/* One colour of a band, colours [rows, width]: a letter for each column, whose bits are the rows from the top. */
static void write_colour(FILE *out, const unsigned char *colours, int64_t rows, int64_t width, int colour) {
    int64_t run = 0;
    int last = 0;
    fprintf(out, "#%d", colour);
    for (int64_t x = 0; x < width; x++) {
        int sixel = 0;
        for (int64_t y = 0; y < rows; y++) sixel |= (colours[y * width + x] == colour) << y;
        if (sixel != last) {
            write_run(out, run, last);
            run = 0;
        }
        last = sixel;
        run++;
    }
    if (last) write_run(out, run, last);
}

static void write_band(FILE *out, const unsigned char *colours, int64_t rows, int64_t width) {
    bool used[N_COLOURS] = {false}, first = true;
    for (int64_t i = 0; i < rows * width; i++) used[colours[i]] = true;
    for (int colour = 0; colour < N_COLOURS; colour++) {
        if (!used[colour]) continue;
        if (!first) fputc('$', out); /* back to the start of the band */
        first = false;
        write_colour(out, colours, rows, width, colour);
    }
}

void cli_write_sixel(FILE *out, const cli_bitmap *picture) {
    int64_t width = picture->width, height = picture->height;
    unsigned char *colours = cli_alloc((size_t)(width * height), 1);
    for (int64_t i = 0; i < width * height; i++)
        colours[i] = nearest_colour(picture->rgb + 3 * i, i / width, i % width);
    fprintf(out, "\033P0;1q\"1;1;%lld;%lld", (long long)width, (long long)height); /* square pixels */
    write_palette(out);
    for (int64_t y = 0; y < height; y += BAND) {
        if (y) fputc('-', out);
        write_band(out, colours + y * width, height - y < BAND ? height - y : BAND, width);
    }
    fputs("\033\\", out);
    free(colours);
}
