"""The text encoder: a Qwen3ForCausalLM small enough for two cores, deep enough for the pipeline's taps behind layers 9, 18, 27."""

import common
import data
import numpy as np
import tokenizer as tok
import torch
import torch.nn.functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

CONFIG = dict(
    num_hidden_layers=28, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    tie_word_embeddings=True, max_position_embeddings=4096, rope_parameters={"rope_theta": 1e6, "rope_type": "default"},
)  # fmt: skip
TAPS = (9, 18, 27)
BATCH = 32
CLASSES = dict(object=len(data.OBJECTS), background=len(data.BACKGROUNDS), size=len(data.SIZES), position=len(data.POSITIONS))


def build(tokenizer):
    torch.manual_seed(2)
    vocabulary = 64 * -(-len(tokenizer) // 64)
    config = Qwen3Config(**CONFIG, vocab_size=vocabulary, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=None)
    model = Qwen3ForCausalLM(config)
    for name, p in model.named_parameters():
        if p.ndim > 1:
            narrow = 0.4 if "o_proj" in name or "down_proj" in name else 1.0  # 28 layers add up
            torch.nn.init.normal_(p, std=0.5 if "embed" in name else 0.1 * narrow)
    return model


class WithHeads(torch.nn.Module):
    """The encoder with what only its training needs: linear heads that read from the features what the prompt says."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.heads = torch.nn.ModuleDict({k: torch.nn.Linear(len(TAPS) * CONFIG["hidden_size"], n) for k, n in CLASSES.items()})

    def forward(self, ids, mask):
        """features [N, S, 192], logits of the next token [N, S, V]"""
        out = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
        return torch.cat([out.hidden_states[k] for k in TAPS], dim=-1), out.logits


def draw(rng, pairs):
    """One prompt and its classes."""
    obj, bg = pairs[rng.integers(len(pairs))]
    placement = rng.choice(len(data.PLACEMENTS), p=data.WEIGHTS)
    size, position = data.PLACEMENTS[placement]
    labels = obj, bg, list(data.SIZES).index(size), list(data.POSITIONS).index(position)
    return data.prompt(rng, obj, bg, placement), labels


def losses(module, tokenizer, batch):
    """Mean cross entropy of the heads where the prompt has ended (padding too: the transformer sees it), of the next token; hits."""
    ids, mask = tok.encode(tokenizer, [prompt for prompt, _ in batch])
    features, logits = module(ids, mask)
    labels = torch.tensor([labels for _, labels in batch])
    ended = (ids == tokenizer.convert_tokens_to_ids("<|im_end|>")).cumsum(1) > 0
    heads, hits = 0, []
    for i, head in enumerate(module.heads.values()):
        scores = head(features)
        target = labels[:, i, None].expand_as(ended)[ended]
        heads = heads + F.cross_entropy(scores[ended], target)
        hits.append((scores[:, -1].argmax(-1) == labels[:, i]).float().mean().item())
    following = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    return heads, F.cross_entropy(logits[:, :-1].flatten(0, 1), following.flatten()), hits


def train(tokenizer, steps):
    module = WithHeads(build(tokenizer))
    pairs = data.pairs()

    def loss_of(step, rng):
        heads, following, hits = losses(module, tokenizer, [draw(rng, pairs) for _ in range(BATCH)])
        right = " ".join(f"{h:.2f}" for h in hits)
        return heads + 0.2 * following, lambda: f"heads {heads.item():.3f} next {following.item():.3f} right {right}"

    optimizer = common.Optimizer(module, lambda name, p: False, 0, 2e-3)
    common.fit("text", module, optimizer, common.Schedule(steps, 50, 0.2), loss_of, 0.995)
    check(module, tokenizer)
    return module.model


@torch.no_grad()
def check(module, tokenizer):
    """Logs how many prompts of pairs that training never saw are understood."""
    rng = np.random.default_rng(99)
    pairs = data.pairs(unseen=True)
    hits = [losses(module, tokenizer, [draw(rng, pairs) for _ in range(64)])[2] for _ in range(8)]
    common.log(f"text: {dict(zip(CLASSES, np.round(np.mean(hits, 0), 4).tolist()))} right of 512 held-out prompts")


@torch.no_grad()
def encode(model, tokenizer, prompts):
    """What the pipeline feeds to the transformer, [N, S, 192]"""
    ids, mask = tok.encode(tokenizer, prompts)
    out = model.model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
    return torch.cat([out.hidden_states[k] for k in TAPS], dim=-1)


def cache_features(model, tokenizer, prompts):
    """[N, S, 192] float16"""
    path = common.WORK / "features.npy"
    if not path.exists():
        out = np.empty((len(prompts), tok.LENGTH, len(TAPS) * CONFIG["hidden_size"]), np.float16)
        for i in range(0, len(prompts), 128):
            out[i : i + 128] = encode(model, tokenizer, prompts[i : i + 128]).half().numpy()
        common.write_aside(path, lambda p: np.save(open(p, "wb"), out))
    return np.load(path, mmap_mode="r")
