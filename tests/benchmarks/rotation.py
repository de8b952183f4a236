"""How long applying RoPE to q takes, as ratios within one run; absolute times mean nothing.

    python -m tests.benchmarks.rotation [--threads 1] [--rounds 9]

B = 1, H = 8, d = 128. Two groups per length: ours into a given tensor against a warm copy (the
floor), and q and k together against the peers, who make both anew. Then one token, a decoding step.
"""

import argparse
import functools
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from x_transformers.x_transformers import apply_rotary_pos_emb as apply_interleaved

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from posenc import SCHEMES, apply_rope, rope_tables
from posenc.rotation import apply_rope_to_both
from tests.benchmarks.timing import paired_seconds, ratio, table

HEADS, WIDTH = 8, 128
LENGTHS = [512, 4_096, 16_384]


def against_a_copy(length: int, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Multiples of a warm copy, one tensor, results into a given one."""
    q = torch.randn(1, HEADS, length, WIDTH).to(dtype)
    out = torch.zeros_like(q)
    cos, sin = rope_tables(length, WIDTH)
    samples = paired_seconds(
        {
            "copy": lambda: out.copy_(q),
            "interleaved": lambda: apply_rope(q, cos, sin, out=out),
            "half": lambda: apply_rope(q, cos, sin, layout="half", out=out),
        },
        rounds=rounds,
    )
    found = {name: ratio(samples, name, "copy") for name in list(samples)[1:]}
    return found | {"copy, us": statistics.median(samples["copy"]) * 1e6}


def against_peers(length: int, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """How many times as long as ours the peers take, q and k together; and ours under autograd."""
    q, k = torch.randn(2, 1, HEADS, length, WIDTH).to(dtype)
    out_q, out_k = torch.zeros_like(q), torch.zeros_like(k)
    cos, sin = rope_tables(length, WIDTH)
    wide = [torch.cat((plane, plane), -1)[None].to(dtype) for plane in (cos, sin)]
    angles = torch.randn(1, length, WIDTH)

    def both(layout: str) -> Callable[[], object]:
        return lambda: [apply_rope(x, cos, sin, layout=layout) for x in (q, k)]

    def both_out(layout: str) -> Callable[[], object]:
        pairs: list[tuple[Tensor, Tensor]] = [(q, out_q), (k, out_k)]
        return lambda: [apply_rope(x, cos, sin, layout=layout, out=out) for x, out in pairs]

    samples = paired_seconds(
        {
            "half": both("half"),
            "half, out=": both_out("half"),
            "interleaved": both("interleaved"),
            "interleaved, out=": both_out("interleaved"),
            "transformers": lambda: apply_rotary_pos_emb(q, k, *wide),
            "x-transformers": lambda: [apply_interleaved(x, angles) for x in (q, k)],
        },
        rounds=rounds,
    )
    peers = {"transformers": "half", "x-transformers": "interleaved"}
    return {
        f"{peer} / {ours}{suffix}": ratio(samples, peer, ours + suffix)
        for peer, ours in peers.items()
        for suffix in ("", ", out=")
    }


def decoding_step(dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """How many times as long as ours transformers takes for one token: q and k, tables made or at hand.

    "whole" makes the rows of the position too, as a model does once per token; "layer" has them.
    """
    q, k = torch.randn(2, 1, HEADS, 1, WIDTH).to(dtype)
    position = torch.tensor([1_000])
    rotary = LlamaRotaryEmbedding(
        LlamaConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, head_dim=WIDTH)
    )
    wide = rotary(q, position[None])
    ours = {
        name: SCHEMES["rope"](dim=WIDTH, layout=name).build() for name in ("half", "interleaved")
    }
    rows = rope_tables(1, WIDTH, start=1_000)
    calls: dict[str, Callable[[], object]] = {
        "layer, transformers": lambda: apply_rotary_pos_emb(q, k, *wide),
        "whole, transformers": lambda: apply_rotary_pos_emb(q, k, *rotary(q, position[None])),
    }
    for name, scheme in ours.items():
        calls[f"layer, {name}"] = functools.partial(apply_rope_to_both, q, k, *rows, layout=name)
        calls[f"whole, {name}"] = functools.partial(scheme.rotate, q, k, position, position)
    samples = paired_seconds(calls, rounds=rounds)
    return {
        f"{part}, {name}": ratio(samples, f"{part}, transformers", f"{part}, {name}")
        for part in ("layer", "whole")
        for name in ours
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    copies, peers, steps = {}, {}, {}
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            steps[str(dtype).removeprefix("torch.")] = decoding_step(dtype, options.rounds)
            for length in LENGTHS:
                name = f"T = {length}, {str(dtype).removeprefix('torch.')}"
                copies[name] = against_a_copy(length, dtype, options.rounds)
                peers[name] = against_peers(length, dtype, options.rounds)
    print(
        f"{options.threads} thread(s), torch {torch.__version__}, median of {options.rounds} rounds"
    )
    print(table("multiples of a warm copy", copies))
    print(table("times as long as ours", peers))
    print(table("a decoding step, transformers / ours", steps))


if __name__ == "__main__":
    main()
