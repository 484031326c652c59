#include "device/cpu/cpu.h"

#include "base/machine.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MAX_THREADS = 1024 };

static const tsr__kernels *choose_kernels(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &tsr__kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tsr__kernels_avx2;
#endif
    return &tsr__kernels_generic;
}

/* Native bf16 pays with AMX and on AMD, whose dot product has twice the float32 rate. Intel's AVX512-BF16 without AMX
 * was measured at 0.5 times dnnl_sgemm. The rule is fixed, not timed, so that all ranks of a machine compute alike. */
static void choose_bf16(tsr__cpu *cpu) {
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    cpu->bf16_available = (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    cpu->bf16_matmul = (isa & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
#if defined(__x86_64__)
    if (__builtin_cpu_is("amd")) cpu->bf16_matmul = cpu->bf16_available;
#endif
}

static const char *isa_name(void) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {{dnnl_cpu_isa_avx512_core_amx, "AVX512_CORE_AMX"},
                 {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
                 {dnnl_cpu_isa_avx512_core_vnni, "AVX512_CORE_VNNI"},
                 {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
                 {dnnl_cpu_isa_avx2_vnni, "AVX2_VNNI"},
                 {dnnl_cpu_isa_avx2, "AVX2"},
                 {dnnl_cpu_isa_avx, "AVX"},
                 {dnnl_cpu_isa_sse41, "SSE41"}};
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < TSR__COUNT(names); i++)
        if (isa == names[i].isa) return names[i].name;
    return "its own instruction set";
}

/* The processor's name as Linux gives it, without the blanks that some makers append. */
static void processor_name(char *name, size_t size) {
    char line[256];
    snprintf(name, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0 || !strchr(line, ':')) continue;
        char *text = strchr(line, ':') + 1;
        text += strspn(text, " ");
        size_t length = strcspn(text, "\n");
        while (length > 0 && text[length - 1] == ' ') length--;
        snprintf(name, size, "%.*s", (int)length, text);
        break;
    }
    fclose(file);
}

static void describe(tsr__device *device) {
    const tsr__cpu *cpu = tsr__cpu_of(device);
    const dnnl_version_t *v = dnnl_version();
    char name[96];
    processor_name(name, sizeof name);
    snprintf(device->description, sizeof device->description,
             "cpu: %s, %s (oneDNN %d.%d.%d), kernels %s, %d thread%s%s, float32 GEMM sgemm panels, bfloat16 GEMM %s",
             name, isa_name(), v->major, v->minor, v->patch, cpu->kernels->name, device->threads,
             device->threads == 1 ? "" : "s", cpu->bound ? " bound to cores" : "",
             cpu->bf16_matmul ? "native matmul primitive" : "sgemm panels");
}

/* Core number i of a set. */
static cpu_set_t core(const cpu_set_t *set, int i) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, set) && i-- == 0) CPU_SET(c, &one);
    return one;
}

/* A signal handler on the stack of a thread that runs oneDNN's AVX-512 GEMM overwrites what the generated code keeps
 * below its stack pointer, and the code then writes astray (seen with 2.6.3, tests/ops/test_signals.c). So no thread
 * runs handlers while it computes. Faults are not held back: their handlers end the process anyway. */
static sigset_t handlers_held_back(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < TSR__COUNT(faults); i++) sigdelset(&held, faults[i]);
    return held;
}

/* OpenMP that is told to bind threads (OMP_PROC_BIND, OMP_PLACES) binds the one that loads it to the first place, from
 * which all others would inherit that. */
static void free_cores(void) {
    cpu_set_t all;
    int ids[CPU_SETSIZE];
    CPU_ZERO(&all);
    for (int place = 0; place < omp_get_num_places(); place++) {
        int n = omp_get_place_num_procs(place);
        if (n <= CPU_SETSIZE) omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < n && n <= CPU_SETSIZE; i++) CPU_SET((size_t)ids[i], &all);
    }
    if (CPU_COUNT(&all) > 0) (void)sched_setaffinity(0, sizeof all, &all); /* failure only costs speed */
}

