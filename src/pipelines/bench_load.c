/* A component's weights read by slices, against read whole and then cut, beside a plain read of as many bytes. */
#include "pipelines/bench_load.h"

#include "base/machine.h"
#include "io/checkpoint.h"

#include <tessera/bench.h>

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

typedef struct bench {
    tsr__bench_load load;
    const tsr_bench_load_options *o;
    tsr_bench_load_result result;
} bench;

/* The ways in the order of a round; `mode`: which one leaves it out. */
static const struct {
    tsr__bench_load_way load;
    size_t result;
    tsr_bench_load_mode left_out_by;
} ways[] = {
    {tsr__bench_load_plain, offsetof(tsr_bench_load_result, plain), TSR_LOAD_BOTH},
    {tsr__bench_load_streamed, offsetof(tsr_bench_load_result, streamed), TSR_LOAD_WHOLE},
    {tsr__bench_load_whole, offsetof(tsr_bench_load_result, whole), TSR_LOAD_STREAMED},
};

/* --- one load is measured --- */

static tsr_status drop_from_page_cache(const bench *b) {
    tsr_checkpoint *checkpoint = NULL;
    TSR__TRY(tsr_checkpoint_open(b->load.engine, b->o->folder, &checkpoint));
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        (void)fdatasync(checkpoint->files[i].fd); /* pages that are not written yet cannot be dropped */
        (void)posix_fadvise(checkpoint->files[i].fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    tsr_checkpoint_close(checkpoint);
    return TSR_OK;
}

/* So that each load begins alike: what the one before it released is not there to be taken again. */
static tsr_status prepare(const bench *b) {
    tsr__memory_trim();
    tsr__memory_peak_reset(b->load.engine);
    (void)tsr__memory_resident_peak_reset();
    return b->o->cold ? drop_from_page_cache(b) : TSR_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Collective: no rank drops what another one is reading, and all start at once. */
static tsr_status measure(const bench *b, tsr__bench_load_way load, tsr_bench_load_part *best) {
    tsr_bench_load_part part = {0};
    TSR__TRY(tsr_status_agree(b->load.engine, prepare(b)));
    tsr_status status = load(&b->load, tsr__seconds(), &part);
    part.peak = larger(tsr_engine_memory_peak(b->load.engine), best->peak);
    part.peak_resident = larger(tsr__memory_resident_peak(), best->peak_resident);
    TSR__TRY(tsr_status_agree(b->load.engine, status));
    TSR__TRY(tsr__all_greatest(tsr__world(b->load.engine), &part.seconds));
    if (best->seconds > 0 && best->seconds < part.seconds) part.seconds = best->seconds;
    *best = part;
    return TSR_OK;
}

/* --- all of it --- */

/* Sizes, before any weight is read. *whole: of all weights. */
static tsr_status size_up(bench *b, size_t *whole) {
    tsr_model *model = NULL;
    TSR__TRY(tsr__model_open(b->load.engine, b->o->folder, "model", NULL, &model));
    *whole = model->weight_bytes;
    tsr_status status = tsr__model_split(model, NULL, b->load.rank, b->load.degree);
    b->result.weight_bytes = b->load.weight_bytes = model->weight_bytes;
    tsr_model_destroy(model);
    return status;
}

/* Whether there is room for everything and the part; says so where there is none. */
static tsr_status fits_whole(const bench *b, size_t whole, bool *fits) {
    tsr_engine *engine = b->load.engine;
    if (b->o->mode == TSR_LOAD_STREAMED) return TSR_OK;
    tsr_status status =
        tsr__memory_check(engine, "the load of everything", whole + b->load.weight_bytes, 0, true, b->o->force);
    *fits = status == TSR_OK;
    if (status != TSR_NOMEM) return status;
    tsr__log(engine, TSR_LOG_WARNING, "whole is left out: %s", engine->message);
    return TSR_OK;
}

static tsr_status measure_round(bench *b, bool with_whole, tsr_bench_load_result *result) {
    for (size_t i = 0; i < TSR__COUNT(ways); i++) {
        bool off = ways[i].left_out_by && ways[i].left_out_by == b->o->mode;
        if (off || (ways[i].load == tsr__bench_load_whole && !with_whole)) continue;
        void *part = (char *)result + ways[i].result;
        TSR__TRY(measure(b, ways[i].load, part));
    }
    return TSR_OK;
}

static tsr_status run(bench *b) {
    size_t whole = 0;
    bool with_whole = false;
    tsr_bench_load_result warm_up = {0};
    TSR__TRY(tsr_status_agree(b->load.engine, size_up(b, &whole)));
    TSR__TRY(tsr__memory_check(b->load.engine, "the streamed load", b->load.weight_bytes, 0, true, b->o->force));
    TSR__TRY(fits_whole(b, whole, &with_whole));
    if (!b->o->cold) TSR__TRY(measure_round(b, with_whole, &warm_up));
    for (int i = 0; i < b->o->repeats; i++) TSR__TRY(measure_round(b, with_whole, &b->result));
    return TSR_OK;
}

static tsr_status resolve(bench *b) {
    tsr_engine *engine = b->load.engine;
    const tsr_bench_load_options *o = b->o;
    int size = engine->size;
    b->load.folder = o->folder;
    b->load.degree = o->tp_degree ? o->tp_degree : size;
    b->load.rank = b->result.rank = o->as_rank >= 0 ? o->as_rank : engine->rank;
    if (!o->folder || o->repeats < 1)
        return tsr__fail(engine, TSR_ARG, "bench load needs a folder and at least one repeat");
    if (o->as_rank >= 0 && (size != 1 || b->load.rank >= b->load.degree))
        return tsr__fail(engine, TSR_ARG, "rank %d of %d can be imagined by one rank only, but there are %d",
                         b->load.rank, b->load.degree, size);
    if (o->as_rank < 0 && b->load.degree != size)
        return tsr__fail(engine, TSR_ARG, "tp %d needs as many ranks, but there are %d", b->load.degree, size);
    return TSR_OK;
}

tsr_status tsr_bench_load(tsr_engine *engine, const tsr_bench_load_options *options, tsr_bench_load_result *results) {
    tsr_bench_load_options o = TSR_BENCH_LOAD_OPTIONS_INIT;
    tsr__take_options(&o, sizeof o, options);
    bench b = {.load = {.engine = engine}, .o = &o};
    TSR__TRY(resolve(&b));
    TSR__TRY(run(&b));
    return tsr__all_gather_equal(tsr__world(engine), &b.result, sizeof b.result, results);
}
