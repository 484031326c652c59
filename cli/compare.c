#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- taking --- */

/* Element i of the sample of n elements: splitmix64. */
static size_t sampled_index(size_t i, size_t n) {
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((z ^ (z >> 31)) % n);
}

bool cli_output_take(const tsr_tensor *t, bool sampled, cli_output *out) {
    size_t all = (size_t)tsr_tensor_elements(t), size = tsr_dtype_bits(t->dtype) / 8;
    bool some = sampled && all > CLI_SAMPLE, good = true;
    cli_output o = {.dtype = t->dtype, .ndim = t->ndim, .n = some ? CLI_SAMPLE : all};
    memcpy(o.shape, t->shape, sizeof o.shape);
    o.name = cli_format("%s", t->name);
    o.values = cli_alloc(o.n, sizeof *o.values);
    if (!some) good = tsr_convert_to_f32(t->dtype, t->data, o.values, all);
    for (size_t i = 0; i < o.n && some && good; i++)
        good = tsr_convert_to_f32(t->dtype, (const char *)t->data + sampled_index(i, all) * size, &o.values[i], 1);
    if (good)
        *out = o;
    else
        cli_output_free(&o);
    return good;
}

void cli_output_free(cli_output *o) {
    free(o->name);
    free(o->values);
}

/* "[2, 16, 32]"; free(3). */
static char *shape_text(int ndim, const int64_t *shape) {
    char *text = cli_format("[");
    for (int i = 0; i < ndim; i++) {
        char *longer = cli_format("%s%s%lld", text, i ? ", " : "", (long long)shape[i]);
        free(text);
        text = longer;
    }
    char *closed = cli_format("%s]", text);
    free(text);
    return closed;
}

/* --- comparing --- */

static bool is_floating(tsr_dtype dtype) { return dtype == TSR_F32 || dtype == TSR_BF16 || dtype == TSR_F16; }

static void compare_values(const cli_comparison *c, const cli_output *a, const cli_output *b, cli_difference *d) {
    double atol = d->floating ? c->atol : d->picture ? 1.0 : 0.0, rtol = d->floating ? c->rtol : 0.0;
    d->compared = a->n;
    for (size_t i = 0; i < a->n; i++) {
        double x = (double)a->values[i], y = (double)b->values[i];
        bool finite = isfinite(x) && isfinite(y); /* what is not agrees with nothing, itself included */
        double apart = finite ? fabs(x - y) : INFINITY, figure = finite ? apart / (1.0 + fabs(y)) : INFINITY;
        d->not_finite += !finite;
        d->departed += !finite || apart > atol + rtol * fabs(y);
        if (d->floating && figure > d->figure) d->figure = figure;
        if (apart <= d->largest) continue;
        d->largest = apart;
        d->a = a->values[i];
        d->b = b->values[i];
    }
}

static cli_difference *add(cli_comparison *c) {
    c->all = cli_grow(c->all, c->n, &c->capacity, sizeof *c->all);
    return &c->all[c->n++];
}

void cli_compare(cli_comparison *c, const cli_output *a, const cli_output *b) {
    cli_difference d = {.name = cli_format("%s", a->name), .ndim = a->ndim};
    memcpy(d.shape, a->shape, sizeof d.shape);
    d.floating = is_floating(b->dtype);
    d.picture = strcmp(a->name, "image_u8") == 0;
    if (a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0) {
        compare_values(c, a, b, &d);
    } else {
        d.expected_shape = shape_text(b->ndim, b->shape);
        d.departed = a->n;
        d.largest = INFINITY;
        d.figure = d.floating ? INFINITY : 0.0;
    }
    c->departed += d.departed > 0;
    *add(c) = d;
}

void cli_comparison_free(cli_comparison *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->all[i].name);
        free(c->all[i].expected_shape);
    }
    free(c->all);
}

const cli_difference *cli_comparison_first(const cli_comparison *c) {
    for (size_t i = 0; i < c->n; i++)
        if (c->all[i].departed) return &c->all[i];
    return NULL;
}

/* The floating one with the largest figure. */
static const cli_difference *worst_of(const cli_comparison *c) {
    const cli_difference *worst = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (c->all[i].floating && (!worst || c->all[i].figure > worst->figure)) worst = &c->all[i];
    return worst;
}

/* Levels of 255 between the pictures; -1 where none was compared. */
static int levels_of(const cli_comparison *c) {
    for (size_t i = 0; i < c->n; i++)
        if (c->all[i].picture) return c->all[i].expected_shape ? 255 : (int)c->all[i].largest;
    return -1;
}

/* --- printing --- */

static void print_number(const char *key, double number) {
    if (isfinite(number))
        printf(", \"%s\": %.9g", key, number);
    else
        printf(", \"%s\": null", key);
}

static void print_json_difference(const char *before, const cli_difference *d) {
    fputs(before, stdout);
    if (!d) {
        fputs("null", stdout);
        return;
    }
    char *shape = shape_text(d->ndim, d->shape);
    printf("{\"name\": \"%s\", \"shape\": %s", d->name, shape);
    if (d->expected_shape) printf(", \"expected_shape\": %s", d->expected_shape);
    printf(", \"compared\": %zu, \"departed\": %zu", d->compared, d->departed);
    print_number("largest", d->largest);
    print_number("figure", d->figure);
    putchar('}');
    free(shape);
}

static void print_json(const cli_comparison *c, bool agrees) {
    printf("{\"agrees\": %s, \"layout\": \"%s\", \"against\": ", agrees ? "true" : "false", c->layout);
    if (c->against)
        cli_print_json_string(c->against);
    else
        fputs("null", stdout);
    printf(", \"atol\": %.9g, \"rtol\": %.9g, \"compared\": %zu, \"departed\": %zu, \"unmatched\": %zu", c->atol,
           c->rtol, c->n, c->departed, c->unmatched);
    if (levels_of(c) >= 0) printf(", \"picture_levels\": %d", levels_of(c));
    print_json_difference(",\n \"first\": ", cli_comparison_first(c));
    print_json_difference(",\n \"worst\": ", worst_of(c));
    fputs(",\n \"outputs\": [", stdout);
    for (size_t i = 0; i < c->n; i++) print_json_difference(i ? ",\n  " : "", &c->all[i]);
    puts("]}");
}

static void print_first(const cli_difference *d) {
    char *shape = shape_text(d->ndim, d->shape);
    printf("first to depart: %s %s", d->name, shape);
    if (d->expected_shape)
        printf(", expected %s\n", d->expected_shape);
    else
        printf(": %zu of %zu elements, by up to %.3g (%.9g instead of %.9g)\n", d->departed, d->compared, d->largest,
               (double)d->a, (double)d->b);
    free(shape);
}

static void print_text(const cli_comparison *c) {
    const char *reference = c->against ? c->against : "one rank";
    const cli_difference *first = cli_comparison_first(c), *worst = worst_of(c);
    printf("%zu output%s at %s against %s, each |a - b| <= %g + %g |b|\n", c->n, c->n == 1 ? "" : "s", c->layout,
           reference, c->atol, c->rtol);
    if (c->unmatched) printf("not compared: %zu outputs that %s lacks\n", c->unmatched, reference);
    if (first) print_first(first);
    if (worst) printf("worst |a - b| / (1 + |b|): %.3g, %s\n", worst->figure, worst->name);
    if (levels_of(c) >= 0) printf("picture: %d of 255 levels apart, 1 allowed\n", levels_of(c));
}

void cli_comparison_print(const cli_comparison *c, bool agrees, bool json) {
    if (json)
        print_json(c, agrees);
    else
        print_text(c);
}
