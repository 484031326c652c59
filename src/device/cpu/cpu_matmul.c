/* Three ways of out = x W^T + b, all of them on the weights as the checkpoint stores them:
 * - few rows: dot products, at the speed at which memory delivers the weights;
 * - panels: a block of a short weight is converted to float32 and multiplied by dnnl_sgemm, block after block;
 * - native: oneDNN's bf16 primitive, where rounding is allowed and pays (cpu.c). */
#include "device/cpu/cpu.h"

#include <omp.h>
#include <string.h>

/* Panels of 4 MiB keep 0.95 of plain dnnl_sgemm: large enough to feed all threads, small enough for a cache. While
 * communication is under way, it is moved every TILE_ROWS rows of x: some milliseconds; 512 rows cost 3 % of the rate,
 * 256 rows 7 %. */
enum { FEW_ROWS = 4, PANEL = 1024, CHUNK = 1024, TILE_ROWS = 512 };

typedef struct matmul {
    const tsr__device *device;
    const tsr__op *op;
    tsr__rows x, w;
    int64_t m, n, k;
    const float *bias; /* [n] or NULL */
    float *out;        /* [m, n] */
} matmul;

static tsr__scratch scratch_of(const tsr__op *op) { return (tsr__scratch){.base = op->scratch}; }

static matmul matmul_of(const tsr__device *device, const tsr__op *op, tsr__scratch *scratch) {
    matmul a = {.device = device, .op = op, .x = tsr__rows_of(op->in[0]), .w = tsr__rows_of(op->in[1])};
    a.m = a.x.count;
    a.k = a.x.width;
    a.n = a.w.count;
    a.out = op->out[0]->data;
    if (op->in[2]) a.bias = tsr__cpu_vector(device, op->in[2], a.n, 0.0f, scratch);
    omp_set_num_threads(device->threads); /* oneDNN asks OpenMP; another engine may have set its own */
    return a;
}

static bool short_weights(const matmul *a) { return a->op->in[1]->dtype != TSR_F32; }

static bool native(const matmul *a) {
    return tsr__cpu_of(a->device)->bf16_matmul && a->op->param.matmul.round_inputs == TSR_BF16 &&
           a->op->in[1]->dtype == TSR_BF16 && a->m > FEW_ROWS && a->k > 0 && a->n > 0;
}

