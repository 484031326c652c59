"""A Qwen2 tokenizer for the words of the prompts: byte-level BPE with Qwen3's split, added tokens and chat template."""

import json
import os
import re
import sys
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # so that equally frequent merges come in the same order every time
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "reference"))

import data
import klein
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

LENGTH = 36  # tokens of a prompt with its template; the transformer sees the padding, so it is the length for good


def render(prompt):
    """The chat in which Flux2KleinPipeline wraps a prompt."""
    return f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def words():
    """Every word that data.py writes but the invented ones, and those of the template."""
    tables = [data.OBJECTS, data.COLOURS, data.SCENES, data.SIZES, data.POSITIONS, data.FILLERS, data.PREFIXES, data.SUFFIXES]
    others = "user assistant a an and the some with on in front of plain background grey sky"
    return sorted(set(re.findall("[a-z]+", f"{tables} {others}")))


def save(folder):
    """Trains until each word is one token, after a blank and at the beginning, small and capital; saves to `folder`."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(klein.SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=4000, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    corpus = [f"{w} {w}" for w in words()] + [w.capitalize() for w in words()] + ["\n\n", "user\n"] * 4
    t.train_from_iterator(corpus, trainer)
    t.add_special_tokens([f"<|{name}|>" for name in klein.SPECIAL])
    t.add_tokens([AddedToken(token, normalized=False) for token in klein.PLAIN])
    folder.mkdir(parents=True, exist_ok=True)
    t.save(str(folder / "tokenizer.json"))
    config = dict(tokenizer_class="Qwen2Tokenizer", model_max_length=LENGTH, bos_token=None, eos_token="<|im_end|>",
                  pad_token="<|endoftext|>", unk_token="<|endoftext|>", chat_template=klein.CHAT_TEMPLATE)  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def load(folder):
    if not (folder / "tokenizer.json").exists():
        save(folder)
    tokenizer = Qwen2Tokenizer.from_pretrained(folder)
    for how_it_was_loaded in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(how_it_was_loaded, None)
    return tokenizer


def encode(tokenizer, prompts):
    """ids and mask, [N, LENGTH] each."""
    out = tokenizer([render(p) for p in prompts], padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    return out["input_ids"], out["attention_mask"]
