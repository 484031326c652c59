#include "models/model.h"

#include "base/text.h"
#include "io/file.h"

#include <fnmatch.h>
#include <string.h>

static const char *class_of(tsr__config *config) {
    json_t *architectures = json_object_get(config->root, "architectures");
    const char *first = json_string_value(json_array_get(architectures, 0));
    return tsr__config_string(config, "_class_name", first ? first : "");
}

/* NULL after a failure, which is then the config's status. */
static const tsr_model_desc *find_class(tsr__config *config, const char *expected) {
    const char *name = class_of(config);
    char known[512];
    if (config->status != TSR_OK) return NULL;
    const tsr_model_desc *desc = tsr__model_desc_find(name);
    if (tsr__config_has(config, "quantization_config"))
        config->status =
            tsr__fail(config->engine, TSR_UNSUPPORTED,
                      "%s: a quantized checkpoint (quantization_config), which Tessera does not read; use the "
                      "unquantized weights",
                      config->path);
    else if (!*name)
        config->status =
            tsr__fail(config->engine, TSR_FORMAT,
                      "%s: has no _class_name (nor architectures), so its model is unknown; Tessera has %s",
                      config->path, tsr__model_classes(known, sizeof known));
    else if (!desc)
        config->status = tsr__fail(config->engine, TSR_UNSUPPORTED,
                                   "%s: the class is \"%s\", which Tessera does not have; it has %s", config->path,
                                   name, tsr__model_classes(known, sizeof known));
    else if (expected && strcmp(name, expected) != 0)
        config->status = tsr__fail(config->engine, TSR_FORMAT, "%s: the class is %s, but model_index.json says %s",
                                   config->path, name, expected);
    return config->status == TSR_OK ? desc : NULL;
}

/* The module tree of config; leaves model->self and model->desc. */
static tsr_status declare(tsr_model *model, tsr__config *config, const char *expected) {
    const tsr_model_desc *desc = find_class(config, expected);
    if (!desc) return config->status;
    model->desc = desc;
    model->tree.engine = model->engine;
    model->self = tsr__tree_alloc(&model->tree, 1, desc->self_size);
    if (!model->self) return model->tree.status;
    ((tsr__module *)model->self)->name = "";
    desc->declare(&model->tree, model->self, config);
    TSR__TRY(config->status);
    return model->tree.status;
}

/* --- memory --- */

static tsr_status add_bytes(void *user, tsr__param *param) {
    tsr_model *model = user;
    size_t bytes = tsr_dtype_bits(param->view.dtype) / 8;
    bool fits = true;
    for (int i = 0; i < param->view.ndim; i++) fits = fits && tsr__mul(bytes, (size_t)param->view.shape[i], &bytes);
    if (fits && tsr__add(model->weight_bytes, bytes, &model->weight_bytes)) return TSR_OK;
    return tsr__fail(model->engine, TSR_SHAPE, "%s: the sizes in the config overflow", model->folder);
}

static tsr_status count_bytes(tsr_model *model) {
    model->weight_bytes = 0;
    return tsr__module_visit_params(model->self, add_bytes, model);
}

/* --- the checkpoint against the tree --- */

/* Names of weights for a message: how many, and the first few. */
typedef struct names {
    tsr__text text;
    size_t n;
} names;

typedef struct comparison {
    tsr_model *model;
    names missing, unread;
    bool *read; /* [tensors of the checkpoint] */
} comparison;

static void add_name(names *list, const char *name) {
    enum { SHOWN = 5 };
    if (list->n < SHOWN) tsr__text_format(&list->text, "%s%.200s", list->n ? ", " : "", name);
    if (list->n++ == SHOWN) tsr__text_format(&list->text, ", ...");
}

static const char *names_text(const names *list) { return list->text.data ? list->text.data : ""; }

static const char *info_shape(const tsr_tensor_info *info, char *text) {
    tsr__value v = {.ndim = info->ndim};
    memcpy(v.shape, info->shape, sizeof v.shape);
    return tsr__shape_text(v, text);
}

