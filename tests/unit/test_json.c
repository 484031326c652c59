/* JSON files and typed access to configs. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

static tsr_engine *engine;

static char *write_json(const char *text, size_t n) {
    static char path[512];
    snprintf(path, sizeof path, "%s/config.json", test_folder());
    test_write_file(path, text, n);
    return path;
}

static tsr__config load(const char *text) {
    tsr__config config = {0};
    assert_ok(engine, tsr__config_load(engine, write_json(text, strlen(text)), &config));
    return config;
}

#define TEXT(literal) literal, sizeof(literal) - 1
static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *words;
    } rows[] = {
        {TEXT(""), "line 1"},
        {TEXT("{"), "line 1, column 1"},
        {TEXT("{\n\"a\": 1,\n"), "line 3"},
        {TEXT("{\"a\": 1}x"), "end of file expected"},
        {TEXT("{\"a\": 1,\n \"a\": 2}"), "line 2, column 4: not valid JSON: duplicate object key"},
        {TEXT("\xef\xbb\xbf{}"), "byte order mark"},
        {TEXT("\xff\xfe{\0}\0"), "line 1"},
        {TEXT("{\"a\": \"\xc3(\"}"), "unable to decode"},
        {TEXT("{\"a\": NaN}"), "invalid token"},
        {TEXT("{\"a\": 1e999}"), "real number overflow"},
        {TEXT("{\"a\\u0000b\": 1}"), "NUL byte in object key"},
        {TEXT("5"), "'[' or '{' expected"},
        {TEXT("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"},
        {TEXT("<!DOCTYPE html><html>"), "HTML page"},
        {TEXT("[1]"), "must be an object"},
    };
    tsr__config config = {0};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        const char *path = write_json(rows[i].text, rows[i].n);
        assert_refused(engine, tsr__config_load(engine, path, &config), TSR_FORMAT, rows[i].words);
        assert_non_null(strstr(tsr_engine_message(engine), path));
    }
    assert_refused(engine, tsr__config_load(engine, "/no/such.json", &config), TSR_IO, "/no/such.json");
}

static void test_deep(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    char *text = malloc(DEEP);
    json_t *root = NULL;
    memset(text, '[', DEEP);
    assert_refused(engine, tsr__json_parse(engine, "deep", text, DEEP, &root), TSR_FORMAT, "maximum parsing depth");
    free(text);
}

static void test_huge_integer(void **state) {
    (void)state;
    tsr__config config = load("{\"model_max_length\": 1000000000000000019884624838656, \"n\": 9007199254740993}");
    assert_true(tsr__config_has(&config, "model_max_length"));
    assert_true(tsr__config_double(&config, "model_max_length", 0, 0, 1e300) == 1e30);
    assert_int_equal(config.status, TSR_OK);
    assert_int_equal(tsr__config_int(&config, "model_max_length", 7, 0, INT64_MAX), 7);
    assert_int_equal(config.status, TSR_FORMAT);
    assert_non_null(strstr(tsr_engine_message(engine), "model_max_length is 1e+30, but must be an integer from 0 to"));
    tsr__config_free(&config);
}

static const char sample[] =
    "{\"i\": 5, \"minus\": -3, \"d\": 1e-06, \"t\": true, \"f\": false, \"s\": \"text\", \"nul\": "
    "\"a\\u0000b\", \"null\": null, \"half\": 1.5, \"list\": [16, 56, 56], \"mixed\": [1, "
    "\"x\"], \"rope\": {\"theta\": 10000.0, \"deeper\": {\"n\": 2}}, \"flat\": 3}";

static void test_values(void **state) {
    (void)state;
    tsr__config c = load(sample);
    int64_t list[3] = {0};
    assert_int_equal(tsr__config_int(&c, "i", 0, 5, 5), 5);
    assert_int_equal(tsr__config_int(&c, "minus", 0, -3, 0), -3);
    assert_int_equal(tsr__config_int(&c, "absent", 9, 0, 1), 9);
    assert_int_equal(tsr__config_int(&c, "null", 9, 0, 1), 9);
    assert_int_equal(tsr__config_int(&c, "rope.theta", 0, 1, 1000000), 10000);
    assert_int_equal(tsr__config_int(&c, "rope.deeper.n", 0, 1, 2), 2);
    assert_int_equal(tsr__config_int(&c, "rope.absent.n", 4, 1, 2), 4);
    assert_int_equal(tsr__config_int(&c, "null.n", 4, 1, 2), 4);
    assert_true(tsr__config_double(&c, "d", 0, 0, 1) == 1e-6);
    assert_true(tsr__config_double(&c, "absent", 0.5, 0, 1) == 0.5);
    assert_true(tsr__config_bool(&c, "t", false));
    assert_false(tsr__config_bool(&c, "f", true));
    assert_true(tsr__config_bool(&c, "absent", true));
    assert_string_equal(tsr__config_string(&c, "s", NULL), "text");
    assert_null(tsr__config_string(&c, "absent", NULL));
    assert_int_equal(tsr__config_ints(&c, "list", list, 3, 0, 64), 3);
    assert_int_equal(list[0] + list[1] + list[2], 128);
    assert_int_equal(tsr__config_ints(&c, "absent", list, 3, 0, 64), 0);
    assert_true(tsr__config_has(&c, "rope.theta"));
    assert_false(tsr__config_has(&c, "rope.x"));
    assert_false(tsr__config_has(&c, "flat.x"));
    assert_false(tsr__config_has(&c, "null"));
    assert_int_equal(c.status, TSR_OK);
    tsr__config_free(&c);
    tsr__config_free(&c);
}

/* Asks for one wrong value; returns whether the fallback came back. */
static bool fallback_for(tsr__config *c, char kind, const char *key) {
    int64_t list[2] = {-7, -7};
    switch (kind) {
    case 'i':
        return tsr__config_int(c, key, 7, 0, 4) == 7;
    case 'd':
        return tsr__config_double(c, key, 0.25, 0.5, 4) == 0.25;
    case 'b':
        return tsr__config_bool(c, key, true);
    case 's':
        return !strcmp(tsr__config_string(c, key, "fallback"), "fallback");
    default:
        return tsr__config_ints(c, key, list, 2, 0, 64) == 0 && list[0] == -7 && list[1] == -7;
    }
}

