/* Text-to-image pipelines: a diffusers folder in, pictures out. */
#ifndef TESSERA_PIPELINE_H
#define TESSERA_PIPELINE_H

#include <tessera/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_pipeline tsr_pipeline;

typedef struct tsr_pipeline_options {
    size_t size;
    tsr_dtype dtype; /* diffusers' torch_dtype: F32, BF16 or F16; NONE: the checkpoint's. See README, "Numbers". */
    bool force;      /* go on although the memory check says no */
    const tsr_parallel_config
        *parallel; /* how transformer and text encoder are spread over the ranks; NULL: one rank */
    /* Components that are loaded already, sharded or not; the pipeline uses them and leaves them to the caller. NULL:
     * the folder's. Source: the keyword arguments of DiffusionPipeline.from_pretrained. */
    tsr_model *text_encoder, *transformer, *vae;
    const char *const *arguments; /* further arguments of diffusers' from_pretrained, as in tsr_model_options */
} tsr_pipeline_options;
#define TSR_PIPELINE_OPTIONS_INIT                                                                                      \
    { sizeof(tsr_pipeline_options), TSR_DTYPE_NONE, false, NULL, NULL, NULL, NULL, NULL }

/* The folder of `model`: itself, or of a Hub name ("org/name") the snapshot that the local Hugging Face cache holds.
 * *folder is owned by the caller (tsr_free). Local. Errors: ARG (a file), IO (not there; for a Hub name the message
 * holds the command that downloads it), NOMEM. Source: huggingface_hub, snapshot_download with local_files_only. */
TSR_API TSR_NODISCARD tsr_status tsr_hub_resolve(tsr_engine *engine, const char *model, char **folder);

/* Opens a diffusers pipeline folder: model_index.json, the configs and the headers of all weights, the tokenizer.
 * Checks all of it, but reads no weight: each component is loaded for its phase of tsr_pipeline_generate and released
 * after it. `model` is a folder, or a Hub name ("org/name") that the local Hugging Face cache holds. options may be
 * NULL. Local. Errors: IO (not there; for a Hub name the message holds the command that downloads it), FORMAT, SHAPE,
 * UNSUPPORTED (class). Owner: the caller, who ends it with tsr_pipeline_destroy. Source:
 * DiffusionPipeline.from_pretrained. */
TSR_API TSR_NODISCARD tsr_status tsr_pipeline_from_pretrained(tsr_engine *engine, const char *model,
                                                              const tsr_pipeline_options *options, tsr_pipeline **out);
TSR_API void tsr_pipeline_destroy(tsr_pipeline *pipeline);
TSR_API const char *tsr_pipeline_class_name(const tsr_pipeline *pipeline);
/* The folder that a Hub name led to, or the folder given. */
TSR_API const char *tsr_pipeline_folder(const tsr_pipeline *pipeline);

/* What to draw. Zero, NULL or a negative number means the pipeline's own default, where the comment gives one.
 * B = n_prompts, N = num_images_per_prompt; row b N + j of a batch is picture j of prompt b. */
