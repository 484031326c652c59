"""The autoencoder: AutoencoderKLFlux2 with 4 x fewer rows and columns, 8 channels; a token of the transformer is 8 x 8 pixels."""

import common
import data
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLFlux2

CONFIG = dict(
    block_out_channels=(16, 32, 64), decoder_block_out_channels=(24, 48, 96), down_block_types=("DownEncoderBlock2D",) * 3,
    up_block_types=("UpDecoderBlock2D",) * 3, layers_per_block=1, latent_channels=8, norm_num_groups=2, sample_size=data.SIZE,
)  # fmt: skip
BATCH = 8


def build():
    torch.manual_seed(1)
    return AutoencoderKLFlux2(**CONFIG).to(memory_format=torch.channels_last)


def tensor(pictures):
    """[N, 64, 64, 3] uint8 -> [N, 3, 64, 64] in -1..1"""
    return torch.tensor(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def pixels(x):
    """The other way round."""
    return ((x.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()


def differences(x):
    return x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]


def reconstruction_loss(y, x):
    """L1, L1 of the differences of neighbours, and MSE; with the last in decibels."""
    mse = F.mse_loss(y, x)
    edges = sum(F.l1_loss(a, b) for a, b in zip(differences(y), differences(x)))
    return F.l1_loss(y, x) + 0.5 * edges + mse, lambda: f"{10 * np.log10(4 / mse.item()):.2f} dB"


def optimizer(model, factor=1.0):
    """Muon for kernels, but not for the first and last, whose rows are pixels."""
    return common.Optimizer(model, lambda name, p: p.ndim > 1 and "conv_in" not in name and "conv_out" not in name, 0.02 * factor,
                            2e-3 * factor)  # fmt: skip


def train(pictures, steps):
    model = build()

    def loss_of(step, rng):
        x = tensor(pictures[np.sort(rng.integers(len(pictures), size=BATCH))])
        z = model.encode(x).latent_dist.mean
        loss, text = reconstruction_loss(model.decode(z).sample, x)
        return loss + 1e-3 * z.square().mean(), text

    return common.fit("vae", model, optimizer(model), common.Schedule(steps, 35, 0.3), loss_of, 0.995)


@torch.no_grad()
def encode(model, pictures):
    """Latents as the transformer sees them, but not normalised: [N, 64, 32]"""
    z = model.encode(tensor(pictures)).latent_dist.mean
    n, c, h, w = z.shape
    z = z.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, h * w // 4)
    return z.mT.contiguous()


def decode(model, latents):
    """[N, 64, 32] normalised -> [N, 3, 64, 64]"""
    std = (model.bn.running_var + model.config.batch_norm_eps).sqrt()
    z = (latents * std + model.bn.running_mean).mT
    n, c, _ = z.shape
    z = z.reshape(n, c // 4, 2, 2, 8, 8).permute(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 16, 16)
    return model.decode(z).sample


def cache_latents(model, pictures):
    """Normalised latents of all pictures, [N, 64, 32] float16; their statistics into the batch norm of the model."""
    path = common.WORK / "latents.npz"
    if not path.exists():
        z = torch.cat([encode(model, pictures[i : i + 64]) for i in range(0, len(pictures), 64)])
        mean, var = z.mean((0, 1)), z.var((0, 1))
        z = ((z - mean) / (var + model.config.batch_norm_eps).sqrt()).half().numpy()
        common.write_aside(path, lambda p: np.savez(open(p, "wb"), z=z, mean=mean.numpy(), var=var.numpy()))
    stored = np.load(path)
    model.bn.running_mean.copy_(torch.from_numpy(stored["mean"]))
    model.bn.running_var.copy_(torch.from_numpy(stored["var"]))
    return stored["z"]


def train_decoder(model, pictures, latents, steps):
    """The decoder alone on latents with noise, because the transformer's are not exact."""
    for p in [*model.encoder.parameters(), *model.quant_conv.parameters()]:
        p.requires_grad_(False)

    def loss_of(step, rng):
        chosen = np.sort(rng.integers(len(pictures), size=BATCH))
        z = torch.from_numpy(latents[chosen].astype(np.float32))
        noise = rng.standard_normal(z.shape, np.float32) * rng.uniform(0, 0.15, (BATCH, 1, 1)).astype(np.float32)
        return reconstruction_loss(decode(model, z + torch.from_numpy(noise)), tensor(pictures[chosen]))

    return common.fit("decoder", model, optimizer(model, 0.4), common.Schedule(steps, 10, 0.3), loss_of, 0.995)


# --- sums of a moderate size ---


@torch.no_grad()
def scale_sums(model, latents):
    """Divides what each level of the decoder adds up by a power of two, to a root mean square near 1. The picture stays the same but
    for rounding: a GroupNorm follows, or a convolution that makes up for it.

    Training lets these sums grow, level by level, to some thousands; elements of them that happen to be near zero are then
    differences of large numbers, and not the same from one order of additions to the next.
    """
    seen = {}
    parts = [m for block in model.decoder.up_blocks for m in (*block.resnets, *(block.upsamplers or []))]
    hooks = [m.register_forward_hook(lambda m, _, y: seen.update({m: y.square().mean().sqrt().item()})) for m in parts]
    decode(model, latents)
    for hook in hooks:
        hook.remove()
    factor = 1.0  # by which the sum is multiplied
    for block in model.decoder.up_blocks:
        for resnet in block.resnets:
            if resnet.conv_shortcut is not None:
                factor = rescale(resnet.conv_shortcut, factor, seen[resnet])
            resnet.conv2.weight.mul_(factor)
            resnet.conv2.bias.mul_(factor)
        for upsampler in block.upsamplers or []:
            factor = rescale(upsampler.conv, factor, seen[upsampler])


def rescale(conv, factor, rms):
    """Of a convolution of a sum that `factor` has multiplied: brings its output, of that size before, near 1; the new factor."""
    new = 2.0 ** -round(np.log2(rms))
    conv.weight.mul_(new / factor)
    conv.bias.mul_(new)
    return new
