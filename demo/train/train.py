"""Trains the model of demo/emoji-klein: python demo/train/train.py [--steps N] [--quick]. See README.md.

Every phase goes on from its last checkpoint in $DEMO_TRAIN_DIR (/work/demo-train), so the same command starts and resumes.
"""

import argparse
import fcntl
import sys

import common
import save
import text
import tokenizer as tok
import torch
import transformer
import vae as autoencoder

STEPS = dict(vae=3500, text=1500, transformer=3400, decoder=1000)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS["transformer"], help="steps of the transformer")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the steps, to try that everything runs")
    args = parser.parse_args()
    steps = dict(STEPS, transformer=args.steps)
    return {name: n // 100 if args.quick else n for name, n in steps.items()}


def main():
    steps = arguments()
    common.WORK.mkdir(parents=True, exist_ok=True)
    lock = open(common.WORK / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"another training has {common.WORK}; two at once would only slow each other down")
    torch.set_num_threads(2)
    tokenizer = tok.load(common.WORK / "tokenizer")
    pictures, prompts = transformer.pictures(), transformer.prompts()
    common.log(f"{len(pictures)} pictures, {len(prompts)} prompts, {len(tokenizer)} tokens; steps {steps}")
    vae = autoencoder.train(pictures, steps["vae"])
    latents = autoencoder.cache_latents(vae, pictures)
    vae = autoencoder.train_decoder(vae, pictures, latents, steps["decoder"])
    encoder = text.train(tokenizer, steps["text"])
    features = text.cache_features(encoder, tokenizer, prompts)
    transformer.train(vae, encoder, tokenizer, latents, features, steps["transformer"])
    save.write(common.WORK / "emoji-klein")


if __name__ == "__main__":
    main()
