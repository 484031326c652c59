/* Reading files, and outputs that appear complete or not at all. */
#include "support.h"

#include <tessera/checkpoint.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

static tsr_engine *engine;

/* folder/name in one of four buffers in turn. */
static char *in(const char *folder, const char *name) {
    static char paths[4][512];
    static int next;
    char joined[512]; /* folder may lie in a buffer itself */
    snprintf(joined, sizeof joined, "%s/%s", folder, name);
    return strcpy(paths[next++ % 4], joined);
}

static int entries(const char *folder) {
    int n = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *e; (e = readdir(listing));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(listing);
    return n;
}

static void assert_content(const char *path, const char *expected) {
    char *bytes = test_read_file(path, NULL);
    assert_string_equal(bytes, expected);
    free(bytes);
}

static tsr_status write_text(const char *path, const char *text) {
    tsr__output *output = NULL;
    TSR__TRY(tsr__output_open(engine, path, &output));
    tsr_status status = tsr__output_write(output, text, strlen(text));
    if (status == TSR_OK) return tsr__output_commit(output);
    tsr__output_discard(output);
    return status;
}

static mode_t mode_of(const char *path) {
    struct stat at;
    assert_int_equal(stat(path, &at), 0);
    return at.st_mode & 0777;
}

static void test_join(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {"Ž'ü %s", "b c", "Ž'ü %s/b c"}};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        char *joined = tsr__path_join(engine, rows[i][0], rows[i][1]);
        assert_string_equal(joined, rows[i][2]);
        tsr__free(engine, joined);
    }
}

static void test_read(void **state) {
    (void)state;
    char *bytes = NULL, *path = in(test_folder(), "file"), *text = malloc(10000);
    size_t n = 0;
    memset(text, 'x', 10000);
    for (size_t size = 0; size <= 10000; size += 2500) {
        test_write_file(path, text, size);
        assert_ok(engine, tsr__file_read(engine, path, size, &bytes, &n));
        assert_int_equal(n, size);
        assert_int_equal(strlen(bytes), size);
        tsr__free(engine, bytes);
    }
    assert_refused(engine, tsr__file_read(engine, path, 9999, &bytes, &n), TSR_FORMAT, "larger than the 9999 bytes");
    assert_refused(engine, tsr__file_read(engine, "/tmp", 9, &bytes, &n), TSR_IO, "/tmp: cannot be read");
    assert_refused(engine, tsr__file_read(engine, "/no/such", 9, &bytes, &n), TSR_IO, "/no/such: cannot be opened: No");
    assert_refused(engine, tsr__file_read(engine, "/dev/zero", 9999, &bytes, &n), TSR_FORMAT, "larger");
    char *pipe = in(test_folder(), "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_refused(engine, tsr__file_read(engine, pipe, 9, &bytes, &n), TSR_IO, "pipe that nobody writes into");
    int fd = open(pipe, O_RDWR); /* with a writer it is read as ever: to its end, or to the limit */
    assert_int_equal(write(fd, "0123456789", 10), 10);
    assert_refused(engine, tsr__file_read(engine, pipe, 9, &bytes, &n), TSR_FORMAT, "larger than the 9 bytes");
    close(fd);
    assert_ok(engine, tsr__file_read(engine, "/proc/self/status", 99999, &bytes, &n)); /* its size is said to be 0 */
    assert_true(n > 100);
    tsr__free(engine, bytes);
    free(text);
}

static void test_output_replaces(void **state) {
    (void)state;
    const char *folder = test_folder();
    char *path = in(folder, "out"), *link = in(folder, "link"), *dangling = in(folder, "dangling");
    mode_t mask = umask(027);
    assert_ok(engine, tsr_output_check(engine, path));
    assert_int_equal(entries(folder), 0);
    assert_ok(engine, write_text(path, "one"));
    assert_content(path, "one");
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(chmod(path, 0604), 0);
    assert_ok(engine, write_text(path, "two"));
    assert_int_equal(mode_of(path), 0604);
    umask(mask);
    assert_int_equal(symlink("out", link), 0);
    assert_ok(engine, write_text(link, "three"));
    assert_content(path, "three");
    struct stat at;
    assert_int_equal(lstat(link, &at), 0);
    assert_true(S_ISLNK(at.st_mode));
    assert_int_equal(symlink("new", dangling), 0);
    assert_ok(engine, write_text(dangling, "four"));
    assert_content(in(folder, "new"), "four");
    assert_int_equal(entries(folder), 4);
}

static void test_output_discarded(void **state) {
    (void)state;
    const char *folder = test_folder();
    char *path = in(folder, "out");
    tsr__output *output = NULL;
    assert_ok(engine, write_text(path, "old"));
    assert_ok(engine, tsr__output_open(engine, path, &output));
    assert_ok(engine, tsr__output_write(output, "half", 4));
    assert_content(path, "old");
    assert_int_equal(entries(folder), 2);
    tsr__output_discard(output);
    assert_content(path, "old");
    assert_int_equal(entries(folder), 1);
    /* commit fails where the folder has gone from under it */
    char *gone = in(folder, "gone");
    assert_int_equal(mkdir(gone, 0700), 0);
    assert_ok(engine, tsr__output_open(engine, in(gone, "out"), &output));
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", gone);
    assert_int_equal(system(command), 0);
    assert_refused(engine, tsr__output_commit(output), TSR_IO, strerror(ENOENT));
}

static void test_output_refused(void **state) {
    (void)state;
    const char *folder = test_folder();
    char *loop = in(folder, "loop"), name[300];
    assert_int_equal(symlink("loop", loop), 0);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    const struct {
        const char *path;
        tsr_status status;
        int reason;
    } rows[] = {
        {"", TSR_ARG, 0},
        {folder, TSR_IO, EISDIR},
        {"/no/such/folder/out", TSR_IO, ENOENT},
        {"/etc/passwd/out", TSR_IO, ENOTDIR},
        {"new-folder/", TSR_IO, EISDIR},
        {loop, TSR_IO, ELOOP},
        {name, TSR_IO, ENAMETOOLONG},
        {"/proc/no-such", TSR_IO, ENOENT},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        const char *words = rows[i].reason ? strerror(rows[i].reason) : "empty";
        assert_refused(engine, tsr_output_check(engine, rows[i].path), rows[i].status, words);
        assert_refused(engine, write_text(rows[i].path, "x"), rows[i].status, words);
    }
    assert_int_equal(entries(folder), 1);
}

/* The folder of test_folder() is closed to others; root checks as nobody. */
static void test_output_without_permission(void **state) {
    (void)state;
    char *folder = in("/tmp", "tessera-test-permission-XXXXXX"), *path = NULL;
    assert_non_null(mkdtemp(folder));
    path = in(folder, "out");
    assert_ok(engine, write_text(path, "old"));
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    bool root = geteuid() == 0;
    if (root) assert_int_equal(seteuid(65534), 0);
    tsr_status existing = tsr_output_check(engine, path), fresh = tsr_output_check(engine, in(folder, "new"));
    tsr_status written = write_text(path, "new");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(existing, TSR_IO);
    assert_int_equal(fresh, TSR_IO);
    assert_int_equal(written, TSR_IO);
    assert_non_null(strstr(tsr_engine_message(engine), strerror(EACCES)));
    assert_content(path, "old");
    assert_int_equal(chmod(folder, 0755), 0);
    unlink(path);
    rmdir(folder);
}

static void test_output_in_place(void **state) {
    (void)state;
    const char *folder = test_folder();
    char *full = in(folder, "full"), *pipe = in(folder, "pipe"), bytes[8] = {0};
    assert_int_equal(symlink("/dev/full", full), 0);
    assert_ok(engine, tsr_output_check(engine, full));
    assert_refused(engine, write_text(full, "x"), TSR_IO, strerror(ENOSPC));
    assert_refused(engine, write_text("/dev/full", "x"), TSR_IO, strerror(ENOSPC));
    assert_ok(engine, write_text("/dev/null", "x"));
    struct stat at;
    assert_int_equal(stat("/dev/full", &at), 0);
    assert_true(S_ISCHR(at.st_mode));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_ok(engine, tsr_output_check(engine, pipe)); /* does not wait for a reader */
    int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_ok(engine, write_text(pipe, "fifo"));
    assert_int_equal(read(fd, bytes, sizeof bytes), 4);
    assert_string_equal(bytes, "fifo");
    close(fd);
    /* an open file by its name in /proc: written in place, which the same inode shows */
    char *path = in(folder, "open"), name[64];
    fd = open(path, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, i ? "/dev/fd/%d" : "/proc/self/fd/%d", fd);
        assert_ok(engine, tsr_output_check(engine, name));
        assert_ok(engine, write_text(name, i ? "there" : "here"));
        assert_int_equal(pread(fd, bytes, sizeof bytes, 0), i ? 5 : 4);
    }
    close(fd);
    assert_int_equal(entries(folder), 3);
}

