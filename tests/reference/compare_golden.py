"""Runs golden cases of FLUX.2 [klein] again with diffusers and prints the largest difference of each tensor.

usage: compare_golden.py [GOLDEN [CASE...]]     default: ../shared/golden, a64
"""

import json
import sys
from pathlib import Path

from safetensors.torch import load_file

import klein
import record


def compare(golden, case):
    """Prints a line for each tensor: the largest |a - b| / (1 + |b|), or for integers how many differ."""
    path = golden / "expected" / f"flux2-klein__{case}"
    about, expected = json.loads(path.with_suffix(".json").read_text()), load_file(path.with_suffix(".safetensors"))
    pipe = klein.load(golden / about["model"])
    pipe.register_to_config(is_distilled=about["is_distilled"])
    got, _, _ = record.call(pipe, about["arguments"], about["generator_seed"])
    assert got.keys() == expected.keys(), got.keys() ^ expected.keys()
    worst = 0.0
    for name, b in expected.items():
        a = got[name]
        assert a.shape == b.shape and a.dtype == b.dtype, f"{name}: {a.dtype} {a.shape}, golden {b.dtype} {b.shape}"
        error = (a.double() - b.double()).abs()
        if b.is_floating_point():
            error = error / (1 + b.double().abs())
            worst = max(worst, error.max().item())
            print(f"{case:14} {name:36} {str(list(b.shape)):18} {error.max():.2e}")
        else:
            print(f"{case:14} {name:36} {str(list(b.shape)):18} {int((error > 0).sum())} differ, by at most {int(error.max())}")
    print(f"{case:14} largest of the real ones: {worst:.2e}")


def main():
    golden = Path(sys.argv[1] if len(sys.argv) > 1 else klein.HERE.parents[2] / "shared" / "golden")
    for case in sys.argv[2:] or ["a64"]:
        compare(golden, case)


if __name__ == "__main__":
    main()
