#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tsr_engine *test_engine(const char *device) {
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = device;
    options.log_level = TSR_LOG_ERROR;
    tsr_engine *engine = NULL;
    if (tsr_engine_create(&options, &engine) != TSR_OK) fail_msg("no engine on device %s", device);
    return engine;
}

static const char *join(char *buffer, size_t size, const char *folder, const char *relative) {
    snprintf(buffer, size, "%s/%s", folder, relative);
    return buffer;
}

const char *test_golden(const char *relative) {
    static char path[4096];
    const char *folder = getenv("TESSERA_GOLDEN");
    if (!folder) folder = "../shared/golden";
    if (access(folder, R_OK) != 0) {
        print_message("skipped: %s is absent\n", folder);
        skip();
    }
    return join(path, sizeof path, folder, relative);
}

const char *test_fixture(const char *relative) {
    static char path[4096];
    const char *source = getenv("TESSERA_SOURCE");
    char folder[2048];
    snprintf(folder, sizeof folder, "%s/tests/fixtures", source ? source : ".");
    return join(path, sizeof path, folder, relative);
}

static char temporary[64];

static void remove_temporary(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", temporary);
    if (system(command) != 0) fprintf(stderr, "could not remove %s\n", temporary);
}

const char *test_folder(void) {
    static char folder[96];
    static int number;
    if (!*temporary) {
        snprintf(temporary, sizeof temporary, "/tmp/tessera-test-XXXXXX");
        assert_non_null(mkdtemp(temporary));
        atexit(remove_temporary);
    }
    snprintf(folder, sizeof folder, "%s/%d", temporary, number++);
    assert_int_equal(mkdir(folder, 0700), 0);
    return folder;
}

void test_write_file(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

char *test_read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(size + 1);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    bytes[size] = '\0';
    if (length) *length = size;
    return bytes;
}

void assert_close(const char *what, const float *a, const float *b, size_t n, double tolerance) {
    double worst = -1.0;
    size_t where = 0;
    for (size_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        double error = fabs((double)a[i] - (double)b[i]) / (1.0 + fabs((double)b[i]));
        if (isnan(error)) error = INFINITY;
        if (error > worst) worst = error, where = i;
    }
    if (worst > tolerance)
        fail_msg("%s: element %zu of %zu is %.9g, expected %.9g: off by %.3g, allowed %.3g", what, where, n,
                 (double)a[where], (double)b[where], worst, tolerance);
}
