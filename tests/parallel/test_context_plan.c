/* What context parallelism refuses: rules of a config, rows of a plan. */
#include "ranks.h"
#include "transformer.h"

#include <stdio.h>
#include <string.h>

static tsr_status expect(tsr_engine *engine, tsr_status status, tsr_status wanted, const char *words) {
    if (status == wanted && (status == TSR_OK || strstr(tsr_engine_message(engine), words))) return TSR_OK;
    char said[TSR__MESSAGE_BYTES];
    snprintf(said, sizeof said, "%s", tsr_engine_message(engine));
    return tsr__fail(engine, TSR_INTERNAL, "status %s, not %s with \"%s\": %s", tsr_status_name(status),
                     tsr_status_name(wanted), words, said);
}

/* --- the config --- */

/* A row: degrees, a mesh, options, and what is said; "": it is accepted. */
typedef struct config_row {
    int ring, ulysses;
    rank_axis mesh[RANK_AXES];
    int rotate_method;
    bool ring_anything, ulysses_anything;
    const char *words;
} config_row;

static tsr_status check_config(tsr_engine *engine, const config_row *row, tsr_model *model) {
    int all = tsr_engine_size(engine);
    tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_device_mesh *mesh = NULL;
    TSR__TRY(rank_open_mesh(engine, row->mesh, &mesh));
    cp.mesh = mesh;
    cp.ring_degree = row->ring == RANK_ALL ? all : row->ring;
    cp.ulysses_degree = row->ulysses == RANK_ALL ? all : row->ulysses;
    cp.rotate_method = (tsr_rotate_method)row->rotate_method;
    cp.ring_anything = row->ring_anything;
    cp.ulysses_anything = row->ulysses_anything;
    tsr_status status = tsr_apply_context_parallel(model, &cp, NULL);
    status = expect(engine, status, *row->words ? TSR_ARG : TSR_OK, row->words);
    tsr_device_mesh_destroy(mesh);
    return status;
}

/* One model for all rows: a refusal leaves it as it was. The last row is accepted, and then it is split. */
static tsr_status rules_of_the_config(tsr_engine *engine, void *user) {
    (void)user;
    /* clang-format off */
    static const config_row rows[] = {
        {1,  1, {{NULL, 0}},                            0, false, false, "ring_degree or ulysses_degree must be greater than 1"},
        {1,  1, {{NULL, 0}},                            0, true,  false, "ring_degree or ulysses_degree must be greater than 1"},
        {1,  1, {{"ring", 1}, {"ulysses", 1}, {"fsdp", RANK_ALL}}, 0, false, false, "ring_degree or ulysses_degree must be greater than 1"},
        {1, RANK_ALL, {{NULL, 0}},                            0, true,  false, "ring_anything needs a ring_degree greater than 1"},
        {RANK_ALL, 1, {{NULL, 0}},                            0, false, true,  "ulysses_anything needs a ulysses_degree greater than 1"},
        {RANK_ALL, 1, {{NULL, 0}},                            2, false, false, "unknown rotate_method; there are allgather and alltoall"},
        {0, RANK_ALL, {{NULL, 0}},                            0, false, false, "ring_degree and ulysses_degree must be at least 1"},
        {RANK_ALL, 0, {{NULL, 0}},                            0, false, false, "ring_degree and ulysses_degree must be at least 1"},
        {RANK_ALL, -5, {{NULL, 0}},                           0, false, false, "ring_degree and ulysses_degree must be at least 1"},
        {7,  1, {{NULL, 0}},                            0, false, false, "ring 7 x ulysses 1 x tp 1 wants 7 ranks"},
        {RANK_ALL, 1, {{"ring", RANK_ALL}},                         0, false, false, "must have the axes \"ring\" and \"ulysses\""},
        {1, RANK_ALL, {{"fsdp", 1}, {"ulysses", RANK_ALL}},         0, false, false, "must have the axes \"ring\" and \"ulysses\""},
        {RANK_ALL, 1, {{NULL, 0}},                            1, true,  false, ""},
        {RANK_ALL, 1, {{NULL, 0}},                            0, false, false, "is split over ranks already"},
    };
    /* clang-format on */
    tsr_model *model = NULL;
    tsr_status status = TSR_OK;
    TSR__TRY(rank_open_part(engine, "transformer", NULL, true, &model));
    for (size_t i = 0; i < TSR__COUNT(rows) && status == TSR_OK; i++) {
        status = check_config(engine, &rows[i], model);
        if (status != TSR_OK) status = tsr__context(engine, status, "row %zu", i);
    }
    tsr_model_destroy(model);
    return status;
}

