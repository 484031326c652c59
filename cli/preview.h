/* A small picture on the terminal: what it understands, and how that is written. */
#ifndef CLI_PREVIEW_H
#define CLI_PREVIEW_H

#include "grid.h"

typedef enum cli_graphics { CLI_NO_GRAPHICS, CLI_KITTY, CLI_ITERM2, CLI_SIXEL } cli_graphics;

/* Shows the pictures on stderr, the first six of many: where it is a terminal that can, and neither --no-show nor
 * --quiet forbids it. With --show: says so where it cannot. */
void cli_preview(cli_session *session, const tsr_images *images);

/* ---- preview_terminal.c ---- */

/* What the terminal at stderr understands; of one that the environment does not tell, it is asked. None where stderr is
 * no terminal, or another job has it. */
cli_graphics cli_terminal_graphics(void);
/* Does this answer to DA1 ("\033[?62;4c") name attribute 4, sixel graphics? */
bool cli_answer_names_sixel(const char *answer);

/* ---- preview_encode.c ---- */

/* RFC 4648, padded. free(3). */
char *cli_base64(const void *bytes, size_t n);
/* A PNG file, as the protocol of kitty and that of iTerm2 wrap it. */
void cli_write_kitty(FILE *out, const void *png, size_t n);
void cli_write_iterm2(FILE *out, const void *png, size_t n, const cli_bitmap *size);
/* Sixels, in the 216 colours that have six levels of red, green and blue. */
void cli_write_sixel(FILE *out, const cli_bitmap *picture);

#endif
