"""Makes tests/fixtures/minimax_h3: a tiny MiniMaxH3Transformer3DModel, one call, the output of every submodule. See README.md."""

import re
import shutil

import numpy as np
import torch
from diffusers import MiniMaxH3Transformer3DModel

import klein
import record

# No two widths that could be confused are equal; heads * head_dim (64) is not hidden_size, 2 * 3 * rope_freq_dim (12) not head_dim.
CONFIG = dict(
    num_attention_heads=4, attention_head_dim=16, hidden_size=28, num_layers=2, num_refiner_layers=2, ffn_dim=36, in_channels=3,
    audio_in_channels=5, patch_size=(2, 1, 2), text_dim=20, freq_dim=14, time_embed_hidden_dim=22, time_embed_dim=8,
    rope_freq_dim=2, rope_theta=500.0, norm_eps=1e-5, qk_norm_eps=1e-4, final_norm_eps=1e-3,
)  # fmt: skip
TEXT, VIDEO, AUDIO, ROWS = 5, 7, 4, 17  # one row of the sequence belongs to nobody
BATCH, TIMESTEPS = 2, 3


def mixed_precision(model):
    """What the class keeps in float32 gets values that bfloat16 does not have."""
    for name, p in model.named_parameters():
        if any(re.search(kept, name) for kept in model._keep_in_fp32_modules):
            p.data = p.data.float() * 1.001
    return model


def make_inputs():
    """Rows in no order, each with its own timestep; positions are fractional."""
    rng = np.random.default_rng(7)
    places = rng.permutation(ROWS)
    text, video, audio = (np.sort(p) for p in np.split(places[: TEXT + VIDEO + AUDIO], [TEXT, TEXT + VIDEO]))
    rng.shuffle(video)
    tags = np.zeros(ROWS, np.int64)
    tags[text], tags[audio] = 1, 2

    def normal(*shape):
        return torch.from_numpy(rng.normal(0, 1, shape)).float()

    return dict(
        hidden_states=normal(BATCH, VIDEO, 3 * 4), audio_hidden_states=normal(BATCH, AUDIO, 5), encoder_hidden_states=normal(BATCH, TEXT, 20),
        timestep=torch.tensor([0.875, 0.3, 0.0]), timestep_indices=torch.from_numpy(rng.integers(0, TIMESTEPS, ROWS)),
        token_tags=torch.from_numpy(tags), position_ids=torch.from_numpy(rng.uniform(-20, 40, (ROWS, 3))),
        video_indices=torch.from_numpy(video), audio_indices=torch.from_numpy(audio), text_indices=torch.from_numpy(text),
    )  # fmt: skip


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = klein.FIXTURES / "minimax_h3"
    shutil.rmtree(folder, ignore_errors=True)
    mixed_precision(klein.fill(MiniMaxH3Transformer3DModel(**CONFIG), 6)).save_pretrained(folder / "transformer")
    model = MiniMaxH3Transformer3DModel.from_pretrained(folder / "transformer", dtype=torch.float32).eval()
    debug, inputs = {}, make_inputs()
    with torch.no_grad(), record.submodules_of(model, "debug", lambda _path: True, debug):
        out = model(**inputs)
    tensors = {f"in.{k}": v for k, v in inputs.items()} | {"sample": out.sample, "audio_sample": out.audio_sample}
    record.save(folder / "forward", tensors | debug, dict(model="minimax_h3/transformer", dtype="float32"))


if __name__ == "__main__":
    main()
