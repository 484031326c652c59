"""Makes tests/fixtures/klein, klein_expected and flux2_guidance. See README.md."""

import re
import shutil

import numpy as np
import torch
from diffusers import Flux2Transformer2DModel
from safetensors.torch import save_file

import klein
import record

CASES = {
    "a64": dict(prompt="A cat holding a sign that says hello world", height=64, width=64, num_inference_steps=4,
                guidance_scale=1.0, max_sequence_length=32),
    "cfg": dict(prompt="A red fox beside a frozen lake", height=48, width=80, num_inference_steps=2,
                guidance_scale=4.0, max_sequence_length=24),
    "batch": dict(prompt=["A bowl of ripe oranges", "The word \"OPEN\" on a green door, 35 mm film, in the rain at night"],
                  num_images_per_prompt=2, height=32, width=48, num_inference_steps=2, guidance_scale=1.0, max_sequence_length=28),
    "debug32": dict(prompt="A cat", height=32, width=16, num_inference_steps=1, guidance_scale=1.0, max_sequence_length=16),
}  # fmt: skip
BASE = {"cfg"}  # cases of model_index_base.json, the model that is not distilled
DEBUG = {"debug32"}  # cases with the output of every submodule beside them

GUIDANCE = dict(
    num_layers=1, num_single_layers=2, num_attention_heads=3, attention_head_dim=8, in_channels=16,
    joint_attention_dim=20, axes_dims_rope=(2, 2, 2, 2), timestep_guidance_channels=32, guidance_embeds=True,
)  # fmt: skip


def wanted(path):
    """All submodules of transformer and VAE decoder; of the text encoder all of layers 0, 8, 26 and the output of each layer."""
    if not path.startswith("text_encoder."):
        return True
    layer = re.fullmatch(r"text_encoder\.model\.layers\.(\d+)(\..*)?", path)
    return bool(layer) and (layer[2] is None or layer[1] in ("0", "8", "26"))


def make_cases(folder, out):
    pipe = klein.load(folder)
    for case, arguments in CASES.items():
        pipe.register_to_config(is_distilled=case not in BASE)
        tensors, debug, about = record.call(pipe, arguments, wanted=wanted if case in DEBUG else None)
        about |= dict(model="klein", model_index="model_index_base.json" if case in BASE else "model_index.json", case=case)
        record.save(out / case, tensors, about)
        if debug:
            save_file({k: v.contiguous() for k, v in debug.items()}, out / f"{case}.debug.safetensors")


def make_guidance(folder):
    """A transformer alone with guidance embedding; every axis of the ids is used, the two rows differ in time and guidance."""
    klein.fill(Flux2Transformer2DModel(**GUIDANCE), 4).save_pretrained(folder / "transformer")
    model = Flux2Transformer2DModel.from_pretrained(folder / "transformer", dtype=torch.float32).eval()
    rng = np.random.default_rng(5)

    def normal(*shape):
        return torch.from_numpy(rng.normal(0, 1, shape)).float()

    grid = torch.cartesian_prod(torch.tensor([0, 10]), torch.arange(3), torch.arange(2), torch.arange(1))
    words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(5))
    inputs = dict(
        hidden_states=normal(2, 12, 16), encoder_hidden_states=normal(2, 5, 20), timestep=torch.tensor([0.875, 0.3]),
        guidance=torch.tensor([4.0, 2.5]), img_ids=grid.expand(2, -1, -1), txt_ids=words.expand(2, -1, -1),
    )  # fmt: skip
    with torch.no_grad():
        out = model(**inputs, return_dict=False)[0]
    tensors = {f"transformer_in.{k}": v for k, v in inputs.items()} | {"transformer_out": out}
    record.save(folder / "forward", tensors, dict(model="flux2_guidance/transformer", dtype="float32"))


def main():
    for name in ("klein", "klein_expected", "flux2_guidance"):
        shutil.rmtree(klein.FIXTURES / name, ignore_errors=True)
        (klein.FIXTURES / name).mkdir(parents=True)
    klein.save_pipeline(klein.FIXTURES / "klein")
    make_cases(klein.FIXTURES / "klein", klein.FIXTURES / "klein_expected")
    make_guidance(klein.FIXTURES / "flux2_guidance")


if __name__ == "__main__":
    main()
