/* tessera-safetensors-edit IN OUT EDIT [VALUE ...]: a copy of a safetensors file with one fault, or one harmless
 * oddity.
 *
 *   pad N                  N blanks behind the header's JSON
 *   append N | truncate N  bytes more or fewer at the end
 *   keep N                 the first N bytes of the file alone
 *   entry NAME DTYPE SHAPE BEGIN END   one more entry in the header, the data untouched; SHAPE like 2,3 or -;
 *                          BEGIN, END: numbers, end, end+N, or @TENSOR+N (where that tensor begins)
 *   drop NAME              the file without that tensor
 *   set NAME V [V ...]     the tensor's elements in order; the last value fills the rest
 *   scale PATTERN F [F ...]  tensors whose names match: as many equal parts along dimension 0 as there are factors
 *   dtype NAME TEXT        what the header calls its dtype
 *   reshape NAME SHAPE     of the same size
 *   rename NAME NEW        (the last five by rewriting the whole file or its header)
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/checkpoint.h>

typedef struct raw {
    char *bytes;
    size_t n, header; /* length of the header's JSON, behind its 8 bytes of length */
} raw;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "tessera-safetensors-edit: %s %s\n", what, detail);
    exit(2);
}

static void *need(void *memory) {
    if (!memory) die("out of memory", "");
    return memory;
}

static raw load(const char *path) {
    raw r = {0};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) die("cannot open", path);
    r.n = (size_t)ftell(file);
    rewind(file);
    r.bytes = need(malloc(r.n + 1));
    if (fread(r.bytes, 1, r.n, file) != r.n || r.n < 8) die("cannot read", path);
    fclose(file);
    for (int i = 7; i >= 0; i--) r.header = r.header << 8 | (unsigned char)r.bytes[i];
    if (r.header > r.n - 8) die("broken:", path);
    return r;
}

static void write_file(const char *path, const char *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) die("cannot write", path);
}

/* Replaces `cut` bytes at offset `at` of the header by text. */
static void splice(raw *r, size_t at, size_t cut, const char *text) {
    size_t more = strlen(text), rest = r->n - 8 - at - cut;
    char *bytes = need(malloc(r->n + more + 1));
    memcpy(bytes, r->bytes, 8 + at);
    memcpy(bytes + 8 + at, text, more);
    memcpy(bytes + 8 + at + more, r->bytes + 8 + at + cut, rest);
    free(r->bytes);
    r->bytes = bytes;
    r->n = r->n + more - cut;
    r->header = r->header + more - cut;
    for (int i = 0; i < 8; i++) r->bytes[i] = (char)(r->header >> (8 * i) & 0xff);
}

/* ---- edits of the bytes ---- */

static void pad(raw *r, size_t n) {
    char *blanks = need(calloc(n + 1, 1));
    memset(blanks, ' ', n);
    splice(r, r->header, 0, blanks);
    free(blanks);
}

static void append(raw *r, size_t n) {
    r->bytes = need(realloc(r->bytes, r->n + n + 1));
    memset(r->bytes + r->n, 0, n);
    r->n += n;
}

/* Where the header speaks of a tensor: the offset of its opening quote. */
static size_t find(const raw *r, const char *name) {
    char key[300];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = memmem(r->bytes + 8, r->header, key, strlen(key));
    if (!at) die("no tensor", name);
    return (size_t)(at - r->bytes - 8);
}

/* The offset behind `word` in the entry that begins at `from`. */
static size_t find_in(const raw *r, size_t from, const char *word) {
    const char *at = memmem(r->bytes + 8 + from, r->header - from, word, strlen(word));
    if (!at) die("header lacks", word);
    return (size_t)(at - r->bytes - 8) + strlen(word);
}

static size_t offset(const raw *r, const char *text) {
    char name[300];
    const char *plus = strrchr(text, '+');
    size_t more = plus ? strtoull(plus + 1, NULL, 10) : 0, length = plus ? (size_t)(plus - text) : strlen(text);
    if (strncmp(text, "end", 3) == 0) return r->n - 8 - r->header + more;
    if (*text != '@') return strtoull(text, NULL, 10);
    snprintf(name, sizeof name, "%.*s", (int)length - 1, text + 1);
    size_t at = find_in(r, find_in(r, find(r, name), "\"data_offsets\""), "[");
    return strtoull(r->bytes + 8 + at, NULL, 10) + more;
}

static void entry(raw *r, char **v) {
    char text[600];
    snprintf(text, sizeof text, "\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]},", v[0], v[1],
             *v[2] == '-' ? "" : v[2], offset(r, v[3]), offset(r, v[4]));
    splice(r, find_in(r, 0, "{"), 0, text);
}

static void set_dtype(raw *r, char **v) {
    size_t begin = find_in(r, find_in(r, find(r, v[0]), "\"dtype\""), "\"");
    splice(r, begin, find_in(r, begin, "\"") - 1 - begin, v[1]);
}