/* Cuts length into equal parts of at most PANEL. */
static int64_t panel_length(int64_t length) {
    int64_t parts = (length + PANEL - 1) / PANEL;
    return parts ? ((length + parts - 1) / parts + 15) / 16 * 16 : 0;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* One output column for all rows: the row of W is converted once, chunk by chunk. */
static void dot_column(const matmul *a, const float *const *x, int64_t n) {
    const tsr__kernels *kernels = tsr__kernels_of(a->device);
    const char *w = tsr__row(&a->w, n);
    float chunk[CHUNK];
    double sums[FEW_ROWS] = {0};
    for (int64_t k = 0; k < a->k; k += CHUNK) {
        int64_t length = least(CHUNK, a->k - k);
        const void *part = w + (size_t)k * a->w.element;
        if (short_weights(a)) tsr__cpu_to_f32(a->device, a->op->in[1]->dtype, part, chunk, length);
        for (int64_t m = 0; m < a->m; m++)
            sums[m] += kernels->dot(x[m] + k, short_weights(a) ? chunk : (const float *)part, length);
    }
    for (int64_t m = 0; m < a->m; m++) a->out[m * a->n + n] = (float)sums[m] + (a->bias ? a->bias[n] : 0.0f);
}

static void run_few_rows(const matmul *a) {
    const float *x[FEW_ROWS] = {0};
    for (int64_t m = 0; m < a->m; m++) x[m] = tsr__row(&a->x, m);
#pragma omp parallel for num_threads(tsr__cpu_threads(a->device, a->n * a->k))
    for (int64_t n = 0; n < a->n; n++) dot_column(a, x, n);
}

/* out = bias or 0, to which products are added. */
static void fill(const matmul *a) {
#pragma omp parallel for num_threads(tsr__cpu_threads(a->device, a->m * a->n))
    for (int64_t m = 0; m < a->m; m++) {
        size_t bytes = (size_t)a->n * sizeof(float);
        if (a->bias)
            memcpy(a->out + m * a->n, a->bias, bytes);
        else
            memset(a->out + m * a->n, 0, bytes);
    }
}

/* W[n.., k..] of rows x cols as float32: itself, or converted. Sets the distance of its rows. */
static const float *panel_at(const matmul *a, int64_t n, int64_t k, int64_t rows, int64_t cols, float *panel) {
    if (!short_weights(a)) return (const float *)tsr__row(&a->w, n) + k;
#pragma omp parallel for num_threads(tsr__cpu_threads(a->device, rows *cols))
    for (int64_t i = 0; i < rows; i++) {
        const char *w = tsr__row(&a->w, n + i);
        tsr__cpu_to_f32(a->device, a->op->in[1]->dtype, w + (size_t)k * a->w.element, panel + i * cols, cols);
    }
    return panel;
}

/* out[:, n..] += x[:, k..] W[n.., k..]^T, in one GEMM for each run of evenly spaced rows of x, or for a tile of it. */
static dnnl_status_t multiply_panel(const matmul *a, int64_t n, int64_t k, int64_t rows, int64_t cols, float beta,
                                    float *panel) {
    const float *w = panel_at(a, n, k, rows, cols, panel);
    int64_t ldw = short_weights(a) ? cols : a->w.ndim ? a->w.stride[0] : a->k;
    int64_t run = a->x.ndim ? a->x.shape[a->x.ndim - 1] : 1, ldx = a->x.ndim ? a->x.stride[a->x.ndim - 1] : a->k;
    if (ldx < a->k) run = 1, ldx = a->k; /* overlapping rows, as of an expanded view */
    int64_t most = a->device->on_tile ? TILE_ROWS : run;
    dnnl_status_t status = dnnl_success;
    for (int64_t m = 0, tile; m < a->m && status == dnnl_success; m += tile) {
        tile = least(run - m % run, most);
        status = dnnl_sgemm('N', 'T', tile, rows, cols, 1.0f, (const float *)tsr__row(&a->x, m) + k, ldx, w, ldw, beta,
                            a->out + m * a->n + n, a->n);
        tsr__cpu_tile_done(a->device);
    }
    return status;
}

static size_t panel_bytes(const matmul *a) {
    return short_weights(a) ? (size_t)(panel_length(a->n) * panel_length(a->k)) * sizeof(float) : 0;
}

static tsr_status run_panels(const matmul *a, tsr__scratch *scratch) {
    float *panel = tsr__scratch_take(scratch, panel_bytes(a));
    bool whole = !short_weights(a) && !a->device->on_tile;
    int64_t rows = whole ? a->n : panel_length(a->n), cols = short_weights(a) ? panel_length(a->k) : a->k;
    dnnl_status_t status = dnnl_success;
    if (a->bias) fill(a);
    for (int64_t n = 0; n < a->n; n += rows)
        for (int64_t k = 0; k < a->k && status == dnnl_success; k += cols)
            status = multiply_panel(a, n, k, least(rows, a->n - n), least(cols, a->k - k),
                                    a->bias || k > 0 ? 1.0f : 0.0f, panel);
    return tsr__dnnl_check(a->device, status, "multiply");
}

typedef struct native_plan {
    dnnl_memory_desc_t x, w, bias, out;
    dnnl_primitive_desc_t desc;
    const dnnl_memory_desc_t *scratchpad;
} native_plan;

static dnnl_status_t plan_native(const matmul *a, native_plan *p) {
    dnnl_dims_t x = {a->m, a->k}, w = {a->k, a->n}, out = {a->m, a->n}, bias = {1, a->n};
    dnnl_dims_t transposed = {1, a->w.ndim ? a->w.stride[0] : a->k};
    dnnl_matmul_desc_t matmul_desc;
    dnnl_primitive_attr_t attributes = tsr__dnnl_attributes();
    if (!attributes) return dnnl_out_of_memory;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&p->x, 2, x, dnnl_bf16, dnnl_ab);
    if (!status) status = dnnl_memory_desc_init_by_strides(&p->w, 2, w, dnnl_bf16, transposed);
    if (!status) status = dnnl_memory_desc_init_by_tag(&p->bias, 2, bias, dnnl_f32, dnnl_ab);
    if (!status) status = dnnl_memory_desc_init_by_tag(&p->out, 2, out, dnnl_f32, dnnl_ab);
    if (!status) status = dnnl_matmul_desc_init(&matmul_desc, &p->x, &p->w, a->op->in[2] ? &p->bias : NULL, &p->out);
    if (!status)
        status = dnnl_primitive_desc_create(&p->desc, &matmul_desc, attributes, tsr__cpu_of(a->device)->engine, NULL);
    if (!status) p->scratchpad = dnnl_primitive_desc_query_md(p->desc, dnnl_query_scratchpad_md, 0);
    (void)dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void round_rows(const matmul *a, uint16_t *rounded) {
#pragma omp parallel for num_threads(tsr__cpu_threads(a->device, a->m * a->k))
    for (int64_t m = 0; m < a->m; m++)
        tsr__kernels_of(a->device)->f32_to_bf16(tsr__row(&a->x, m), rounded + m * a->k, a->k);
}

static tsr_status run_native(const matmul *a, tsr__scratch *scratch) {
    native_plan p = {.desc = NULL};
    TSR__TRY(tsr__dnnl_check(a->device, plan_native(a, &p), "prepare a bf16 multiplication"));
    uint16_t *x = tsr__scratch_take(scratch, (size_t)(a->m * a->k) * sizeof *x);
    void *scratchpad = tsr__scratch_take(scratch, dnnl_memory_desc_get_size(p.scratchpad));
    round_rows(a, x);
    const tsr__dnnl_arg args[] = {{DNNL_ARG_SRC, &p.x, x},
                                  {DNNL_ARG_WEIGHTS, &p.w, a->w.data},
                                  {DNNL_ARG_DST, &p.out, a->out},
                                  {DNNL_ARG_SCRATCHPAD, p.scratchpad, scratchpad},
                                  {DNNL_ARG_BIAS, &p.bias, a->bias}};
    tsr_status status = tsr__dnnl_run(a->device, p.desc, args, a->bias ? 5 : 4);
    (void)dnnl_primitive_desc_destroy(p.desc);
    tsr__cpu_tile_done(a->device);
    return status;
}

size_t tsr__cpu_matmul_scratch(const tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = {NULL, 0};
    matmul a = matmul_of(device, op, &scratch);
    if (a.m <= FEW_ROWS || a.n == 0 || a.k == 0) return scratch.used;
    native_plan p = {.desc = NULL};
    if (native(&a) && plan_native(&a, &p) == dnnl_success) {
        (void)tsr__scratch_take(&scratch, (size_t)(a.m * a.k) * sizeof(uint16_t));
        (void)tsr__scratch_take(&scratch, dnnl_memory_desc_get_size(p.scratchpad));
        (void)dnnl_primitive_desc_destroy(p.desc);
    } else
        (void)tsr__scratch_take(&scratch, panel_bytes(&a));
    return scratch.used;
}

tsr_status tsr__cpu_matmul(tsr__device *device, const tsr__op *op) {
    tsr__scratch scratch = scratch_of(op);
    matmul a = matmul_of(device, op, &scratch);
    if (a.k == 0)
        fill(&a);
    else if (a.m <= FEW_ROWS)
        run_few_rows(&a);
    else
        return native(&a) ? run_native(&a, &scratch) : run_panels(&a, &scratch);
    return TSR_OK;
}
