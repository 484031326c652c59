/* What a call asks for. */
#include "pipelines/flux2.h"

#include <math.h>

enum { USUAL_TEXT = 512 }; /* diffusers' max_sequence_length */

static int64_t pixels_per_token(const tsr_pipeline *p) {
    return tsr__flux2_vae_scale_factor(p->models[TSR__VAE]) * tsr__flux2_vae_patch(p->models[TSR__VAE]);
}

static tsr_status resolve_side(const tsr__flux2_call *c, const char *name, int64_t given, int64_t *out) {
    int64_t unit = pixels_per_token(c->p);
    int64_t asked = given ? given : tsr__flux2_vae_sample_size(c->p->models[TSR__VAE]);
    if (asked < unit || asked > TSR__FLUX2_MAX_SIDE)
        return tsr__fail(c->engine, TSR_ARG, "%s %lld: give a multiple of %lld from %lld to %d pixels", name,
                         (long long)asked, (long long)unit, (long long)unit, TSR__FLUX2_MAX_SIDE);
    *out = asked / unit * unit;
    return TSR_OK;
}

static tsr_status resolve_size(tsr__flux2_call *c) {
    const tsr_generate_options *o = c->o;
    TSR__TRY(resolve_side(c, "height", o->height, &c->height));
    TSR__TRY(resolve_side(c, "width", o->width, &c->width));
    if ((o->height && c->height != o->height) || (o->width && c->width != o->width))
        tsr__log(c->engine, TSR_LOG_WARNING,
                 "height and width must be multiples of %lld: drawing %lld high and %lld wide",
                 (long long)pixels_per_token(c->p), (long long)c->height, (long long)c->width);
    c->h = c->height / pixels_per_token(c->p);
    c->w = c->width / pixels_per_token(c->p);
    c->L = c->h * c->w;
    return TSR_OK;
}

static tsr_status out_of_range(const tsr__flux2_call *c, const char *name, long long value, long long most) {
    return tsr__fail(c->engine, TSR_ARG, "%s %lld: give a number from 1 to %lld", name, value, most);
}

static tsr_status resolve_counts(tsr__flux2_call *c) {
    const tsr_generate_options *o = c->o;
    if ((o->n_prompts > 0) == (o->prompt_embeds != NULL))
        return tsr__fail(c->engine, TSR_ARG, "give either a prompt or prompt_embeds");
    c->B = o->prompt_embeds ? o->prompt_embeds->shape[0] : (int64_t)o->n_prompts;
    c->N = o->num_images_per_prompt ? o->num_images_per_prompt : 1;
    if (c->B < 1 || c->B > TSR__FLUX2_MAX_ROWS) return out_of_range(c, "number of prompts", c->B, TSR__FLUX2_MAX_ROWS);
    if (c->N < 1 || c->N > TSR__FLUX2_MAX_ROWS / c->B)
        return out_of_range(c, "num_images_per_prompt", c->N, TSR__FLUX2_MAX_ROWS / c->B);
    c->rows = c->B * c->N;
    if (o->n_seeds > 1 && (int64_t)o->n_seeds != c->rows)
        return tsr__fail(c->engine, TSR_ARG, "%zu seeds for %lld pictures: give one for all or one for each",
                         o->n_seeds, (long long)c->rows);
    return TSR_OK;
}

/* diffusers computes mu from the steps asked for, even where sigmas set another number. */
static tsr_status resolve_steps(tsr__flux2_call *c) {
    const tsr_generate_options *o = c->o;
    int own = o->n_sigmas ? (int)o->n_sigmas : c->p->is_distilled ? 4 : 50;
    c->steps_for_mu = o->num_inference_steps ? o->num_inference_steps : own;
    c->steps = o->n_sigmas ? (int)o->n_sigmas : c->steps_for_mu;
    if (o->n_sigmas <= TSR__FLUX2_MAX_STEPS && c->steps_for_mu >= 1 && c->steps_for_mu <= TSR__FLUX2_MAX_STEPS)
        return TSR_OK;
    return out_of_range(c, "num_inference_steps", c->steps_for_mu, TSR__FLUX2_MAX_STEPS);
}