static void reshape(raw *r, char **v) {
    size_t begin = find_in(r, find_in(r, find(r, v[0]), "\"shape\""), "[");
    splice(r, begin, find_in(r, begin, "]") - 1 - begin, v[1]);
}

static void rename_tensor(raw *r, char **v) { splice(r, find(r, v[0]) + 1, strlen(v[0]), v[1]); }

/* ---- edits of tensors: read all, write all ---- */

static void set_values(tsr_tensor *t, int n, char **values) {
    size_t count = (size_t)tsr_tensor_elements(t), width = tsr_dtype_bits(t->dtype) / 8;
    for (size_t i = 0; i < count; i++) {
        float value = strtof(values[i < (size_t)n ? i : (size_t)n - 1], NULL);
        if (!tsr_convert_from_f32(t->dtype, &value, (char *)t->data + i * width, 1)) die("cannot set", t->name);
    }
}

/* Rows in as many equal parts as there are factors. */
static void scale_values(tsr_tensor *t, int n, char **factors) {
    size_t count = (size_t)tsr_tensor_elements(t), width = tsr_dtype_bits(t->dtype) / 8;
    if (t->shape[0] % n != 0) die("cannot be cut into as many parts:", t->name);
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)t->data + i * width;
        float value = 0;
        if (!tsr_convert_to_f32(t->dtype, at, &value, 1)) die("cannot scale", t->name);
        value *= strtof(factors[i * (size_t)n / count], NULL);
        if (!tsr_convert_from_f32(t->dtype, &value, at, 1)) die("cannot scale", t->name);
    }
}

static void rewrite(const char *in, const char *out, const char *edit, int n, char **v) {
    tsr_engine *engine = NULL;
    tsr_checkpoint *file = NULL;
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref";
    if (tsr_engine_create(&options, &engine) != TSR_OK) die("no engine", "");
    if (tsr_checkpoint_open(engine, in, &file) != TSR_OK) die("cannot open:", tsr_engine_message(engine));
    size_t kept = 0, count = tsr_checkpoint_count(file);
    bool found = false, drop = strcmp(edit, "drop") == 0, scale = strcmp(edit, "scale") == 0;
    tsr_tensor *tensors = need(calloc(count + 1, sizeof *tensors));
    for (size_t i = 0; i < count; i++) {
        const tsr_tensor_info *info = tsr_checkpoint_at(file, i);
        bool it = (scale ? fnmatch(v[0], info->name, 0) : strcmp(info->name, v[0])) == 0;
        found |= it;
        if (it && drop) continue;
        tsr_tensor *t = &tensors[kept++];
        *t = (tsr_tensor){.name = info->name, .dtype = info->dtype, .ndim = info->ndim};
        memcpy(t->shape, info->shape, sizeof t->shape);
        t->data = need(malloc((size_t)info->size + 1));
        if (tsr_checkpoint_read(file, info, 0, NULL, 0, t->data, (size_t)info->size) != TSR_OK)
            die("cannot read:", tsr_engine_message(engine));
        if (it) (scale ? scale_values : set_values)(t, n - 1, v + 1);
    }
    if (!found && !scale) die("no tensor", v[0]); /* a pattern may match in other files */
    const char *const metadata[] = {"format", "pt", NULL};
    if (tsr_safetensors_save(engine, out, tensors, kept, metadata) != TSR_OK)
        die("cannot save:", tsr_engine_message(engine));
    for (size_t i = 0; i < kept; i++) free(tensors[i].data);
    free(tensors);
    tsr_checkpoint_close(file);
    tsr_engine_destroy(engine);
}

int main(int argc, char **argv) {
    if (argc < 5) die("usage:", "IN OUT EDIT VALUE ...");
    const char *in = argv[1], *out = argv[2], *edit = argv[3];
    char **v = argv + 4;
    int n = argc - 4;
    bool values = strcmp(edit, "set") == 0 || strcmp(edit, "scale") == 0;
    if (strcmp(edit, "drop") == 0 || (values && n > 1)) {
        rewrite(in, out, edit, n, v);
        return 0;
    }
    raw r = load(in);
    size_t number = strtoull(v[0], NULL, 10);
    if (strcmp(edit, "pad") == 0)
        pad(&r, number);
    else if (strcmp(edit, "append") == 0)
        append(&r, number);
    else if (strcmp(edit, "truncate") == 0 && number <= r.n)
        r.n -= number;
    else if (strcmp(edit, "keep") == 0 && number <= r.n)
        r.n = number;
    else if (strcmp(edit, "entry") == 0 && n == 5)
        entry(&r, v);
    else if (strcmp(edit, "dtype") == 0 && n == 2)
        set_dtype(&r, v);
    else if (strcmp(edit, "reshape") == 0 && n == 2)
        reshape(&r, v);
    else if (strcmp(edit, "rename") == 0 && n == 2)
        rename_tensor(&r, v);
    else
        die("unknown edit", edit);
    write_file(out, r.bytes, r.n);
    free(r.bytes);
    return 0;
}
