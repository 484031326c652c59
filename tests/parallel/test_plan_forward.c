/* What a plan promises, against what happens: collectives and activations of a real forward on ranks that are threads,
 * operations counted by hand, the memory that generate asks for. */
#include "klein.h"
#include "ranks.h"

#include "comm/meta/meta.h"
#include "models/models.h"

#include <tessera/plan.h>

#include <stdio.h>
#include <string.h>

enum { PIXELS = 64, TEXT = 12, IMAGES = 2 };

typedef struct layout_case {
    int ranks; /* that share the weights */
    tsr_tp_plan_kind kind;
    char folder[4096];
    int ring, ulysses; /* 0: the sequence is whole */
    tsr_rotate_method rotate_method;
} layout_case;

typedef struct configs {
    tsr_tensor_parallel_config tensor;
    tsr_context_parallel_config context;
    tsr_tp_plan plan;
    tsr_parallel_config parallel;
} configs;

/* Fills c in place, because parallel points into it. */
static const tsr_parallel_config *configs_of(const layout_case *l, configs *c) {
    *c = (configs){TSR_TENSOR_PARALLEL_CONFIG_INIT,
                   TSR_CONTEXT_PARALLEL_CONFIG_INIT,
                   {l->kind, NULL, 0},
                   TSR_PARALLEL_CONFIG_INIT};
    c->tensor.tp_degree = l->ranks;
    c->context.ring_degree = l->ring;
    c->context.ulysses_degree = l->ulysses;
    c->context.rotate_method = l->rotate_method;
    c->parallel.tensor_parallel = &c->tensor;
    c->parallel.tp_plan = &c->plan;
    if (l->ring) c->parallel.context_parallel = &c->context;
    return &c->parallel;
}

/* --- a forward --- */

static tsr_status make_plan(tsr_engine *engine, const layout_case *l, tsr_plan **plan) {
    configs c;
    tsr_plan_options options = TSR_PLAN_OPTIONS_INIT;
    size_t n = 0;
    options.parallel = configs_of(l, &c);
    options.height = options.width = PIXELS;
    options.max_sequence_length = TEXT;
    options.num_images_per_prompt = IMAGES;
    TSR__TRY(tsr_plan_make(engine, l->folder, &options, plan, &n));
    RANK_CHECK(engine, n == 1);
    return TSR_OK;
}

static tsr_status open_model(tsr_engine *engine, const layout_case *l, tsr_model **model) {
    configs c;
    tsr_model_options options = TSR_MODEL_OPTIONS_INIT;
    options.parallel = configs_of(l, &c);
    return tsr_model_from_pretrained(engine, l->folder, &options, model);
}

/* Calls and bytes of each operation during the run. */
typedef struct counts {
    uint64_t calls[TSR__N_COMM_OPS], bytes[TSR__N_COMM_OPS];
    size_t activations;
    double flops;
} counts;

static tsr_status run(tsr_engine *engine, const tsr_model *model, tsr__exec *x, tsr__call *call, counts *out) {
    const tsr__sequence *s = model->layout.sequence;
    tsr__comm *const comms[] = {model->layout.tp, s ? s->all : NULL, s ? s->ring : NULL, s ? s->ulysses : NULL};
    tsr__graph *graph = NULL;
    TSR__TRY(tsr__exec_record(x, tsr__call_forward, call, &graph));
    TSR__TRY(tsr__exec_reserve(x));
    out->activations = tsr__exec_activation_bytes(x);
    out->flops = tsr__graph_flops(graph);
    for (int i = 0; model->desc->outputs[i]; i++) {
        call->outputs[i].data = tsr__alloc(engine, tsr_tensor_bytes(&call->outputs[i]));
        if (!call->outputs[i].data) return TSR_NOMEM;
    }
    for (size_t k = 0; k < TSR__COUNT(comms); k++)
        for (int i = 0; i < TSR__N_COMM_OPS && comms[k]; i++) comms[k]->calls[i] = comms[k]->bytes[i] = 0;
    TSR__TRY(tsr__exec_run(x, graph, call));
    for (size_t k = 0; k < TSR__COUNT(comms); k++)
        for (int i = 0; i < TSR__N_COMM_OPS && comms[k]; i++) {
            out->calls[i] += comms[k]->calls[i];
            out->bytes[i] += comms[k]->bytes[i];
        }
    return TSR_OK;
}