static tsr_status compare_param(void *user, tsr__param *param) {
    comparison *c = user;
    char path[TSR__PATH_BYTES], in_file[128], wanted[128];
    tsr__param_path(param, path, sizeof path);
    const tsr_tensor_info *info = tsr_checkpoint_find(c->model->checkpoint, path);
    if (!info) {
        add_name(&c->missing, path);
        return TSR_OK;
    }
    c->read[info - tsr_checkpoint_at(c->model->checkpoint, 0)] = true;
    const tsr__view *view = &param->view;
    if (info->ndim != view->ndim || memcmp(info->shape, param->whole, (size_t)view->ndim * sizeof *view->shape) != 0) {
        tsr__value v = {.ndim = view->ndim};
        memcpy(v.shape, param->whole, sizeof v.shape);
        return tsr__fail(c->model->engine, TSR_SHAPE, "%s: \"%s\" has shape %s, but config.json asks for %s",
                         info->file, path, info_shape(info, in_file), tsr__shape_text(v, wanted));
    }
    if (info->dtype != TSR_F32 && info->dtype != TSR_BF16 && info->dtype != TSR_F16)
        return tsr__fail(c->model->engine, TSR_UNSUPPORTED,
                         "%s: \"%s\" is stored as %s, which Tessera cannot compute with; it takes F32, BF16 and F16",
                         info->file, path, tsr_dtype_name(info->dtype));
    param->view.dtype = info->dtype;
    if (view->ndim > 1) c->model->stored = info->dtype;
    return TSR_OK;
}

bool tsr__name_matches(const char *name, const char *const *patterns, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}

static tsr_status refuse_missing(const comparison *c) {
    const tsr_model *model = c->model;
    if (!c->missing.n) return TSR_OK;
    return tsr__fail(model->engine, TSR_FORMAT,
                     "%s: %zu weights of %s are missing from the files (%s); download the folder again", model->folder,
                     c->missing.n, model->desc->class_name, names_text(&c->missing));
}

static void warn_of_unread(comparison *c) {
    const tsr_model *model = c->model;
    for (size_t i = 0; i < tsr_checkpoint_count(model->checkpoint); i++) {
        const char *name = tsr_checkpoint_at(model->checkpoint, i)->name;
        bool known = model->desc->is_unread && model->desc->is_unread(model->self, name);
        if (!c->read[i] && !known) add_name(&c->unread, name);
    }
    if (c->unread.n && model->engine->rank == 0)
        tsr__log(model->engine, TSR_LOG_WARNING,
                 "%s: the %s that config.json describes does without %zu of the weights (%s); does this config.json "
                 "belong to them?",
                 model->folder, model->desc->class_name, c->unread.n, names_text(&c->unread));
}

static tsr_status check_checkpoint(tsr_model *model) {
    comparison c = {.model = model, .missing.text.engine = model->engine, .unread.text.engine = model->engine};
    c.read = tsr__calloc(model->engine, tsr_checkpoint_count(model->checkpoint), sizeof *c.read);
    tsr_status status = c.read ? tsr__module_visit_params(model->self, compare_param, &c) : TSR_NOMEM;
    if (status == TSR_OK) status = refuse_missing(&c);
    if (status == TSR_OK) warn_of_unread(&c);
    tsr__text_free(&c.missing.text);
    tsr__text_free(&c.unread.text);
    tsr__free(model->engine, c.read);
    return status == TSR_OK ? count_bytes(model) : status;
}

/* --- opening --- */

static tsr_status new_model(tsr_engine *engine, const char *folder, const char *component, tsr_model **out) {
    tsr_model *model = tsr__calloc(engine, 1, sizeof *model);
    if (!model) return TSR_NOMEM;
    *model = (tsr_model){.engine = engine, .component = component, .dtype = TSR_F32, .stored = TSR_F32};
    model->folder = tsr__strdup(engine, folder);
    *out = model;
    return model->folder ? TSR_OK : TSR_NOMEM;
}

static tsr_status open_folder(tsr_model *model, const char *expected) {
    TSR__TRY(tsr__folder_check(model->engine, model->folder, "config.json"));
    char *path = tsr__path_join(model->engine, model->folder, "config.json");
    if (!path) return TSR_NOMEM;
    tsr__config config = {0};
    tsr_status status = tsr__config_load(model->engine, path, &config);
    tsr__free(model->engine, path);
    if (status == TSR_OK) {
        status = declare(model, &config, expected);
        tsr__config_free(&config);
    }
    if (status == TSR_OK) status = tsr_checkpoint_open(model->engine, model->folder, &model->checkpoint);
    return status == TSR_OK ? check_checkpoint(model) : status;
}

