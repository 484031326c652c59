/* Plans from outside: a name, or a JSON file of rules. */
#include "io/json.h"

#include <tessera/parallel.h>

#include <string.h>

/* A style of that name, or TSR_REPLICATED where there is none. */
static tsr_tp_style style_named(const char *name) {
    tsr_tp_style style = TSR_TP_STYLE_COUNT;
    while (--style > TSR_REPLICATED)
        if (strcmp(tsr_tp_style_name(style), name) == 0) break;
    return style;
}

static tsr_status read_blocks(tsr_engine *engine, const char *path, const json_t *list, tsr_tp_rule *rule) {
    enum { MOST = 1 << 20 };
    if (json_array_size(list) >= TSR_MAX_BLOCKS)
        return tsr__fail(engine, TSR_FORMAT, "%s: \"%s\" has more than %d blocks", path, rule->glob,
                         TSR_MAX_BLOCKS - 1);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!tsr__json_integer(json_array_get(list, i), 1, MOST, &rule->blocks[i]))
            return tsr__fail(engine, TSR_FORMAT, "%s: block %zu of \"%s\" is not a positive whole number", path, i,
                             rule->glob);
    return TSR_OK;
}

/* "colwise", or {"packed_colwise": [1, 1]} */
static tsr_status read_rule(tsr_engine *engine, const char *path, const json_t *value, tsr_tp_rule *rule) {
    void *only = json_object_size(value) == 1 ? json_object_iter((json_t *)(uintptr_t)value) : NULL;
    const char *name = json_is_string(value) ? json_string_value(value) : only ? json_object_iter_key(only) : NULL;
    rule->style = name ? style_named(name) : TSR_REPLICATED;
    bool packed = rule->style == TSR_PACKED_COLWISE || rule->style == TSR_PACKED_ROWWISE;
    if (!name || rule->style == TSR_REPLICATED)
        return tsr__fail(engine, TSR_FORMAT,
                         "%s: \"%s\" has the unknown style \"%s\"; there are colwise, rowwise, rowwise_split_input, "
                         "colwise_gather_output, {\"packed_colwise\": [...]} and {\"packed_rowwise\": [...]}",
                         path, rule->glob, name ? name : "?");
    if (packed != (only != NULL) || (only && !json_is_array(json_object_iter_value(only))))
        return tsr__fail(engine, TSR_FORMAT, "%s: \"%s\": %s", path, rule->glob,
                         packed ? "a packed style needs a list of blocks, {\"packed_colwise\": [1, 1]}; [] takes the "
                                  "sizes that the model declares"
                                : "only packed styles have blocks");
    return only ? read_blocks(engine, path, json_object_iter_value(only), rule) : TSR_OK;
}

static tsr_status read_rules(tsr_engine *engine, const char *path, json_t *root, tsr_tp_plan *plan) {
    const char *glob;
    json_t *value;
    size_t n = json_object_size(root);
    if (n == 0)
        return tsr__fail(engine, TSR_FORMAT, "%s: a plan is an object of module globs and styles, and this has none",
                         path);
    tsr_tp_rule *rules = tsr__calloc(engine, n, sizeof *rules);
    if (!rules) return TSR_NOMEM;
    plan->rules = rules;
    json_object_foreach(root, glob, value) {
        tsr_tp_rule *rule = &rules[plan->n++];
        rule->glob = tsr__strdup(engine, glob);
        if (!rule->glob) return TSR_NOMEM;
        TSR__TRY(read_rule(engine, path, value, rule));
    }
    return TSR_OK;
}

static tsr_status read_file(tsr_engine *engine, const char *path, tsr_tp_plan *plan) {
    json_t *root = NULL;
    TSR__TRY(tsr__json_load(engine, path, &root));
    tsr_status status = read_rules(engine, path, root, plan);
    json_decref(root);
    return status;
}

tsr_status tsr_tp_plan_read(tsr_engine *engine, const char *name, tsr_tp_plan **out) {
    static const char *const kinds[] = {[TSR_TP_PLAN_FULL] = "full", [TSR_TP_PLAN_REFERENCE] = "reference"};
    tsr_tp_plan *plan = tsr__calloc(engine, 1, sizeof *plan);
    if (!plan) return TSR_NOMEM;
    plan->kind = TSR_TP_PLAN_RULES;
    for (size_t i = 0; i < TSR__COUNT(kinds); i++)
        if (strcmp(name, kinds[i]) == 0) plan->kind = (tsr_tp_plan_kind)i;
    tsr_status status = plan->kind == TSR_TP_PLAN_RULES ? read_file(engine, name, plan) : TSR_OK;
    if (status != TSR_OK) {
        tsr_tp_plan_free(engine, plan);
        return status;
    }
    *out = plan;
    return TSR_OK;
}

void tsr_tp_plan_free(tsr_engine *engine, tsr_tp_plan *plan) {
    if (!plan) return;
    for (size_t i = 0; i < plan->n; i++) tsr__free(engine, (char *)(uintptr_t)plan->rules[i].glob);
    tsr__free(engine, (tsr_tp_rule *)(uintptr_t)plan->rules);
    tsr__free(engine, plan);
}
