"""How long tables of sines and cosines take, as ratios within one run; absolute times mean nothing.

    python -m tests.benchmarks.tables [--threads 1] [--rounds 9]

Two groups of contenders per size, because the peers' large allocations disturb what runs beside
them: ours into a given tensor against a warm fill of it (the floor), and ours against the peers.
"""

import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from x_transformers.x_transformers import RotaryEmbedding

from posenc import frequencies
from posenc.tables import TABLE_CACHE, rope_tables, sinusoidal_table
from tests.benchmarks.timing import options, paired_seconds, ratio, table

SIZES = [(512, 512), (4_096, 128), (131_072, 128), (4_096, 4_096)]


def textbook(out: Tensor) -> None:
    """The code of the tutorials: float32 angles, written into every second column."""
    length, dim = out.shape
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    out[:, 0::2] = torch.sin(position * div_term)
    out[:, 1::2] = torch.cos(position * div_term)


def first_call(length: int, dim: int, out: Tensor) -> None:
    """Ours with nothing cached from earlier calls."""
    frequencies._geometric.cache_clear()
    TABLE_CACHE.clear()
    sinusoidal_table(length, dim, out=out)


def transformers_tables(length: int, dim: int) -> Callable[[], object]:
    config = LlamaConfig(hidden_size=dim, num_attention_heads=1, max_position_embeddings=length)
    embedding, positions = LlamaRotaryEmbedding(config), torch.arange(length)[None]
    return lambda: embedding(torch.ones(1), positions)


def x_transformers_tables(length: int, dim: int) -> Callable[[], object]:
    embedding, positions = RotaryEmbedding(dim), torch.arange(length)

    def tables() -> tuple[Tensor, Tensor]:
        angles, _ = embedding(positions)
        return angles.cos(), angles.sin()

    return tables


def compare(length: int, dim: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Multiples of a warm fill; and how many times as long as ours the others take."""
    out = torch.zeros(length, dim)
    floor = paired_seconds(
        {
            "fill": lambda: out.fill_(1.0),
            "ours, out=": lambda: sinusoidal_table(length, dim, out=out),
            "first call": lambda: first_call(length, dim, out),
            "half, out=": lambda: sinusoidal_table(length, dim, layout="half", out=out),
            "textbook": lambda: textbook(out),
        },
        rounds=rounds,
    )
    peers = paired_seconds(
        {
            "ours, out=": lambda: sinusoidal_table(length, dim, out=out),
            "ours": lambda: sinusoidal_table(length, dim),
            "rope_tables": lambda: rope_tables(length, dim),
            "textbook": lambda: textbook(torch.zeros(length, dim)),
            "transformers": transformers_tables(length, dim),
            "x-transformers": x_transformers_tables(length, dim),
        },
        rounds=rounds,
    )
    fills = {name: ratio(floor, name, "fill") for name in list(floor)[1:]}
    fills["fill, us"] = statistics.median(floor["fill"]) * 1e6
    times = {name: ratio(peers, name, "ours, out=") for name in list(peers)[1:]}
    return fills, times


def main() -> None:
    asked = options(__doc__, threads=1, rounds=9)
    torch.set_num_threads(asked.threads)
    fills, times = {}, {}
    with torch.no_grad():
        for length, dim in SIZES:
            name = f"{length} x {dim}"
            fills[name], times[name] = compare(length, dim, asked.rounds)
    print(table("multiples of a warm fill", fills))
    print(table("multiples of ours, out=", times))


if __name__ == "__main__":
    main()
