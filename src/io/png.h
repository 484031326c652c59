/* 8-bit RGB pictures as PNG files (libspng). */
#ifndef TSR_IO_PNG_H
#define TSR_IO_PNG_H

#include "base/engine.h"

enum { TSR__PNG_MAX_SIDE = 65536 };

/* Writes rgb [height, width, 3] without alpha or colour space; `text` is key, value, ..., NULL, or NULL: tEXt chunks
 * where the value is printable ASCII, else iTXt; none for an empty value. Appears complete or not at all (tsr__output).
 * Errors: ARG (size not from 1 to 65536; a key that is not 1 to 79 printable ASCII characters, or has blanks at its
 * ends; a value that is not UTF-8), IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__png_write(tsr_engine *engine, const char *path, const uint8_t *rgb, int64_t width,
                                        int64_t height, const char *const *text);
/* The bytes of such a file: *out [*n]. Owner: the caller (tsr__free). Errors: ARG as above, IO, NOMEM. */
TSR_NODISCARD tsr_status tsr__png_encode(tsr_engine *engine, const uint8_t *rgb, int64_t width, int64_t height,
                                         const char *const *text, char **out, size_t *n);
/* Reads any PNG as *rgb [*height, *width, 3]. Owner: the caller (tsr__free). Errors: IO, FORMAT, NOMEM. */
TSR_NODISCARD tsr_status tsr__png_read(tsr_engine *engine, const char *path, uint8_t **rgb, int64_t *width,
                                       int64_t *height);

#endif
