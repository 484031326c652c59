#include "nn/module.h"

#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

const char *tsr_tp_style_name(tsr_tp_style style) {
    static const char *const names[] = {
#define NAME(name, text) text,
        TSR_TP_STYLE_LIST(NAME)
#undef NAME
    };
    return (size_t)style < TSR__COUNT(names) ? names[style] : "?";
}

struct tsr__chunk_of_memory {
    struct tsr__chunk_of_memory *next;
};

void *tsr__tree_alloc(tsr__tree *tree, int64_t n, size_t size) {
    enum { HEADER = 64 }; /* keeps the alignment of the allocator */
    size_t bytes = 0;
    if (tree->status != TSR_OK) return NULL;
    bool fits = n >= 0 && tsr__mul((size_t)n, size, &bytes) && tsr__add(bytes, HEADER, &bytes);
    struct tsr__chunk_of_memory *chunk = fits ? tsr__calloc(tree->engine, 1, bytes) : NULL;
    if (!chunk) {
        tree->status = TSR_NOMEM;
        return NULL;
    }
    chunk->next = tree->memory;
    tree->memory = chunk;
    return (char *)chunk + HEADER;
}

void tsr__tree_free(tsr__tree *tree) {
    for (struct tsr__chunk_of_memory *c = tree->memory, *next; c; c = next) {
        next = c->next;
        tsr__free(tree->engine, c);
    }
    tree->memory = NULL;
}

void tsr__module_add(tsr__module *parent, tsr__module *child, const char *name) {
    child->name = name;
    child->parent = parent;
    if (parent->last_child)
        parent->last_child->next = child;
    else
        parent->first_child = child;
    parent->last_child = child;
}

void tsr__param_add(tsr__module *owner, tsr__param *param, const char *name, int ndim, const int64_t *shape) {
    *param = (tsr__param){.name = name, .owner = owner, .view = tsr__view_dense(NULL, TSR_DTYPE_NONE, ndim, shape)};
    memcpy(param->whole, shape, (size_t)ndim * sizeof *shape);
    tsr__param **end = &owner->params;
    while (*end) end = &(*end)->next;
    *end = param;
}

const char *tsr__index_name(tsr__tree *tree, int64_t i) {
    char *name = tsr__tree_alloc(tree, 1, 24);
    if (name) snprintf(name, 24, "%lld", (long long)i);
    return name;
}

void *tsr__module_list_add(tsr__tree *tree, tsr__module *parent, tsr__module_list *list, const char *name, int64_t n,
                           size_t item_size) {
    tsr__module_add(parent, &list->module, name);
    list->module.kind = TSR__LIST_OF_MODULES;
    char *items = tsr__tree_alloc(tree, n, item_size);
    for (int64_t i = 0; items && i < n; i++) {
        const char *index = tsr__index_name(tree, i);
        if (!index) return NULL;
        tsr__module_add(&list->module, (tsr__module *)(void *)(items + (size_t)i * item_size), index);
    }
    list->n = items ? n : 0;
    return items;
}

/* Writes the path and its end, returns the length; never past text + size. */
static size_t write_path(const tsr__module *module, char *text, size_t size) {
    size_t used = module->parent ? write_path(module->parent, text, size) : 0;
    int more = snprintf(text + used, size - used, used && *module->name ? ".%s" : "%s", module->name);
    used += more > 0 ? (size_t)more : 0;
    return used < size ? used : size - 1;
}

char *tsr__module_path(const tsr__module *module, char *text, size_t size) {
    write_path(module, text, size);
    return text;
}

char *tsr__param_path(const tsr__param *param, char *text, size_t size) {
    size_t used = write_path(param->owner, text, size);
    snprintf(text + used, size - used, used ? ".%s" : "%s", param->name);
    return text;
}

tsr_status tsr__module_visit_params(tsr__module *module, tsr__param_visitor visit, void *user) {
    for (tsr__param *p = module->params; p; p = p->next) TSR__TRY(visit(user, p));
    for (tsr__module *child = module->first_child; child; child = child->next)
        TSR__TRY(tsr__module_visit_params(child, visit, user));
    return TSR_OK;
}

tsr_status tsr__module_visit(tsr__module *module, tsr__module_visitor visit, void *user) {
    TSR__TRY(visit(user, module));
    for (tsr__module *child = module->first_child; child; child = child->next)
        TSR__TRY(tsr__module_visit(child, visit, user));
    return TSR_OK;
}

tsr_status tsr__module_match(tsr__module *root, const char *glob, tsr__module_visitor visit, void *user,
                             tsr__glob_found *found) {
    if (!*glob) return visit(user, root);
    size_t n = strcspn(glob, ".");
    bool any = n == 1 && *glob == '*';
    found->misplaced |= any && root->kind != TSR__LIST_OF_MODULES;
    found->no_items |= any && root->kind == TSR__LIST_OF_MODULES && !root->first_child;
    for (tsr__module *child = root->first_child; child && !found->misplaced; child = child->next)
        if (any || (strlen(child->name) == n && memcmp(child->name, glob, n) == 0))
            TSR__TRY(tsr__module_match(child, glob[n] ? glob + n + 1 : glob + n, visit, user, found));
    return TSR_OK;
}

char *tsr__owner_path(const void *owner, char *text, size_t size) { return tsr__module_path(owner, text, size); }

tsr__split tsr__param_split(const tsr__param *param) {
    const tsr__shard_spec *spec = &param->spec;
    const tsr__tp *tp = &param->owner->tp;
    tsr__split split = {.comm = NULL};
    if (!tp->comm || spec->style == TSR_REPLICATED) return split;
    split = (tsr__split){tp->comm, spec->dim, tp->comm->size, spec->n_blocks, {0}, param->owner, NULL, tsr__owner_path};
    if (spec->groups && spec->groups < tp->comm->size) split.pieces = (int)spec->groups;
    memcpy(split.parts, spec->blocks, sizeof split.parts);
    return split;
}

tsr__value tsr__param_value(tsr__exec *x, const tsr__param *param) {
    if (!param->owner) return tsr__none();
    tsr__value v = tsr__external(x, &param->view);
    tsr__split split = tsr__param_split(param);
    tsr__set_split(x, v, TSR__AXIS_TP, &split);
    return v;
}
