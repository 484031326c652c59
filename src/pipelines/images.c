/* Noise in, pixels out. */
#include "io/png.h"
#include "pipelines/pipeline.h"

#include <math.h>
#include <sys/random.h>

tsr_status tsr__random_seed(tsr_engine *engine, uint64_t *out) {
    if (getrandom(out, sizeof *out, 0) == (ssize_t)sizeof *out) return TSR_OK;
    return tsr__fail(engine, TSR_IO, "the system gave no random seed; give one");
}

tsr_status tsr__draw_noise(tsr_engine *engine, tsr_dtype dtype, const uint64_t *seeds, size_t n_seeds, int64_t rows,
                           int64_t per_row, float *out) {
    tsr__rng rng;
    int64_t draws = n_seeds == 1 ? 1 : rows, each = rows * per_row / draws;
    void *drawn = tsr__alloc(engine, (size_t)each * sizeof(float));
    if (!drawn) return TSR_NOMEM;
    for (int64_t i = 0; i < draws; i++) {
        tsr__rng_seed(&rng, seeds[i]);
        tsr__rng_randn(&rng, dtype, drawn, each);
        tsr_convert_to_f32(dtype, drawn, out + i * each, (size_t)each);
    }
    tsr__free(engine, drawn);
    return TSR_OK;
}

void tsr__pixels_from_image(const float *image, int64_t height, int64_t width, uint8_t *pixels) {
    int64_t n = height * width;
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            float v = fminf(fmaxf(image[c * n + i] * 0.5f + 0.5f, 0.0f), 1.0f);
            pixels[3 * i + c] = (uint8_t)rintf(v * 255.0f);
        }
}

static tsr_status find_picture(tsr_engine *engine, const tsr_images *images, size_t i, const uint8_t **out) {
    if (i >= images->n || !images->pixels)
        return tsr__fail(engine, TSR_ARG, "there is no picture %zu to save: %zu were drawn", i,
                         images->pixels ? images->n : 0);
    *out = images->pixels + i * (size_t)(3 * images->height * images->width);
    return TSR_OK;
}

tsr_status tsr_images_save(tsr_engine *engine, const tsr_images *images, size_t i, const char *path,
                           const char *const *text) {
    const uint8_t *rgb = NULL;
    TSR__TRY(find_picture(engine, images, i, &rgb));
    return tsr__png_write(engine, path, rgb, images->width, images->height, text);
}

tsr_status tsr_images_encode(tsr_engine *engine, const tsr_images *images, size_t i, const char *const *text,
                             char **png, size_t *n) {
    const uint8_t *rgb = NULL;
    TSR__TRY(find_picture(engine, images, i, &rgb));
    return tsr__png_encode(engine, rgb, images->width, images->height, text, png, n);
}

void tsr_images_free(tsr_engine *engine, tsr_images *images) {
    if (!images) return;
    tsr__free(engine, images->pixels);
    tsr__free(engine, images->latents.data);
    tsr__free(engine, images->seeds);
    tsr__free(engine, images);
}