static tsr_status measure(tsr_engine *engine, const tsr_model *model, counts *out) {
    const tsr__picture picture = {PIXELS, PIXELS, 16, TEXT, IMAGES, 1};
    tsr__call call = tsr__call_for_picture(model, &picture);
    tsr__exec *x = NULL;
    tsr_status status = tsr__exec_create(engine, TSR_F32, &x);
    for (int i = 0; i < TSR__MAX_ARGUMENTS && status == TSR_OK; i++) {
        if (!call.inputs[i].ndim) continue;
        call.inputs[i].data = tsr__calloc(engine, 1, tsr_tensor_bytes(&call.inputs[i]));
        if (!call.inputs[i].data) status = TSR_NOMEM;
    }
    if (status == TSR_OK) status = run(engine, model, x, &call, out);
    for (int i = 0; i < TSR__MAX_ARGUMENTS; i++) tsr__free(engine, call.inputs[i].data);
    for (int i = 0; i < TSR__MAX_RESULTS; i++) tsr__free(engine, call.outputs[i].data);
    tsr__exec_destroy(x);
    return status;
}

/* --- against its plan --- */

/* Calls and bytes that the plan has of an operation. */
static void add_up(const tsr_plan *plan, const char *op, uint64_t *calls, uint64_t *bytes) {
    *calls = *bytes = 0;
    for (size_t i = 0; i < plan->n_collectives; i++) {
        const tsr_plan_collective *c = &plan->collectives[i];
        if (strcmp(c->op, op) != 0) continue;
        *calls += c->count;
        *bytes += c->count * c->bytes;
    }
}

static tsr_status compare(tsr_engine *engine, const layout_case *l, const tsr_plan *plan, const counts *real) {
    static const char *const names[] = {"allreduce", "allgather", "alltoall", "sendreceive", "broadcast"};
    const tsr_plan_rank *rank = &plan->ranks[tsr_engine_rank(engine)];
    for (int i = 0; i < TSR__N_COMM_OPS; i++) {
        uint64_t calls = 0, bytes = 0;
        add_up(plan, names[i], &calls, &bytes);
        if (calls != real->calls[i] || bytes != real->bytes[i])
            return tsr__fail(engine, TSR_INTERNAL, "%s: %llu calls with %llu bytes, planned %llu with %llu", names[i],
                             (unsigned long long)real->calls[i], (unsigned long long)real->bytes[i],
                             (unsigned long long)calls, (unsigned long long)bytes);
    }
    uint64_t sent = 0;
    for (size_t i = 0; i < plan->n_collectives; i++) {
        const tsr_plan_collective *c = &plan->collectives[i];
        uint64_t n = (uint64_t)c->ranks, parts = strcmp(c->op, "allreduce") == 0 ? 2 : strncmp(c->op, "all", 3) == 0;
        sent += c->count * (parts ? parts * (n - 1) * c->bytes / n : c->bytes);
        if (strcmp(c->axis, "tp") == 0) RANK_CHECK(engine, c->ranks == l->ranks);
    }
    RANK_CHECK(engine, plan->bytes_sent_per_rank == sent);
    RANK_CHECK(engine, (tsr_engine_size(engine) > 1) == (sent > 0));
    RANK_CHECK(engine, rank->activation_bytes == real->activations);
    RANK_CHECK(engine, plan->flops_per_rank == real->flops);
    return TSR_OK;
}

static tsr_status forward_on_rank(tsr_engine *engine, void *user) {
    const layout_case *l = user;
    tsr_plan *plan = NULL;
    tsr_model *model = NULL;
    counts real = {{0}, {0}, 0, 0.0};
    tsr_status status = tsr_status_agree(engine, make_plan(engine, l, &plan));
    if (status == TSR_OK) status = open_model(engine, l, &model);
    if (status == TSR_OK) status = measure(engine, model, &real);
    if (status == TSR_OK) status = compare(engine, l, plan, &real);
    if (status == TSR_OK && plan->ranks[tsr_engine_rank(engine)].weight_bytes != tsr_model_weight_bytes(model))
        status = tsr__fail(engine, TSR_INTERNAL, "the weights have another size");
    tsr_plans_free(engine, plan, 1);
    tsr_model_destroy(model);
    return status;
}

static void a_forward_is_as_planned(void **state) {
    (void)state;
    static const char *const components[] = {"klein/transformer", "klein/text_encoder", "minimax_h3/transformer"};
    char message[TSR__MESSAGE_BYTES];
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref";
    options.log_level = TSR_LOG_ERROR;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int kind = TSR_TP_PLAN_FULL; kind <= TSR_TP_PLAN_REFERENCE; kind++)
            for (size_t c = 0; c < TSR__COUNT(components); c++) {
                layout_case l = {.ranks = ranks, .kind = (tsr_tp_plan_kind)kind};
                snprintf(l.folder, sizeof l.folder, "%s", test_fixture(components[c]));
                if (tsr_launch(&options, ranks, forward_on_rank, &l, message, sizeof message) != TSR_OK)
                    fail_msg("%s, tp %d, plan %d: %s", components[c], ranks, kind, message);
            }
}