/* The workers of the team: no signals (for good: they only compute), and a core each if all cores are ours. The caller
 * finds the core that is left and keeps its mask, which later threads of the process inherit. Failure only costs speed.
 * Fewer threads than cores stay free: another rank may have the same cores. What OpenMP was told to bind it has bound
 * by now, the threads of every rank to the same places. */
static void start_threads(tsr__device *device) {
    tsr__cpu *cpu = tsr__cpu_of(device);
    sigset_t held = handlers_held_back();
    int cores = CPU_COUNT(&cpu->allowed);
    cpu->bound = device->threads > 1 && device->threads == cores;
#pragma omp parallel num_threads(device->threads)
    {
        int i = omp_get_thread_num();
        cpu_set_t own = i > 0 && cpu->bound ? core(&cpu->allowed, i) : cpu->allowed;
        if (i > 0) (void)pthread_sigmask(SIG_BLOCK, &held, NULL);
        if (device->threads <= cores) (void)pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    }
}

static void release_threads(const tsr__device *device) {
    const tsr__cpu *cpu = tsr__cpu_of(device);
    if (!cpu->bound) return;
#pragma omp parallel num_threads(device->threads)
    if (omp_get_thread_num() > 0) (void)pthread_setaffinity_np(pthread_self(), sizeof cpu->allowed, &cpu->allowed);
}

static void cpu_destroy(tsr__device *device) {
    tsr__cpu *cpu = tsr__cpu_of(device);
    release_threads(device);
    if (cpu->stream) (void)dnnl_stream_destroy(cpu->stream);
    if (cpu->engine) (void)dnnl_engine_destroy(cpu->engine);
    tsr__free(device->engine, cpu);
}

static tsr_status cpu_create(tsr_engine *engine, tsr__device *device) {
    if (device->threads > MAX_THREADS)
        return tsr__fail(engine, TSR_ARG, "%d threads are more than %d; give 0 for all cores", device->threads,
                         MAX_THREADS);
    tsr__cpu *cpu = device->state = tsr__calloc(engine, 1, sizeof *cpu);
    if (!cpu) return TSR_NOMEM;
    if (device->threads == 0) free_cores(); /* not of a launch, which gives each rank its share */
    if (sched_getaffinity(0, sizeof cpu->allowed, &cpu->allowed) != 0) CPU_ZERO(&cpu->allowed);
    if (device->threads == 0)
        device->threads = CPU_COUNT(&cpu->allowed) > 0 ? tsr__cores_available("", &cpu->allowed) : omp_get_num_procs();
    cpu->kernels = choose_kernels();
    choose_bf16(cpu);
    tsr_status status = tsr__dnnl_check(device, dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), "make an engine");
    if (status == TSR_OK)
        status = tsr__dnnl_check(device, dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags),
                                 "make a stream");
    if (status != TSR_OK) {
        cpu_destroy(device);
        return status;
    }
    start_threads(device);
    describe(device);
    return TSR_OK;
}

static void *cpu_host_pointer(tsr__device *device, void *pointer) {
    (void)device;
    return pointer;
}

static size_t cpu_scratch_bytes(tsr__device *device, const tsr__op *op) {
    static size_t (*const scratch[TSR__OP_COUNT])(const tsr__device *, const tsr__op *) = {
        [TSR__OP_matmul] = tsr__cpu_matmul_scratch,         [TSR__OP_conv2d] = tsr__cpu_conv2d_scratch,
        [TSR__OP_attention] = tsr__cpu_attention_scratch,   [TSR__OP_rms_norm] = tsr__cpu_norm_scratch,
        [TSR__OP_layer_norm] = tsr__cpu_norm_scratch,       [TSR__OP_batch_denorm] = tsr__cpu_norm_scratch,
        [TSR__OP_group_norm] = tsr__cpu_group_norm_scratch,
    };
    return scratch[op->kind] ? scratch[op->kind](device, op) : 0;
}

/* operands: x [m, k], w [n, k], out [m, n] */
static double best_seconds(int64_t m, int64_t k, int64_t n, int runs, float *operands, dnnl_status_t *status) {
    const float *x = operands, *w = x + m * k;
    float *out = operands + (m + n) * k;
    double best = INFINITY;
    for (int i = 0; i < runs && *status == dnnl_success; i++) {
        double begin = tsr__seconds();
        *status = dnnl_sgemm('N', 'T', m, n, k, 1.0f, x, k, w, k, 0.0f, out, n);
        best = fmin(best, tsr__seconds() - begin);
    }
    return best;
}

