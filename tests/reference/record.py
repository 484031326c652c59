"""Runs one call of Flux2KleinPipeline and records it under the names of the call files (see README.md)."""

import contextlib
import json

import numpy as np
import torch
from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu
from safetensors.torch import save_file


@contextlib.contextmanager
def after(owner, method, see):
    """While active, see(arguments, keywords, result) is called after every call of owner.method."""
    original = getattr(owner, method)

    def wrapped(*args, **kwargs):
        result = original(*args, **kwargs)
        see(args, kwargs, result)
        return result

    setattr(owner, method, wrapped)
    try:
        yield
    finally:
        delattr(owner, method)  # uncovers the method of the class


def tensors_of(output):
    """The tensors of a module's output, in order."""
    values = output if isinstance(output, (tuple, list)) else output.values() if isinstance(output, dict) else [output]
    return [v for v in values if isinstance(v, torch.Tensor)]


@contextlib.contextmanager
def submodules_of(model, component, wanted, out):
    """Records the outputs of the first call of each submodule: `<component>.<path>#<output>`.

    wanted(name): whether to keep it. Dropout does nothing in a trained model and is left out.
    """

    def hook(name):
        def see(_module, _args, output):
            for i, t in enumerate(tensors_of(output)):
                out.setdefault(f"{name}#{i}", t.clone())

        return see

    handles = []
    for path, module in model.named_modules(prefix=component):
        if path != component and not isinstance(module, torch.nn.Dropout) and wanted(path):
            handles.append(module.register_forward_hook(hook(path)))
    try:
        yield
    finally:
        for h in handles:
            h.remove()


@contextlib.contextmanager
def submodules(pipe, wanted, out):
    """The same for all components of a pipeline."""
    with contextlib.ExitStack() as stack:
        for component in ("text_encoder", "transformer", "vae"):
            stack.enter_context(submodules_of(getattr(pipe, component), component, wanted, out))
        yield


def call(pipe, arguments, seed=42, wanted=None):
    """One call. Returns (tensors by name, debug tensors by name, description for the json)."""
    t, debug, encoded, passes = {}, {}, [], []

    def see_text(_args, kwargs, _result):
        prefix = "neg_" if "input_ids" in t else ""
        t.update({prefix + k: kwargs[k] for k in ("input_ids", "attention_mask")})

    def see_encoded(_args, _kwargs, result):
        prefix = "neg_" if encoded else ""
        encoded.append(result)
        t.update({prefix + k: v for k, v in zip(("prompt_embeds", "text_ids"), result)})

    def see_latents(_args, _kwargs, result):
        t["latents_initial"], t["img_ids"] = result

    def see_pass(_args, kwargs, result):
        passes.append((kwargs, result[0]))

    def see_vae(args, _kwargs, result):
        t["vae_in"], t["vae_out"] = args[0], result[0]

    def end_of_step(_pipe, i, _timestep, values):
        t[f"latents_step_{i}"] = values["latents"]
        return {}

    with contextlib.ExitStack() as stack:
        for owner, method, see in (
            (pipe.text_encoder, "forward", see_text),
            (pipe, "encode_prompt", see_encoded),
            (pipe, "prepare_latents", see_latents),
            (pipe.transformer, "forward", see_pass),
            (pipe.vae, "decode", see_vae),
        ):
            stack.enter_context(after(owner, method, see))
        if wanted:
            stack.enter_context(submodules(pipe, wanted, debug))
        generator = torch.Generator("cpu").manual_seed(seed)
        images = pipe(**arguments, generator=generator, callback_on_step_end=end_of_step).images

    cfg = pipe.do_classifier_free_guidance
    for prefix, (kwargs, out) in zip(("", "neg_")[: 1 + cfg], passes):
        t.update({f"{prefix}transformer_in.{k}": v for k, v in kwargs.items() if isinstance(v, torch.Tensor)})
        t[f"{prefix}transformer_out"] = out
    kwargs, t["last_transformer_out"] = passes[-1 - cfg]
    t["last_transformer_in.timestep"] = kwargs["timestep"]
    t["sigmas"], t["timesteps"] = pipe.scheduler.sigmas, pipe.scheduler.timesteps
    t["image_u8"] = torch.from_numpy(np.stack([np.asarray(i) for i in images]))

    n = pipe.num_timesteps
    about = dict(
        pipeline=type(pipe).__name__, arguments=arguments, generator_seed=seed, dtype=str(pipe.dtype).removeprefix("torch."),
        classifier_free_guidance=bool(cfg), is_distilled=bool(pipe.config.is_distilled),
        mu=compute_empirical_mu(t["latents_initial"].shape[1], n), sigmas_input=np.linspace(1, 1 / n, n).tolist(),
        sigmas=t["sigmas"].tolist(), timesteps=t["timesteps"].tolist(), image_size_hw=list(t["image_u8"].shape[1:3]),
    )  # fmt: skip
    return t, debug, about


def describe(tensors):
    return {k: [str(v.dtype).removeprefix("torch."), list(v.shape)] for k, v in tensors.items()}


def save(path, tensors, about):
    """path.safetensors and path.json."""
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, f"{path}.safetensors")
    with open(f"{path}.json", "w") as f:
        f.write(json.dumps({**about, "tensors": describe(tensors)}, indent=1) + "\n")
