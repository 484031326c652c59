/* A split sequence: what ports and attention refuse, what a ring holds and moves, a rank that fails on the way. */
#include "layouts.h"
#include "ranks.h"

#include <stdio.h>
#include <string.h>

enum { CHANNELS = 8, HEADS = 4, LONG = 3072 /* over 2, 3 and 4 ranks */, LONG_CHANNELS = 32 };

static tsr_status record(tsr_engine *engine, tsr__forward forward, void *context, tsr__exec **out, tsr__graph **graph) {
    TSR__TRY(tsr__exec_create(engine, TSR_F32, out));
    return tsr__exec_record(*out, forward, context, graph);
}

/* Recording ends with SHAPE or UNSUPPORTED and a message that contains `words`; "": it works. */
static tsr_status expect(tsr_engine *engine, tsr__forward forward, void *context, const char *words) {
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    tsr_status status = record(engine, forward, context, &x, &graph);
    tsr__exec_destroy(x);
    bool refused = status == TSR_SHAPE || status == TSR_UNSUPPORTED;
    if (*words ? refused && strstr(tsr_engine_message(engine), words) : status == TSR_OK) return TSR_OK;
    char said[TSR__MESSAGE_BYTES];
    snprintf(said, sizeof said, "%s", tsr_engine_message(engine));
    return tsr__fail(engine, TSR_INTERNAL, "instead of \"%s\": %s: %s", words, tsr_status_name(status), said);
}

/* Runs the body on every layout of the ranks. */
typedef tsr_status (*layout_body)(tsr_engine *engine, const tsr__sequence *sequence);
static tsr_status on_layouts(tsr_engine *engine, bool anything, layout_body body) {
    rank_layouts l;
    tsr_status status = rank_layouts_open(engine, anything, &l);
    for (int i = 0; i < l.n && status == TSR_OK; i++)
        status = tsr_status_agree(engine, body(engine, l.layout[i].sequence));
    rank_layouts_close(&l);
    return status;
}

/* --- pieces --- */

/* torch.tensor_split, as measured (case 9). */
static tsr_status pieces_are_those_of_torch(tsr_engine *engine, void *user) {
    (void)user;
    static const int64_t rows[][5] = {
        {3969, 993, 992, 992, 992}, {6889, 1723, 1722, 1722, 1722}, {15, 4, 4, 4, 3}, {4, 1, 1, 1, 1}};
    for (size_t r = 0; r < TSR__COUNT(rows); r++) {
        int64_t at = 0;
        for (int i = 0; i < 4; i++) {
            tsr_range piece = tsr__tensor_split(rows[r][0], 4, i);
            RANK_CHECK(engine, piece.begin == at && piece.end - piece.begin == rows[r][1 + i]);
            at = piece.end;
        }
        RANK_CHECK(engine, at == rows[r][0]);
    }
    return TSR_OK;
}

/* --- ports --- */

typedef struct port_case {
    const tsr__sequence *sequence;
    int64_t tokens;
    bool gathers, twice;
} port_case;

/* "hidden_states" [1, tokens, C] of a module whose plan splits, or gathers, it. */
static void port_forward(tsr__exec *x, void *context) {
    const port_case *c = context;
    tsr__port second = {"hidden_states", 0, c->gathers, 1, 3, c->sequence, false, NULL};
    tsr__port port = {"hidden_states", 0, c->gathers, 1, 3, c->sequence, false, c->twice ? &second : NULL};
    tsr__module module = {.name = "", .ports = &port};
    tsr__value v = tsr__empty(x, TSR_F32, TSR__SHAPE(1, c->tokens, CHANNELS));
    v = tsr__port_in(x, &module, "hidden_states", v, false);
    const tsr__sequence *s = c->sequence;
    if (!tsr__is_none(v) && v.shape[1] != tsr__tensor_split(c->tokens, s->all->size, s->all->rank).end -
                                              tsr__tensor_split(c->tokens, s->all->size, s->all->rank).begin)
        (void)tsr__exec_fail(x, TSR_INTERNAL, "a piece of %lld tokens", (long long)v.shape[1]);
}

/* What is said of `n` ranks' tokens that do not fit. */
static const char *port_words(const tsr__sequence *s, int64_t tokens, bool few, char *text, size_t size) {
    int n = s->all->size, ring = s->ring ? s->ring->size : 1, ulysses = s->ulysses ? s->ulysses->size : 1;
    if (few)
        snprintf(text, size,
                 "argument \"hidden_states\" of the model: %lld tokens are fewer than the %d ranks that share them "
                 "(ring %d x ulysses %d)",
                 (long long)tokens, n, ring, ulysses);
    else
        snprintf(text, size, "%lld tokens do not divide over %d ranks (ring %d x ulysses %d); %s allows that",
                 (long long)tokens, n, ring, ulysses,
                 ring > 1 ? "ring_anything (--ring-anything)" : "ulysses_anything (--ulysses-anything)");
    return text;
}

