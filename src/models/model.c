#include "models/model.h"

#include "base/text.h"
#include "io/file.h"

#include <string.h>

static const char *class_of(tsr__config *config) {
    json_t *architectures = json_object_get(config->root, "architectures");
    const char *first = json_string_value(json_array_get(architectures, 0));
    return tsr__config_string(config, "_class_name", first ? first : "");
}

static tsr_status find_class(tsr_engine *engine, tsr__config *config, const char *expected,
                             const tsr_model_desc **out) {
    const char *name = class_of(config);
    TSR__TRY(config->status);
    char known[512];
    if (tsr__config_has(config, "quantization_config"))
        return tsr__fail(engine, TSR_UNSUPPORTED,
                         "%s: a quantized checkpoint (quantization_config), which Tessera does "
                         "not read; use the unquantized weights",
                         config->path);
    const tsr_model_desc *desc = tsr__model_desc_find(name);
    if (!desc)
        return tsr__fail(engine, TSR_UNSUPPORTED, "%s: the class is \"%s\", which Tessera does not have; it has %s",
                         config->path, name, tsr__model_classes(known, sizeof known));
    if (expected && strcmp(name, expected) != 0)
        return tsr__fail(engine, TSR_FORMAT, "%s: the class is %s, but model_index.json says %s", config->path, name,
                         expected);
    *out = desc;
    return TSR_OK;
}

/* The module tree of config; leaves model->self and model->desc. */
static tsr_status declare(tsr_model *model, tsr__config *config, const char *expected) {
    TSR__TRY(find_class(model->engine, config, expected, &model->desc));
    model->tree.engine = model->engine;
    model->self = tsr__tree_alloc(&model->tree, 1, model->desc->self_size);
    TSR__TRY(model->tree.status);
    ((tsr__module *)model->self)->name = "";
    model->desc->declare(&model->tree, model->self, config);
    TSR__TRY(config->status);
    return model->tree.status;
}

/* --- the checkpoint against the tree --- */

typedef struct comparison {
    tsr_model *model;
    tsr__text missing;
    size_t n_missing, n;
} comparison;

static void add_missing(comparison *c, const char *path) {
    enum { SHOWN = 5 };
    if (c->n_missing++ < SHOWN) tsr__text_format(&c->missing, "%s%s", c->n_missing > 1 ? ", " : "", path);
}

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
        add_missing(c, path);
        return TSR_OK;
    }
    const tsr__view *view = &param->view;
    if (info->ndim != view->ndim || memcmp(info->shape, view->shape, (size_t)view->ndim * sizeof *view->shape) != 0) {
        tsr__value v = {.ndim = view->ndim};
        memcpy(v.shape, view->shape, sizeof v.shape);
        return tsr__fail(c->model->engine, TSR_SHAPE, "%s: \"%s\" has shape %s, but config.json asks for %s",
                         info->file, path, info_shape(info, in_file), tsr__shape_text(v, wanted));
    }
    if (info->dtype != TSR_F32 && info->dtype != TSR_BF16 && info->dtype != TSR_F16)
        return tsr__fail(c->model->engine, TSR_UNSUPPORTED,
                         "%s: \"%s\" is stored as %s, which Tessera cannot compute with; it takes F32, BF16 and F16",
                         info->file, path, tsr_dtype_name(info->dtype));
    param->view.dtype = info->dtype;
    if (view->ndim > 1) c->model->stored = info->dtype;
    c->model->weight_bytes += info->size;
    return TSR_OK;
}

static tsr_status check_checkpoint(tsr_model *model) {
    comparison c = {.model = model, .missing = {.engine = model->engine}};
    tsr_status status = tsr__module_visit_params(model->self, compare_param, &c);
    if (status == TSR_OK && c.n_missing)
        status = tsr__fail(model->engine, TSR_FORMAT,
                           "%s: %zu weights of %s are missing from the files (%s%s); download the folder again",
                           model->folder, c.n_missing, model->desc->class_name, c.missing.data ? c.missing.data : "",
                           c.n_missing > 5 ? ", ..." : "");
    tsr__text_free(&c.missing);
    return status;
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
    tsr__tree_free(&model->tree);
    tsr__free(model->engine, model->folder);
    tsr__free(model->engine, model);
}

static tsr_status name_random(void *user, tsr__param *param) {
    tsr_model *model = user;
    param->view.dtype = model->stored;
    size_t bytes = tsr_dtype_bits(model->stored) / 8;
    for (int i = 0; i < param->view.ndim; i++)
        if (!tsr__mul(bytes, (size_t)param->view.shape[i], &bytes)) return TSR_SHAPE;
    if (!tsr__add(model->weight_bytes, bytes, &model->weight_bytes)) return TSR_SHAPE;
    return TSR_OK;
}

static tsr_status declare_with_layers(tsr_model *model, tsr__config *config, const int64_t layers[2]) {
    const tsr_model_desc *desc = NULL;
    TSR__TRY(find_class(model->engine, config, NULL, &desc));
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
    if (status != TSR_OK) {
        tsr_model_destroy(model);
        return status;
    }
    *out = model;
    return TSR_OK;
}

const char *tsr_model_class_name(const tsr_model *model) { return model->desc->class_name; }
size_t tsr_model_weight_bytes(const tsr_model *model) { return model->weight_bytes; }
