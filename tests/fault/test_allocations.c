/* Every allocation of a picture fails in turn: the call ends with a message, and nothing leaks. */
#include "klein.h"

#include <stdio.h>

static const klein_case tiny = {"tiny", {"a cat"}, 16, 16, 1, 4.0, 1, 8, true};

typedef struct attempt {
    tsr_engine *engine;
    const char *folder, *dump;
} attempt;

static tsr_status draw(const attempt *a) {
    tsr_pipeline_options options = TSR_PIPELINE_OPTIONS_INIT;
    tsr_generate_options what = klein_options(&tiny);
    tsr_pipeline *pipeline = NULL;
    tsr_images *images = NULL;
    what.dump = a->dump;
    what.dump_blocks = a->dump != NULL;
    tsr_status status = tsr_pipeline_from_pretrained(a->engine, a->folder, &options, &pipeline);
    if (status == TSR_OK) status = tsr_pipeline_generate(pipeline, &what, &images);
    tsr_images_free(a->engine, images);
    tsr_pipeline_destroy(pipeline);
    return status;
}

/* The first allocations one by one, then in steps that grow: each place once is what matters. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    char folder[4096], dump[256];
    snprintf(folder, sizeof folder, "%s", test_fixture("klein"));
    snprintf(dump, sizeof dump, "%s", test_folder());
    tsr_engine *engine = test_engine("cpu");
    attempt a = {engine, folder, dump};
    size_t before = tsr_engine_memory_current(engine);
    long long failures = 0;
    for (long long k = 0;; k += 1 + k / 97) {
        atomic_store(&engine->allocator.fail_at, atomic_load(&engine->allocator.count) + k);
        tsr_status status = draw(&a);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_int_equal(tsr_engine_memory_current(engine), before);
        if (status == TSR_OK) break;
        if (status != TSR_NOMEM)
            fail_msg("allocation %lld: %s: %s", k, tsr_status_name(status), tsr_engine_message(engine));
        failures++;
    }
    assert_true(failures > 100);
    assert_int_equal(draw(&a), TSR_OK);
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
