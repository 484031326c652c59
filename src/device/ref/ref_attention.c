#include "device/ref/ref.h"

#include <math.h>

/* One query row against all keys. */
typedef struct query {
    const tsr__op *op;
    int64_t b, i, h, g; /* batch, query, its head, the key head that it reads */
} query;

size_t tsr__ref_attention_scratch(const tsr__op *op) { return (size_t)op->in[1]->shape[1] * sizeof(double); }

static bool visible(const query *q, int64_t j) {
    const tsr__view *mask = q->op->in[3];
    if (q->op->param.attention.causal && j > q->i) return false;
    return !mask || ((const int64_t *)mask->data)[q->b * mask->stride[0] + j * mask->stride[1]] != 0;
}

/* score[j] = scale q.k_j, -inf where the key is hidden; returns the greatest. */
static double scores(const query *q, double *score) {
    const tsr__view *x = q->op->in[0], *k = q->op->in[1];
    int64_t row = q->b * x->stride[0] + q->i * x->stride[1] + q->h * x->stride[2];
    double greatest = -INFINITY;
    for (int64_t j = 0; j < k->shape[1]; j++) {
        int64_t key = q->b * k->stride[0] + j * k->stride[1] + q->g * k->stride[2];
        double dot = 0.0;
        for (int64_t d = 0; d < x->shape[3]; d++)
            dot += (double)tsr__ref_load(x, row + d) * (double)tsr__ref_load(k, key + d);
        score[j] = visible(q, j) ? dot * (double)q->op->param.attention.scale : -INFINITY;
        greatest = fmax(greatest, score[j]);
    }
    return greatest;
}

/* out [D] = sum of p_j v_j over the sum of p_j; stats [2]: the greatest score, and the sum of exp(score - greatest). */
static void attend(const query *q, double *p, float *out, float *stats) {
    const tsr__view *v = q->op->in[2];
    double greatest = scores(q, p), sum = 0.0;
    for (int64_t j = 0; j < v->shape[1]; j++) {
        p[j] = greatest == -INFINITY ? 0.0 : exp(p[j] - greatest);
        sum += p[j];
    }
    for (int64_t d = 0; d < v->shape[3]; d++) {
        double total = 0.0;
        for (int64_t j = 0; j < v->shape[1]; j++)
            if (p[j] > 0.0)
                total +=
                    p[j] * (double)tsr__ref_load(v, q->b * v->stride[0] + j * v->stride[1] + q->g * v->stride[2] + d);
        out[d] = sum > 0.0 ? (float)(total / sum) : 0.0f;
    }
    stats[0] = (float)greatest;
    stats[1] = (float)(sum * exp(greatest - (double)stats[0])); /* of the maximum as it is stored */
    if (greatest == -INFINITY) stats[1] = 0.0f;
}

tsr_status tsr__ref_attention(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *x = op->in[0];
    int64_t heads = x->shape[2], heads_per_key = op->in[1]->shape[2] ? heads / op->in[1]->shape[2] : 1;
    float *out = op->out[0]->data, *stats = op->out[1] ? op->out[1]->data : NULL, unused[2];
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t i = 0; i < x->shape[1]; i++)
            for (int64_t h = 0; h < heads; h++, out += x->shape[3]) {
                attend(&(query){op, b, i, h, h / heads_per_key}, op->scratch, out, stats ? stats : unused);
                if (stats) stats += 2;
            }
    return TSR_OK;
}

tsr_status tsr__ref_attention_merge(tsr__device *device, const tsr__op *op) {
    (void)device;
    const tsr__view *a = op->in[0];
    int64_t D = a->shape[3], rows = tsr__view_elements(a) / (D ? D : 1);
    const float *stats_a = op->in[1]->data, *stats_b = op->in[3]->data;
    const float *x = a->data, *y = op->in[2]->data;
    float *out = op->out[0]->data, *stats = op->out[1]->data;
    for (int64_t r = 0; r < rows; r++, stats_a += 2, stats_b += 2, stats += 2) {
        double greatest = fmax((double)stats_a[0], (double)stats_b[0]);
        double weight_a = stats_a[1] > 0.0f ? (double)stats_a[1] * exp((double)stats_a[0] - greatest) : 0.0;
        double weight_b = stats_b[1] > 0.0f ? (double)stats_b[1] * exp((double)stats_b[0] - greatest) : 0.0;
        double sum = weight_a + weight_b;
        for (int64_t d = 0; d < D; d++) {
            double both = weight_a * (double)x[r * D + d] + weight_b * (double)y[r * D + d];
            out[r * D + d] = sum > 0.0 ? (float)(both / sum) : 0.0f;
        }
        stats[0] = (float)greatest;
        stats[1] = (float)sum;
    }
    return TSR_OK;
}
