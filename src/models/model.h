/* What all models have in common: a descriptor for each class; opening a folder against it, loading, running. */
#ifndef TSR_MODELS_MODEL_H
#define TSR_MODELS_MODEL_H

#include "io/json.h"
#include "nn/layers.h"
#include "parallel/context_parallel.h"
#include "parallel/layout.h"
#include "parallel/tensor_parallel.h"

#include <tessera/model.h>

enum { TSR__MAX_ARGUMENTS = 10, TSR__MAX_RESULTS = 4 };

/* An argument of a forward. */
typedef struct tsr__argument {
    const char *name;
    tsr_dtype dtype; /* F32 or I64 */
    int ndim;
    bool optional;
    bool batched; /* may come as a batch of equal rows, of which the first counts (position ids in diffusers) */
} tsr__argument;

/* A picture to be drawn, from which the inputs of every class follow. */
typedef struct tsr__picture {
    int64_t height, width;     /* pixels */
    int64_t unit;              /* pixels along a side of what a transformer takes as one token */
    int64_t text_tokens, rows; /* of a prompt; pictures that are drawn at once */
    int passes;                /* of text encoder and transformer: 2 under classifier-free guidance */
} tsr__picture;
static inline int64_t tsr__picture_tokens(const tsr__picture *p) { return p->height / p->unit * (p->width / p->unit); }

typedef struct tsr_model_desc {
    const char *class_name;
    const char *component; /* the folder that pipelines keep it in */
    size_t self_size;      /* of the struct whose first member is the root tsr__module */
    /* Declares the members below self from the config. Sizes out of bounds are the config's sticky failure. */
    void (*declare)(tsr__tree *tree, void *self, tsr__config *config);
    tsr__argument inputs[TSR__MAX_ARGUMENTS + 1]; /* ended by a name of NULL */
    const char *outputs[TSR__MAX_RESULTS + 1];    /* ended by NULL */
    void (*forward)(tsr__exec *x, const void *self, const tsr__value *in, tsr__value *out);
    /* Shapes of the inputs of one forward for a picture: of a transformer, of all its rows at once; of a text encoder,
     * of one prompt; of a VAE, of one picture. shapes[i][0] = 0: leave it out. */
    void (*input_shapes)(const void *self, const tsr__picture *picture, int64_t (*shapes)[TSR_MAX_DIMS]);
    /* Whether a weight of the class is one that its forward does without; NULL: there are none. */
    bool (*is_unread)(const void *self, const char *name);
    /* Config keys of the numbers of blocks, for benchmarks with fewer. */
    const char *layer_keys[2];
    tsr__tp_rules tp_plan;      /* the rows of diffusers' _tp_plan; none: the class has no plan and cannot be split */
    tsr__tp_rules tp_plan_more; /* rows for the rest, for the plan "full" */
    int64_t (*heads)(const void *self); /* attention heads, which a degree must divide */
    const tsr_cp_plan *cp_plan;         /* diffusers' _cp_plan; NULL: its sequence cannot be split */
} tsr_model_desc;

/* Refuses arguments of diffusers' from_pretrained (name, value, ..., NULL) that Tessera cannot honour, by name. NULL:
 * none. Local. Errors: UNSUPPORTED, ARG. */
TSR_NODISCARD tsr_status tsr__arguments_check(tsr_engine *engine, const char *const *arguments);
/* Refuses a folder that holds what Tessera does not load (adapters, a flashpack), by name. wanted: the file that makes
 * it a folder that Tessera opens. Local. Errors: UNSUPPORTED. */
TSR_NODISCARD tsr_status tsr__folder_check(tsr_engine *engine, const char *folder, const char *wanted);

/* The descriptor of a class, or NULL; and all class names, joined by ", ". */
const tsr_model_desc *tsr__model_desc_find(const char *class_name);
const char *tsr__model_classes(char *text, size_t size);
const char *tsr__model_classes_with_plan(char *text, size_t size);
const char *tsr__model_classes_with_cp_plan(char *text, size_t size);

/* Does one of n patterns of fnmatch(3) match the name of a weight? "*" stands for any text, dots included. */
bool tsr__name_matches(const char *name, const char *const *patterns, size_t n);

typedef struct tsr__shared_weights tsr__shared_weights;

