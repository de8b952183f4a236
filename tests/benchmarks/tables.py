"""How long tables of sines and cosines take, as ratios within one run; absolute times mean nothing.

    python -m tests.benchmarks.tables [--threads 1] [--rounds 9] [--large]

Two groups of contenders per size, because the peers' large allocations disturb what runs beside
them: ours into a given tensor against a warm fill of it (the floor), and ours against the peers.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from x_transformers.x_transformers import RotaryEmbedding

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from posenc import blocks, phases
from posenc.tables import rope_tables, sinusoidal_table
from tests.benchmarks.timing import paired_seconds, ratio, table

SIZES = [(512, 512), (4_096, 128), (131_072, 128), (4_096, 4_096)]
LARGE = [(1_048_576, 128)]


def textbook(length: int, dim: int) -> Tensor:
    """The code of the tutorials: float32 angles, written into every second column."""
    table = torch.zeros(length, dim)
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    table[:, 0::2] = torch.sin(position * div_term)
    table[:, 1::2] = torch.cos(position * div_term)
    return table


def textbook_into(out: Tensor) -> None:
    """The same into memory that is there."""
    length, dim = out.shape
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    out[:, 0::2] = torch.sin(position * div_term)
    out[:, 1::2] = torch.cos(position * div_term)


def first_call(length: int, dim: int, out: Tensor) -> None:
    """Ours with nothing kept from earlier calls."""
    for kept in (phases._geometric, blocks._kept_factors, blocks._kept_near, blocks.kept_block):
        kept.cache_clear()
    sinusoidal_table(length, dim, out=out)


def transformers_tables(length: int, dim: int) -> Callable[[], object]:
    config = LlamaConfig(hidden_size=dim, num_attention_heads=1, max_position_embeddings=length)
    embedding, x, positions = (
        LlamaRotaryEmbedding(config),
        torch.ones(1),
        torch.arange(length)[None],
    )
    return lambda: embedding(x, positions)


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
            "textbook, out": lambda: textbook_into(out),
        },
        rounds=rounds,
    )
    peers = paired_seconds(
        {
            "ours, out=": lambda: sinusoidal_table(length, dim, out=out),
            "ours": lambda: sinusoidal_table(length, dim),
            "rope_tables": lambda: rope_tables(length, dim),
            "textbook": lambda: textbook(length, dim),
            "textbook, out": lambda: textbook_into(out),
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--large", action="store_true", help="also 1,048,576 x 128")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    fills, times = {}, {}
    with torch.no_grad():
        for length, dim in SIZES + LARGE * options.large:
            name = f"{length} x {dim}"
            fills[name], times[name] = compare(length, dim, options.rounds)
    print(
        f"{options.threads} thread(s), torch {torch.__version__}, median of {options.rounds} rounds"
    )
    print(table("multiples of a warm fill", fills))
    print(table("multiples of ours, out=", times))


if __name__ == "__main__":
    main()