/* The sequence over ranks, by itself and with the weights. */
static void a_forward_over_a_split_sequence_is_as_planned(void **state) {
    (void)state;
    static const struct {
        int tp, ring, ulysses;
        tsr_rotate_method rotate_method;
    } rows[] = {{1, 2, 1, TSR_ROTATE_ALLGATHER}, {1, 2, 1, TSR_ROTATE_ALLTOALL}, {1, 1, 2, TSR_ROTATE_ALLGATHER},
                {1, 2, 2, TSR_ROTATE_ALLTOALL},  {2, 2, 1, TSR_ROTATE_ALLTOALL}, {2, 1, 2, TSR_ROTATE_ALLGATHER}};
    char message[TSR__MESSAGE_BYTES];
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    options.device = "ref";
    options.log_level = TSR_LOG_ERROR;
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        layout_case l = {.ranks = rows[i].tp, .ring = rows[i].ring, .ulysses = rows[i].ulysses};
        l.rotate_method = rows[i].rotate_method;
        snprintf(l.folder, sizeof l.folder, "%s", test_fixture("klein/transformer"));
        int ranks = l.ranks * l.ring * l.ulysses;
        if (tsr_launch(&options, ranks, forward_on_rank, &l, message, sizeof message) != TSR_OK)
            fail_msg("row %zu: %s", i, message);
    }
}

/* --- by hand --- */

/* The transformer of the fixture: D = 64, M = 160, 32 latent and 72 text channels, 64 of the timestep; two blocks of
 * each kind. B pictures of L tokens with S of text. What x_embedder does is whole on every rank, the rest is shared. */
static double flops_by_hand(int ranks) {
    const double B = IMAGES, L = 16, S = TEXT, T = L + S, D = 64, M = 160, C = 32, J = 72, K = 64;
    double stream = 4 * D * D + 3 * D * M;
    double each = 2 * B * (K * D + D * D + 2 * 6 * D * D + 3 * D * D + 2 * D * D);
    double ports = 2 * B * (S * J * D + L * D * C);
    double two_streams = 2 * B * T * stream + 4 * B * T * T * D;
    double one_stream = 2 * B * T * (D * (3 * D + 2 * M) + (D + M) * D) + 4 * B * T * T * D;
    return 2 * B * L * C * D + (each + ports + 2 * two_streams + 2 * one_stream) / ranks;
}

static void operations_are_those_counted_by_hand(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        layout_case l = {.ranks = ranks, .kind = TSR_TP_PLAN_FULL};
        tsr_plan *plan = NULL;
        snprintf(l.folder, sizeof l.folder, "%s", test_fixture("klein/transformer"));
        assert_ok(engine, make_plan(engine, &l, &plan));
        assert_true(plan->flops_per_rank == flops_by_hand(ranks));
        tsr_plans_free(engine, plan, 1);
    }
    tsr_engine_destroy(engine);
}

/* --- what generate asks for --- */

/* Megabytes of activations that the memory check named for each component. */
typedef struct heard {
    double activations[TSR_MAX_DEGREES];
    int n;
} heard;

static void on_log(void *user, tsr_log_level level, const char *line) {
    heard *h = user;
    double weights, activations;
    const char *colon = strchr(line, ':');
    (void)level;
    if (colon && sscanf(colon, ": %lf MB of weights and %lf MB of activations", &weights, &activations) == 2)
        h->activations[h->n++] = activations;
}

static bool cancel(void *user, const tsr_progress *progress) {
    (void)user;
    (void)progress;
    return false;
}

static tsr_engine *listening_engine(heard *h) {
    tsr_engine_options options = TSR_ENGINE_OPTIONS_INIT;
    tsr_engine *engine = NULL;
    options.log = on_log;
    options.log_user = h;
    options.log_level = TSR_LOG_INFO;
    options.progress = cancel; /* the check comes before the first weight */
    assert_int_equal(tsr_engine_create(&options, &engine), TSR_OK);
    return engine;
}