static void test_no_memory(void **state) {
    (void)state;
    const char *folder = test_folder();
    size_t before = tsr_engine_memory_current(engine);
    tsr_status status = TSR_NOMEM;
    for (int k = 0; status != TSR_OK; k++) {
        atomic_store(&engine->allocator.count, 0);
        atomic_store(&engine->allocator.fail_at, k);
        status = write_text(in(folder, "out"), "text");
        atomic_store(&engine->allocator.fail_at, -1);
        assert_true(status == TSR_OK || (status == TSR_NOMEM && entries(folder) == 0));
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
    assert_content(in(folder, "out"), "text");
}

static void test_impostors(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"},
        {"\n <!DOCTYPE html>", "HTML page"},
        {"<HTML>", "HTML page"},
        {"PK\3\4", "pickle"},
        {"\x80\2}q", "pickle"},
        {"GGUF\3", "GGUF"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++)
        assert_refused(engine, tsr__file_refuse_impostor(engine, "a/b", rows[i][0], strlen(rows[i][0])), TSR_FORMAT,
                       rows[i][1]);
    assert_ok(engine, tsr__file_refuse_impostor(engine, "a/b", "{}", 2));
    assert_ok(engine, tsr__file_refuse_impostor(engine, "a/b", "", 0));
    assert_ok(engine, tsr__file_refuse_impostor(engine, "a/b", "version", 7));
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_output_replaces),
        cmocka_unit_test(test_output_discarded),
        cmocka_unit_test(test_output_refused),
        cmocka_unit_test(test_output_without_permission),
        cmocka_unit_test(test_output_in_place),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_impostors),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
