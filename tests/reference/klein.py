"""A tiny FLUX.2 [klein] pipeline with random weights: its configs, its tokenizer, its parameters.

The sizes are small but no two that could be confused are equal: text heads * head_dim (32) is not the hidden size (24), the VAE
decoder has other channels than the encoder, the embedding has more rows than the tokenizer has tokens; mlp_ratio is no integer.
"""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import torch
from diffusers import (
    AutoencoderKLFlux2,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"

TRANSFORMER = dict(
    num_layers=2, num_single_layers=2, num_attention_heads=4, attention_head_dim=16, in_channels=32,
    joint_attention_dim=72, mlp_ratio=2.5, axes_dims_rope=(4, 4, 4, 4), rope_theta=2000,
    timestep_guidance_channels=64, guidance_embeds=False,
)  # fmt: skip
TEXT_ENCODER = dict(
    num_hidden_layers=28, hidden_size=24, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    vocab_size=704, tie_word_embeddings=True, max_position_embeddings=40960, rope_parameters={"rope_theta": 1e6, "rope_type": "default"},
)  # fmt: skip
VAE = dict(
    block_out_channels=(4, 4, 8, 8), decoder_block_out_channels=(4, 8, 8, 16), latent_channels=8, norm_num_groups=4,
)  # fmt: skip
SCHEDULER = dict(shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15)

# Qwen3's added tokens in the order of their ids; those before the first of PLAIN are special.
SPECIAL = "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start vision_end " \
    "vision_pad image_pad video_pad".split()  # fmt: skip
PLAIN = ["<tool_call>", "</tool_call>", *(f"<|{t}|>" for t in "fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep".split()),
         "<tool_response>", "</tool_response>", "<think>", "</think>"]  # fmt: skip
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


def fill(module, seed):
    """Random parameters in the order of the state dict, rounded to bfloat16. numpy's generator is the same on every machine."""
    rng = np.random.default_rng(seed)
    for name, t in module.state_dict().items():
        if not t.is_floating_point():
            continue
        if name.endswith("running_var"):
            values = rng.uniform(0.5, 1.5, t.shape)
        elif name.endswith("running_mean"):
            values = rng.normal(0, 0.3, t.shape)
        elif name.endswith("bias"):
            values = rng.uniform(-0.2, 0.2, t.shape)
        elif t.ndim == 1:  # the weight of a norm
            values = rng.uniform(0.7, 1.3, t.shape)
        else:
            values = rng.normal(0, 1 / math.sqrt(t[0].numel()), t.shape)
        if name == "decoder.conv_out.weight":  # so that few pixels are clipped
            values *= 0.4
        with torch.no_grad():
            t.copy_(torch.from_numpy(values).bfloat16())
    return module.bfloat16().eval()


def save_tokenizer(folder):
    """Byte-level BPE trained on corpus.txt, with Qwen2's normalizer, split and added tokens, in `folder`."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    t.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=660, initial_alphabet=alphabet, show_progress=False)
    t.train_from_iterator([(HERE / "corpus.txt").read_text()], trainer)
    t.add_special_tokens([f"<|{name}|>" for name in SPECIAL])
    t.add_tokens([AddedToken(token, normalized=False) for token in PLAIN])  # as the released file has it
    folder.mkdir(parents=True, exist_ok=True)
    t.save(str(folder / "tokenizer.json"))
    config = dict(tokenizer_class="Qwen2Tokenizer", model_max_length=131072, bos_token=None, eos_token="<|im_end|>",
                  pad_token="<|endoftext|>", unk_token="<|endoftext|>", chat_template=CHAT_TEMPLATE)  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def save_pipeline(folder):
    """Writes the pipeline folder in bfloat16: transformer in several shards, the rest in one file each."""
    save_tokenizer(folder / "tokenizer")
    tokenizer = Qwen2Tokenizer.from_pretrained(folder / "tokenizer")
    for how_it_was_loaded in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(how_it_was_loaded, None)
    ids = dict(eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=None)
    pipe = Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(**SCHEDULER),
        vae=fill(AutoencoderKLFlux2(**VAE), 1),
        text_encoder=fill(Qwen3ForCausalLM(Qwen3Config(**TEXT_ENCODER, **ids)), 2),
        tokenizer=tokenizer,
        transformer=fill(Flux2Transformer2DModel(**TRANSFORMER), 3),
        is_distilled=True,
    )
    pipe.save_pretrained(folder)
    # the pipeline's own max_shard_size would cut the text encoder as well
    shutil.rmtree(folder / "transformer")
    pipe.transformer.save_pretrained(folder / "transformer", max_shard_size="300KB")
    index = json.loads((folder / "model_index.json").read_text())
    index["is_distilled"] = False
    (folder / "model_index_base.json").write_text(json.dumps(index, indent=2) + "\n")


def load(folder, dtype=torch.float32):
    """The pipeline on one thread, its weights upcast to `dtype`."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    pipe = Flux2KleinPipeline.from_pretrained(folder, dtype=dtype)
    pipe.set_progress_bar_config(disable=True)
    return pipe
