/* One component of a pipeline: a folder with config.json and safetensors weights, run on named tensors. */
#ifndef TESSERA_MODEL_H
#define TESSERA_MODEL_H

#include <tessera/checkpoint.h>
#include <tessera/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_model tsr_model;

typedef struct tsr_model_options {
    size_t size;
    const char *subfolder; /* below the folder given, as diffusers' argument of that name; NULL: none */
    tsr_dtype dtype;       /* BF16 or F16: matmul inputs may be rounded to it; NONE or F32: float32 arithmetic */
    bool force;            /* go on although the memory check says no */
    const tsr_parallel_config *parallel; /* NULL: all of it on this rank. Given: each rank reads only its part */
    bool meta; /* as on torch's device "meta": everything is checked, nothing read; tsr_model_load_weights reads */
    /* Further arguments of diffusers' from_pretrained, as name, value, ..., NULL: of those that Tessera has no field
     * for, what changes nothing is accepted and the rest refused by name (device_map, quantization_config, ...). */
    const char *const *arguments;
} tsr_model_options;
#define TSR_MODEL_OPTIONS_INIT                                                                                         \
    { sizeof(tsr_model_options), NULL, TSR_DTYPE_NONE, false, NULL, false, NULL }

/* Opens a component folder and loads its weights. The class is config.json's _class_name (diffusers) or
 * architectures[0] (transformers). Everything is checked before a byte of weight is read. options may be NULL.
 * Errors: IO, FORMAT (config or checkpoint broken; a weight missing), SHAPE (a weight of another shape than the config
 * asks for), UNSUPPORTED (class, dtype), NOMEM (with what is needed and what there is).
 * Collective over all ranks: all return the same status.
 * Owner: the caller, who ends it with tsr_model_destroy. Source: diffusers, ModelMixin.from_pretrained. */
TSR_API TSR_NODISCARD tsr_status tsr_model_from_pretrained(tsr_engine *engine, const char *folder,
                                                           const tsr_model_options *options, tsr_model **out);
TSR_API void tsr_model_destroy(tsr_model *model);

/* Reads the weights of a model that was opened with options.meta, of a split one only this rank's parts. Collective as
 * its opening was. Errors: ARG (they are there already), IO, NOMEM. */
TSR_API TSR_NODISCARD tsr_status tsr_model_load_weights(tsr_model *model);

/* Splits a model over ranks by a plan; NULL: the full plan of its class. weights_already_sharded: nothing is in memory
 * that would have to be cut; what will be loaded are this rank's parts (options.meta). Otherwise the weights are there,
 * whole on every rank, and each is cut in turn, so that memory holds the whole model and one part more at most.
 * Everything is checked before a weight is touched. Collective over all ranks: all return the same.
 * Errors: ARG (a broken plan; split already; weights that are there, or are not), SHAPE (a degree that does not divide
 * heads or a block: names the degrees that work), UNSUPPORTED (a class without a plan: names those that have one),
 * NOMEM. Source: diffusers, hooks/tensor_parallel.py, apply_tensor_parallel. */
TSR_API TSR_NODISCARD tsr_status tsr_apply_tensor_parallel(tsr_model *model, const tsr_tensor_parallel_config *config,
                                                           const tsr_tp_plan *plan, bool weights_already_sharded);
/* The same with a whole config, for a model that is loaded. Source: ModelMixin.enable_parallelism. */
TSR_API TSR_NODISCARD tsr_status tsr_model_enable_parallelism(tsr_model *model, const tsr_parallel_config *config);

/* The class ("Flux2Transformer2DModel"); valid as long as the model. Local. */
TSR_API const char *tsr_model_class_name(const tsr_model *model);
/* Bytes of the weights in memory. Local. */
TSR_API size_t tsr_model_weight_bytes(const tsr_model *model);

/* Is told an output: of a module, as float32, gathered to its whole shape where ranks hold pieces of it, under the name
 * "<component>.<path of the module>#<index of the output>"; or a stage of a pipeline, named as in its dumps. The
 * tensor is the callee's for the call alone. Any status but OK ends the run with it. */
typedef tsr_status (*tsr_output_hook)(void *user, const tsr_tensor *output);
/* From now on tsr_model_forward tells hook the output of every module, in the order in which they are computed (of one
 * that runs several times, the first). Given on all ranks alike; called on rank 0 alone. NULL: none. Local.
 * Source: torch.nn.Module.register_forward_hook. */
TSR_API void tsr_model_set_output_hook(tsr_model *model, tsr_output_hook hook, void *user);

/* Runs the model once. inputs are found by name, the argument names of the class's forward in diffusers
 * ("hidden_states" [B, S, C], "timestep" [B], ...), in any order; integer and floating dtypes are converted. Names that
 * the class does not know are ignored. *outputs [*n] are float32, named as the class names them, and owned by the
 * caller, who ends them with tsr_tensors_free. Of a model that was opened with options.meta, as long as its weights are
 * not loaded, everything is checked and outputs have shapes alone, data NULL. Collective as its opening was. Errors:
 * ARG (an input is missing), SHAPE (sizes, or a plan, that do not fit), NOMEM, BACKEND. */
TSR_API TSR_NODISCARD tsr_status tsr_model_forward(tsr_model *model, const tsr_tensor *inputs, size_t n_inputs,
                                                   tsr_tensor **outputs, size_t *n_outputs);
/* Does the class's forward have an argument of that name? */
TSR_API bool tsr_model_has_input(const tsr_model *model, const char *name);

typedef struct tsr_save_options {
    size_t size;
    uint64_t max_shard_size; /* bytes of tensors in a file; a larger tensor is alone in its file. 0: 5 GB, 5e9 bytes */
} tsr_save_options;
#define TSR_SAVE_OPTIONS_INIT                                                                                          \
    { sizeof(tsr_save_options), 0 }

/* Writes the model back as a folder that diffusers or transformers (and Tessera, at any degree) opens: config.json and
 * the other small files byte for byte, and every tensor of the folder that it was opened from, with the same bytes; an
 * index where there are several files. The ranks write in parallel, each one tensor at a time, and none holds more than
 * one whole tensor beside its part. options may be NULL.
 * `folder` appears complete or not at all: what is written goes to <folder>.tmp-<random>, which a killed process leaves
 * behind. A folder that is there is replaced if it holds nothing but what such a save writes. Where hosts share no
 * disk, rank 0's gets everything. Progress goes to rank 0's callback, which may cancel. Collective over all ranks: all
 * return the same status; after a failure the old folder is as it was. Errors: ARG (the folder overlaps the one that
 * the model was opened from; it holds other files), IO (not writable, disk too small, with both numbers), CANCELLED,
 * COMM, NOMEM. Source: diffusers, ModelMixin.save_pretrained, which refuses a model that is split. */
TSR_API TSR_NODISCARD tsr_status tsr_model_save_pretrained(tsr_model *model, const char *folder,
                                                           const tsr_save_options *options);

/* Ends tensors that tsr_model_forward gave. NULL is allowed. Local. */
TSR_API void tsr_tensors_free(tsr_engine *engine, tsr_tensor *tensors, size_t n);

#ifdef __cplusplus
}
#endif
#endif