/* The heads of a rank of tp must divide over ulysses, unless any number may. */
static tsr_status heads_divide_over_ulysses(tsr_engine *engine, void *user) {
    (void)user;
    static const struct {
        int heads, tp, ulysses;
        bool anything, good;
    } rows[] = {{24, 1, 4, false, true},  {24, 1, 5, false, false}, {24, 1, 5, true, true},  {24, 4, 2, false, true},
                {24, 4, 4, false, false}, {24, 2, 12, false, true}, {4, 4, 2, false, false}, {4, 4, 2, true, true}};
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr__comm ulysses = {.size = rows[i].ulysses};
        tsr__sequence s = {.ulysses = &ulysses, .uneven_heads = rows[i].anything};
        char words[128];
        snprintf(words, sizeof words, "Toy has %d attention heads on each rank (tp %d), which ulysses %d does not",
                 rows[i].heads / rows[i].tp, rows[i].tp, rows[i].ulysses);
        tsr_status status = tsr__cp_check_heads(engine, "Toy", rows[i].heads, rows[i].tp, &s);
        TSR__TRY(expect(engine, status, rows[i].good ? TSR_OK : TSR_SHAPE, words));
    }
    return TSR_OK;
}

static tsr_status enable_on(tsr_engine *engine, const tsr_device_mesh *tp, const tsr_device_mesh *cp) {
    tsr_tensor_parallel_config tensor = TSR_TENSOR_PARALLEL_CONFIG_INIT;
    tsr_context_parallel_config context = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_parallel_config config = TSR_PARALLEL_CONFIG_INIT;
    tsr_model *model = NULL;
    tensor.mesh = tp;
    context.mesh = cp;
    context.ring_degree = tsr_engine_size(engine);
    config.tensor_parallel = &tensor;
    config.context_parallel = &context;
    tsr_status status = rank_open_part(engine, "transformer", &config, true, &model);
    tsr_model_destroy(model);
    return status;
}

static tsr_status both_are_on_one_mesh(tsr_engine *engine, void *user) {
    (void)user;
    static const rank_axis axes[] = {{"ring", RANK_ALL}, {"ulysses", 1}, {"tp", 1}, {NULL, 0}};
    tsr_device_mesh *one = NULL, *other = NULL;
    tsr_status status = rank_open_mesh(engine, axes, &one);
    if (status == TSR_OK) status = rank_open_mesh(engine, axes, &other);
    const tsr_device_mesh *const unlike[][2] = {{one, other}, {one, NULL}, {NULL, one}};
    for (size_t i = 0; i < TSR__COUNT(unlike) && status == TSR_OK; i++)
        status = expect(engine, enable_on(engine, unlike[i][0], unlike[i][1]), TSR_ARG, "must be given the same mesh");
    if (status == TSR_OK) status = enable_on(engine, one, one);
    tsr_device_mesh_destroy(other);
    tsr_device_mesh_destroy(one);
    return status;
}

/* --- the plan --- */

typedef struct plan_row {
    tsr_cp_input inputs[4]; /* ended by a module of NULL */
    tsr_cp_output outputs[1];
    tsr_status status;
    const char *words;
} plan_row;

/* Some rows are refused when they are applied, some by the meta run, which knows values. */
static tsr_status check_plan(tsr_engine *engine, const plan_row *row) {
    tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
    tsr_cp_plan plan = {row->inputs, 0, row->outputs, row->outputs[0].module != NULL};
    static _Thread_local float out[RANK_FLOATS];
    tsr_model *model = NULL;
    size_t n = 0;
    while (plan.n_inputs < TSR__COUNT(row->inputs) && row->inputs[plan.n_inputs].module) plan.n_inputs++;
    cp.ring_degree = tsr_engine_size(engine);
    cp.ring_anything = true;
    TSR__TRY(rank_open_part(engine, "transformer", NULL, false, &model));
    tsr_status status = tsr_apply_context_parallel(model, &cp, &plan);
    bool applied = status == TSR_OK;
    if (applied) status = rank_forward(engine, model, false, out, &n);
    status = expect(engine, status, row->status, row->words);
    /* a plan that was refused is gone: that of the class takes its place */
    if (status == TSR_OK && !applied) status = tsr_apply_context_parallel(model, &cp, NULL);
    if (status == TSR_OK && !applied) status = rank_forward(engine, model, false, out, &n);
    tsr_model_destroy(model);
    return status;
}