static tsr_status ports_of(tsr_engine *engine, const tsr__sequence *s) {
    int n = s->all->size;
    char text[256];
    for (int64_t tokens = 1; tokens <= 3 * n; tokens++) {
        port_case c = {.sequence = s, .tokens = tokens};
        bool fits = tokens >= n && (tokens % n == 0 || s->uneven_lengths);
        const char *words = fits ? "" : port_words(s, tokens, tokens < n, text, sizeof text);
        TSR__TRY(expect(engine, port_forward, &c, words));
    }
    port_case twice = {s, 2 * n, false, true}, not_split = {s, 2 * n, true, false};
    TSR__TRY(expect(engine, port_forward, &twice, "splits it, but it is split already"));
    return expect(engine, port_forward, &not_split, "gathers dimension 1, which is not split");
}

static tsr_status lengths_are_refused(tsr_engine *engine, void *user) {
    (void)user;
    TSR__TRY(on_layouts(engine, false, ports_of));
    return on_layouts(engine, true, ports_of);
}

/* --- attention --- */

/* How an operand is spread: not at all, as one part, or as two. */
typedef enum spreading { ABSENT, WHOLE, ONE_PART, TWO_PARTS } spreading;

typedef struct attention_case {
    spreading q, k, v, mask;
    bool causal;
    int64_t more_mask; /* tokens of the mask beyond those of the keys */
    const char *words;
    const tsr__sequence *sequence;
    int64_t tokens;
    tsr__value out;
} attention_case;

static tsr__value take(tsr__exec *x, const attention_case *c, tsr__value v, spreading how) {
    if (how < ONE_PART) return how == ABSENT ? tsr__none() : v;
    tsr__value out = tsr__none();
    int64_t at = 0, first = how == ONE_PART ? c->tokens : c->tokens / 2;
    for (int64_t n = first; at < c->tokens; at += n, n = c->tokens - at) {
        tsr__split split = rank_split(c->sequence, 1, n);
        tsr__value piece = tsr__take_piece(x, tsr__slice(x, v, 1, at, at + n), TSR__AXIS_SEQUENCE, &split);
        out = at ? tsr__concat(x, out, piece, 1) : piece;
    }
    return out;
}

static void attention_forward(tsr__exec *x, void *context) {
    attention_case *c = context;
    tsr__value whole = tsr__empty(x, TSR_F32, TSR__SHAPE(1, c->tokens, HEADS, CHANNELS));
    tsr__value mask = tsr__empty(x, TSR_I64, TSR__SHAPE(1, c->tokens + c->more_mask));
    tsr__value q = take(x, c, whole, c->q), k = take(x, c, whole, c->k), v = take(x, c, whole, c->v);
    tsr__attention_options options = {.key_mask = take(x, c, mask, c->mask), .causal = c->causal};
    c->out = tsr__attention(x, q, k, v, options);
}

static tsr_status attention_of(tsr_engine *engine, const tsr__sequence *s) {
    static const char *const unlike = "queries, keys and values are not split alike";
    /* clang-format off */
    static const attention_case rows[] = {
        {ONE_PART,  ONE_PART,  ONE_PART,  ABSENT,    false, 0,  "",     NULL, 0, {0}},
        {TWO_PARTS, TWO_PARTS, TWO_PARTS, TWO_PARTS, false, 0,  "",     NULL, 0, {0}},
        {TWO_PARTS, TWO_PARTS, TWO_PARTS, WHOLE,     false, 0,  "",     NULL, 0, {0}},
        {ONE_PART,  WHOLE,     WHOLE,     WHOLE,     false, 0,  "",     NULL, 0, {0}}, /* plain: own queries, all keys */
        {WHOLE,     ONE_PART,  ONE_PART,  ABSENT,    false, 0,  NULL,   NULL, 0, {0}},
        {ONE_PART,  ONE_PART,  WHOLE,     ABSENT,    false, 0,  NULL,   NULL, 0, {0}},
        {ONE_PART,  WHOLE,     ONE_PART,  ABSENT,    false, 0,  "do not fit", NULL, 0, {0}},
        {TWO_PARTS, TWO_PARTS, ONE_PART,  ABSENT,    false, 0,  NULL,   NULL, 0, {0}}, /* as long, but other tokens */
        {ONE_PART,  ONE_PART,  ONE_PART,  ABSENT,    true,  0,  "causal attention over a sequence that is split", NULL, 0, {0}},
        {ONE_PART,  ONE_PART,  ONE_PART,  TWO_PARTS, false, 0,  "key mask is split, but not as the keys are", NULL, 0, {0}},
        {ONE_PART,  ONE_PART,  ONE_PART,  WHOLE,     false, 1,  "key mask must have a row of the", NULL, 0, {0}},
        {ONE_PART,  ONE_PART,  ONE_PART,  WHOLE,     false, -1, "key mask must have a row of the", NULL, 0, {0}},
    };
    /* clang-format on */
    for (size_t i = 0; i < TSR__COUNT(rows); i++) {
        attention_case c = rows[i];
        c.sequence = s;
        c.tokens = 4 * s->all->size;
        TSR__TRY(expect(engine, attention_forward, &c, c.words ? c.words : unlike));
    }
    return TSR_OK;
}

