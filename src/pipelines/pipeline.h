/* What all pipelines have in common: the folder, its components, and the stages of a call that can be dumped. */
#ifndef TSR_PIPELINES_PIPELINE_H
#define TSR_PIPELINES_PIPELINE_H

#include "base/rng.h"
#include "models/models.h"
#include "models/outputs.h"
#include "schedulers/scheduling_flow_match_euler_discrete.h"

#include <tessera/pipeline.h>
#include <tessera/tokenizer.h>

typedef enum tsr__role { TSR__TEXT_ENCODER, TSR__TRANSFORMER, TSR__VAE, TSR__N_MODELS } tsr__role;

typedef struct tsr_pipeline_desc {
    const char *class_name;
    const char *models[TSR__N_MODELS]; /* class of each; the names of the folders are fixed */
    const char *tokenizer, *scheduler; /* classes */
    /* Keys of model_index.json that the pipeline wants. */
    tsr_status (*read_index)(tsr_pipeline *pipeline, tsr__config *index);
    tsr_status (*generate)(tsr_pipeline *pipeline, const tsr_generate_options *options, tsr_images **out);
    tsr_status (*tokenize)(tsr_pipeline *pipeline, const char *prompt, int64_t max_sequence_length, int64_t **ids,
                           size_t *n);
    /* What generate would draw: sizes rounded, defaults filled in. The models need not be loaded. */
    tsr_status (*picture)(tsr_pipeline *pipeline, const tsr_generate_options *options, tsr__picture *out);
} tsr_pipeline_desc;

struct tsr_pipeline {
    tsr_engine *engine;
    const tsr_pipeline_desc *desc;
    char *folder;
    tsr_dtype dtype; /* resolved: F32, BF16 or F16 */
    bool force, is_distilled;
    tsr_model *models[TSR__N_MODELS];
    bool borrowed[TSR__N_MODELS]; /* the caller's, loaded already */
    bool part[TSR__N_MODELS];     /* this rank loads and runs the component; the others receive what it gives */
    tsr__layout layout;
    tsr__comm *encoder_comm; /* of the ranks that share the text encoder, the first ones; NULL: none or one */
    tsr_tokenizer *tokenizer;
    int64_t model_max_length; /* its most tokens; `plan` knows them without it */
    tsr__flow_match_euler scheduler;
};

extern const char *const tsr__role_folders[TSR__N_MODELS]; /* "transformer" */
/* Reads model_index.json of p->folder: what a pipeline is, of which classes. Errors:
 * IO, FORMAT, UNSUPPORTED. */
TSR_NODISCARD tsr_status tsr__pipeline_open_index(tsr_pipeline *p);

/* The descriptor of a pipeline class, or NULL; all class names, joined by ", ". */
const tsr_pipeline_desc *tsr__pipeline_desc_find(const char *class_name);
const char *tsr__pipeline_classes(char *text, size_t size);

/* --- stages --- */

/* Tensors of a call that are written as stages.safetensors. */
typedef struct tsr__dump {
    tsr_engine *engine;
    char *path; /* of stages.safetensors; NULL: nothing to save */
    tsr_tensor *tensors;
    size_t n, capacity;
} tsr__dump;

/* Makes the folder and checks that it can be written. Owner of *out: the caller (tsr__dump_free). */
TSR_NODISCARD tsr_status tsr__dump_open(tsr_engine *engine, const char *folder, tsr__dump *out);
/* A tsr_output_hook: keeps a copy. Errors: NOMEM. */
tsr_status tsr__dump_take(void *dump, const tsr_tensor *output);
TSR_NODISCARD tsr_status tsr__dump_save(tsr__dump *dump);
void tsr__dump_free(tsr__dump *dump);

/* --- noise and pixels --- */

/* Noise [rows, per_row] as float32, drawn in dtype: one generator for all rows, or a seed each. */
TSR_NODISCARD tsr_status tsr__draw_noise(tsr_engine *engine, tsr_dtype dtype, const uint64_t *seeds, size_t n_seeds,
                                         int64_t rows, int64_t per_row, float *out);
/* A seed from the system. */
TSR_NODISCARD tsr_status tsr__random_seed(tsr_engine *engine, uint64_t *out);
/* [3, H, W] in -1..1 -> [H, W, 3] bytes: clamp(v/2 + 1/2), times 255, rounded half to even. */
void tsr__pixels_from_image(const float *image, int64_t height, int64_t width, uint8_t *pixels);

#endif
