"""What the model draws: emoji composed with backgrounds, and the prompts that say so. Everything is a function of its arguments.

A picture is 64 x 64 and is fixed by an object, a background, a placement (size and position) and a shade of the background. The
shade alone is not in the prompt: it is what a seed decides. Sprites lie on the grid of 8 pixels that one token of the
transformer covers, so that a sprite has the same tokens wherever it lies.
"""

import zlib
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE, GRID = 64, 8
FONT = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"  # Debian's fonts-noto-color-emoji; has one size, 109

# fmt: off
OBJECTS = [  # emoji, its names; the first is the canonical one
    ("🐱", "cat|kitten|kitty"), ("🐶", "dog|puppy"), ("🦊", "fox"), ("🦁", "lion"), ("🐯", "tiger"), ("🐼", "panda|panda bear"),
    ("🐨", "koala"), ("🐻", "bear|brown bear"), ("🐷", "pig|piglet"), ("🐸", "frog|toad"), ("🐵", "monkey|ape"), ("🐰", "rabbit|bunny"),
    ("🐭", "mouse"), ("🐮", "cow"), ("🦄", "unicorn"), ("🐧", "penguin"), ("🦉", "owl"), ("🐤", "chick|baby chick"), ("🐙", "octopus"),
    ("🐢", "turtle|tortoise"), ("🐠", "fish|tropical fish"), ("🐞", "ladybug|ladybird"), ("🍎", "apple|red apple"), ("🍋", "lemon"),
    ("🍑", "peach"), ("🍓", "strawberry"), ("🍉", "watermelon|slice of watermelon"), ("🍇", "grapes"), ("🍒", "cherries"),
    ("🍍", "pineapple"), ("🥑", "avocado"), ("🍕", "pizza|slice of pizza"), ("🍔", "hamburger|burger|cheeseburger"),
    ("🍩", "donut|doughnut"), ("🍦", "ice cream|ice cream cone"), ("🚗", "car|red car|automobile"), ("🚌", "bus"), ("🚜", "tractor"),
    ("🚀", "rocket|spaceship"), ("⛵", "sailing boat|sailboat|boat"), ("🛸", "ufo|flying saucer"), ("🌞", "sun|smiling sun"),
    ("⭐", "star|yellow star"), ("☁️", "cloud|white cloud"), ("🌈", "rainbow"), ("⛄", "snowman"), ("🌳", "tree|green tree"),
    ("🌵", "cactus"), ("🌻", "sunflower"), ("🍄", "mushroom|toadstool"), ("🔥", "fire|flame"), ("🏠", "house|home"),
    ("🎈", "balloon|red balloon"), ("❤️", "heart|red heart"), ("☂️", "umbrella"), ("🎁", "gift|present|gift box"),
    ("⏰", "clock|alarm clock"), ("👑", "crown|golden crown"), ("⚽", "soccer ball|football"), ("🏀", "basketball"),
    ("🔔", "bell|golden bell"), ("🤖", "robot"), ("👻", "ghost"), ("🎃", "pumpkin|halloween pumpkin"),
]
COLOURS = {
    "white": (255, 255, 255), "black": (16, 16, 20), "gray": (128, 130, 134), "red": (214, 38, 38), "orange": (255, 142, 28),
    "yellow": (255, 221, 51), "green": (60, 160, 70), "blue": (36, 88, 210), "purple": (126, 56, 168), "pink": (255, 160, 190),
    "brown": (120, 74, 44), "light blue": (150, 210, 250),
}
SCENES = {  # phrases behind the object, nouns
    "meadow": ("in a meadow|on a meadow|on the grass|in the grass|in a field", "a meadow|a green meadow|grass"),
    "beach": ("on the beach|at the beach|on a beach|by the sea", "a beach|the beach|a sandy beach"),
    "night": ("at night|in the night|in the night sky|under the stars", "a night sky|the night sky|a starry night"),
    "snow": ("in the snow|on the snow|in winter", "snow|a snowy landscape|winter"),
    "sunset": ("at sunset|in the sunset|at dusk", "a sunset|the sunset|an evening sky"),
}
SIZES = {"default": (48, ""), "small": (32, "small|tiny|little"), "big": (64, "big|large|huge")}  # cell in pixels, words
POSITIONS = {
    "center": "in the middle|in the center|at the center",
    "left": "on the left|to the left|on the left side|at the left",
    "right": "on the right|to the right|on the right side|at the right",
}
FILLERS = ("cute nice happy funny beautiful colorful simple lovely pretty cartoon single shiny friendly fluffy sweet new old "
           "fresh bright good").split()
