#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli.h"

bool cli_has_extension(const char *path, const char *extension) {
    size_t n = strlen(path), m = strlen(extension);
    return n > m && path[n - m - 1] != '/' && strcasecmp(path + n - m, extension) == 0;
}

static size_t stem_length(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    return dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
}

int cli_check_extension(const char *command, const char *option, const char *path, const char *extension) {
    struct stat at;
    if (cli_has_extension(path, extension)) return CLI_DONE;
    if (stat(path, &at) == 0 && !S_ISREG(at.st_mode)) return CLI_DONE;
    size_t n = strlen(path);
    if (path[n - 1] == '/')
        return cli_usage(command, "%s: the output must be a file with a name in %s", path, extension);
    return cli_usage(command, "%s: Tessera writes %s files only; use %s '%.*s%s'", path, extension, option,
                     (int)stem_length(path), path, extension);
}

static bool same_entry(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The name behind the folder, and the folder, where that is there. */
static const char *split_path(const char *path, struct stat *folder, bool *there) {
    const char *slash = strrchr(path, '/');
    char *above = slash ? cli_format("%.*s", (int)(slash - path) + 1, path) : cli_format(".");
    *there = stat(above, folder) == 0;
    free(above);
    return slash ? slash + 1 : path;
}

bool cli_same_file(const char *a, const char *b) {
    struct stat left, right;
    bool left_there = stat(a, &left) == 0, right_there = stat(b, &right) == 0;
    if (left_there || right_there)
        return left_there && right_there && S_ISREG(left.st_mode) && same_entry(&left, &right);
    const char *name = split_path(a, &left, &left_there), *other = split_path(b, &right, &right_there);
    if (!left_there || !right_there) return strcmp(a, b) == 0;
    return strcmp(name, other) == 0 && same_entry(&left, &right);
}

char *cli_picture_name(const char *path, size_t i, size_t n) {
    static const char extension[] = ".png";
    if (n == 1 || !cli_has_extension(path, extension)) return cli_format("%s", path);
    int stem = (int)(strlen(path) - strlen(extension));
    return cli_format("%.*s.%zu%s", stem, path, i, path + stem);
}

void cli_size_text(double bytes, char out[32]) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++) bytes /= 1000;
    snprintf(out, 32, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
}

size_t cli_utf8_length(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    if (!c[0]) return 0;
    if (c[0] < 0x80) return 1;
    size_t n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    uint32_t point = c[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (c[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool good = c[0] >= 0xc0 && c[0] < 0xf8 && point >= least[n] && point < 0x110000 && (point & ~0x7ffu) != 0xd800;
    return good ? n : 0;
}

size_t cli_utf8_valid(const char *text) {
    size_t at = 0;
    for (size_t n; (n = cli_utf8_length(text + at)); at += n)
        ;
    return at;
}

void cli_print_json_string(const char *text) {
    putchar('"');
    while (*text) {
        size_t n = cli_utf8_length(text);
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if (n == 1 && (*text < 0x20 || *text == 0x7f))
            printf("\\u%04x", (unsigned)*text);
        else if (n)
            fwrite(text, 1, n, stdout);
        else
            fputs("\\ufffd", stdout);
        text += n ? n : 1;
    }
    putchar('"');
}
