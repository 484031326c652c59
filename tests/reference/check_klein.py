"""Tries what NOTES.md says about Flux2KleinPipeline on tests/fixtures/klein; prints a line for each, fails on the first that is wrong."""

import contextlib

import torch
from diffusers.utils import logging

import klein
import record

SMALL = dict(prompt="A cat", height=32, width=48, num_inference_steps=2, guidance_scale=1.0, max_sequence_length=16)


def seeded(seed=42):
    return torch.Generator("cpu").manual_seed(seed)


def run(pipe, generator=None, **changes):
    """The latents argument of vae.decode of one call; a change to None takes the argument away."""
    arguments = {k: v for k, v in {**SMALL, "output_type": "latent", **changes}.items() if v is not None}
    return pipe(**arguments, generator=generator or seeded()).images


@contextlib.contextmanager
def distilled(pipe, value):
    pipe.register_to_config(is_distilled=value)
    yield
    pipe.register_to_config(is_distilled=True)


def fails(call):
    """The exception that call raises, or None."""
    try:
        call()
    except Exception as e:  # noqa: BLE001
        return e
    return None


def rows(pipe):
    prompts = ["A cat", "A bowl of oranges"]
    t, _, _ = record.call(pipe, {**SMALL, "prompt": prompts, "num_images_per_prompt": 2})
    e = t["prompt_embeds"]
    yield "rows are prompt-major", e[0].equal(e[1]) and e[2].equal(e[3]) and not e[0].equal(e[2])
    yield "the text encoder runs on B rows", t["input_ids"].shape == (2, 16)
    one, _, _ = record.call(pipe, SMALL)
    yield "row 0 of a batch has the noise of a batch of one", t["latents_initial"][0].equal(one["latents_initial"][0])
    both = run(pipe, [seeded(1), seeded(2)], prompt=prompts)
    alone = run(pipe, seeded(2), prompt=prompts[1])
    yield "row k takes generator k", torch.allclose(both[1], alone[0], atol=1e-4)
    wrong = fails(lambda: run(pipe, [seeded(1)] * 3, prompt=prompts))
    yield "another number of generators is a ValueError", isinstance(wrong, ValueError)


def sizes(pipe):
    yield "70x50 becomes 64x48", run(pipe, height=70, width=50).shape == (1, 8, 8, 6)
    yield "height 0 means 1024", run(pipe, height=0, width=16, num_inference_steps=1).shape == (1, 8, 128, 2)
    yield "height 8 gives an empty latent", run(pipe, height=8).numel() == 0
    yield "and no picture", fails(lambda: run(pipe, height=8, output_type="pt")) is not None


def text(pipe):
    with open(klein.HERE / "corpus.txt") as f:
        long = f.read()[:300]
    t, _, _ = record.call(pipe, {**SMALL, "prompt": long})
    every = pipe.tokenizer(f"<|im_start|>user\n{long}")["input_ids"]
    yield "truncation cuts the end", t["input_ids"][0].tolist() == every[:16] and bool(t["attention_mask"].all())
    states = []
    handle = pipe.text_encoder.model.layers[27].register_forward_hook(lambda _m, _a, out: states.append(out))
    embeds, _ = pipe.encode_prompt("A cat", max_sequence_length=16, text_encoder_out_layers=(9, 18, 28))
    handle.remove()
    normed = pipe.text_encoder.model.norm(states[0])
    yield "the last hidden state has the final norm", embeds[..., 48:].equal(normed)
    last, _ = pipe.encode_prompt("A cat", max_sequence_length=16, text_encoder_out_layers=(9, 18, -1))
    yield "layer -1 is that one", last.equal(embeds)
    beyond = fails(lambda: run(pipe, text_encoder_out_layers=(9, 18, 29)))
    yield "a layer behind it is an IndexError", isinstance(beyond, IndexError)
    yield "no prompt and no embeddings is a ValueError", isinstance(fails(lambda: run(pipe, prompt=None)), ValueError)
    yield "both are a ValueError", isinstance(fails(lambda: run(pipe, prompt_embeds=embeds)), ValueError)
    yield "an empty list fails", fails(lambda: run(pipe, prompt=[])) is not None
    free, _ = pipe.encode_prompt("A cat", max_sequence_length=16)
    given = run(pipe, prompt=None, prompt_embeds=free, max_sequence_length=99)
    yield "embeddings are used as given", given.equal(run(pipe))


