/* Several pictures as one. */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include "cli.h"

/* 8-bit RGB. */
typedef struct cli_bitmap {
    int64_t width, height;
    uint8_t *rgb; /* [height, width, 3], free(3) */
} cli_bitmap;

enum { CLI_GRID_SIDE = 192 }; /* three fit a terminal of 80 columns of 8 pixels */

/* The first n >= 1 pictures, in as many rows as columns, or one row less. Each is at most `longest` pixels long: larger
 * ones are averaged, smaller ones enlarged by a whole factor as far as that allows. */
cli_bitmap cli_grid(const tsr_images *images, size_t n, int64_t longest);
/* All of them in a PNG file, none smaller than it is. Errors: those of tsr_images_save. */
tsr_status cli_grid_save(tsr_engine *engine, const tsr_images *images, const char *path);

#endif
