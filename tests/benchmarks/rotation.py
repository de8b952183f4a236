"""How long applying RoPE to q takes, as ratios within one run; absolute times mean nothing.

    python -m tests.benchmarks.rotation [--threads 1] [--rounds 9]

B = 1, H = 8, d = 128. Two groups per length: ours into a given tensor against a warm copy (the
floor), and q and k together against the peers, who make both anew. Then one token, a decoding step.
"""

import statistics

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from x_transformers.x_transformers import apply_rotary_pos_emb as apply_interleaved

from posenc import apply_rope, rope_tables
from posenc.rotation import apply_rope_to_both
from posenc.schemes.rope import RopeConfig
from tests.benchmarks.timing import options, paired_seconds, ratio, table

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
    """Return the peers' time over ours for rotating q and k, each with tables computed from scratch."""
    q, k = torch.randn(2, 1, HEADS, length, WIDTH).to(dtype)
    cos, sin = rope_tables(length, WIDTH)
    wide = [torch.cat((plane, plane), -1)[None].to(dtype) for plane in (cos, sin)]
    angles = torch.randn(1, length, WIDTH)
    samples = paired_seconds(
        {
            "half": lambda: [apply_rope(x, cos, sin, layout="half") for x in (q, k)],
            "interleaved": lambda: [apply_rope(x, cos, sin) for x in (q, k)],
            "transformers": lambda: apply_rotary_pos_emb(q, k, *wide),
            "x-transformers": lambda: [apply_interleaved(x, angles) for x in (q, k)],
        },
        rounds=rounds,
    )
    return {
        "transformers / half": ratio(samples, "transformers", "half"),
        "x-transformers / interleaved": ratio(samples, "x-transformers", "interleaved"),
    }


def of_queries_and_keys(length: int, dtype: torch.dtype, rounds: int) -> float:
    """Return the time of transformers over ours for q and k in halves, as a scheme rotates them."""
    q, k = torch.randn(2, 1, HEADS, length, WIDTH).to(dtype)
    cos, sin = rope_tables(length, WIDTH)
    wide = [torch.cat((plane, plane), -1)[None].to(dtype) for plane in (cos, sin)]
    samples = paired_seconds(
        {
            "transformers": lambda: apply_rotary_pos_emb(q, k, *wide),
            "ours": lambda: apply_rope_to_both(q, k, cos, sin, layout="half"),
        },
        rounds=rounds,
    )
    return ratio(samples, "transformers", "ours")


def decoding_step(dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """How many times as long as ours transformers takes for one token: q and k.

    "whole" makes the rows of the position too, as a model does once per token; "layer" has them.
    """
    q, k = torch.randn(2, 1, HEADS, 1, WIDTH).to(dtype)
    position = torch.tensor([1_000])
    rotary = LlamaRotaryEmbedding(
        LlamaConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, head_dim=WIDTH)
    )
    wide, rows = rotary(q, position[None]), rope_tables(1, WIDTH, start=1_000)
    ours = RopeConfig(dim=WIDTH, layout="half").build()
    samples = paired_seconds(
        {
            "layer, theirs": lambda: apply_rotary_pos_emb(q, k, *wide),
            "layer": lambda: apply_rope_to_both(q, k, *rows, layout="half"),
            "whole, theirs": lambda: apply_rotary_pos_emb(q, k, *rotary(q, position[None])),
            "whole": lambda: ours.rotate(q, k, position, position),
        },
        rounds=rounds,
    )
    return {part: ratio(samples, f"{part}, theirs", part) for part in ("layer", "whole")}


def main() -> None:
    asked = options(__doc__, threads=1, rounds=9)
    torch.set_num_threads(asked.threads)
    copies, peers, steps = {}, {}, {}
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            word = str(dtype).removeprefix("torch.")
            steps[word] = decoding_step(dtype, asked.rounds)
            for length in LENGTHS:
                copies[f"T = {length}, {word}"] = against_a_copy(length, dtype, asked.rounds)
                peers[f"T = {length}, {word}"] = against_peers(length, dtype, asked.rounds)
    print(table("multiples of a warm copy", copies))
    print(table("times as long as ours", peers))
    print(table("a decoding step, transformers / ours", steps))


if __name__ == "__main__":
    main()
