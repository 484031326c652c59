#include "pipelines/pipeline.h"

#include "base/text.h"
#include "io/file.h"

#include <string.h>

const char *const tsr__role_folders[TSR__N_MODELS] = {"text_encoder", "transformer", "vae"};

/* model_index.json names a component as [library, class]. */
static tsr_status check_component(tsr_pipeline *p, tsr__config *index, const char *name, const char *wanted) {
    json_t *row = json_object_get(index->root, name);
    const char *class_name = json_string_value(json_array_get(row, 1));
    if (!class_name)
        return tsr__fail(p->engine, TSR_FORMAT, "%s: it names no class for \"%s\", which %s needs", index->path, name,
                         p->desc->class_name);
    size_t n = strlen(wanted); /* a tokenizer's class may end in Fast */
    if (strncmp(class_name, wanted, n) == 0 && (!class_name[n] || strcmp(class_name + n, "Fast") == 0)) return TSR_OK;
    return tsr__fail(p->engine, TSR_UNSUPPORTED, "%s: \"%s\" is a %s; Tessera draws %s with a %s only", index->path,
                     name, class_name, p->desc->class_name, wanted);
}

static tsr_status read_index(tsr_pipeline *p, tsr__config *index) {
    const char *class_name = tsr__config_string(index, "_class_name", "");
    char known[512];
    TSR__TRY(index->status);
    p->desc = tsr__pipeline_desc_find(class_name);
    if (!*class_name)
        return tsr__fail(p->engine, TSR_FORMAT, "%s: has no _class_name, so its pipeline is unknown; Tessera has %s",
                         index->path, tsr__pipeline_classes(known, sizeof known));
    if (!p->desc)
        return tsr__fail(p->engine, TSR_UNSUPPORTED,
                         "%s: the pipeline is a \"%s\", which Tessera does not have; it has %s", index->path,
                         class_name, tsr__pipeline_classes(known, sizeof known));
    for (int i = 0; i < TSR__N_MODELS; i++)
        TSR__TRY(check_component(p, index, tsr__role_folders[i], p->desc->models[i]));
    TSR__TRY(check_component(p, index, "tokenizer", p->desc->tokenizer));
    TSR__TRY(check_component(p, index, "scheduler", p->desc->scheduler));
    return p->desc->read_index(p, index);
}

tsr_status tsr__pipeline_open_index(tsr_pipeline *p) {
    TSR__TRY(tsr__folder_check(p->engine, p->folder, "model_index.json"));
    char *path = tsr__path_join(p->engine, p->folder, "model_index.json");
    if (!path) return TSR_NOMEM;
    tsr__config index = {0};
    tsr_status status = tsr__config_load(p->engine, path, &index);
    tsr__free(p->engine, path);
    if (status != TSR_OK) return status;
    status = read_index(p, &index);
    tsr__config_free(&index);
    return status;
}

static tsr_status open_model(tsr_pipeline *p, int role) {
    tsr_model *given = p->models[role];
    if (given && strcmp(given->desc->class_name, p->desc->models[role]) != 0)
        return tsr__fail(p->engine, TSR_ARG, "the %s given is a %s, but %s takes a %s", tsr__role_folders[role],
                         given->desc->class_name, p->desc->class_name, p->desc->models[role]);
    if (given) {
        given->component = tsr__role_folders[role];
        return TSR_OK;
    }
    char *folder = tsr__path_join(p->engine, p->folder, tsr__role_folders[role]);
    if (!folder) return TSR_NOMEM;
    tsr_status status =
        tsr__model_open(p->engine, folder, tsr__role_folders[role], p->desc->models[role], &p->models[role]);
    tsr__free(p->engine, folder);
    return status;
}

static tsr_status open_models(tsr_pipeline *p) {
    for (int i = 0; i < TSR__N_MODELS; i++) TSR__TRY(open_model(p, i));
    if (p->dtype == TSR_DTYPE_NONE) p->dtype = p->models[TSR__TEXT_ENCODER]->stored;
    for (int i = 0; i < TSR__N_MODELS; i++)
        if (!p->borrowed[i]) p->models[i]->dtype = p->dtype;
    return TSR_OK;
}

static tsr_status open_rest(tsr_pipeline *p) {
    char *tokenizer = tsr__path_join(p->engine, p->folder, "tokenizer");
    char *scheduler = tsr__path_join(p->engine, p->folder, "scheduler");
    tsr_status status = tokenizer && scheduler ? TSR_OK : TSR_NOMEM;
    if (status == TSR_OK) status = tsr__flow_match_euler_from_config(p->engine, scheduler, &p->scheduler);
    if (status == TSR_OK) status = tsr_tokenizer_from_pretrained(p->engine, tokenizer, &p->tokenizer);
    if (status == TSR_OK) p->model_max_length = tsr_tokenizer_model_max_length(p->tokenizer);
    tsr__free(p->engine, tokenizer);
    tsr__free(p->engine, scheduler);
    return status;
}

/* --- who holds what --- */

/* The degree asked for, or the largest that the text encoder's plan allows, at most the number of ranks. */
static tsr_status encoder_degree(tsr_pipeline *p, int asked, int *degree) {
    tsr_model *encoder = p->models[TSR__TEXT_ENCODER];
    int size = p->engine->size;
    if (asked < 0 || asked > size)
        return tsr__fail(p->engine, TSR_ARG, "the text encoder cannot be split over %d ranks: there are %d", asked,
                         size);
    *degree = asked ? asked : size;
    if (*degree == 1) return TSR_OK;
    TSR__TRY(tsr__model_mark(encoder));
    if (!asked) *degree = tsr__model_largest_degree(encoder, size);
    return TSR_OK;
}