static tsr_status resolve_guidance(tsr__flux2_call *c) {
    double given = c->o->guidance_scale;
    if (isnan(given) || isinf(given)) return tsr__fail(c->engine, TSR_ARG, "guidance_scale must be a finite number");
    c->guidance = given >= 0.0 ? given : c->p->is_distilled ? 1.0 : 4.0;
    c->cfg = c->guidance > 1.0 && !c->p->is_distilled;
    if (c->guidance > 1.0 && c->p->is_distilled)
        tsr__log(c->engine, TSR_LOG_WARNING, "guidance_scale %g is ignored: this model is distilled", c->guidance);
    return TSR_OK;
}

/* The parts must fit each other, whatever the files say. */
static tsr_status check_components(tsr__flux2_call *c) {
    const tsr_model *encoder = c->p->models[TSR__TEXT_ENCODER], *vae = c->p->models[TSR__VAE];
    int64_t patch = tsr__flux2_vae_patch(vae), packed = tsr__flux2_vae_latent_channels(vae) * patch * patch;
    c->C = tsr__flux2_in_channels(c->p->models[TSR__TRANSFORMER]);
    c->J = tsr__flux2_joint_attention_dim(c->p->models[TSR__TRANSFORMER]);
    if (packed == c->C && tsr__qwen3_embedding_dim(encoder) == c->J) return TSR_OK;
    return tsr__fail(c->engine, TSR_SHAPE,
                     "%s: the transformer takes %lld latent and %lld text channels, but the VAE has %lld and the text "
                     "encoder %lld",
                     c->p->folder, (long long)c->C, (long long)c->J, (long long)packed,
                     (long long)tsr__qwen3_embedding_dim(encoder));
}

tsr_status tsr__flux2_resolve_length(const tsr_pipeline *p, int64_t given, int64_t *out) {
    int64_t usual = p->model_max_length < USUAL_TEXT ? p->model_max_length : USUAL_TEXT;
    int64_t S = given ? given : usual;
    if (S < 1 || S > TSR__FLUX2_MAX_TEXT)
        return tsr__fail(p->engine, TSR_ARG, "max_sequence_length %lld: give a number from 1 to %d", (long long)S,
                         TSR__FLUX2_MAX_TEXT);
    *out = S;
    return TSR_OK;
}

tsr_status tsr__flux2_resolve(tsr__flux2_call *c) {
    TSR__TRY(check_components(c));
    TSR__TRY(resolve_counts(c));
    TSR__TRY(resolve_size(c));
    TSR__TRY(resolve_steps(c));
    return resolve_guidance(c);
}

tsr_status tsr__flux2_picture(tsr_pipeline *p, const tsr_generate_options *options, tsr__picture *out) {
    tsr__flux2_call c = {.engine = p->engine, .p = p, .o = options};
    int64_t text = 0;
    TSR__TRY(tsr__flux2_resolve(&c));
    TSR__TRY(tsr__flux2_resolve_length(p, options->max_sequence_length, &text));
    *out = (tsr__picture){c.height, c.width, pixels_per_token(p), text, c.rows, c.cfg ? 2 : 1};
    return TSR_OK;
}

tsr_status tsr__flux2_schedule(tsr__flux2_call *c) {
    c->sigmas = tsr__calloc(c->engine, (size_t)c->steps + 1, sizeof *c->sigmas);
    c->timesteps = tsr__calloc(c->engine, (size_t)c->steps, sizeof *c->timesteps);
    double *linear = tsr__calloc(c->engine, (size_t)c->steps, sizeof *linear);
    tsr_status status = c->sigmas && c->timesteps && linear ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) {
        const double *sigmas = c->o->n_sigmas ? c->o->sigmas : linear;
        double mu = tsr__flux2_empirical_mu(c->L, c->steps_for_mu);
        tsr__linspace(1.0, 1.0 / c->steps, c->steps, linear);
        status = tsr__flow_match_euler_set_timesteps(c->engine, &c->p->scheduler, c->steps, sigmas, mu, c->sigmas,
                                                     c->timesteps);
    }
    tsr__free(c->engine, linear);
    return status;
}