def guidance(pipe):
    yield "distilled ignores guidance_scale", run(pipe, guidance_scale=4.0).equal(run(pipe))
    embeds, _ = pipe.encode_prompt(["A cat", "A bowl"], max_sequence_length=16)
    negative, _ = pipe.encode_prompt("", max_sequence_length=12)
    with distilled(pipe, False):
        yield "guidance_scale 1 is no guidance", torch.equal(run(pipe), run(pipe, negative_prompt_embeds=negative))
        plain = run(pipe, guidance_scale=4.0)
        one = run(pipe, guidance_scale=4.0, prompt=None, prompt_embeds=embeds[:1])
        yield "embeddings of one prompt work with guidance", torch.allclose(one, plain, atol=1e-4)
        given = dict(guidance_scale=4.0, prompt=None, prompt_embeds=embeds)
        blank, _ = pipe.encode_prompt(["", ""], max_sequence_length=16)
        same = torch.allclose(run(pipe, **given), run(pipe, **given, negative_prompt_embeds=blank), atol=1e-4)
        yield "the one negative row serves embeddings of two prompts", same
        four = fails(lambda: run(pipe, **given, num_images_per_prompt=2))
        yield "but not with two pictures each", four is not None
        other = run(pipe, guidance_scale=4.0, negative_prompt_embeds=negative)
        yield "negative embeddings may have another length", other.shape == plain.shape and not other.equal(plain)


def latents(pipe):
    t, _, _ = record.call(pipe, SMALL)
    noise = torch.randn(1, 32, 2, 3, generator=seeded())
    yield "output_type latent is vae_in", run(pipe).equal(t["vae_in"])
    yield "latents [B, 4C, h, w] replace the noise", run(pipe, seeded(7), latents=noise).equal(t["vae_in"])
    yield "returned latents are no valid latents", fails(lambda: run(pipe, latents=t["vae_in"])) is not None
    tall = torch.randn(1, 32, 4, 3)
    yield "latents larger than height and width fail", fails(lambda: run(pipe, latents=tall)) is not None
    flat = run(pipe, latents=noise, height=64)
    yield "latents smaller leave zero tokens", flat.shape == (1, 8, 8, 6) and flat[0, :, 4:6, :2].equal(flat[0, :, 6:, 2:4])


def schedule(pipe):
    run(pipe, num_inference_steps=2)
    two = pipe.scheduler.sigmas.clone()
    run(pipe, num_inference_steps=2, sigmas=[1.0, 0.5])
    yield "sigmas are shifted like the default ones", pipe.scheduler.sigmas.equal(two)
    run(pipe, num_inference_steps=None, sigmas=[1.0, 0.5])
    yield "mu takes num_inference_steps (50), not len(sigmas)", len(pipe.scheduler.sigmas) == 3 and not pipe.scheduler.sigmas.equal(two)
    pipe.scheduler.register_to_config(use_flow_sigmas=True)
    run(pipe, num_inference_steps=2)
    yield "use_flow_sigmas takes the scheduler's own spacing", bool(pipe.scheduler.sigmas[1] < 0.1)
    pipe.scheduler.register_to_config(use_flow_sigmas=False)
    t = pipe.scheduler.timesteps
    x = torch.arange(1, 1001, dtype=torch.float32)
    yield "t / 1000 * 1000 is not always t", bool((x / 1000 * 1000 != x).any()) and t.dtype == torch.float32


def callback(pipe):
    seen = []

    def stop(p, i, t, values):
        seen.append((i, t, sorted(values)))
        p._interrupt = True
        return values

    out = run(pipe, callback_on_step_end=stop)
    yield "an interrupt skips the steps that are left, and decodes", len(seen) == 1 and seen[0][0] == 0 and out.shape == (1, 8, 4, 6)
    wrong = fails(lambda: run(pipe, callback_on_step_end_tensor_inputs=["noise_pred"]))
    yield "another tensor name is a ValueError", isinstance(wrong, ValueError)


def main():
    logging.set_verbosity_error()
    pipe = klein.load(klein.FIXTURES / "klein")
    for part in (rows, sizes, text, guidance, latents, schedule, callback):
        for sentence, holds in part(pipe):
            print(f"{'ok ' if holds else 'NOT'} {part.__name__}: {sentence}", flush=True)
            assert holds


if __name__ == "__main__":
    main()
