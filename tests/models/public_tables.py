"""Tables as public code makes them, with its mistakes, each in a few lines."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.models.presets import MODELS

Tables = tuple[Tensor, Tensor]


def plain(dim: int, base: float) -> Tensor:
    return base ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def halves(angles: Tensor, size: float = 1.0) -> Tables:
    """Cosines and sines as transformers caches them, both halves of a head the same."""
    both = torch.cat((angles, angles), -1)
    return (size * both.cos()).float(), (size * both.sin()).float()


def positions(rows: int) -> Tensor:
    return torch.arange(rows, dtype=torch.float64)[:, None]


def yarn(
    dim: int,
    base: float,
    factor: float,
    trained: int,
    *,
    whole: bool = True,
    of: Tensor | None = None,
) -> Tensor:
    """Frequencies of Peng et al. 2023 as in their code, with their 32 and 1 turns, written again.

    whole: whether the ends of the ramp are rounded to whole pairs, as by `truncate`. of: the frequencies
    that are scaled, in place of those of the base.
    """
    turns = [
        dim * math.log(trained / (turn * 2 * math.pi)) / (2 * math.log(base)) for turn in (32, 1)
    ]
    if whole:
        turns = [math.floor(turns[0]), math.ceil(turns[1])]
    low, high = max(turns[0], 0), min(turns[1], dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    inv_freq = plain(dim, base) if of is None else of
    return inv_freq / factor * ramp + inv_freq * (1 - ramp)


def published(model: str) -> Mapping[str, Any]:
    config = MODELS[model].config
    assert config is not None
    return config


PHI = published("phi-3-mini-128k")
MSCALE = 0.1 * math.log(4) + 1


def low_angles(dtype: torch.dtype, rows: int = 512) -> Tables:
    """As `arange(rows).type_as(inv_freq)` times frequencies in the format of the model."""
    angles = torch.arange(rows).to(dtype)[:, None] * plain(128, 1e6).float().to(dtype)
    cos, sin = halves(angles.float())
    return cos.to(dtype), sin.to(dtype)


def low_frequencies(dim: int, rows: int, stored: torch.dtype = torch.float32) -> Tables:
    """As a buffer inv_freq that model.to(bfloat16) casts, times float32 positions."""
    inv_freq = (1.0 / (1e4 ** (torch.arange(0, dim, 2).float() / dim))).bfloat16().float()
    cos, sin = halves(torch.arange(rows).float()[:, None] * inv_freq)
    return cos.to(stored), sin.to(stored)


def grown_yarn(row: int = 400) -> Tables:
    """As a YaRN cache of 600 rows that grows by the formula of plain RoPE from a row on."""
    cos, sin = halves(positions(row) * yarn(128, 1e6, 4.0, 32_768), MSCALE)
    more = halves(positions(600)[row:] * plain(128, 1e6))
    return torch.cat((cos, more[0])), torch.cat((sin, more[1]))


def neighbours() -> Tables:
    """As `freqs.repeat_interleave(2)` beside a rotate_half of halves."""
    angles = (positions(128) * plain(64, 1e4)).repeat_interleave(2, 1)
    return angles.cos().float(), angles.sin().float()


def long_factors() -> Tables:
    """As LongRoPE that rotates 300 tokens by its long factors, because more may come."""
    long = torch.tensor(PHI["rope_scaling"]["long_factor"], dtype=torch.float64)
    return halves(
        positions(300) * plain(96, 1e4) / long, math.sqrt(1 + math.log(32) / math.log(4096))
    )


def short_factors() -> Tables:
    """As LongRoPE that rotates 5,000 tokens, past the 4,096 trained ones, by its short factors."""
    short = torch.tensor(PHI["rope_scaling"]["short_factor"], dtype=torch.float64)
    return halves(
        positions(5_000) * plain(96, 1e4) / short, math.sqrt(1 + math.log(32) / math.log(4096))
    )


def squared_factor() -> Tables:
    """As dynamic NTK scaling of base 1,000 by 2 whose length has the factor in it, so that it cancels."""
    return halves(positions(300) * plain(64, 1e3 * (2 * 2 - 1) ** (64 / 62)))


def shifted_sines() -> Tables:
    """As sines read from a cache of both at the offset of a width padded from 96 to 128."""
    angles = positions(256) * plain(96, 1e4)
    cache = torch.cat((angles.cos(), angles.sin(), torch.zeros(256, 16)), 1).float()
    return cache[:, :48].contiguous(), cache[:, 64:112].contiguous()


def rows(*parts: range) -> Tensor:
    return torch.tensor([row for part in parts for row in part])


def turned(places: Tensor, frequencies: Tensor | None = None, size: float = 1.0) -> Tables:
    """Cosines and sines of positions, with the frequencies of ROPE by default."""
    theta = plain(128, 1e4) if frequencies is None else frequencies
    return halves(places.double()[:, None] * theta, size)


def blanked(tables: Tables, row: int) -> Tables:
    """Tables with one row of zeros and a half, which no position makes."""
    for part in tables:
        part[row] = 0.5
        part[row, ::2] = 0.0
    return tables


def zeros_first(count: int) -> Tables:
    """Tables of a text of 64 tokens behind rows of zeros."""
    cos, sin = turned(rows(range(64)))
    blank = torch.zeros(count, 128)
    return torch.cat((blank, cos)), torch.cat((blank, sin))


def exchanged(pairs: int) -> Tables:
    """As a sum by angle addition that exchanges cosine and sine in the first pairs."""
    cos, sin = turned(rows(range(64)))
    columns = rows(range(pairs), range(64, 64 + pairs))
    cos[:, columns], sin[:, columns] = sin[:, columns].clone(), cos[:, columns].clone()
    return cos, sin


EVEN = torch.arange(0, 128, 2, dtype=torch.float64)
NTK_OF_30_000 = plain(80, 3e4 * 32 ** (80 / 78))


def changed(factors: Mapping[int, float]) -> Tensor:
    """Frequencies of ROPE, those of some pairs multiplied."""
    theta = plain(128, 1e4)
    for pair, factor in factors.items():
        theta[pair] *= factor
    return theta


def in_bfloat16(tables: Tables) -> Tables:
    return tables[0].bfloat16(), tables[1].bfloat16()


def with_sines(pair: int, sines: Tensor) -> Tables:
    """Tables of 64 positions with other sines of one pair."""
    cos, sin = turned(torch.arange(64))
    sin[:, pair] = sin[:, pair + 64] = sines
    return cos, sin


def llama3(inv_freq: Tensor) -> Tensor:
    """Meta's code: divide long waves by 8, keep short ones, blend between."""
    scaled = []
    for theta in inv_freq.tolist():
        wave = 2 * math.pi / theta
        smooth = (8_192 / wave - 1) / (4 - 1)
        mixed = (1 - smooth) * theta / 8 + smooth * theta
        scaled.append(theta / 8 if wave > 8_192 else theta if wave < 8_192 / 4 else mixed)
    return torch.tensor(scaled, dtype=torch.float64)


def picture(interleaved: bool) -> Tables:
    """Five tokens of text, a picture of 3 x 4 places, and nine tokens (Qwen2-VL and Qwen3-VL)."""
    text = [(p, p, p) for p in range(5)]
    text += [(5, 5 + p // 4, 5 + p % 4) for p in range(12)] + [(p, p, p) for p in range(9, 18)]
    sections = [24, 20, 20]
    in_turn = [m % 3 if m < 3 * sections[m % 3] else 0 for m in range(64)]
    axis = in_turn if interleaved else [n for n in range(3) for _ in range(sections[n])]
    places = torch.tensor(text, dtype=torch.float64)[:, axis]
    return halves(places * plain(128, 1e6))


def stale_keys() -> Tables:
    """As keys of the first 300 tokens that keep the short factors, when a text grows beyond them."""
    size = math.sqrt(1 + math.log(8) / math.log(300))
    pairs = torch.arange(32)
    short, long = (plain(64, 1e4) / (1 + step * pairs) for step in (0.01, 0.2))
    parts = turned(torch.arange(300), short, size), turned(torch.arange(300, 2_400), long, size)
    return torch.cat((parts[0][0], parts[1][0])), torch.cat((parts[0][1], parts[1][1]))