static tsr_status rows_of_the_plan(tsr_engine *engine, void *user) {
    (void)user;
    /* clang-format off */
    static const plan_row rows[] = {
        {{{"no_such", "x", 0, 1, 3}},                           {{NULL, 0, 0, 0}},         TSR_ARG, "\"no_such\": it matches no module"},
        {{{"", "hidden_states", 0, 1, 3}, {"transformer_blocks.9", NULL, 0, 1, 3}}, {{NULL, 0, 0, 0}}, TSR_ARG, "\"transformer_blocks.9\": it matches no module"},
        {{{"transformer_blocks.*.to_out.*", NULL, 0, 1, 3}},    {{NULL, 0, 0, 0}},         TSR_ARG, "a row may hold one \"*\" only"},
        {{{"*.attn", NULL, 0, 1, 3}},                           {{NULL, 0, 0, 0}},         TSR_ARG, "\"*\" stands where there is no list of modules"},
        {{{"", "hidden_states", 0, 1, 3}},                      {{"proj", 0, 1, 3}},       TSR_ARG, "\"proj\": it matches no module"},
        {{{"", "hidden_states", 0, 1, 4}},                      {{NULL, 0, 0, 0}},         TSR_SHAPE, "argument \"hidden_states\" of the model: the context-parallel plan expects 4 dimensions, but it has 3"},
        {{{"", "no_such", 0, 1, 3}},                            {{NULL, 0, 0, 0}},         TSR_ARG, "it has no argument \"no_such\""},
        {{{"x_embedder", "hidden_states", 0, 1, 3}},            {{NULL, 0, 0, 0}},         TSR_ARG, "\"x_embedder\": it has no argument \"hidden_states\""},
        {{{"pos_embed", NULL, 2, 0, 2}},                        {{NULL, 0, 0, 0}},         TSR_ARG, "\"pos_embed\": it has no output 2"},
        {{{NULL, NULL, 0, 0, 0}},                               {{"proj_out", 1, 1, 3}},   TSR_ARG, "\"proj_out\": it has no output 1"},
        {{{NULL, NULL, 0, 0, 0}},                               {{"proj_out", 0, 1, 3}},   TSR_SHAPE, "output 0 of proj_out: the context-parallel plan gathers dimension 1, which is not split"},
        {{{"", "img_ids", 0, 1, 3}, {"", "img_ids", 0, 1, 3}},  {{NULL, 0, 0, 0}},         TSR_SHAPE, "argument \"img_ids\" of the model: the context-parallel plan splits it, but it is split already"},
        /* case 10: position ids that stay whole beside tokens that are split */
        {{{"", "hidden_states", 0, 1, 3}, {"", "encoder_hidden_states", 0, 1, 3}}, {{"proj_out", 0, 1, 3}}, TSR_SHAPE, "rope"},
        {{{"", "hidden_states", 0, 1, 3}, {"", "encoder_hidden_states", 0, 1, 3}, {"", "txt_ids", 0, 1, 3}}, {{"proj_out", 0, 1, 3}}, TSR_SHAPE, "split"},
        /* a result that the model's own row gathers */
        {{{"", "hidden_states", 0, 1, 3}, {"", "encoder_hidden_states", 0, 1, 3}, {"", "txt_ids", 0, 1, 3}, {"", "img_ids", 0, 1, 3}}, {{"", 0, 1, 3}}, TSR_OK, ""},
        /* a result that nobody gathers */
        {{{"", "hidden_states", 0, 1, 3}, {"", "encoder_hidden_states", 0, 1, 3}, {"", "txt_ids", 0, 1, 3}, {"", "img_ids", 0, 1, 3}}, {{NULL, 0, 0, 0}}, TSR_SHAPE, "download"},
    };
    /* clang-format on */
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        tsr_status status = check_plan(engine, &rows[i]);
        if (status != TSR_OK) return tsr__context(engine, status, "row %zu", i);
    }
    return TSR_OK;
}

static tsr_status classes_without_a_plan_are_refused(tsr_engine *engine, void *user) {
    (void)user;
    static const char *const parts[][2] = {{"vae", "AutoencoderKLFlux2"}, {"text_encoder", "Qwen3ForCausalLM"}};
    for (size_t i = 0; i < TSR__COUNT(parts); i++) {
        tsr_context_parallel_config cp = TSR_CONTEXT_PARALLEL_CONFIG_INIT;
        tsr_model *model = NULL;
        char words[160];
        cp.ulysses_degree = tsr_engine_size(engine);
        snprintf(words, sizeof words, "%s has no context-parallel plan; classes that have one: Flux2Transformer2DModel",
                 parts[i][1]);
        TSR__TRY(rank_open_part(engine, parts[i][0], NULL, true, &model));
        tsr_status status = expect(engine, tsr_apply_context_parallel(model, &cp, NULL), TSR_UNSUPPORTED, words);
        tsr_model_destroy(model);
        TSR__TRY(status);
    }
    return TSR_OK;
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {{"rules_of_the_config", rules_of_the_config},
                                      {"heads_divide_over_ulysses", heads_divide_over_ulysses},
                                      {"both_are_on_one_mesh", both_are_on_one_mesh},
                                      {"rows_of_the_plan", rows_of_the_plan},
                                      {"classes_without_a_plan_are_refused", classes_without_a_plan_are_refused}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