struct tsr_model {
    tsr_engine *engine;
    const tsr_model_desc *desc;
    char *folder;
    const char *component; /* "transformer"; for messages, progress and taps */
    tsr_dtype dtype;       /* what matmul inputs may be rounded to */
    tsr_dtype stored;      /* dtype of most weights */
    tsr__tree tree;
    void *self;
    tsr_checkpoint *checkpoint; /* NULL for random weights */
    size_t weight_bytes;        /* of this rank's part */
    tsr__layout layout;         /* its own, of a model that was opened by itself */
    const tsr_cp_plan *cp_plan; /* the caller's; NULL: that of the class */
    tsr_tp_plan tp_plan;        /* the caller's choice; its rules are looked at when the tree is marked */
    bool marked;                /* with its plan */
    bool split, loaded;
    tsr__comm *sharers; /* threads of one process that hold the same weights, once: those of the first; NULL: none */
    tsr__shared_weights *shared; /* theirs, once they are loaded */
    bool force;                  /* go on although the memory check says no */
    tsr_output_hook hook;        /* of tsr_model_forward; NULL: none */
    void *hook_user;
};

/* Declares the class of folder/config.json and checks the checkpoint against it; reads no weight.
 * expected: class that the folder must hold, or NULL. */
TSR_NODISCARD tsr_status tsr__model_open(tsr_engine *engine, const char *folder, const char *component,
                                         const char *expected, tsr_model **out);
/* Marks the tree with its plan. Local. Errors: UNSUPPORTED (no plan: names the classes that have one), those of
 * tsr__tp_mark. */
TSR_NODISCARD tsr_status tsr__model_mark(tsr_model *model);
/* Gives every weight the part of `rank` of `degree`, by the class's plan; comm: the ranks that share the model, or NULL
 * where they are only imagined. Degree 1: nothing changes. Before loading. Local. Errors: those of tsr__model_mark and
 * tsr__tp_split. */
TSR_NODISCARD tsr_status tsr__model_split(tsr_model *model, tsr__comm *comm, int rank, int degree);
tsr__tp_plan tsr__model_tp_plan(const tsr_model *model);
/* False: it is whole wherever it is. */
bool tsr__model_has_plan(const tsr_model *model);
/* Weights and sequence as the layout says. Before loading. Local. Errors: also UNSUPPORTED (a class without a context
 * plan), those of tsr__cp_apply. */
TSR_NODISCARD tsr_status tsr__model_lay_out(tsr_model *model, const tsr__layout *layout);
/* Undoes tsr__model_mark and tsr__model_lay_out; weights in memory are whole still. Local. Errors: as opening. */
TSR_NODISCARD tsr_status tsr__model_unsplit(tsr_model *model);
/* The largest degree of at most `most` that the plan of a marked model allows. */
int tsr__model_largest_degree(tsr_model *model, int most);

/* Reads the weights, of a split model only this rank's parts; reports progress. Collective over model->sharers. */
TSR_NODISCARD tsr_status tsr__model_load(tsr_model *model);
/* Releases them again; those that are shared go with their last user. Local. */
void tsr__model_unload(tsr_model *model);
/* The weights of all sharers become those of the first. Collective over model->sharers. */
TSR_NODISCARD tsr_status tsr__model_share(tsr_model *model);
/* Does this rank use another's? */
bool tsr__model_borrows(const tsr_model *model);
/* Cuts the weights of a model that was loaded whole and then split. After a failure it can only be destroyed. Local. */
TSR_NODISCARD tsr_status tsr__model_keep_part(tsr_model *model);
/* A model from a config alone, its weights random (mean 0, variance 1/fan_in) in `stored`. Not loaded yet: the weights
 * are made by tsr__model_load. layers: numbers of blocks that replace the config's, negative: keep. */
TSR_NODISCARD tsr_status tsr__model_from_config(tsr_engine *engine, const char *path, tsr_dtype stored,
                                                const int64_t layers[2], tsr_model **out);

/* A forward from host tensors to host tensors, for tsr__exec_record and tsr__exec_run. */
typedef struct tsr__call {
    const tsr_model *model;
    tsr_tensor inputs[TSR__MAX_ARGUMENTS]; /* in the descriptor's order, of its dtypes; ndim 0: absent */
    tsr_tensor
        outputs[TSR__MAX_RESULTS]; /* shapes are set by the meta run; data by whoever allocates them before the run */
} tsr__call;
void tsr__call_forward(tsr__exec *x, void *call);
/* The forward of a model: arguments in the descriptor's order, split and gathered where a context plan says so. */
void tsr__model_forward(tsr__exec *x, const tsr_model *model, const tsr__value *in, tsr__value *out);
/* The call of one forward for a picture: inputs without data, for the meta run alone until somebody adds them. */
tsr__call tsr__call_for_picture(const tsr_model *model, const tsr__picture *picture);

/* Compares what all ranks of a host need with what it has; TSR_NOMEM with both numbers, or a warning under `force`.
 * splits: more ranks would each need less. Collective over all ranks: all return the same. */
TSR_NODISCARD tsr_status tsr__memory_check(tsr_engine *engine, const char *what, size_t weights, size_t activations,
                                           bool splits, bool force);

#endif