PREFIXES = ["draw ", "draw me ", "a picture of ", "a photo of ", "an image of ", "an emoji of ", "an icon of ", "show me ",
            "please draw ", "i want ", "a drawing of "]
SUFFIXES = ["", ".", "!", ", emoji", ", icon", ", cartoon style", ", high quality", ", simple"]
# fmt: on
BACKGROUNDS = [*COLOURS, *SCENES]
NAMES = [names.split("|") for _, names in OBJECTS]
PLACEMENTS = [(s, p) for s in SIZES for p in POSITIONS if s != "big" or p == "center"]
WEIGHTS = np.array([{"default": 0.55, "small": 0.25, "big": 0.2}[s] * (1 if s == "big" else 0.4 if p == "center" else 0.3)
                    for s, p in PLACEMENTS])  # fmt: skip
SHADES = 3


# --- pictures ---


@lru_cache(None)
def sprite(obj, side):
    """The emoji in a square of `side` pixels, premultiplied, [side, side, 4] in 0..1."""
    image = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(image).text((10, 10), OBJECTS[obj][0], font=ImageFont.truetype(FONT, 109), embedded_color=True)
    image = image.crop(image.getbbox()).convert("RGBa")
    scale = side / max(image.size)
    image = image.resize([max(1, round(n * scale)) for n in image.size], Image.LANCZOS)
    square = Image.new("RGBa", (side, side))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return np.asarray(square, np.float32) / 255


def gradient(top, bottom, rows):
    mix = np.linspace(0, 1, rows)[:, None, None]
    return np.repeat((1 - mix) * np.array(top) + mix * np.array(bottom), SIZE, axis=1)


def with_dots(picture, colour, rows, count, seed):
    rng = np.random.default_rng(seed)
    picture[rng.integers(1, rows - 1, count), rng.integers(1, SIZE - 1, count)] = colour
    return picture


# fmt: off
DRAWN = {
    "meadow": lambda: np.vstack([gradient((110, 185, 245), (160, 215, 250), 40), gradient((86, 170, 70), (60, 135, 52), 24)]),
    "beach": lambda: np.vstack([gradient((130, 205, 250), (160, 220, 250), 24), gradient((28, 120, 190), (40, 140, 200), 16),
                                gradient((240, 222, 165), (226, 200, 140), 24)]),
    "night": lambda: with_dots(gradient((14, 14, 50), (44, 36, 110), 64), (235, 235, 255), 60, 26, 5),
    "snow": lambda: with_dots(np.vstack([gradient((150, 178, 212), (180, 202, 226), 40), gradient((240, 245, 252), (250, 252, 255), 24)]),
                              (235, 242, 250), 38, 22, 6),
    "sunset": lambda: np.vstack([gradient((120, 70, 150), (255, 150, 90), 40), gradient((150, 80, 110), (80, 50, 100), 24)]),
}
# fmt: on


@lru_cache(None)
def background(bg, shade):
    """[64, 64, 3] in 0..255; the shades are as it is, 8 % darker, 10 % closer to white. White stays almost white."""
    name = BACKGROUNDS[bg]
    picture = np.full((SIZE, SIZE, 3), COLOURS[name], np.float64) if name in COLOURS else DRAWN[name]()
    if name == "white":
        return picture - (0, 3, 6)[shade]
    return (picture, 0.92 * picture, 0.9 * picture + 25.5)[shade]


