/* The flow matching Euler schedule. Host arithmetic only; the step x += (sigma[i + 1] - sigma[i]) v is the pipeline's.
 * Source: diffusers, FlowMatchEulerDiscreteScheduler. */
#ifndef TSR_SCHEDULERS_SCHEDULING_FLOW_MATCH_EULER_DISCRETE_H
#define TSR_SCHEDULERS_SCHEDULING_FLOW_MATCH_EULER_DISCRETE_H

#include "base/engine.h"

/* scheduler_config.json; the names are its keys. */
typedef struct tsr__flow_match_euler {
    int64_t num_train_timesteps, base_image_seq_len, max_image_seq_len;
    double shift, base_shift, max_shift;
    double shift_terminal; /* 0: none, as in the reference */
    bool use_dynamic_shifting, invert_sigmas, use_karras_sigmas, use_exponential_sigmas;
    bool linear_time_shift; /* time_shift_type: "linear", else "exponential" */
} tsr__flow_match_euler;

/* Reads folder/scheduler_config.json; absent keys have diffusers' defaults. Local. Nothing to free.
 * Errors: IO, FORMAT (broken file, a value out of range, unknown time_shift_type, more than one of the use_*_sigmas),
 * UNSUPPORTED (stochastic_sampling, use_beta_sigmas), NOMEM. */
TSR_NODISCARD tsr_status tsr__flow_match_euler_from_config(tsr_engine *engine, const char *folder,
                                                           tsr__flow_match_euler *out);

/* Schedule of n steps: out_sigmas [n + 1] (the last is 0, or 1 where inverted) and out_timesteps [n], bit for bit those
 * of the reference. sigmas [n] before shifting, or NULL for the scheduler's own. mu is used with dynamic shifting only;
 * NAN where there is none. Local. Errors: NOMEM; ARG: n < 1, mu missing, or a sigma that is not finite. The reference
 * returns NaN for the last: shift_terminal with one step from sigma 1 (0 / 0), shift 0, a huge mu, logarithm of 0. */
TSR_NODISCARD tsr_status tsr__flow_match_euler_set_timesteps(tsr_engine *engine, const tsr__flow_match_euler *scheduler,
                                                             int n, const double *sigmas, double mu, float *out_sigmas,
                                                             float *out_timesteps);

/* out [n]: n values from first to last, both included; n = 1: first. Pipelines pass linspace(1, 1 / n, n) as sigmas.
 * Source: numpy.linspace. */
void tsr__linspace(double first, double last, int n, double *out);

/* mu of FLUX.2, of the packed image tokens and the number of steps. Source: diffusers, pipeline_flux2,
 * compute_empirical_mu. */
double tsr__flux2_empirical_mu(int64_t image_seq_len, int num_steps);
/* mu on the line through (base_seq_len, base_shift) and (max_seq_len, max_shift). Not finite where the lengths are
 * equal; set_timesteps refuses that. Source: diffusers, pipeline_flux, calculate_shift. */
double tsr__linear_mu(int64_t image_seq_len, int64_t base_seq_len, int64_t max_seq_len, double base_shift,
                      double max_shift);

#endif