static void a_pipeline_needs_what_generate_asks_for(void **state) {
    (void)state;
    static const klein_case cases[] = {{"distilled", {"a cat"}, 1024, 512, 1, 1.0, 1, 512, false},
                                       {"base", {"a cat"}, 512, 512, 1, 4.0, 2, 256, true}};
    for (size_t i = 0; i < TSR__COUNT(cases); i++) {
        heard h = {{0.0}, 0};
        tsr_engine *engine = listening_engine(&h);
        tsr_pipeline *pipeline = open_klein(engine, test_fixture("klein"), cases[i].base);
        tsr_generate_options what = klein_options(&cases[i]);
        tsr_plan_options options = TSR_PLAN_OPTIONS_INIT;
        tsr_plan *plans = NULL;
        tsr_images *images = NULL;
        size_t n = 0;
        assert_int_equal(tsr_pipeline_generate(pipeline, &what, &images), TSR_CANCELLED);
        options.height = what.height;
        options.width = what.width;
        options.max_sequence_length = what.max_sequence_length;
        options.num_images_per_prompt = what.num_images_per_prompt;
        assert_ok(engine, tsr_plan_make(engine, tsr_pipeline_folder(pipeline), &options, &plans, &n));
        assert_int_equal(h.n, n);
        assert_int_equal(plans[1].passes, cases[i].base ? 2 : 1);
        for (size_t k = 0; k < n; k++) {
            double planned = (double)plans[k].ranks[0].activation_bytes / 1e6;
            print_message("%s %s: planned %.2f MB, generate %.1f MB\n", cases[i].name, plans[k].component, planned,
                          h.activations[k]);
            assert_true(planned >= 0.99 * h.activations[k] - 0.05 && planned <= 1.01 * h.activations[k] + 0.05);
        }
        tsr_plans_free(engine, plans, n);
        tsr_pipeline_destroy(pipeline);
        tsr_engine_destroy(engine);
    }
}

/* --- ranks that are imagined --- */

static void imagined_ranks_exchange_nothing(void **state) {
    (void)state;
    tsr_engine *engine = test_engine("ref");
    tsr__comm *comm = NULL, *other = NULL;
    float data[2] = {1.0f, 2.0f};
    const size_t bytes[2] = {4, 4};
    assert_ok(engine, tsr__meta_comm_create(engine, "tp", 1, 2, &comm));
    assert_int_equal(comm->rank, 1);
    assert_int_equal(comm->size, 2);
    assert_refused(engine, tsr__all_reduce(comm, data, 2), TSR_INTERNAL, "all_reduce over tp on rank 0 of 1");
    assert_refused(engine, tsr__all_gather(comm, data, bytes, data), TSR_INTERNAL, "imagined");
    assert_refused(engine, tsr__all_to_all(comm, data, bytes, data, bytes), TSR_INTERNAL, "imagined");
    assert_refused(engine, tsr__send_receive(comm, data, 4, 0, data, 4, 0), TSR_INTERNAL, "imagined");
    assert_refused(engine, tsr__broadcast(comm, data, 8, 0), TSR_INTERNAL, "imagined");
    assert_refused(engine, tsr__comm_split(comm, 0, &other), TSR_INTERNAL, "imagined");
    assert_refused(engine, tsr__comm_split_host(comm, &other), TSR_INTERNAL, "imagined");
    assert_int_equal(comm->calls[TSR__ALL_REDUCE], 0);
    tsr__comm_progress(comm);
    tsr__comm_destroy(comm);
    tsr_engine_destroy(engine);
}

static void an_imagined_mesh_has_every_rank_in_its_place(void **state) {
    (void)state;
    static const int shape[] = {2, 1, 3};
    static const char *const names[] = {"ring", "ulysses", "tp"};
    tsr_engine *engine = test_engine("ref");
    tsr_device_mesh *mesh = NULL;
    for (int rank = 0; rank < 6; rank++) {
        assert_ok(engine, tsr__device_mesh_imagine(engine, shape, names, 3, rank, &mesh));
        assert_int_equal(tsr__mesh_comm(mesh, "ring")->rank, rank / 3);
        assert_int_equal(tsr__mesh_comm(mesh, "tp")->rank, rank % 3);
        assert_int_equal(tsr__mesh_comm(mesh, "tp")->size, 3);
        assert_string_equal(tsr__mesh_comm(mesh, "tp")->axis, "tp");
        assert_null(tsr__mesh_comm(mesh, "ulysses"));
        tsr_device_mesh_destroy(mesh);
    }
    assert_refused(engine, tsr__device_mesh_imagine(engine, shape, names, 3, 6, &mesh), TSR_ARG, "no rank 6");
    assert_refused(engine, tsr__device_mesh_imagine(engine, shape, names, 3, -1, &mesh), TSR_ARG, "no rank -1");
    assert_refused(engine, tsr__device_mesh_imagine(engine, (int[]){4096}, names, 1, 0, &mesh), TSR_ARG, "at most");
    tsr_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forward_is_as_planned),
        cmocka_unit_test(a_forward_over_a_split_sequence_is_as_planned),
        cmocka_unit_test(operations_are_those_counted_by_hand),
        cmocka_unit_test(a_pipeline_needs_what_generate_asks_for),
        cmocka_unit_test(imagined_ranks_exchange_nothing),
        cmocka_unit_test(an_imagined_mesh_has_every_rank_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