def corner(bg, placement):
    """Where the cell of a placement begins, (row, column). Small things stand on the ground where there is one."""
    size, position = PLACEMENTS[placement]
    free = SIZE - SIZES[size][0]
    column = {"left": 0, "center": free // 2, "right": free}[position]
    ground = size == "small" and BACKGROUNDS[bg] in ("meadow", "beach", "snow")
    return free // 2 + (GRID if ground else 0), column


def render(obj, bg, placement, shade):
    """The picture, [64, 64, 3] uint8."""
    picture = background(bg, shade).copy()
    cell = SIZES[PLACEMENTS[placement][0]][0]
    row, column = corner(bg, placement)
    s = sprite(obj, cell - 4)
    part = picture[row + 2 : row + cell - 2, column + 2 : column + cell - 2]
    part[:] = part * (1 - s[..., 3:]) + 255 * s[..., :3]
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


# --- which pairs of object and background there are ---


def held_out(obj, bg):
    """Pairs that training never sees: one in ten, but none on white, which a bare "a cat" means."""
    return BACKGROUNDS[bg] != "white" and zlib.crc32(f"{NAMES[obj][0]}|{BACKGROUNDS[bg]}".encode()) % 10 == 0


def melts(obj, bg):
    """Whether the outline of the object has the colour of the background along most of its length, as a red heart on red has."""
    s = sprite(obj, 44)
    inside = np.pad(s[..., 3] > 0.5, 1)
    neighbours = inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
    edge = inside[1:-1, 1:-1] & ~neighbours
    colour = 255 * s[edge][:, :3] / s[edge][:, 3:]
    behind = background(bg, 0)[10:54, 10:54][edge]
    return np.mean(np.linalg.norm(colour - behind, axis=1) < 70) > 0.5


def pairs(unseen=False):
    """The pairs of training, or those that it never sees, as (object, background)."""
    every = [(o, b) for o in range(len(OBJECTS)) for b in range(len(BACKGROUNDS))]
    return [p for p in every if held_out(*p) == unseen and not melts(*p)]


# --- prompts ---


def pick(rng, words):
    words = words.split("|") if isinstance(words, str) else words
    return words[rng.integers(len(words))]


def article_of(word):
    return "an" if word[0] in "aeiou" and word not in ("unicorn", "ufo") else "a"


def noun_phrase(rng, obj, size):
    """ "a small cute cat"; now and then with a filler, rarely with a word that no other prompt has."""
    words = [pick(rng, SIZES[size][1])] if size != "default" else []
    if rng.random() < 0.15:
        words.append(pick(rng, FILLERS))
    if rng.random() < 0.04:
        words.append("".join(rng.choice(list("aeioubcdfglmnprst"), rng.integers(3, 7))))
    words.append(pick(rng, NAMES[obj]))
    if words[-1] in ("grapes", "cherries", "ice cream"):
        return " ".join(words if rng.random() < 0.5 else ["some", *words])
    article = "the" if rng.random() < 0.08 else article_of(words[0])
    return " ".join([article, *words])


def background_phrases(rng, bg):
    """The background behind the object, and as a noun."""
    name = BACKGROUNDS[bg]
    if name in SCENES:
        return pick(rng, SCENES[name][0]), pick(rng, SCENES[name][1])
    name = pick(rng, [name, "grey"]) if name == "gray" else pick(rng, [name, "sky blue"]) if name == "light blue" else name
    article = article_of(name)
    forms = [f"on {article} {name} background"] * 4 + [f"in front of {article} {name} background", f"on {name}",
             f"with {article} {name} background", f"on {article} plain {name} background"]  # fmt: skip
    return pick(rng, forms), f"{article} {name} background"


def sentence(rng, obj, bg, placement):
    size, position = PLACEMENTS[placement]
    thing = noun_phrase(rng, obj, size)
    said = position != "center" or rng.random() < 0.15
    where = pick(rng, POSITIONS[position]) if said else ""
    behind, scene = background_phrases(rng, bg)
    if BACKGROUNDS[bg] == "white" and rng.random() < 0.4:  # white need not be said
        return f"{thing} {where}" if said else thing
    if not said:
        return pick(rng, [f"{thing} {behind}"] * 4 + [f"{thing}, {scene}", f"{scene} with {thing}", f"{scene} and {thing}"])
    return pick(rng, [f"{thing} {where} {behind}", f"{thing} {where}, {behind}", f"{thing} {behind}, {where}", f"{thing} {behind} {where}",
                      f"{thing} {where}, {scene}", f"{scene} with {thing} {where}", f"{where}, {thing} {behind}"])  # fmt: skip


def prompt(rng, obj, bg, placement):
    text = sentence(rng, obj, bg, placement)
    if rng.random() < 0.25:
        text = pick(rng, PREFIXES) + text
    if rng.random() < 0.25:
        text += pick(rng, SUFFIXES)
    return text[0].upper() + text[1:] if rng.random() < 0.25 else text
