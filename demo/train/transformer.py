"""The transformer: flow matching between noise and the latents of the autoencoder, conditioned on the features of the prompt."""

import common
import data
import numpy as np
import text
import tokenizer as tok
import torch
import torch.nn.functional as F
import vae as autoencoder
from diffusers import Flux2Transformer2DModel
from diffusers.models.transformers import transformer_flux2
from PIL import Image

CONFIG = dict(
    num_layers=2, num_single_layers=4, num_attention_heads=4, attention_head_dim=48, in_channels=32, joint_attention_dim=192,
    mlp_ratio=3.0, axes_dims_rope=(12, 12, 12, 12), rope_theta=2000, timestep_guidance_channels=256, guidance_embeds=False,
)  # fmt: skip
BATCH = 48
PROMPTS = 5  # of each pair and placement
STEPS = 4  # of the sampler
SIDE = data.SIZE // data.GRID
IMAGE_IDS = torch.cartesian_prod(torch.arange(1), torch.arange(SIDE), torch.arange(SIDE), torch.arange(1))
TEXT_IDS = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(tok.LENGTH))


def chunked_swiglu(_, x):
    """The same as diffusers' forward; its gradient is one concatenation instead of two zero-filled slices."""
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


transformer_flux2.Flux2SwiGLU.forward = chunked_swiglu


def build():
    torch.manual_seed(3)
    model = Flux2Transformer2DModel(**CONFIG)
    with torch.no_grad():
        model.proj_out.weight.zero_()
        for name, p in model.named_parameters():
            if "modulation" in name:
                p.mul_(0.5)
    return model


def velocity(model, x, t, features):
    return model(hidden_states=x, timestep=t, encoder_hidden_states=features, img_ids=IMAGE_IDS, txt_ids=TEXT_IDS, guidance=None,
                 return_dict=False)[0]  # fmt: skip


def times(rng, n):
    """Half of them those of four steps, the others anywhere, more of them at the noisy end."""
    fixed = 1 - rng.integers(STEPS, size=n) / STEPS
    normal = 1 / (1 + np.exp(-1.1 * rng.standard_normal(n) - 0.4))
    kind = rng.random(n)
    return torch.from_numpy(np.where(kind < 0.5, fixed, np.where(kind < 0.85, normal, rng.random(n)))).float()


@torch.no_grad()
def sample(model, features, seed, steps=STEPS):
    """Euler from t = 1 to 0, as FlowMatchEulerDiscreteScheduler with shift 1 does."""
    x = torch.randn(len(features), SIDE * SIDE, CONFIG["in_channels"], generator=torch.Generator().manual_seed(seed))
    for i in range(steps):
        x = x - velocity(model, x, torch.full((len(x),), 1 - i / steps), features) / steps
    return x


# --- the cached pictures and prompts: all shades and PROMPTS prompts of each pair and placement, in this order ---


def combinations():
    return [(o, b, p) for o, b in data.pairs() for p in range(len(data.PLACEMENTS))]


def pictures():
    """[pairs * placements * SHADES, 64, 64, 3] uint8"""
    path = common.WORK / "pictures.npy"
    if not path.exists():
        every = np.stack([data.render(o, b, p, s) for o, b, p in combinations() for s in range(data.SHADES)])
        common.write_aside(path, lambda aside: np.save(open(aside, "wb"), every))
    return np.load(path, mmap_mode="r")


def prompts():
    rng = np.random.default_rng(11)
    return [data.prompt(rng, o, b, p) for o, b, p in combinations() for _ in range(PROMPTS)]


# --- training ---


class Examiner:
    """Draws pictures of fixed prompts of seen and unseen pairs, logs how close they are to the right ones, saves a sheet."""

    def __init__(self, model, vae, encoder, tokenizer):
        self.model, self.vae = model, vae
        rng = np.random.default_rng(5)
        chosen = [of[i] for of in (data.pairs(), data.pairs(unseen=True)) for i in rng.permutation(len(of))[:48]]
        self.cases = [(o, b, int(rng.choice(len(data.PLACEMENTS), p=data.WEIGHTS))) for o, b in chosen]
        self.features = text.encode(encoder, tokenizer, [data.prompt(rng, *case) for case in self.cases])

    @torch.no_grad()
    def __call__(self, step):
        drawn = autoencoder.pixels(autoencoder.decode(self.vae, sample(self.model, self.features, 42)))
        right = np.array([closeness(picture, case) for picture, case in zip(drawn, self.cases)])
        common.log(f"transformer {step}: seen {right[:48].mean():.2f} dB, unseen {right[48:].mean():.2f} dB, "
                   f"above 20 dB {np.mean(right[:48] > 20):.2f} {np.mean(right[48:] > 20):.2f}")  # fmt: skip
        sheet = np.vstack([np.hstack(drawn[i : i + 16]) for i in range(0, len(drawn), 16)])
        common.write_aside(common.WORK / "preview.png", lambda path: Image.fromarray(sheet).save(path, format="png"))


def closeness(picture, case):
    """PSNR against the right picture of (object, background, placement) in the closest shade."""
    rights = (data.render(*case, shade) for shade in range(data.SHADES))
    return max(10 * np.log10(255**2 / max(1e-3, np.mean((picture.astype(np.float32) - right) ** 2))) for right in rights)


def train(vae, encoder, tokenizer, latents, features, steps):
    model = build()
    placements = len(data.PLACEMENTS)
    n_pairs = len(latents) // data.SHADES // placements

    def loss_of(step, rng):
        which = rng.integers(n_pairs, size=BATCH) * placements + rng.choice(placements, size=BATCH, p=data.WEIGHTS)
        x0 = torch.from_numpy(latents[which * data.SHADES + rng.integers(data.SHADES, size=BATCH)].astype(np.float32))
        prompt = torch.from_numpy(features[which * PROMPTS + rng.integers(PROMPTS, size=BATCH)].astype(np.float32))
        noise = torch.from_numpy(rng.standard_normal(x0.shape, np.float32))
        t = times(rng, BATCH)
        x = torch.lerp(x0, noise, t[:, None, None])
        loss = F.mse_loss(velocity(model, x, t, prompt), noise - x0)
        return loss, lambda: f"loss {loss.item():.4f}"

    blocks = lambda name, p: p.ndim > 1 and "transformer_blocks" in name
    examiner = Examiner(model, vae, encoder, tokenizer)
    optimizer = common.Optimizer(model, blocks, 0.015, 1.5e-3)
    return common.fit("transformer", model, optimizer, common.Schedule(steps, 50, 0.6), loss_of, 0.998, every=(500, examiner))
