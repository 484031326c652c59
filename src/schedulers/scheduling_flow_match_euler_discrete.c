#include "schedulers/scheduling_flow_match_euler_discrete.h"

#include "base/text.h"
#include "io/json.h"

#include <math.h>
#include <string.h>

/* Picks what the schedule knows out of the file, and refuses what it would otherwise ignore in silence. */
static tsr_status read_config(tsr_engine *engine, const char *path, tsr__config *c, tsr__flow_match_euler *out) {
    enum { LONGEST = 1 << 30 };
    *out = (tsr__flow_match_euler){
        .num_train_timesteps = tsr__config_int(c, "num_train_timesteps", 1000, 1, 1000000),
        .base_image_seq_len = tsr__config_int(c, "base_image_seq_len", 256, 0, LONGEST),
        .max_image_seq_len = tsr__config_int(c, "max_image_seq_len", 4096, 0, LONGEST),
        .shift = tsr__config_double(c, "shift", 1.0, 0.0, 1e6),
        .base_shift = tsr__config_double(c, "base_shift", 0.5, -1e6, 1e6),
        .max_shift = tsr__config_double(c, "max_shift", 1.15, -1e6, 1e6),
        .shift_terminal = tsr__config_double(c, "shift_terminal", 0.0, 0.0, 1.0),
        .use_dynamic_shifting = tsr__config_bool(c, "use_dynamic_shifting", false),
        .invert_sigmas = tsr__config_bool(c, "invert_sigmas", false),
        .use_karras_sigmas = tsr__config_bool(c, "use_karras_sigmas", false),
        .use_exponential_sigmas = tsr__config_bool(c, "use_exponential_sigmas", false),
    };
    bool beta = tsr__config_bool(c, "use_beta_sigmas", false);
    bool stochastic = tsr__config_bool(c, "stochastic_sampling", false);
    const char *type = tsr__config_string(c, "time_shift_type", "exponential");
    if (c->status != TSR_OK) return c->status;
    out->linear_time_shift = strcmp(type, "linear") == 0;
    if (!out->linear_time_shift && strcmp(type, "exponential") != 0)
        return tsr__fail(engine, TSR_FORMAT, "%s: time_shift_type is \"%s\"; it must be \"exponential\" or \"linear\"",
                         path, type);
    if (out->use_karras_sigmas + out->use_exponential_sigmas + beta > 1)
        return tsr__fail(engine, TSR_FORMAT,
                         "%s: only one of use_karras_sigmas, use_exponential_sigmas and use_beta_sigmas may be true",
                         path);
    if (beta || stochastic)
        return tsr__fail(engine, TSR_UNSUPPORTED, "%s: %s is not supported; set it to false", path,
                         beta ? "use_beta_sigmas" : "stochastic_sampling");
    return TSR_OK;
}

tsr_status tsr__flow_match_euler_from_config(tsr_engine *engine, const char *folder, tsr__flow_match_euler *out) {
    char *path = tsr__format(engine, "%s/scheduler_config.json", folder);
    if (!path) return TSR_NOMEM;
    tsr__config config;
    tsr__flow_match_euler scheduler;
    tsr_status status = tsr__config_load(engine, path, &config);
    if (status == TSR_OK) {
        status = read_config(engine, path, &config, &scheduler);
        tsr__config_free(&config);
    }
    tsr__free(engine, path);
    if (status == TSR_OK) *out = scheduler;
    return status;
}

void tsr__linspace(double first, double last, int n, double *out) {
    double step = n > 1 ? (last - first) / (n - 1) : 0.0;
    for (int i = 0; i < n; i++) out[i] = i * step + first;
    if (n > 1) out[n - 1] = last;
}

/* numpy computes given sigmas in float32 and its own in float64. One operation (+ - * /) on float32 values in double,
 * then rounded to float32, equals the float32 operation, since double has more than twice the digits plus two: so
 * one code serves both, with a rounding after every operation. */
static double rounded(bool single, double value) { return single ? (double)(float)value : value; }

/* s' = shift s / (1 + (shift - 1) s) */
static void shift_static(double shift, bool single, int n, double *s) {
    double factor = rounded(single, shift), less = rounded(single, shift - 1.0);
    for (int i = 0; i < n; i++) {
        double below = rounded(single, 1.0 + rounded(single, less * s[i]));
        s[i] = rounded(single, rounded(single, factor * s[i]) / below);
    }
}

/* s' = w / (w + (1 / s - 1)), w = e^mu or mu */
static void shift_dynamic(double weight, bool single, int n, double *s) {
    double w = rounded(single, weight);
    for (int i = 0; i < n; i++) {
        double odds = rounded(single, rounded(single, 1.0 / s[i]) - 1.0);
        s[i] = rounded(single, w / rounded(single, w + odds));
    }
}

/* s' = 1 - (1 - s) / k, with k such that the last one becomes the terminal value */
static void stretch_to_terminal(double terminal, bool single, int n, double *s) {
    double k = rounded(single, rounded(single, 1.0 - s[n - 1]) / rounded(single, 1.0 - terminal));
    for (int i = 0; i < n; i++) s[i] = rounded(single, 1.0 - rounded(single, rounded(single, 1.0 - s[i]) / k));
}

