/* The pictures drawn, small, on the terminal. */
#include "preview.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PICTURES = 6, SIDE = 256 };

static tsr_status write_png(tsr_engine *engine, cli_graphics graphics, const cli_bitmap *grid, FILE *out) {
    tsr_images one = {.n = 1, .height = grid->height, .width = grid->width, .pixels = grid->rgb};
    char *png = NULL;
    size_t n = 0;
    tsr_status status = tsr_images_encode(engine, &one, 0, NULL, &png, &n);
    if (status != TSR_OK) return status;
    if (graphics == CLI_KITTY)
        cli_write_kitty(out, png, n);
    else
        cli_write_iterm2(out, png, n, grid);
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
    bool one = images->n == 1;
    cli_bitmap grid = cli_grid(images, images->n < MAX_PICTURES ? images->n : MAX_PICTURES, one ? SIDE : CLI_GRID_SIDE);
    tsr_status status = TSR_OK;
    if (graphics == CLI_SIXEL)
        cli_write_sixel(out, &grid);
    else
        status = write_png(session->engine, graphics, &grid, out);
    fputc('\n', out);
    if (fclose(out) == 0 && status == TSR_OK) fwrite(text, 1, n, stderr);
    free(grid.rgb);
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
