/* What every test needs: cmocka, an engine, the golden data, temporary folders, comparison of arrays. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/engine.h"

/* An engine on the given device ("cpu", "ref") with quiet logs; fails the test where there is none. */
tsr_engine *test_engine(const char *device);

/* ../shared/golden/<relative>, in a static buffer that the next call overwrites. Where ../shared/golden is absent the
 * test says so and is skipped. */
const char *test_golden(const char *relative);
/* tests/fixtures/<relative>, in the same kind of buffer. */
const char *test_fixture(const char *relative);

/* A fresh temporary folder, removed with its contents at exit. */
const char *test_folder(void);
void test_write_file(const char *path, const void *bytes, size_t length);
/* The whole file, NUL-terminated; free() it. */
char *test_read_file(const char *path, size_t *length);

/* Succeeds, or fails the test with the engine's message. */
#define assert_ok(engine, call)                                                                                        \
    do {                                                                                                               \
        tsr_status assert_ok_status = (call);                                                                          \
        if (assert_ok_status != TSR_OK)                                                                                \
            fail_msg("%s: %s: %s", #call, tsr_status_name(assert_ok_status), tsr_engine_message(engine));              \
    } while (0)
/* Fails with that status and a message that contains `words`. */
#define assert_refused(engine, call, status, words)                                                                    \
    do {                                                                                                               \
        assert_int_equal((call), (status));                                                                            \
        if (!strstr(tsr_engine_message(engine), (words)))                                                              \
            fail_msg("message lacks \"%s\": %s", (words), tsr_engine_message(engine));                                 \
    } while (0)

/* |a - b| <= tolerance (1 + |b|) for all n elements, and no NaN where b has none; else fails, naming the worst. */
void assert_close(const char *what, const float *a, const float *b, size_t n, double tolerance);

#endif