static tsr_status cpu_gemm_yardstick(tsr__device *device, int64_t m, int64_t k, int64_t n, int runs, double *gflops) {
    float *operands = tsr__calloc(device->engine, (size_t)(m * k + n * k + m * n), sizeof *operands);
    if (!operands) return TSR_NOMEM;
    dnnl_status_t failure = dnnl_success;
    sigset_t held = handlers_held_back(), before;
    omp_set_num_threads(device->threads);
    (void)pthread_sigmask(SIG_BLOCK, &held, &before);
    double seconds = best_seconds(m, k, n, runs, operands, &failure);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    tsr__free(device->engine, operands);
    tsr__memory_trim(); /* oneDNN's packing buffers: what is measured next starts without them */
    TSR__TRY(tsr__dnnl_check(device, failure, "multiply"));
    *gflops = 2e-9 * (double)m * (double)k * (double)n / seconds;
    return TSR_OK;
}

static tsr_status compute(tsr__device *device, const tsr__op *op) {
    static tsr_status (*const slots[TSR__OP_COUNT])(tsr__device *, const tsr__op *) = {
        [TSR__OP_matmul] = tsr__cpu_matmul,
        [TSR__OP_conv2d] = tsr__cpu_conv2d,
        [TSR__OP_attention] = tsr__cpu_attention,
        [TSR__OP_attention_merge] = tsr__cpu_attention_merge,
        [TSR__OP_rms_norm] = tsr__cpu_rms_norm,
        [TSR__OP_layer_norm] = tsr__cpu_layer_norm,
        [TSR__OP_group_norm] = tsr__cpu_group_norm,
        [TSR__OP_batch_denorm] = tsr__cpu_batch_denorm,
        [TSR__OP_modulate] = tsr__cpu_modulate,
        [TSR__OP_gated_add] = tsr__cpu_gated_add,
        [TSR__OP_add] = tsr__cpu_add,
        [TSR__OP_sub] = tsr__cpu_sub,
        [TSR__OP_axpy] = tsr__cpu_axpy,
        [TSR__OP_silu] = tsr__cpu_silu,
        [TSR__OP_swiglu] = tsr__cpu_swiglu,
        [TSR__OP_arange] = tsr__host_arange,
        [TSR__OP_flat_index] = tsr__host_flat_index,
        [TSR__OP_zeros] = tsr__host_zeros,
        [TSR__OP_index_select] = tsr__cpu_index_select,
        [TSR__OP_index_copy] = tsr__cpu_index_copy,
        [TSR__OP_embedding] = tsr__host_embedding,
        [TSR__OP_sinusoid] = tsr__host_sinusoid,
        [TSR__OP_rope_table] = tsr__host_rope_table,
        [TSR__OP_rope] = tsr__cpu_rope,
        [TSR__OP_upsample_nearest2x] = tsr__cpu_upsample_nearest2x,
        [TSR__OP_copy] = tsr__cpu_copy,
        [TSR__OP_concat] = tsr__cpu_concat,
    };
    return slots[op->kind](device, op);
}

static tsr_status cpu_run(tsr__device *device, const tsr__op *op) {
    sigset_t held = handlers_held_back(), before;
    (void)pthread_sigmask(SIG_BLOCK, &held, &before);
    tsr_status status = compute(device, op);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

const tsr__device_ops tsr__device_cpu = {
    .name = "cpu",
    .free_cores = free_cores,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .alloc = tsr__host_alloc,
    .free = tsr__host_free,
    .host_pointer = cpu_host_pointer,
    .upload = tsr__host_copy,
    .download = tsr__host_copy,
    .scratch_bytes = cpu_scratch_bytes,
#define SLOT(name) [TSR__OP_##name] = cpu_run,
    .run = {TSR__OP_LIST(SLOT)},
#undef SLOT
    .gemm_yardstick = cpu_gemm_yardstick,
};
