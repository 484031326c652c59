"""Draws 24 prompts with two seeds on one sheet and measures them: python demo/train/sheet.py FOLDER SHEET.png [TESSERA]

Half of the prompts (marked *) name a pair of object and background that training never saw. No sprite reaches the outermost two
pixels; the mean colours of that border's four sides must be closest to those of the background asked for. TESSERA is the command
(build/release/tessera): it draws every picture on one rank, two and four, in float32 as Flux2KleinPipeline does here, and none may
be further from that one's than one level. The sheet shows what it drew on two.
"""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import data
import numpy as np
import tokenizer as tok
import torch
import transformer
from diffusers import Flux2KleinPipeline
from PIL import Image, ImageDraw

SEEDS = (42, 7)
RANKS = (1, 2, 4)
# fmt: off
SEEN = [  # prompt, object, background, placement: size and position
    ("a cat on a blue background", "cat", "blue", "default center"),
    ("a big red apple", "apple", "white", "big center"),
    ("a sailing boat at the beach", "sailing boat", "beach", "default center"),
    ("a rocket in the night sky", "rocket", "night", "default center"),
    ("a small penguin in the snow", "penguin", "snow", "small center"),
    ("a big fox on an orange background", "fox", "orange", "big center"),
    ("a pizza on the left on a purple background", "pizza", "purple", "default left"),
    ("a small frog on the right, on a pink background", "frog", "pink", "small right"),
    ("a house in a meadow", "house", "meadow", "default center"),
    ("an octopus at sunset", "octopus", "sunset", "default center"),
    ("a big robot on a green background", "robot", "green", "big center"),
    ("A picture of a soccer ball on the right in a meadow.", "soccer ball", "meadow", "default right"),
]
UNSEEN = [
    ("an owl on a pink background", "owl", "pink", "default center"),
    ("a cactus on the beach", "cactus", "beach", "default center"),
    ("a gift in the night sky", "gift", "night", "default center"),
    ("a big tiger in the snow", "tiger", "snow", "big center"),
    ("a turtle on the left on a blue background", "turtle", "blue", "default left"),
    ("a small unicorn on a purple background", "unicorn", "purple", "small center"),
    ("a fire in the snow", "fire", "snow", "default center"),
    ("a ghost on the right, purple background", "ghost", "purple", "default right"),
    ("a large pumpkin on a green background", "pumpkin", "green", "big center"),
    ("a dog in a meadow", "dog", "meadow", "default center"),
    ("draw a cute panda on a red background", "panda", "red", "default center"),
    ("a small clock on the left, on a black background", "clock", "black", "small left"),
]
# fmt: on
CASES = SEEN + UNSEEN


def indices(case):
    """object, background, placement as data.py numbers them"""
    _, obj, bg, placement = case
    return [n[0] for n in data.NAMES].index(obj), data.BACKGROUNDS.index(bg), data.PLACEMENTS.index(tuple(placement.split()))


def border(picture):
    """Mean colours of the four sides, [4, 3]"""
    sides = picture[:2], picture[-2:], picture[:, :2], picture[:, -2:]
    return np.array([s.reshape(-1, 3).mean(0) for s in sides])


def measure(case, picture):
    """The name of the background whose border is closest, its distance, and the PSNR against the closest right picture."""
    mean = border(picture)
    distance, found = min((np.abs(border(data.background(b, s)) - mean).mean(), data.BACKGROUNDS[b])
                          for b in range(len(data.BACKGROUNDS)) for s in range(data.SHADES))  # fmt: skip
    return found, distance, transformer.closeness(picture, indices(case))


def draw(pipe, seed):
    """One picture for each case, drawn one by one as a user would, [24, 64, 64, 3]"""
    options = dict(height=data.SIZE, width=data.SIZE, num_inference_steps=transformer.STEPS, max_sequence_length=tok.LENGTH)
    options |= dict(guidance_scale=1.0, output_type="np")
    drawn = [pipe(prompt=case[0], generator=torch.Generator().manual_seed(seed), **options).images[0] for case in CASES]
    return np.rint(np.stack(drawn) * 255).astype(np.uint8)


def draw_with_tessera(command, folder, seed, ranks):
    """The same by the command, without options but these."""
    with tempfile.TemporaryDirectory() as scratch:
        picture = Path(scratch) / "picture.png"
        options = ["--seed", str(seed), "--dtype", "float32", "--tp", str(ranks), "--quiet", "-o", str(picture)]
        drawn = []
        for case in CASES:
            subprocess.run([command, "generate", folder, case[0], *options], check=True)
            drawn.append(np.asarray(Image.open(picture)))
    return np.stack(drawn)


def levels_apart(a, b):
    return int(np.abs(a.astype(int) - b.astype(int)).max())


def compose(rows):
    """Pictures at twice their size, eight in a row, with their prompts below; the rows of the seeds alternate."""
    width, height, columns = 132, 174, 8
    sheet = Image.new("RGB", (columns * width, len(CASES) // columns * len(rows) * height), (240, 240, 240))
    pen = ImageDraw.Draw(sheet)
    for r, pictures in enumerate(rows):
        for i, (case, picture) in enumerate(zip(CASES, pictures)):
            x, y = i % columns * width, (i // columns * len(rows) + r) * height
            sheet.paste(Image.fromarray(picture).resize((128, 128), Image.LANCZOS), (x + 2, y + 2))
            words = ("* " if case in UNSEEN else "") + case[0]
            pen.text((x + 3, y + 130), "\n".join(textwrap.wrap(words, 22)), fill=(0, 0, 0))
    return sheet


def draw_row(pipe, folder, seed, command):
    """The pictures of one seed, and how many levels the command is from diffusers at most."""
    wanted = draw(pipe, seed)
    if not command:
        return wanted, 0
    drawn = {ranks: draw_with_tessera(command, folder, seed, ranks) for ranks in RANKS}
    apart = {ranks: levels_apart(pictures, wanted) for ranks, pictures in drawn.items()}
    print(f"seed {seed}, levels from diffusers: {', '.join(f'{n} on {ranks} ranks' for ranks, n in apart.items())}")
    return drawn[2], max(apart.values())


def main(folder, path, command=None):
    for case in CASES:
        assert data.held_out(*indices(case)[:2]) == (case in UNSEEN) and not data.melts(*indices(case)[:2]), case
    pipe = Flux2KleinPipeline.from_pretrained(folder, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    rows, wrong, every, worst = [], 0, [], 0
    for seed in SEEDS:
        pictures, apart = draw_row(pipe, folder, seed, command)
        rows.append(pictures)
        worst = max(worst, apart)
        for case, picture in zip(CASES, pictures):
            found, distance, db = measure(case, picture)
            wrong += found != case[2]
            every.append(db)
            print(f"{seed:3} {db:5.1f} dB, border {distance:4.1f} levels from {found:10} {'' if found == case[2] else 'WRONG '}{case[0]}")
    compose(rows).save(path)
    print(f"mean {np.mean(every):.2f} dB, least {min(every):.2f} dB, {wrong} borders wrong, {worst} levels from diffusers; {path}")
    sys.exit(wrong > 0 or worst > 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