typedef struct tsr_generate_options {
    size_t size;
    const char *const *prompts; /* [B], UTF-8; may be NULL where prompt_embeds is given */
    size_t n_prompts;
    int64_t height, width;       /* pixels; the VAE's sample_size; rounded down to whole tokens (16), with a warning */
    int num_inference_steps;     /* 4 if distilled, else 50 */
    double guidance_scale;       /* 1 if distilled (where it is ignored), else 4; negative: default */
    int num_images_per_prompt;   /* 1 */
    int64_t max_sequence_length; /* tokens of the padded prompt; 512, or the tokenizer's model_max_length if less */
    const double *sigmas;        /* [n_sigmas], instead of 1 .. 1/n; sets the number of steps */
    size_t n_sigmas;
    const uint64_t *seeds; /* one: a generator for the whole batch, as diffusers; B N: a generator each; NULL: random */
    size_t n_seeds;
    const tsr_tensor *latents;                /* [B N, 4C, H/16, W/16], noise to start from; NULL: drawn from seeds */
    const tsr_tensor *prompt_embeds;          /* [B, S, joint_attention_dim] instead of prompts */
    const tsr_tensor *negative_prompt_embeds; /* the same for the unconditional pass */
    bool output_latents;                      /* stop before the VAE: latents instead of pixels */
    const char *dump;                         /* folder for stages.safetensors; made if absent; NULL: none */
    bool dump_blocks;                         /* with dump: also every submodule of the first step */
    tsr_output_hook hook; /* is told the stages, in their own dtypes, as they come; NULL: none. On all ranks alike */
    void *hook_user;
    bool hook_modules; /* also every submodule of the first step */
} tsr_generate_options;
#define TSR_GENERATE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(tsr_generate_options), NULL, 0, 0, 0, 0, -1.0, 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, false, NULL,   \
            false, NULL, NULL, false                                                                                   \
    }

typedef struct tsr_images {
    size_t n; /* B N */
    int64_t height, width;
    uint8_t *pixels;    /* [n, height, width, 3] RGB; NULL with output_latents */
    tsr_tensor latents; /* with output_latents: [n, C, H/8, W/8] F32, what vae.decode takes; else data NULL */
    uint64_t *seeds;    /* [n] what drew each picture: its own seed, or the batch's */
    int num_inference_steps;
    double guidance_scale;
} tsr_images;

/* Draws. Progress goes to the engine's callback of rank 0, which may cancel. Collective over all ranks, with the same
 * options on each: prompts, seeds and noise of rank 0 count. Pixels and latents are on rank 0; *out of other ranks has
 * none. Errors: ARG, SHAPE, NOMEM (before a weight is read: with what is needed and what there is), IO, CANCELLED,
 * BACKEND. Where only the dump cannot be written (IO), *out is set all the same. *out is owned by the caller, who ends
 * it with tsr_images_free. Source: Flux2KleinPipeline.__call__. */
TSR_API TSR_NODISCARD tsr_status tsr_pipeline_generate(tsr_pipeline *pipeline, const tsr_generate_options *options,
                                                       tsr_images **out);
TSR_API void tsr_images_free(tsr_engine *engine, tsr_images *images);

/* Saves picture i as PNG, written aside and renamed. text: key, value, ..., NULL for text chunks, or NULL.
 * Errors: ARG, IO (the old file survives). */
TSR_API TSR_NODISCARD tsr_status tsr_images_save(tsr_engine *engine, const tsr_images *images, size_t i,
                                                 const char *path, const char *const *text);
/* The bytes that tsr_images_save would write: *png [*n], owned by the caller (tsr_free). Errors: ARG, NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_images_encode(tsr_engine *engine, const tsr_images *images, size_t i,
                                                   const char *const *text, char **png, size_t *n);

/* Token ids of a prompt as the pipeline makes them: template, truncation and padding to max_sequence_length (0: its
 * default). *ids [*n] is owned by the caller (tsr_free). Local. Errors: ARG, NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_pipeline_tokenize(tsr_pipeline *pipeline, const char *prompt,
                                                       int64_t max_sequence_length, int64_t **ids, size_t *n);

/* Writes the pipeline back as a diffusers folder: each component in turn is loaded as the pipeline is spread over the
 * ranks, saved as by tsr_model_save_pretrained and released; components that the caller gave are saved as they are. All
 * other files of the pipeline's folder are copied byte for byte, but hidden ones and weights outside of components.
 * options may be NULL. Collective over all ranks; errors and guarantees: those of tsr_model_save_pretrained, and NOMEM
 * before the first write where a component does not fit. Source: DiffusionPipeline.save_pretrained. */
TSR_API TSR_NODISCARD tsr_status tsr_pipeline_save_pretrained(tsr_pipeline *pipeline, const char *folder,
                                                              const tsr_save_options *options);

#ifdef __cplusplus
}
#endif
#endif
