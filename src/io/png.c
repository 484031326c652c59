#include "io/png.h"

#include <jansson.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

static const size_t max_png_bytes = (size_t)1 << 30;

static tsr_status fail_spng(tsr_engine *engine, const char *path, tsr_status status, int error) {
    if (error == SPNG_EMEM) status = TSR_NOMEM;
    return tsr__fail(engine, status, "%s: PNG: %s", path, spng_strerror(error));
}

static bool printable(const char *text, char also) {
    for (; *text; text++)
        if ((*text < 32 || *text > 126) && *text != also) return false;
    return true;
}

static bool valid_key(const char *key) {
    size_t length = strlen(key);
    return length >= 1 && length <= 79 && printable(key, ' ') && key[0] != ' ' && key[length - 1] != ' ';
}

static bool valid_utf8(const char *text) {
    json_t *string = json_string(text); /* jansson refuses what is not UTF-8 */
    json_decref(string);
    return string != NULL;
}

/* spng takes char * but writes to none of them. */
static tsr_status fill_chunk(tsr_engine *engine, const char *key, const char *value, struct spng_text *chunk) {
    if (!valid_key(key))
        return tsr__fail(engine, TSR_ARG, "PNG text key '%.80s' must be 1 to 79 printable ASCII characters", key);
    if (!valid_utf8(value)) return tsr__fail(engine, TSR_ARG, "the PNG text '%.80s' is not UTF-8", key);
    strcpy(chunk->keyword, key);
    chunk->type = printable(value, '\n') ? SPNG_TEXT : SPNG_ITXT;
    chunk->text = (char *)value;
    chunk->length = strlen(value);
    chunk->language_tag = chunk->translated_keyword = (char *)value + chunk->length; /* "" */
    return TSR_OK;
}

static tsr_status set_text(tsr_engine *engine, const char *path, spng_ctx *ctx, const char *const *text) {
    uint32_t n = 0;
    while (text && text[2 * n]) n++;
    if (n == 0) return TSR_OK;
    struct spng_text *chunks = tsr__calloc(engine, n, sizeof *chunks);
    tsr_status status = chunks ? TSR_OK : TSR_NOMEM;
    uint32_t used = 0;
    for (uint32_t i = 0; i < n && status == TSR_OK; i++)
        if (*text[2 * i + 1]) status = fill_chunk(engine, text[2 * i], text[2 * i + 1], &chunks[used++]);
    int error =
        status == TSR_OK && used ? spng_set_text(ctx, chunks, used) : SPNG_OK; /* copies the array, not the texts */
    tsr__free(engine, chunks);
    return error ? fail_spng(engine, path, TSR_IO, error) : status;
}

static tsr_status check_size(tsr_engine *engine, const char *path, int64_t width, int64_t height) {
    if (width >= 1 && height >= 1 && width <= TSR__PNG_MAX_SIDE && height <= TSR__PNG_MAX_SIDE) return TSR_OK;
    return tsr__fail(engine, TSR_ARG, "%s: a picture of %lld x %lld cannot be written; sides go from 1 to %d", path,
                     (long long)width, (long long)height, TSR__PNG_MAX_SIDE);
}