static void test_wrong_values(void **state) {
    (void)state;
    static const struct {
        char kind;
        const char *key, *words;
    } rows[] = {
        {'i', "i", "i is 5, but must be an integer from 0 to 4"},
        {'i', "minus", "minus is -3, but must be an integer from 0 to 4"},
        {'i', "half", "half is 1.5, but must be an integer"},
        {'i', "s", "s is \"text\", but must be an integer"},
        {'i', "t", "t is true, but"},
        {'i', "list", "list is a list, but"},
        {'i', "rope", "rope is an object, but"},
        {'i', "flat.n", "flat is 3, but must be an object"},
        {'d', "d", "d is 1e-06, but must be a number from 0.5 to 4"},
        {'d', "s", "must be a number"},
        {'b', "i", "i is 5, but must be true or false"},
        {'s', "i", "i is 5, but must be a string"},
        {'s', "nul", "NUL"},
        {'l', "i", "a list of at most 2 integers"},
        {'l', "list", "a list of at most 2 integers"},
        {'l', "mixed", "mixed[1] is \"x\", but must be an integer from 0 to 64"},
    };
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr__config c = load(sample);
        assert_true(fallback_for(&c, rows[i].kind, rows[i].key));
        assert_int_equal(c.status, TSR_FORMAT);
        assert_non_null(strstr(tsr_engine_message(engine), c.path));
        if (!strstr(tsr_engine_message(engine), rows[i].words)) fail_msg("%s", tsr_engine_message(engine));
        /* only the first failure speaks, and what is right is no longer looked at */
        assert_true(fallback_for(&c, 'i', "s"));
        assert_non_null(strstr(tsr_engine_message(engine), rows[i].words));
        assert_int_equal(tsr__config_int(&c, "i", 1, 0, 9), 1);
        tsr__config_free(&c);
    }
}

static void test_known_values(void **state) {
    (void)state;
    static const tsr__known good[] = {
        {"s", {"\"other\"", "\"text\""}}, {"t", {"true"}}, {"half", {"1.5"}}, {"absent", {"1"}}, {"null", {"1"}}};
    static const tsr__known bad[] = {{"mixed", {"1"}}, {"s", {"\"tex\""}}, {"rope.theta", {"1"}}, {"rope", {"\"a\""}}};
    static const char *const words[] = {"mixed holds \"x\"; Tessera has 1 only",
                                        "s is \"text\"; Tessera has \"tex\" only", "rope.theta is 10000",
                                        "rope is an object"};
    tsr__config c = load(sample);
    tsr__config_check_known(&c, good, TSR__COUNT(good));
    assert_int_equal(c.status, TSR_OK);
    for (size_t i = 0; i < TSR__COUNT(bad); i++) {
        c.status = TSR_OK;
        tsr__config_check_known(&c, &bad[i], 1);
        assert_int_equal(c.status, TSR_UNSUPPORTED);
        if (!strstr(tsr_engine_message(engine), words[i])) fail_msg("%s", tsr_engine_message(engine));
    }
    tsr__config_free(&c);
}

static void test_no_memory(void **state) {
    (void)state;
    char *path = write_json(sample, sizeof sample - 1);
    size_t before = tsr_engine_memory_current(engine);
    tsr_status status = TSR_NOMEM;
    for (int k = 0; status != TSR_OK; k++) {
        tsr__config c = {0};
        atomic_store(&engine->allocator.count, 0);
        atomic_store(&engine->allocator.fail_at, k);
        status = tsr__config_load(engine, path, &c);
        atomic_store(&engine->allocator.fail_at, -1);
        assert_true(status == TSR_OK || status == TSR_NOMEM);
        tsr__config_free(&c);
        assert_int_equal(tsr_engine_memory_current(engine), before);
    }
}

int main(void) {
    engine = test_engine("ref");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken),    cmocka_unit_test(test_deep),         cmocka_unit_test(test_huge_integer),
        cmocka_unit_test(test_values),    cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tsr_engine_destroy(engine);
    return failed;
}
