"""Writes the Flux2KleinPipeline folder from the newest checkpoints: python demo/train/save.py FOLDER"""

import shutil
import sys
from pathlib import Path

import common
import text
import tokenizer as tok
import torch
import transformer
import vae as autoencoder
from diffusers import FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline

LIMIT = 16e6  # bytes of the folder


def parts():
    """tokenizer, text encoder, autoencoder and transformer with the averaged weights, and the step of the transformer."""
    tokenizer = tok.load(common.WORK / "tokenizer")
    encoder, vae, model = text.WithHeads(text.build(tokenizer)), autoencoder.build(), transformer.build()
    step = common.load_mean("transformer", model)
    if common.load_mean("text", encoder) is None or step is None or common.load_mean("vae", vae) is None:
        sys.exit(f"{common.WORK} has no checkpoint of the transformer yet: run demo/train/train.py")
    latents = autoencoder.cache_latents(vae, transformer.pictures())  # and the statistics
    common.load_mean("decoder", vae)
    autoencoder.scale_sums(vae, torch.from_numpy(latents[:64].astype("float32")))
    return tokenizer, encoder.model, vae, model, step


def write(folder):
    tokenizer, encoder, vae, model, step = parts()
    vae = vae.to(memory_format=torch.contiguous_format)
    pipe = Flux2KleinPipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False), vae=vae.bfloat16(),
                              text_encoder=encoder.bfloat16(), tokenizer=tokenizer, transformer=model.bfloat16(),
                              is_distilled=True)  # fmt: skip
    pipe.save_pretrained(folder)
    shutil.rmtree(folder / "transformer")  # again, in shards
    model.save_pretrained(folder / "transformer", max_shard_size="3MB")
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    common.log(f"{folder}: {size / 1e6:.2f} MB, transformer of step {step}")
    if size > LIMIT:
        sys.exit(f"{folder} has {size} bytes, more than {LIMIT:.0f}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