static tsr_status operands_that_are_not_split_alike_are_refused(tsr_engine *engine, void *user) {
    (void)user;
    return on_layouts(engine, true, attention_of);
}

/* --- a ring --- */

/* An attention over this rank's pieces alone, which lie outside of the executor's memory. */
typedef struct ring_case {
    const tsr__sequence *sequence;
    tsr__view q, k, v;
    int64_t tokens;
} ring_case;

static void ring_forward(tsr__exec *x, void *context) {
    const ring_case *c = context;
    const tsr__split split = rank_split(c->sequence, 1, c->tokens);
    const tsr__view *views[] = {&c->q, &c->k, &c->v};
    tsr__value v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = tsr__external(x, views[i]);
        tsr__set_split(x, v[i], TSR__AXIS_SEQUENCE, &split);
    }
    (void)tsr__attention(x, v[0], v[1], v[2], (tsr__attention_options){.key_mask = tsr__none()});
}

/* Bytes that keys and values take on this rank at the worst moment: all but two outputs with what is known of their
 * rows, and the scores of one row of `ref`. */
static tsr_status measure_keys(tsr_engine *engine, const tsr__sequence *s, size_t *block, size_t *bytes) {
    int64_t own = LONG / s->all->size;
    tsr__view view = tsr__view_dense(NULL, TSR_F32, TSR__SHAPE(1, own, HEADS, LONG_CHANNELS));
    ring_case c = {s, view, view, view, LONG};
    tsr__exec *x = NULL;
    tsr__graph *graph = NULL;
    tsr_status status = record(engine, ring_forward, &c, &x, &graph);
    size_t out = tsr__view_bytes(&view), stats = out / LONG_CHANNELS * 2, row = (size_t)own * sizeof(double);
    if (status == TSR_OK) *bytes = tsr__exec_activation_bytes(x) - 2 * (out + stats) - row;
    *block = 2 * out;
    tsr__exec_destroy(x);
    return status;
}

/* Issue 6, acceptance 5: at most 3/N of the whole. Today own block and the one under way, so a third one is found. */
static tsr_status keys_of(tsr_engine *engine, const tsr__sequence *given) {
    tsr__sequence s = *given;
    size_t block = 0, bytes = 0, gathered = 0;
    if (s.ulysses) return TSR_OK;
    s.rotate_method = TSR_ROTATE_ALLTOALL;
    TSR__TRY(measure_keys(engine, &s, &block, &bytes));
    s.rotate_method = TSR_ROTATE_ALLGATHER;
    TSR__TRY(measure_keys(engine, &s, &block, &gathered));
    RANK_CHECK(engine, bytes > block && bytes < 3 * block);
    RANK_CHECK(engine, gathered > (size_t)s.all->size * block / 2);
    return TSR_OK;
}

static tsr_status a_ring_holds_two_blocks(tsr_engine *engine, void *user) {
    (void)user;
    return on_layouts(engine, false, keys_of);
}

static _Thread_local int moves; /* calls of a communicator's progress on this rank */
static bool count_move(tsr__comm *comm) {
    (void)comm;
    moves++;
    return true; /* there is more to be moved */
}