/* The part of this rank of each component that is not the caller's. Collective. */
static tsr_status split_models(tsr_pipeline *p, int encoder_tp) {
    const tsr__layout *l = &p->layout;
    int rank = p->engine->rank;
    for (int i = 0; i < TSR__N_MODELS; i++) p->part[i] = p->borrowed[i] || i != TSR__VAE || rank == 0;
    if (!p->borrowed[TSR__TEXT_ENCODER]) p->part[TSR__TEXT_ENCODER] = rank < encoder_tp;
    tsr_status status = tsr__comm_split(tsr__world(p->engine), rank < encoder_tp ? 0 : -1, &p->encoder_comm);
    if (p->encoder_comm) p->encoder_comm->axis = "tp";
    if (status == TSR_OK && !p->borrowed[TSR__TRANSFORMER]) status = tsr__model_lay_out(p->models[TSR__TRANSFORMER], l);
    if (status == TSR_OK && !p->borrowed[TSR__TEXT_ENCODER] && rank < encoder_tp)
        status = tsr__model_split(p->models[TSR__TEXT_ENCODER], p->encoder_comm, rank, encoder_tp);
    return tsr_status_agree(p->engine, status);
}

/* What a rank does by itself. */
static tsr_status open_files(tsr_pipeline *p, const char *model, int asked, int *encoder_tp) {
    if (p->dtype != TSR_DTYPE_NONE && p->dtype != TSR_F32 && p->dtype != TSR_BF16 && p->dtype != TSR_F16)
        return tsr__fail(p->engine, TSR_ARG, "dtype %s: give float32, bfloat16 or float16", tsr_dtype_name(p->dtype));
    TSR__TRY(tsr_hub_resolve(p->engine, model, &p->folder));
    TSR__TRY(tsr__pipeline_open_index(p));
    TSR__TRY(open_models(p));
    TSR__TRY(open_rest(p));
    return p->borrowed[TSR__TEXT_ENCODER] ? TSR_OK : encoder_degree(p, asked, encoder_tp);
}

static tsr_status open_pipeline(tsr_pipeline *p, const char *model, const tsr_pipeline_options *options) {
    int encoder_tp = 1;
    tsr_parallel_config parallel = TSR_PARALLEL_CONFIG_INIT;
    tsr__take_options(&parallel, sizeof parallel, options->parallel);
    TSR__TRY(tsr__layout_open(p->engine, options->parallel, &p->layout));
    tsr_status status = tsr__arguments_check(p->engine, options->arguments);
    if (status == TSR_OK) status = open_files(p, model, parallel.text_encoder_tp, &encoder_tp);
    if (status == TSR_OK && parallel.tp_plan && !p->borrowed[TSR__TRANSFORMER])
        p->models[TSR__TRANSFORMER]->tp_plan = *parallel.tp_plan;
    TSR__TRY(tsr_status_agree(p->engine, status));
    return split_models(p, encoder_tp);
}

tsr_status tsr_pipeline_from_pretrained(tsr_engine *engine, const char *model, const tsr_pipeline_options *options,
                                        tsr_pipeline **out) {
    tsr_pipeline_options given = TSR_PIPELINE_OPTIONS_INIT;
    tsr__take_options(&given, sizeof given, options);
    tsr_pipeline *p = tsr__calloc(engine, 1, sizeof *p);
    tsr_status status = tsr_status_agree(engine, p ? TSR_OK : TSR_NOMEM);
    if (!p || status != TSR_OK) {
        tsr__free(engine, p);
        return status;
    }
    *p = (tsr_pipeline){.engine = engine, .dtype = given.dtype, .force = given.force};
    tsr_model *const loaded[TSR__N_MODELS] = {given.text_encoder, given.transformer, given.vae};
    for (int i = 0; i < TSR__N_MODELS; i++) p->borrowed[i] = (p->models[i] = loaded[i]) != NULL;
    status = open_pipeline(p, model, &given);
    if (status != TSR_OK) {
        tsr_pipeline_destroy(p);
        return status;
    }
    *out = p;
    return TSR_OK;
}

void tsr_pipeline_destroy(tsr_pipeline *p) {
    if (!p) return;
    for (int i = 0; i < TSR__N_MODELS; i++)
        if (!p->borrowed[i]) tsr_model_destroy(p->models[i]);
    tsr__comm_destroy(p->encoder_comm);
    tsr__layout_close(&p->layout);
    tsr_tokenizer_destroy(p->tokenizer);
    tsr__free(p->engine, p->folder);
    tsr__free(p->engine, p);
}

const char *tsr_pipeline_class_name(const tsr_pipeline *p) { return p->desc->class_name; }
const char *tsr_pipeline_folder(const tsr_pipeline *p) { return p->folder; }

tsr_status tsr_pipeline_generate(tsr_pipeline *p, const tsr_generate_options *options, tsr_images **out) {
    tsr_generate_options given = TSR_GENERATE_OPTIONS_INIT;
    tsr__take_options(&given, sizeof given, options);
    return p->desc->generate(p, &given, out);
}

tsr_status tsr_pipeline_tokenize(tsr_pipeline *p, const char *prompt, int64_t max_sequence_length, int64_t **ids,
                                 size_t *n) {
    return p->desc->tokenize(p, prompt, max_sequence_length, ids, n);
}