static tsr_status encode(tsr_engine *engine, const char *path, spng_ctx *ctx, const uint8_t *rgb, uint32_t width,
                         uint32_t height, const char *const *text) {
    struct spng_ihdr header = {
        .width = width, .height = height, .bit_depth = 8, .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    int error = spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    if (!error) error = spng_set_ihdr(ctx, &header);
    if (error) return fail_spng(engine, path, TSR_IO, error);
    TSR__TRY(set_text(engine, path, ctx, text));
    error = spng_encode_image(ctx, rgb, (size_t)width * height * 3, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    return error ? fail_spng(engine, path, TSR_IO, error) : TSR_OK;
}

static tsr_status write_buffer(tsr_engine *engine, const char *path, spng_ctx *ctx, tsr__output *output) {
    size_t n = 0;
    int error = 0;
    void *bytes = spng_get_png_buffer(ctx, &n, &error);
    if (!bytes) return fail_spng(engine, path, TSR_IO, error);
    tsr_status status = tsr__output_write(output, bytes, n);
    free(bytes); /* spng's malloc; the context has let go of it */
    return status;
}

tsr_status tsr__png_write(tsr_engine *engine, const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                          const char *const *text) {
    TSR__TRY(check_size(engine, path, width, height));
    tsr__output *output = NULL;
    TSR__TRY(tsr__output_open(engine, path, &output));
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    tsr_status status = ctx ? encode(engine, path, ctx, rgb, (uint32_t)width, (uint32_t)height, text)
                            : fail_spng(engine, path, TSR_NOMEM, SPNG_EMEM);
    if (status == TSR_OK) status = write_buffer(engine, path, ctx, output);
    spng_ctx_free(ctx);
    if (status == TSR_OK) return tsr__output_commit(output);
    tsr__output_discard(output);
    return status;
}

static tsr_status copy_buffer(tsr_engine *engine, const char *name, spng_ctx *ctx, char **out, size_t *length) {
    size_t n = 0;
    int error = 0;
    void *bytes = spng_get_png_buffer(ctx, &n, &error);
    if (!bytes) return fail_spng(engine, name, TSR_IO, error);
    char *copy = tsr__alloc(engine, n);
    if (copy) {
        *out = memcpy(copy, bytes, n);
        *length = n;
    }
    free(bytes);
    return copy ? TSR_OK : TSR_NOMEM;
}

tsr_status tsr__png_encode(tsr_engine *engine, const uint8_t *rgb, int64_t width, int64_t height,
                           const char *const *text, char **out, size_t *n) {
    static const char name[] = "in memory";
    TSR__TRY(check_size(engine, name, width, height));
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    tsr_status status = ctx ? encode(engine, name, ctx, rgb, (uint32_t)width, (uint32_t)height, text)
                            : fail_spng(engine, name, TSR_NOMEM, SPNG_EMEM);
    if (status == TSR_OK) status = copy_buffer(engine, name, ctx, out, n);
    spng_ctx_free(ctx);
    return status;
}

static tsr_status decode(tsr_engine *engine, const char *path, spng_ctx *ctx, uint8_t **out, struct spng_ihdr *header) {
    size_t n = 0;
    int error = spng_set_image_limits(ctx, TSR__PNG_MAX_SIDE, TSR__PNG_MAX_SIDE);
    if (!error) error = spng_get_ihdr(ctx, header);
    if (!error) error = spng_decoded_image_size(ctx, SPNG_FMT_RGB8, &n);
    if (error) return fail_spng(engine, path, TSR_FORMAT, error);
    uint8_t *rgb = tsr__alloc(engine, n);
    if (!rgb) return TSR_NOMEM;
    error = spng_decode_image(ctx, rgb, n, SPNG_FMT_RGB8, 0);
    if (!error) {
        *out = rgb;
        return TSR_OK;
    }
    tsr__free(engine, rgb);
    return fail_spng(engine, path, TSR_FORMAT, error);
}

tsr_status tsr__png_read(tsr_engine *engine, const char *path, uint8_t **rgb, int64_t *width, int64_t *height) {
    char *bytes = NULL;
    size_t n = 0;
    struct spng_ihdr header = {0};
    TSR__TRY(tsr__file_read(engine, path, max_png_bytes, &bytes, &n));
    spng_ctx *ctx = spng_ctx_new(0);
    int error = ctx ? spng_set_png_buffer(ctx, bytes, n) : SPNG_EMEM;
    tsr_status status = error ? fail_spng(engine, path, TSR_FORMAT, error) : decode(engine, path, ctx, rgb, &header);
    spng_ctx_free(ctx);
    tsr__free(engine, bytes);
    if (status != TSR_OK) return status;
    *width = header.width;
    *height = header.height;
    return TSR_OK;
}