tsr_status tsr__model_open(tsr_engine *engine, const char *folder, const char *component, const char *expected,
                           tsr_model **out) {
    tsr_model *model = NULL;
    tsr_status status = new_model(engine, folder, component, &model);
    if (status == TSR_OK) status = open_folder(model, expected);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

void tsr_model_destroy(tsr_model *model) {
    if (!model) return;
    tsr__model_unload(model);
    tsr_checkpoint_close(model->checkpoint);
    tsr__layout_close(&model->layout);
    tsr__tree_free(&model->tree);
    tsr__free(model->engine, model->folder);
    tsr__free(model->engine, model);
}

static tsr_status name_random(void *user, tsr__param *param) {
    param->view.dtype = ((tsr_model *)user)->stored;
    return TSR_OK;
}

static tsr_status declare_with_layers(tsr_model *model, tsr__config *config, const int64_t layers[2]) {
    const tsr_model_desc *desc = find_class(config, NULL);
    if (!desc) return config->status;
    for (int i = 0; i < 2; i++) {
        if (layers[i] < 0 || !desc->layer_keys[i]) continue;
        if (json_object_set_new(config->root, desc->layer_keys[i], json_real((double)layers[i])) != 0) return TSR_NOMEM;
    }
    return declare(model, config, NULL);
}

tsr_status tsr__model_from_config(tsr_engine *engine, const char *path, tsr_dtype stored, const int64_t layers[2],
                                  tsr_model **out) {
    tsr_model *model = NULL;
    tsr__config config = {0};
    tsr_status status = new_model(engine, path, "transformer", &model);
    if (status == TSR_OK) status = tsr__config_load(engine, path, &config);
    if (status == TSR_OK) {
        model->stored = stored;
        status = declare_with_layers(model, &config, layers);
        tsr__config_free(&config);
    }
    if (status == TSR_OK) status = tsr__module_visit_params(model->self, name_random, model);
    if (status == TSR_OK) status = count_bytes(model);
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

/* --- splitting --- */

tsr__tp_plan tsr__model_tp_plan(const tsr_model *model) {
    const tsr_model_desc *desc = model->desc;
    tsr_tp_plan_kind kind = model->tp_plan.kind;
    tsr__tp_plan plan = {.class_name = desc->class_name, .heads = desc->heads ? desc->heads(model->self) : 1};
    plan.rules = kind == TSR_TP_PLAN_RULES ? (tsr__tp_rules){model->tp_plan.rules, model->tp_plan.n} : desc->tp_plan;
    if (kind == TSR_TP_PLAN_FULL) plan.more = desc->tp_plan_more;
    return plan;
}

bool tsr__model_has_plan(const tsr_model *model) { return tsr__model_tp_plan(model).rules.n > 0; }

tsr_status tsr__model_mark(tsr_model *model) {
    char known[512];
    tsr__tp_plan plan = tsr__model_tp_plan(model);
    if (!plan.rules.n)
        return tsr__fail(model->engine, TSR_UNSUPPORTED, "%s has no tensor-parallel plan; classes that have one: %s",
                         plan.class_name, tsr__model_classes_with_plan(known, sizeof known));
    if (!model->marked) TSR__TRY(tsr__tp_mark(model->engine, model->self, &plan));
    model->marked = true;
    return TSR_OK;
}

tsr_status tsr__model_split(tsr_model *model, tsr__comm *comm, int rank, int degree) {
    tsr__tp_plan plan = tsr__model_tp_plan(model);
    if (degree == 1) return TSR_OK;
    TSR__TRY(tsr__model_mark(model));
    TSR__TRY(tsr__tp_split(model->engine, model->self, &plan, comm, rank, degree));
    model->split = true;
    return count_bytes(model);
}

tsr_status tsr__model_lay_out(tsr_model *model, const tsr__layout *l) {
    const tsr_cp_plan *plan = model->cp_plan ? model->cp_plan : model->desc->cp_plan;
    char known[512];
    TSR__TRY(tsr__model_split(model, l->tp, l->tp_rank, l->tp_degree));
    if (!l->sequence) return TSR_OK;
    if (!plan)
        return tsr__fail(model->engine, TSR_UNSUPPORTED, "%s has no context-parallel plan; classes that have one: %s",
                         model->desc->class_name, tsr__model_classes_with_cp_plan(known, sizeof known));
    tsr__tp_plan tp = tsr__model_tp_plan(model);
    TSR__TRY(tsr__cp_check_heads(model->engine, tp.class_name, tp.heads, l->tp_degree, l->sequence));
    TSR__TRY(tsr__cp_apply(&model->tree, model->self, plan, l->sequence));
    if (l->sequence->all->ops->one_process) model->sharers = l->sequence->all;
    model->split = true;
    return TSR_OK;
}

tsr_status tsr__model_unsplit(tsr_model *model) {
    tsr__tp_undo(model->self);
    tsr__cp_undo(model->self);
    model->sharers = NULL;
    model->marked = model->split = false;
    return count_bytes(model);
}

int tsr__model_largest_degree(tsr_model *model, int most) {
    tsr__tp_plan plan = tsr__model_tp_plan(model);
    while (!tsr__tp_degree_fits(model->self, &plan, most)) most--;
    return most;
}

const char *tsr_model_class_name(const tsr_model *model) { return model->desc->class_name; }
size_t tsr_model_weight_bytes(const tsr_model *model) { return model->weight_bytes; }
