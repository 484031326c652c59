/* The module tree of a model. Its members are named as the checkpoint's keys, through macros that make the name from
 * the C member, so that a member and its key cannot drift apart. Modules live inside the structs of their models. */
#ifndef TSR_NN_MODULE_H
#define TSR_NN_MODULE_H

#include "exec/ops.h"

#include <tessera/checkpoint.h>
#include <tessera/parallel.h>

typedef struct tsr__module tsr__module;
typedef struct tsr__param tsr__param;
typedef struct tsr__tree tsr__tree;

/* How a weight is split over ranks. Zeroed: replicated. */
typedef struct tsr__shard_spec {
    tsr_tp_style style;
    int dim; /* that is split */
    size_t n_blocks;
    int64_t blocks[TSR_MAX_BLOCKS]; /* of dim, each split by itself; they add up to its size */
    int64_t groups;                 /* key/value heads, of which a rank holds at least one; 0: none */
} tsr__shard_spec;

struct tsr__param {
    const char *name; /* "weight" */
    tsr__module *owner;
    int64_t whole[TSR_MAX_DIMS]; /* the shape that the config asks for */
    tsr__shard_spec spec;
    tsr__view view; /* what this rank holds: shape from whole and spec; dtype and data from the checkpoint */
    tsr__param *next;
};

typedef enum tsr__module_kind {
    TSR__OTHER,
    TSR__LIST_OF_MODULES,
    TSR__LINEAR_LAYER,
    TSR__EMBEDDING_LAYER
} tsr__module_kind;

/* What a plan decides about a module, and what the model declares for plans. */
typedef struct tsr__tp {
    tsr_tp_style style;
    bool optional;                  /* whole at a degree that does not divide it */
    struct tsr__comm *comm;         /* of the ranks that share the module; NULL: nothing to exchange */
    int rank, degree;               /* 0, 0: not split */
    int64_t blocks[TSR_MAX_BLOCKS]; /* of packed styles, sizes of the fused parts, ended by 0 */
    int64_t groups;         /* heads that must stay whole along the output features; 0: any row may be a border */
    bool groups_may_repeat; /* more ranks than groups: several ranks hold the same one (key/value heads) */
} tsr__tp;

/* What a context plan does to an argument or an output of a module: a split, or a gather. */
typedef struct tsr__port {
    const char *argument; /* NULL: the output of number `output` */
    int output;
    bool gathers;
    int dim, expected_dims;
    const struct tsr__sequence *sequence;
    bool used; /* the module has such a value */
    struct tsr__port *next;
} tsr__port;

struct tsr__module {
    const char *name; /* the last part of the path: "to_q", "0"; "" for the model itself */
    tsr__module *parent, *first_child, *last_child, *next;
    tsr__param *params;
    tsr__module_kind kind;
    tsr__tp tp;
    tsr__port *ports;
};

/* Memory and errors of a tree that is being declared; sticky. */
struct tsr__tree {
    tsr_engine *engine;
    tsr_status status;
    struct tsr__chunk_of_memory *memory;
};

/* Zeroed memory that lives as long as the tree; NULL after a failure (the tree's status says so). */
void *tsr__tree_alloc(tsr__tree *tree, int64_t n, size_t size);
void tsr__tree_free(tsr__tree *tree);

/* Adds `child` below `parent` under a name that is a string constant or of the tree's memory. */
void tsr__module_add(tsr__module *parent, tsr__module *child, const char *name);
void tsr__param_add(tsr__module *owner, tsr__param *param, const char *name, int ndim, const int64_t *shape);
/* The decimal name of item i of a list. */
const char *tsr__index_name(tsr__tree *tree, int64_t i);

/* parent->member, a struct whose first member is tsr__module, becomes the child "member". */
#define TSR__CHILD(parent, member) tsr__module_add(&(parent)->module, &(parent)->member.module, #member)
#define TSR__PARAM(owner, member, ...)                                                                                 \
    tsr__param_add(&(owner)->module, &(owner)->member, #member, TSR__SHAPE(__VA_ARGS__))

/* A list of modules (torch.nn.ModuleList): items of a struct whose first member is tsr__module. */
typedef struct tsr__module_list {
    tsr__module module;
    int64_t n;
} tsr__module_list;

/* Declares list `member` with its n items, which are allocated, zeroed and returned; NULL after a failure. */
void *tsr__module_list_add(tsr__tree *tree, tsr__module *parent, tsr__module_list *list, const char *name, int64_t n,
                           size_t item_size);
#define TSR__LIST(tree, parent, member, n, items)                                                                      \
    ((items) = tsr__module_list_add(tree, &(parent)->module, &(parent)->member, #member, n, sizeof *(items)))

/* The path ("transformer_blocks.0.attn.to_q") into text of `size` bytes, cut if too long. Returns text. */
char *tsr__module_path(const tsr__module *module, char *text, size_t size);
char *tsr__owner_path(const void *module, char *text, size_t size); /* the same, for tsr__split */
char *tsr__param_path(const tsr__param *param, char *text, size_t size);
enum { TSR__PATH_BYTES = 256 };

/* Calls visit for every parameter below module, depth first in order of declaration, until it returns a failure. */
typedef tsr_status (*tsr__param_visitor)(void *user, tsr__param *param);
TSR_NODISCARD tsr_status tsr__module_visit_params(tsr__module *module, tsr__param_visitor visit, void *user);

/* The output of a module: split or gathered where a context plan says so, and named for taps. */
tsr__value tsr__tapped(tsr__exec *x, const tsr__module *module, tsr__value v);
tsr__value tsr__tapped_at(tsr__exec *x, const tsr__module *module, int index, tsr__value v);
/* The same for an image [B, H, W, C], which torch knows as [B, C, H, W]. */
tsr__value tsr__tapped_image(tsr__exec *x, const tsr__module *module, tsr__value v);
/* An argument of a module's forward: split where a context plan says so. unbatched: its leading dimension was dropped.
 */
tsr__value tsr__port_in(tsr__exec *x, const tsr__module *module, const char *argument, tsr__value v, bool unbatched);
/* A result of a module that is not tapped: split or gathered where a context plan says so. */
tsr__value tsr__port_out(tsr__exec *x, const tsr__module *module, int index, tsr__value v);
/* Calls visit for module and every module below it, until it returns a failure. */
typedef tsr_status (*tsr__module_visitor)(void *user, tsr__module *module);
TSR_NODISCARD tsr_status tsr__module_visit(tsr__module *module, tsr__module_visitor visit, void *user);
/* The same for the modules that a glob names: a path below root in which "*" stands for any index of a list of modules;
 * "" is root. found: what else there is to say of the glob. */
typedef struct tsr__glob_found {
    bool misplaced; /* a "*" stands where there is no list */
    bool no_items;  /* a "*" stands for the items of a list that has none */
} tsr__glob_found;
TSR_NODISCARD tsr_status tsr__module_match(tsr__module *root, const char *glob, tsr__module_visitor visit, void *user,
                                           tsr__glob_found *found);

tsr__value tsr__param_value(tsr__exec *x, const tsr__param *param); /* none where it was not declared */
/* How a weight is split over the ranks that share its module; comm NULL: whole. */
tsr__split tsr__param_split(const tsr__param *param);

#endif
