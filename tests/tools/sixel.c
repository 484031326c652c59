/* tessera-sixel IN OUT.png: the sixel graphics in what was written to a terminal, as a picture. Fails unless IN has
 * just one, which fills its raster attributes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/png.h"

typedef struct canvas {
    const char *at; /* not read yet */
    long width, height;
    uint8_t *rgb;      /* [height, width, 3] */
    bool *set;         /* [height, width] */
    int palette[1024]; /* 0xrrggbb */
    long x, y, colour;
} canvas;

static void refuse(const char *why) {
    fprintf(stderr, "tessera-sixel: %s\n", why);
    exit(1);
}

/* Numbers with semicolons between them; returns how many. */
static int read_numbers(canvas *c, long *out, int most) {
    int n = 0;
    for (char *end; n < most; n++) {
        out[n] = strtol(c->at, &end, 10);
        if (end == c->at) return n;
        c->at = end + (*end == ';');
    }
    return n;
}

static void paint(canvas *c, long repeat, int sixel) {
    for (; repeat-- > 0; c->x++)
        for (int bit = 0; bit < 6; bit++) {
            if (!(sixel >> bit & 1)) continue;
            long y = c->y + bit;
            if (c->x >= c->width || y >= c->height) refuse("a pixel outside of the raster attributes");
            for (int k = 0; k < 3; k++)
                c->rgb[3 * (y * c->width + c->x) + k] = (uint8_t)(c->palette[c->colour] >> (16 - 8 * k));
            c->set[y * c->width + c->x] = true;
        }
}

static void choose_colour(canvas *c) {
    long n[5];
    int count = read_numbers(c, n, 5);
    if (count < 1 || n[0] < 0 || n[0] > 255) refuse("a colour that is not among 256");
    c->colour = n[0];
    if (count != 5) return;
    if (n[1] != 2) refuse("a colour that is not red, green, blue");
    c->palette[n[0]] = 0;
    for (int k = 0; k < 3; k++) c->palette[n[0]] = c->palette[n[0]] << 8 | (int)((n[2 + k] * 255 + 50) / 100);
}

static void read_data(canvas *c) {
    long repeat = 1;
    while (*c->at && *c->at != '\033') {
        char letter = *c->at++;
        if (letter == '#') {
            choose_colour(c);
        } else if (letter == '!') {
            read_numbers(c, &repeat, 1);
        } else if (letter == '$' || letter == '-') {
            c->x = 0;
            c->y += letter == '-' ? 6 : 0;
        } else if (letter >= '?' && letter <= '~') {
            paint(c, repeat, letter - '?');
            repeat = 1;
        } else {
            refuse("a letter that sixel graphics do not have");
        }
    }
    if (strncmp(c->at, "\033\\", 2) != 0) refuse("no end");
}

static void read_picture(canvas *c) {
    long raster[4];
    c->at += strcspn(c->at, "q") + 1; /* behind ESC P, parameters, q */
    if (*c->at++ != '"' || read_numbers(c, raster, 4) != 4) refuse("no raster attributes");
    c->width = raster[2];
    c->height = raster[3];
    if (c->width < 1 || c->height < 1 || c->width > 4096 || c->height > 4096) refuse("a size that cannot be");
    c->rgb = calloc((size_t)(c->width * c->height), 3);
    c->set = calloc((size_t)(c->width * c->height), 1);
    read_data(c);
    for (long i = 0; i < c->width * c->height; i++)
        if (!c->set[i]) refuse("a pixel that is not set");
}

int main(int argc, char **argv) {
    canvas c = {0};
    tsr_engine *engine = NULL;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    char *text = NULL;
    size_t n = 0;
    options.device = "ref";
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!in || getdelim(&text, &n, '\0', in) < 0 || tsr_engine_create(&options, &engine) != TSR_OK) return 2;
    c.at = strstr(text, "\033P");
    if (!c.at) refuse("no sixel graphics");
    read_picture(&c);
    if (strstr(c.at, "\033P")) refuse("more than one");
    tsr_status status = tsr__png_write(engine, argv[2], c.rgb, c.width, c.height, NULL);
    tsr_engine_destroy(engine);
    free(c.rgb);
    free(c.set);
    free(text);
    fclose(in);
    return status != TSR_OK;
}