/* Evenly spaced in s^(1/7) between the ends (Karras et al., 2022). */
static void space_karras(int n, double *s) {
    const double rho = 7.0;
    double high = pow(s[0], 1.0 / rho), low = pow(s[n - 1], 1.0 / rho);
    tsr__linspace(0.0, 1.0, n, s);
    for (int i = 0; i < n; i++) s[i] = pow(high + s[i] * (low - high), rho);
}

/* Evenly spaced in ln s between the ends. */
static void space_exponential(int n, double *s) {
    tsr__linspace(log(s[0]), log(s[n - 1]), n, s);
    for (int i = 0; i < n; i++) s[i] = exp(s[i]);
}

/* From the training schedule's ends. With static shifting these ends are shifted already, and the caller shifts once
 * more: the reference does so, and recorded schedules depend on it. */
static void default_sigmas(const tsr__flow_match_euler *scheduler, int n, double *s) {
    double steps = (double)scheduler->num_train_timesteps, ends[2] = {1.0, rounded(true, 1.0 / steps)};
    if (!scheduler->use_dynamic_shifting) shift_static(scheduler->shift, true, 2, ends);
    tsr__linspace(ends[0] * steps, ends[1] * steps, n, s);
    for (int i = 0; i < n; i++) s[i] /= steps;
}

static void make_sigmas(const tsr__flow_match_euler *scheduler, int n, const double *sigmas, double mu, double *s) {
    bool single = sigmas != NULL;
    if (single)
        for (int i = 0; i < n; i++) s[i] = rounded(true, sigmas[i]);
    else
        default_sigmas(scheduler, n, s);
    if (scheduler->use_dynamic_shifting)
        shift_dynamic(scheduler->linear_time_shift ? mu : exp(mu), single, n, s);
    else
        shift_static(scheduler->shift, single, n, s);
    if (scheduler->shift_terminal != 0.0) stretch_to_terminal(scheduler->shift_terminal, single, n, s);
    if (scheduler->use_karras_sigmas) space_karras(n, s);
    if (scheduler->use_exponential_sigmas) space_exponential(n, s);
}

static tsr_status check_finite(tsr_engine *engine, const tsr__flow_match_euler *scheduler, int n, const double *s) {
    bool one_step = n == 1 && scheduler->shift_terminal != 0.0;
    for (int i = 0; i < n; i++)
        if (!isfinite((float)s[i]))
            return tsr__fail(engine, TSR_ARG, "FlowMatchEulerDiscreteScheduler: sigma %d of %d is not finite; %s", i, n,
                             one_step ? "shift_terminal of scheduler_config.json needs at least 2 steps"
                                      : "check the given sigmas, mu, and shift in scheduler_config.json");
    return TSR_OK;
}

tsr_status tsr__flow_match_euler_set_timesteps(tsr_engine *engine, const tsr__flow_match_euler *scheduler, int n,
                                               const double *sigmas, double mu, float *out_sigmas,
                                               float *out_timesteps) {
    if (n < 1) return tsr__fail(engine, TSR_ARG, "the number of inference steps is %d; it must be at least 1", n);
    if (scheduler->use_dynamic_shifting && !isfinite(mu))
        return tsr__fail(engine, TSR_ARG, "FlowMatchEulerDiscreteScheduler: use_dynamic_shifting needs a finite mu");
    double *s = tsr__calloc(engine, (size_t)n, sizeof *s);
    if (!s) return TSR_NOMEM;
    make_sigmas(scheduler, n, sigmas, mu, s);
    tsr_status status = check_finite(engine, scheduler, n, s);
    for (int i = 0; status == TSR_OK && i < n; i++) {
        out_sigmas[i] = scheduler->invert_sigmas ? 1.0f - (float)s[i] : (float)s[i];
        out_timesteps[i] = out_sigmas[i] * (float)scheduler->num_train_timesteps;
    }
    if (status == TSR_OK) out_sigmas[n] = scheduler->invert_sigmas ? 1.0f : 0.0f;
    tsr__free(engine, s);
    return status;
}

double tsr__flux2_empirical_mu(int64_t image_seq_len, int num_steps) {
    double length = (double)image_seq_len;
    double at_200 = 0.00016927 * length + 0.45666666, at_10 = 8.73809524e-05 * length + 1.89833333;
    if (image_seq_len > 4300) return at_200;
    double slope = (at_200 - at_10) / 190.0;
    return slope * num_steps + (at_200 - 200.0 * slope);
}

double tsr__linear_mu(int64_t image_seq_len, int64_t base_seq_len, int64_t max_seq_len, double base_shift,
                      double max_shift) {
    double slope = (max_shift - base_shift) / (double)(max_seq_len - base_seq_len);
    return (double)image_seq_len * slope + (base_shift - slope * (double)base_seq_len);
}
