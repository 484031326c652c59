"""Prints the tables of NOTES.md: module trees with class names, and constructor defaults of the configs."""

import inspect
import re

import klein
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2Transformer2DModel
from transformers import Qwen3Config, Qwen3ForCausalLM


def tree(title, module, keep):
    """One row a module; the repeated blocks are printed once (index 0)."""
    print(f"\n### {title}\n\n| module | class | parameters |\n|---|---|---|")
    for name, m in module.named_modules():
        if keep(name):
            own = ", ".join(f"{k} {list(p.shape)}" for k, p in m.named_parameters(recurse=False))
            own += "".join(f", buffer {k} {list(b.shape)}" for k, b in m.named_buffers(recurse=False))
            print(f"| `{name or '(model)'}` | {type(m).__name__} | {own.removeprefix(', ')} |")


def only_first(*lists):
    """Keeps names that do not lie in element 1, 2, ... of the given module lists."""

    def keep(name):
        return all(not name.startswith(p + ".") or name[len(p) + 1 :].split(".")[0] == "0" for p in lists)

    return keep


def defaults(title, cls):
    print(f"\n### {title}\n\n| field | default |\n|---|---|")
    for name, p in inspect.signature(cls.__init__).parameters.items():
        if name not in ("self", "kwargs", "args"):
            value = "(required)" if p.default is inspect.Parameter.empty else repr(p.default)
            print(f"| {name} | `{value}` |")


def qwen3_defaults():
    """Qwen3Config derives some of its fields, so an instance is printed."""
    print("\n### Qwen3Config\n\n| field | default |\n|---|---|")
    values = Qwen3Config().to_dict()
    for name in sorted(Qwen3Config.__annotations__.keys() & values.keys()):
        value = values[name]
        if name == "layer_types":
            value = f"{len(value)} x {value[0]!r}"
        print(f"| {name} | `{value!r}` |")


def main():
    print("## Module trees\n\nOf `tests/fixtures/klein` (named_modules order); of repeated blocks the first.")
    tree("Flux2Transformer2DModel", Flux2Transformer2DModel(**klein.TRANSFORMER),
         only_first("transformer_blocks", "single_transformer_blocks"))
    tree("Qwen3ForCausalLM", Qwen3ForCausalLM(Qwen3Config(**klein.TEXT_ENCODER)), only_first("model.layers"))
    repeated = re.compile(r"decoder\.up_blocks\.(\d\.resnets\.[1-9]|[23]\b)")  # up_blocks.1.resnets.0 shows a conv_shortcut
    tree("AutoencoderKLFlux2, decoding half", AutoencoderKLFlux2(**klein.VAE),
         lambda n: n.startswith(("decoder", "post_quant_conv", "bn")) and not repeated.match(n))
    print("\n## Constructor defaults")
    defaults("Flux2Transformer2DModel", Flux2Transformer2DModel)
    defaults("AutoencoderKLFlux2", AutoencoderKLFlux2)
    qwen3_defaults()
    defaults("FlowMatchEulerDiscreteScheduler", FlowMatchEulerDiscreteScheduler)


if __name__ == "__main__":
    main()
