/* One call of a FLUX.2 pipeline. B prompts, N pictures of each, rows = B N; a picture is h x w packed tokens (L = h w)
 * of C channels; S tokens of text of J channels. Three phases, each with its component in memory: text, denoising,
 * decoding. */
#ifndef TSR_PIPELINES_FLUX2_H
#define TSR_PIPELINES_FLUX2_H

#include "pipelines/pipeline.h"

enum {
    TSR__FLUX2_MAX_SIDE = 65536,
    TSR__FLUX2_MAX_ROWS = 4096,
    TSR__FLUX2_MAX_STEPS = 10000,
    TSR__FLUX2_MAX_TEXT = 40960
};

/* The text of one pass (conditional or not) and what it becomes. */
typedef struct tsr__flux2_text {
    int64_t rows, S;     /* of ids; the embeddings are repeated to the rows of the call */
    int64_t *ids, *mask; /* [rows, S]; NULL where the embeddings were given */
    int64_t *txt_ids;    /* [S, 4]: (0, 0, 0, s) */
    float *embeds;       /* [rows, S, J] */
    tsr__call encode;
    tsr__graph *graph;
    tsr__view *kept; /* [rows of the call, S, J] on the device */
} tsr__flux2_text;

typedef struct tsr__flux2_call {
    tsr_engine *engine;
    tsr_pipeline *p;
    const tsr_generate_options *o;
    /* ids [S] of one prompt in the pipeline's form, cut or padded; mask [S] is 1 for the prompt */
    tsr_status (*tokenize)(const tsr_pipeline *p, const char *prompt, int64_t S, int64_t *ids, int64_t *mask);
    int64_t B, N, rows, height, width, h, w, L, C, J;
    int steps, steps_for_mu;
    double guidance;
    bool cfg;
    tsr__flux2_text prompt, negative;
    int64_t *img_ids;          /* [L, 4]: (0, y, x, 0) */
    float *sigmas, *timesteps; /* [steps + 1], [steps] */
    float *noise, *latents;    /* [rows, C, h, w]; [rows, L, C] */
    float *t_rows, dt;         /* timestep/1000 for each row, and the sigma difference, of the step in work */
    float *vae_out;            /* [3, H, W] of the picture in work, or of all where they are told */
    struct {
        float *latents, *z, *image; /* [L, C], [C/4, 2h, 2w], [3, H, W] of the picture in work; belong to others */
    } picture;
    int64_t vae_in_shape[4]; /* with rows in front */
    tsr__view *kept_latents; /* [rows, L, C] on the device */
    tsr__exec *exec[TSR__N_MODELS];
    tsr__graph *step_graph, *decode_graph;
    tsr__outputs outputs; /* who is told the stages: the dump, the caller's hook */
    tsr__dump dump;
    tsr_images *images;
} tsr__flux2_call;

/* What is asked for, with defaults filled in and bounds checked. Errors: ARG, SHAPE. (flux2_request.c) */
TSR_NODISCARD tsr_status tsr__flux2_resolve(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_resolve_length(const tsr_pipeline *p, int64_t given, int64_t *out);

/* The picture of those options, which name a prompt. Errors: ARG, SHAPE. (flux2_request.c) */
TSR_NODISCARD tsr_status tsr__flux2_picture(tsr_pipeline *p, const tsr_generate_options *options, tsr__picture *out);

/* Sigmas and timesteps. After the memory check: a picture too large for the formula of mu is too large for the machine
 * first. Errors: ARG, NOMEM. (flux2_request.c) */
TSR_NODISCARD tsr_status tsr__flux2_schedule(tsr__flux2_call *c);

/* Ids of the prompts, or the embeddings given. Errors: ARG, SHAPE, FORMAT, NOMEM. (flux2_text.c) */
TSR_NODISCARD tsr_status tsr__flux2_take_text(tsr__flux2_call *c);

/* Rank 0's ids, seeds and noise to all ranks. Collective. (flux2_latents.c) */
TSR_NODISCARD tsr_status tsr__flux2_share_inputs(tsr__flux2_call *c);
/* Ids, seeds and noise of the latents. Errors: SHAPE, ARG, NOMEM. (flux2_latents.c) */
TSR_NODISCARD tsr_status tsr__flux2_make_latents(tsr__flux2_call *c);

/* Sets dt and t_rows for step i. (flux2_phases.c) */
void tsr__flux2_set_step(tsr__flux2_call *c, int i);

/* The meta runs of all three phases, and the phases. (flux2_phases.c) */
TSR_NODISCARD tsr_status tsr__flux2_record(tsr__flux2_call *c);
/* Of each phase what follows the loading of its component, on the ranks that load it; then the phase itself,
 * collective. */
TSR_NODISCARD tsr_status tsr__flux2_load_encoder(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_encode(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_load_transformer(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_denoise(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_load_vae(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_decode(tsr__flux2_call *c);

/* Whom to tell the stages. Then what is known before the first weight is read, and what the call ends with. Errors: IO,
 * NOMEM, those of hooks. Local. (flux2_dump.c) */
TSR_NODISCARD tsr_status tsr__flux2_open_outputs(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_dump_start(tsr__flux2_call *c);
TSR_NODISCARD tsr_status tsr__flux2_dump_end(tsr__flux2_call *c);

#endif
