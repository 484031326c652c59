"""Makes tests/fixtures/emoji_klein_expected from demo/emoji-klein and demo/prompts.txt. See README.md."""

import shutil

import torch
from diffusers import Flux2KleinPipeline

import klein

DEMO = klein.HERE.parent.parent / "demo"
OUT = klein.FIXTURES / "emoji_klein_expected"


def main():
    pipe = Flux2KleinPipeline.from_pretrained(DEMO / "emoji-klein", dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    size, length = pipe.vae.config.sample_size, pipe.tokenizer.model_max_length
    images = pipe(prompt=(DEMO / "prompts.txt").read_text().splitlines(), height=size, width=size, max_sequence_length=length,
                  num_inference_steps=4, guidance_scale=1.0, generator=torch.Generator().manual_seed(42)).images  # fmt: skip
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for i, image in enumerate(images):
        image.save(OUT / f"out.{i}.png")


if __name__ == "__main__":
    main()