/* Runs the ring on the engine's device, and counts how often it moves the communication. */
static tsr_status count_moves(tsr_engine *engine, tsr__sequence s, tsr_rotate_method method, int *out) {
    int64_t own = LONG / s.all->size;
    tsr__view view = tsr__view_dense(NULL, TSR_F32, TSR__SHAPE(1, own, HEADS, LONG_CHANNELS));
    const tsr__comm_ops *ops = s.ring->ops;
    tsr__comm_ops counting = *ops;
    counting.progress = count_move;
    view.data = tsr__calloc(engine, 1, tsr__view_bytes(&view));
    s.rotate_method = method;
    ring_case c = {&s, view, view, view, LONG};
    tsr_status status = tsr_status_agree(engine, view.data ? TSR_OK : TSR_NOMEM);
    moves = 0;
    s.ring->ops = &counting;
    if (status == TSR_OK) status = rank_run(engine, ring_forward, &c);
    s.ring->ops = ops;
    tsr__free(engine, view.data);
    *out = moves;
    return status;
}

/* While a block is under way, every tile of the attention to the last one moves it, at least once; where nothing is
 * under way, none does. */
static tsr_status moves_of(tsr_engine *engine, const tsr__sequence *s) {
    enum { TILE = 256 };
    int gathers = 0, travels = 0, tiles = LONG / s->all->size / TILE * HEADS;
    if (s->ulysses) return TSR_OK;
    TSR__TRY(count_moves(engine, *s, TSR_ROTATE_ALLTOALL, &travels));
    RANK_CHECK(engine, engine->device->on_tile == NULL);
    TSR__TRY(count_moves(engine, *s, TSR_ROTATE_ALLGATHER, &gathers));
    RANK_CHECK(engine, tiles > 0 && travels >= (s->all->size - 1) * tiles && gathers < tiles);
    return TSR_OK;
}

static tsr_status tiles_move_what_is_under_way(tsr_engine *engine, void *user) {
    (void)user;
    const tsr__device_ops *ops = tsr__device_find("cpu");
    tsr__device *own = engine->device;
    if (!ops) return TSR_OK; /* a build without it; `ref` has no tiles */
    TSR__TRY(tsr_status_agree(engine, tsr__device_create(engine, ops, 1, &engine->device)));
    tsr_status status = on_layouts(engine, false, moves_of);
    tsr__device_destroy(engine->device);
    engine->device = own;
    return status;
}

/* --- a rank that fails --- */

typedef struct failing {
    const tsr__sequence *sequence;
    float table[CHANNELS];
    int64_t id;
} failing;

/* A row of a table of one row, which is there or not, as keys and values of an attention. */
static void failing_forward(tsr__exec *x, void *context) {
    const failing *f = context;
    const tsr__split split = rank_split(f->sequence, 1, 2 * f->sequence->all->size);
    tsr__value table = tsr__upload(x, TSR_F32, TSR__SHAPE(1, CHANNELS), f->table);
    const int64_t same[] = {f->id, f->id};
    tsr__value ids = tsr__upload(x, TSR_I64, TSR__SHAPE(1, 2), same);
    tsr__value v = tsr__reshape(x, tsr__embedding(x, ids, table, 0, false), TSR__SHAPE(1, 2, 1, CHANNELS));
    tsr__set_split(x, v, TSR__AXIS_SEQUENCE, &split);
    (void)tsr__attention(x, v, v, v, (tsr__attention_options){.key_mask = tsr__none()});
}

/* The last rank's id is not in the table: it goes on through its exchanges, so that no other waits for it. */
static tsr_status failing_of(tsr_engine *engine, const tsr__sequence *given) {
    bool last = tsr_engine_rank(engine) == tsr_engine_size(engine) - 1;
    tsr__sequence s = *given;
    for (int method = 0; method < TSR_N_ROTATE_METHODS; method++) {
        failing f = {.sequence = &s, .id = last ? 7 : 0};
        s.rotate_method = (tsr_rotate_method)method;
        tsr_status status = rank_run(engine, failing_forward, &f);
        RANK_CHECK(engine, (status != TSR_OK) == last && status != TSR_COMM);
    }
    return TSR_OK;
}

static tsr_status a_rank_that_fails_goes_on_to_its_exchanges(tsr_engine *engine, void *user) {
    (void)user;
    return on_layouts(engine, true, failing_of);
}

int main(int argc, char **argv) {
    static const rank_test tests[] = {
        {"pieces_are_those_of_torch", pieces_are_those_of_torch},
        {"lengths_are_refused", lengths_are_refused},
        {"operands_that_are_not_split_alike_are_refused", operands_that_are_not_split_alike_are_refused},
        {"a_ring_holds_two_blocks", a_ring_holds_two_blocks},
        {"tiles_move_what_is_under_way", tiles_move_what_is_under_way},
        {"a_rank_that_fails_goes_on_to_its_exchanges", a_rank_that_fails_goes_on_to_its_exchanges}};
    return rank_tests_run(rank_test_count(argc, argv), tests, TSR__COUNT(tests));
}
