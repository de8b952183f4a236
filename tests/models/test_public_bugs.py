"""Mistakes of public code, each made again in a few lines, are named, or are not made here."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.frequencies import Layout
from posenc.identification import clauses, match_model, match_rotation, rotation_of
from posenc.identification.sentences import match_sentences, rotation_sentences
from posenc.models.presets import MODELS
from posenc.planner import paste
from posenc.testing import assert_matches
from tests.library.configs import config_of
from tests.models.configs import plan_config

pytestmark = pytest.mark.usefixtures("no_shape_checks")

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


LLAMA3 = config_of(
    "rope_llama3", dim=128, base=5e5, factor=8.0, trained_length=8_192, layout="half"
)
QWEN_YARN = config_of(
    "rope_yarn", dim=128, base=1e6, factor=4.0, trained_length=32_768, layout="half"
)
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


BUGS: dict[str, tuple[Callable[[], Tables], Any, str]] = {
    "huggingface/candle#3520": (
        lambda: low_angles(torch.bfloat16), config_of("rope", dim=128, base=1e6, layout="half"),
        "Its angles are rounded to bfloat16: ",
    ),
    "EleutherAI/gpt-neox#1003": (
        lambda: low_angles(torch.float16), config_of("rope", dim=128, base=1e6, layout="half"),
        "Its angles are rounded to float16: ",
    ),
    "huggingface/transformers#25681": (
        lambda: low_frequencies(64, 512), config_of("rope", dim=64, layout="half"),
        "frequencies are rounded to bfloat16",
    ),
    "sgl-project/sglang-jax#1472": (
        lambda: low_frequencies(128, 4_096), config_of("rope", dim=128, layout="half"),
        "frequencies are rounded to bfloat16",
    ),
    "Modalities/modalities#462": (
        lambda: low_frequencies(128, 512, torch.bfloat16),
        config_of("rope", dim=128, layout="half"), "frequencies are rounded to bfloat16",
    ),
    "vllm-project/vllm#46280": (
        lambda: halves(positions(300) * yarn(128, 5e5, 64.0, 4_096), 0.1 * math.log(64) + 1),
        QWEN_YARN.replace(base=5e5, factor=64.0, trained_length=4_096, attention_factor=1.0),
        "Every number is multiplied by 1.416, where the attention factor is 1",
    ),
    "turboderp-org/exllamav3#259": (
        lambda: halves(positions(300) * yarn(128, 1e6, 4.0, 32_768)), QWEN_YARN,
        r"The attention factor 1\.139 is missing",
    ),
    "sgl-project/sglang#33558": (
        lambda: halves(
            positions(300) * yarn(128, 5e5, 128.0, 4_096), (0.1 * math.log(128) + 1) ** 2
        ),
        QWEN_YARN.replace(base=5e5, factor=128.0, trained_length=4_096),
        r"The attention factor 1\.485 is applied twice",
    ),
    "sgl-project/sglang#38786": (
        grown_yarn, QWEN_YARN,
        "From row 400 on, the frequencies are not scaled, .*YaRN by 4, and the attention factor 1.139 is "
        r"missing\.",
    ),
    "ikawrakow/ik_llama.cpp#2291": (
        lambda: halves(positions(300) * plain(128, 5e5)), published("llama-3.1-8b"),
        "The frequencies are not scaled, where the scheme has Llama 3 scaling by 8",
    ),
    "lablup/mlxcel#1688": (
        lambda: halves(positions(300) * plain(128, 5e5) / 8), LLAMA3,
        "Every frequency is divided by 8, where the scheme has Llama 3",
    ),
    "pie-project/pie#603": (
        lambda: halves(positions(300) * plain(256, 1e7)[:32]),
        config_of("rope", dim=256, base=1e7, partial_rotary_factor=0.25, layout="half"),
        "The exponents are 2m/256, of the whole head, in place of 2m/64",
    ),
    "huggingface/candle#2891": (
        lambda: halves(positions(300) * plain(256, 1e6)), config_of("rope", dim=256, layout="half"),
        "^The base is 1,000,000, where the scheme has 10,000.",
    ),
    "Lightning-AI/litgpt#2217": (
        lambda: halves(positions(300) * plain(128, 1e4)),
        config_of("rope", dim=128, base=1e6, layout="half"),
        "^The base is 10,000, where the scheme has 1,000,000.",
    ),
    "lyogavin/airllm#368": (
        lambda: halves(positions(300) * plain(128, 1e4)), published("llama-3-8b"),
        "^The base is 10,000, where the scheme has 500,000. .*first in row 1, pair 1, by ",
    ),
    "raiyanyahya/how-to-train-your-gpt#7": (
        neighbours, config_of("rope", dim=64, layout="half"),
        "Its layout is not that of the model: its columns are repeated in neighbours, the model's in ",
    ),
    "Blaizzy/mlx-vlm#1927": (
        short_factors, PHI, "The frequencies are those of short texts, not of 5,000 tokens",
    ),
    "vllm-project/vllm#27431": (
        long_factors, PHI, "The frequencies are those of long texts, not of 300 tokens",
    ),
    "vllm-project/vllm#41236": (
        squared_factor, config_of("rope_dynamic", dim=64, base=1e3, factor=2.0, layout="half"),
        "The frequencies are those of 4,096 tokens, not of 300 tokens",
    ),
    "vllm-project/vllm-ascend#12723": (
        shifted_sines, config_of("rope", dim=96, layout="half"), "differs first in row 1, pair 0, by 0.795",
    ),
    "kekzl/imp#880": (
        lambda: halves(positions(300) * yarn(64, 1e4, 40.0, 4_096), 0.1 * 0.707 * math.log(40) + 1),
        config_of("rope_yarn", dim=64, factor=40.0, trained_length=4_096, mscale=0.707,
                  mscale_all_dim=0.707, layout="half"),
        "Every number is multiplied by 1.261, where the attention factor is 1",
    ),
    "Blaizzy/mlx-vlm#1709": (
        lambda: halves(positions(300) * plain(256, 1e6)), published("gemma-3-4b"),
        "The frequencies are not scaled, where the scheme has position interpolation by 8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_bug_of_public_code_is_named(bug: str) -> None:
    make, expected, message = BUGS[bug]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        assert_matches(make(), expected)


ROPE = config_of("rope", dim=128, layout="half")
DYNAMIC = config_of("rope_dynamic", dim=64, factor=4.0, trained_length=2_048, layout="half")
LINEAR = config_of("rope_linear", dim=128, factor=2.5, layout="half")
YARN_40 = config_of("rope_yarn", dim=64, factor=40.0, trained_length=4_096, layout="half")
SHARED = config_of("rope", dim=256, base=1e7, partial_rotary_factor=0.25, layout="half")
HALF = config_of("rope", dim=128, partial_rotary_factor=0.5, layout="half")
GLM = config_of("rope", dim=128, partial_rotary_factor=0.5, layout="interleaved")
P_ROPE = config_of(
    "rope_proportional", dim=128, base=1e6, partial_rotary_factor=0.25, layout="half"
)
SIZE_4, SIZE_8, SIZE_40 = (0.1 * math.log(factor) + 1 for factor in (4, 8, 40))


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


def axes(interleaved: bool) -> Any:
    return config_of(
        "rope_sections", dim=128, base=1e6, sections=(24, 20, 20), grid=0, layout="half",
        interleaved=interleaved,
    )  # fmt: skip


def picture(interleaved: bool) -> Tables:
    """Five tokens of text, a picture of 3 x 4 places, and nine tokens (Qwen2-VL and Qwen3-VL)."""
    text = [(p, p, p) for p in range(5)]
    text += [(5, 5 + p // 4, 5 + p % 4) for p in range(12)] + [(p, p, p) for p in range(9, 18)]
    sections = [24, 20, 20]
    in_turn = [m % 3 if m < 3 * sections[m % 3] else 0 for m in range(64)]
    axis = in_turn if interleaved else [n for n in range(3) for _ in range(sections[n])]
    places = torch.tensor(text, dtype=torch.float64)[:, axis]
    return halves(places * plain(128, 1e6))


LONG_ROPE = config_of(
    "rope_longrope", dim=64, factor=8.0, trained_length=300, layout="half",
    short_factor=tuple(1 + 0.01 * pair for pair in range(32)),
    long_factor=tuple(1 + 0.2 * pair for pair in range(32)),
)  # fmt: skip


def stale_keys() -> Tables:
    """As keys of the first 300 tokens that keep the short factors, when a text grows beyond them."""
    size = math.sqrt(1 + math.log(8) / math.log(300))
    pairs = torch.arange(32)
    short, long = (plain(64, 1e4) / (1 + step * pairs) for step in (0.01, 0.2))
    parts = turned(torch.arange(300), short, size), turned(torch.arange(300, 2_400), long, size)
    return torch.cat((parts[0][0], parts[1][0])), torch.cat((parts[0][1], parts[1][1]))


# Tables, the scheme expected, the positions expected if not 0, 1, 2 and so on; then the fact that is
# found, and words of the first sentence.
CASES: dict[str, tuple[Tables, Any, Tensor | None, str, str]] = {
    "unslothai/unsloth#3699": (
        turned(rows(range(64))), ROPE, torch.cat((torch.ones(5).long(), torch.arange(59))),
        "counted", "Rows are counted: row 0 stands for position 0, whichever is asked for, as here 1",
    ),
    "padding that is filled": (
        turned(rows(range(1, 2), range(1, 2), range(1, 2), range(59))), ROPE, None,
        "padding filled", "The first 3 rows stand for position 1, as padding that is filled",
    ),
    "padding at the first position of the text": (
        turned(rows(range(0, 1), range(0, 1), range(0, 1), range(59))), ROPE, None,
        "padding filled", "The first 3 rows stand for position 0, as padding that is filled",
    ),
    "padding that is counted": (
        turned(rows(range(-5, 59))), ROPE, None,
        "negative start", "Row 0 stands for position -5, as padding on the left",
    ),
    "allenai/OLMo-core#591": (
        turned(rows(range(128))), ROPE, rows(range(64), range(64)),
        "not reset", "row 64 stands for 64, where a new document begins at 0",
    ),
    "packed documents in a plain text": (
        turned(rows(range(40), range(60), range(28))), ROPE, None,
        "reset", "Positions begin again at 0 in row 40 (3 parts), as of packed documents",
    ),
    "a cache that wraps": (
        turned(rows(range(512), range(488))), ROPE, None, "reset", "of a cache of 512 rows that wraps",
    ),
    "NVIDIA/Megatron-LM#5243": (
        turned(torch.tensor([0, 3, 0, 3])), ROPE, torch.tensor([0, 3, 4, 7]),
        "first part again", "From row 2 on, positions are those of the first 2 rows again",
    ),
    "slices of context parallelism that are counted": (
        turned(rows(range(32))), ROPE, rows(range(16), range(48, 64)),
        "counted", "Rows are counted: row 16 stands for position 16, whichever is asked for, as here 48",
    ),
    "one rank of context parallelism": (
        turned(rows(range(16), range(48, 64))), ROPE, None,
        "context-parallel slice", "the two slices of rank 0 of 2 in context parallelism",
    ),
    "Blaizzy/mlx-vlm#1983": (
        turned(torch.cat((torch.arange(40), torch.zeros(24)))), ROPE, None,
        "stuck", "From row 40 on, every row stands for position 0, as where each decoding step",
    ),
    "a chunk that is counted twice": (
        turned(rows(range(32), range(64, 96))), ROPE, None,
        "counted twice", "Row 32 stands for position 64: the 32 rows before it are counted twice",
    ),
    "positions that end at a power of two": (
        turned((torch.arange(60) + 2**20 - 30) % 2**20), ROPE, 2**20 - 30 + torch.arange(60),
        "reset", "Positions begin again at 0 in row 30 (2 parts), as of packed documents.",
    ),
    "positions that jump ahead in a late text": (
        turned(rows(range(7, 37), range(50, 80))), ROPE, torch.arange(7, 67),
        "jumps ahead", "Row 30 stands for position 50: the positions between are skipped",
    ),
    "positions in 16 bits in a late text": (
        turned(torch.arange(32_700, 32_800).to(torch.int16)), ROPE, torch.arange(32_700, 32_800),
        "signed", "kept in 16 bits with a sign, so that row 68 stands for position -32,768, not for 32,768",
    ),
    "a late text that begins again": (
        turned(rows(range(7, 37), range(7, 37))), ROPE, torch.arange(7, 67),
        "reset", "Positions begin again at 7 in row 30 (2 parts), as of packed documents.",
    ),
    "padding before a late text": (
        turned(rows(range(1, 2), range(1, 2), range(1, 2), range(7, 60))), ROPE, torch.arange(7, 63),
        "padding filled", "3 rows stand for position 1, as padding that is filled, and the text begins in "
        "row 3 at position 7",
    ),
    "a position that is skipped": (
        turned(rows(range(1), range(2, 64))), ROPE, None,
        "jumps ahead", "Row 1 stands for position 2: the positions between are skipped",
    ),
    "an eviction": (
        turned(rows(range(100), range(80, 120))), ROPE, None,
        "goes back", "Row 100 stands for position 80: positions go on from the number of rows kept",
    ),
    "a strided slice": (
        turned(4 * torch.arange(64)), ROPE, None, "strided", "Each row stands for 4 positions more",
    ),
    "positions in 8 bits": (
        turned(torch.arange(300).to(torch.int8)), ROPE, None,
        "signed", "Positions are kept in 8 bits with a sign, so that row 128 stands for position -128, not",
    ),
    "padding of zeros": (
        zeros_first(20), ROPE, None, "blank padding",
        "The first 20 rows stand for no position, as padding of zeros, and the text begins in row 20 at "
        "position 0",
    ),
    "late positions": (
        turned(200_000 + torch.arange(64)), ROPE, None, "shifted", "Row 0 stands for position 200,000",
    ),
    "bfloat16 positions": (
        turned(torch.arange(1_000).bfloat16()), ROPE, None,
        "bfloat16 positions", "row 257 stands for position 256, not for 257",
    ),
    "float16 positions": (
        turned(torch.arange(3_000).half()), ROPE, None,
        "float16 positions", "row 2,049 stands for position 2,048, not for 2,049",
    ),
    "a cache that is clamped": (
        turned(torch.arange(600).clamp(max=511)), ROPE, None,
        "clamped", "Positions are clamped at 511, from row 512 on",
    ),
    "AI-Hypercomputer/maxtext#4616": (
        turned(torch.arange(300), plain(256, 1e7)), SHARED, None,
        "whole head", "All 256 features of a head are rotated; the model rotates 64 of them",
    ),
    "ml-explore/mlx-lm#1698": (
        turned(torch.arange(300)), GLM, None,
        "whole head", "All 128 features of a head are rotated; the model rotates 64 of them",
    ),
    "vllm-project/vllm#43770": (
        turned(torch.arange(300)), HALF, None,
        "whole head", "All 128 features of a head are rotated; the model rotates 64 of them",
    ),
    "a width that is halved": (
        turned(torch.arange(300), plain(64, 1e4)), ROPE, None,
        "halved width", "64 features are rotated, where the model rotates 128",
    ),
    "a width that is halved, and then scaled by Llama 3": (
        turned(torch.arange(300), llama3(plain(64, 5e5))), LLAMA3, None,
        "halved width", "64 features are rotated, where the model rotates 128; the exponents are 2m/64",
    ),
    "partial in place of proportional": (
        turned(torch.arange(300), plain(32, 1e6)), P_ROPE, None,
        "partial", "The exponents are 2m/32, as of partial rotation, in place of 2m/128",
    ),
    "pairs that stand still left out": (
        turned(torch.arange(300), plain(128, 1e6)[:16]), P_ROPE, None,
        "zero pairs left out", "The 96 features that do not turn are left out",
    ),
    "NVIDIA/Megatron-LM#1418": (
        turned(torch.arange(300), yarn(64, 1e4, 40.0, 163_840), SIZE_40), YARN_40, None,
        "original length", "starts from 163,840 tokens, where the scheme's starts from 4,096",
    ),
    "static NTK": (
        turned(torch.arange(300), plain(64, 1e4 * 4 ** (64 / 62))), DYNAMIC, None,
        "static NTK", "The base is that of static NTK scaling by 4, not of dynamic NTK for 300 tokens",
    ),
    "dynamic NTK of one length": (
        turned(torch.arange(300), plain(64, 1e4 * (4 * 4 - 3) ** (64 / 62))), DYNAMIC, None,
        "another length", "The frequencies are those of 8,192 tokens, not of 300 tokens",
    ),
    "YaRN by 8 in place of 4": (
        turned(torch.arange(300), yarn(128, 1e6, 8.0, 32_768), SIZE_8), QWEN_YARN, None,
        "another number", "The scale factor is 8, where the scheme has 4.",
    ),
    "YaRN by 8 in place of 4, with both factors": (
        turned(torch.arange(300), yarn(128, 1e6, 8.0, 32_768), SIZE_4 * SIZE_8), QWEN_YARN, None,
        "another number", "is multiplied by both attention factors, 1.208 and 1.139",
    ),
    "an unusual factor of linear scaling doubled": (
        turned(torch.arange(300), plain(128, 1e4) / 5), LINEAR, None,
        "another number", "The scale factor is 5, where the scheme has 2.5.",
    ),
    "huggingface/transformers#33129": (
        stale_keys(), LONG_ROPE, None,
        "short texts", "In the first 300 rows, the frequencies are those of short texts, not of 2,400",
    ),
    "a cache that grows by plain RoPE at its end": (
        grown_yarn(550), QWEN_YARN, None,
        "not scaled", "From row 550 on, the frequencies are not scaled, where the scheme has YaRN by 4",
    ),
    "Llama 3 applied twice": (
        turned(torch.arange(300), llama3(llama3(plain(128, 5e5)))), LLAMA3, None,
        "scaled twice", "The frequencies are scaled twice by Llama 3 scaling by 8",
    ),
    "one row": (
        turned(rows(range(7, 8), range(1, 64))), ROPE, None,
        "one row", "Row 0 alone stands for another position, 7 in place of 0",
    ),
    "the last row": (
        turned(rows(range(63), range(1))), ROPE, None,
        "one row", "Row 63 alone stands for another position, 0 in place of 63",
    ),
    "some rows": (
        turned(rows(range(5), range(9, 11), range(7, 64))), ROPE, None,
        "some rows", "2 rows stand for other positions, the first of them row 5: for 9 in place of 5",
    ),
    "two rows exchanged": (
        turned(rows(range(5), range(9, 10), range(6, 9), range(5, 6), range(10, 64))), ROPE, None,
        "exchanged rows", "Rows 5 and 9 have changed places",
    ),
    "rows in reverse order": (
        turned(torch.arange(63, -1, -1)), ROPE, None, "reversed", "The rows are in reverse order",
    ),
    "packed documents with a bad row": (
        blanked(turned(rows(range(60), range(40))), 70), ROPE, None,
        "reset", "Positions begin again at 0 in row 60 (2 parts)",
    ),
    "pairs in reverse order": (
        turned(torch.arange(64), plain(128, 1e4).flip(0)), ROPE, None,
        "reversed pairs", "The pairs are in reverse order, the slowest first",
    ),
    "one number alone": (
        (torch.ones(64, 128), torch.ones(64, 128)), ROPE, None, "constant", "Every number is 1.",
    ),
    "the ends of YaRN's ramp not rounded": (
        turned(torch.arange(300), yarn(128, 1e6, 4.0, 32_768, whole=False), SIZE_4), QWEN_YARN, None,
        "ramp ends", "The ends of the ramp are not rounded to whole pairs, as by truncate: false",
    ),
    "exponent m/d": (
        turned(torch.arange(200), plain(128, 1e4).sqrt()), ROPE, None,
        "exponent", "The exponents are m/d in place of 2m/d",
    ),
    **{
        f"exponent {exponent} of {scheme.label}": (
            turned(torch.arange(200), scale(1e6 ** -(steps / 128)), size), scheme, None,
            "exponent", f"The exponents are {exponent} in place of 2m/d",
        )
        for exponent, steps in (("2(m + 1)/d", EVEN + 2), ("(2m + 1)/d", EVEN + 1), ("m/d", EVEN / 2))
        for scheme, scale, size in (
            (ROPE.replace(base=1e6), lambda theta: theta, 1.0),
            (QWEN_YARN, lambda theta: yarn(128, 1e6, 4.0, 32_768, of=theta), SIZE_4),
            (LLAMA3.replace(base=1e6), llama3, 1.0),
            (LINEAR.replace(base=1e6), lambda theta: theta / 2.5, 1.0),
        )
    },
    "an unusual base under YaRN": (
        turned(torch.arange(300), yarn(128, 12_345.0, 4.0, 32_768), SIZE_4), QWEN_YARN, None,
        "another base", "The base is 12,345, where the scheme has 1,000,000.",
    ),
    "an unusual base under Llama 3's scaling": (
        turned(torch.arange(300), llama3(plain(128, 12_345.0))), LLAMA3, None,
        "another base", "The base is 12,345, where the scheme has 500,000.",
    ),
    "an unusual base under position interpolation": (
        turned(torch.arange(300), plain(128, 777.25) / 2.5), LINEAR, None,
        "another base", "The base is 777.25, where the scheme has 10,000.",
    ),
    "another base under NTK-aware scaling, in bfloat16": (
        in_bfloat16(turned(torch.arange(64), NTK_OF_30_000)),
        config_of("rope_ntk", dim=80, base=5e5, factor=32.0, layout="half"), None,
        "another base", "The base is 30,000, where the scheme has 500,000.",
    ),
    "an unusual base under dynamic NTK, and its factor missing": (
        turned(torch.arange(300), plain(64, 12_345.0)), DYNAMIC, None,
        "another base", "The base is 12,345, where the scheme has 10,000.",
    ),
    "one pair at another frequency": (
        turned(torch.arange(300), changed({9: 2.0})), ROPE, None, "single pairs",
        "Pair 9 of 64 turns by 0.548 radians a position, not by 0.274.",
    ),
    "pairs that stand still or turn too fast": (
        turned(torch.arange(300), changed({3: 0.0, 40: 1.5})), ROPE, None, "single pairs",
        "Pairs 3 and 40 of 64 turn by 0 and 0.00474 radians a position, not by 0.649 and 0.00316.",
    ),
    "a pair that turns a little faster": (
        turned(torch.arange(300), changed({20: 1.0004})), ROPE, None, "single pairs",
        "Pair 20 of 64 turns by 0.056257 radians a position, not by 0.056234.",
    ),
    "six pairs of 64": (
        turned(torch.arange(300), changed(dict.fromkeys(range(10, 16), 3.0))), ROPE, None, "single pairs",
        "6 of 64 pairs turn by other angles, the first of them, pair 10, by 0.711 radians a position, not "
        "by 0.237.",
    ),
    "sines of the next pair": (
        with_sines(7, turned(torch.arange(64))[1][:, 8]), ROPE, None, "single pairs",
        "The sines of pair 7 of 64 turn by 0.316 radians a position, not by 0.365.",
    ),
    "a pair that turns the other way": (
        with_sines(7, -turned(torch.arange(64))[1][:, 7]), ROPE, None, "single pairs",
        "Pair 7 of 64 turns by -0.365 radians a position, not by 0.365.",
    ),
    "sines of a pair that are no wave": (
        with_sines(7, torch.zeros(64).index_fill(0, torch.tensor([5]), 1.0)), ROPE, None, "single pairs",
        "The sines of pair 7 of 64 do not follow the scheme (largest difference 1); all others do.",
    ),
    **{
        f"sines and cosines exchanged in {pairs} pairs": (
            exchanged(pairs), ROPE, None,
            "exchanged", f"Sines and cosines have changed places in {pairs} of 64 pairs",
        )
        for pairs in (1, 20, 64)
    },
    "alibaba/MNN#4133": (
        picture(interleaved=False), axes(interleaved=True), None,
        "axes", "The axes of the pairs are one section after the other, where the scheme has them dealt",
    ),
    "axes dealt out in turn": (
        picture(interleaved=True), axes(interleaved=False), None,
        "axes", "The axes of the pairs are dealt out in turn, where the scheme has them one section after",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_cause_is_found_and_named_in_the_first_sentence(case: str) -> None:
    tables, scheme, expected, word, sentence = CASES[case]
    match = match_model({"all": scheme}, *tables, positions=expected)
    found = match.matches["all"]
    words = {fact.word for fact in (found.mistake, found.cause) if fact is not None}
    assert words == {word}
    known = clauses.CAUSES | clauses.MISTAKES
    assert word in known, f"posenc/identification/clauses.py has no clause of {word!r}."
    assert not match.belongs
    assert sentence in match_sentences(match, None)[0]
    with pytest.raises(AssertionError) as failure:
        assert_matches(tables, scheme, positions=expected)
    first = str(failure.value).split(" This is no")[0]
    assert sentence.rstrip(".") in first


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "change", [{15: 0.0}, {15: 2.0}, {12: 0.0, 13: 0.0, 14: 0.0, 15: 0.0}, {10: 1.02}]
)
def test_table_of_16_bits_whose_slow_pairs_are_wrong_does_not_belong(
    change: dict[int, float], dtype: torch.dtype
) -> None:
    """Some of their sines are below 0.001, less than a rounding of a number near 1 changes."""
    right, wrong = plain(32, 1e6), plain(32, 1e6)
    for pair, factor in change.items():
        wrong[pair] *= factor
    scheme = config_of("rope", dim=32, base=1e6, layout="half")
    for frequencies, belongs in ((right, True), (wrong, False)):
        cos, sin = turned(torch.arange(256), frequencies)
        tables = cos.to(dtype), sin.to(dtype)
        assert match_model({"all": scheme}, *tables).belongs == belongs
        if belongs:
            assert assert_matches(tables, scheme)
            continue
        with pytest.raises(AssertionError, match="This is not the table of RoPE"):
            assert_matches(tables, scheme)


def test_attention_factor_in_16_bits_is_rounded_up_to_three_times() -> None:
    """As code that rounds the factor, cosines and their product; slow pairs are still compared."""
    yarn_by_4 = yarn(128, 1e6, 4.0, 32_768)
    for slowest, belongs in ((1.0, True), (0.0, False)):
        wrong = yarn_by_4.clone()
        wrong[-1] *= slowest
        cos, sin = turned(torch.arange(256), wrong)
        size = torch.tensor(SIZE_4, dtype=torch.bfloat16)
        tables = cos.bfloat16() * size, sin.bfloat16() * size
        assert match_model({"all": QWEN_YARN}, *tables).belongs == belongs


@pytest.mark.parametrize("pairs", [2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("change", [1.0005, 1.02, 1.1, 0.9])
def test_wrong_frequencies_are_no_far_positions(
    change: float, dtype: torch.dtype, pairs: int
) -> None:
    """Few pairs come near any number at some far position, by the model's frequencies or a mistake's."""
    scheme = config_of("rope_linear", dim=2 * pairs, factor=4.0, layout="half")
    for rows in (12, 40):
        wrong = change * plain(2 * pairs, 1e4) / 4
        cos, sin = turned(torch.arange(rows), wrong)
        found = match_model({"all": scheme}, cos.to(dtype), sin.to(dtype)).matches["all"]
        assert (found.mistake, found.cause, found.size) == (None, None, None)


def test_rows_that_jump_back_before_0_or_end_in_zeros_get_no_false_reason() -> None:
    """No cache keeps a number of rows below 0, and rows of zeros are no smaller waves."""
    back = match_model({"all": ROPE}, *turned(rows(range(40), range(-40, 60))))
    assert "eviction" not in match_sentences(back, None)[0]
    ended = tuple(torch.cat((part[20:], part[:20])) for part in zeros_first(20))
    (first, *_) = match_sentences(match_model({"all": ROPE}, *ended), None)
    assert first == "From row 64 on, every number is 0."


def test_table_at_the_positions_expected_belongs() -> None:
    for places in (rows(range(64), range(64)), torch.tensor([0, 3, 4, 7]), rows(range(7, 71))):
        assert match_model({"all": ROPE}, *turned(places), positions=places).belongs
        assert assert_matches(turned(places), ROPE, positions=places) == "exact angles"
    scheme = axes(interleaved=True)
    assert match_model({"all": scheme}, *picture(interleaved=True)).belongs


# How code pairs the features of queries, and how the config of the model that it runs pairs them.
LAYOUTS: dict[str, tuple[Layout, Layout]] = {
    "huggingface/transformers#25199": ("interleaved", "half"),
    "huggingface/nanotron#427": ("interleaved", "half"),
    "vllm-project/vllm-ascend#12820": ("half", "interleaved"),
}
# Two threads are not replayed, because what they report could not be read when these tests were written:
# Lightning-AI/litgpt#1860 and ggml-org/llama.cpp#24823.


@pytest.mark.parametrize("bug", LAYOUTS)
def test_layout_of_another_model_is_named_from_queries(bug: str) -> None:
    used, meant = LAYOUTS[bug]
    before = torch.randn(40, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn = torch.exp(1j * positions(40) * plain(64, 1e4))
    pairs = before.view(40, 32, 2) if used == "interleaved" else before.view(40, 2, 32).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    after = (turned if used == "interleaved" else turned.mT).reshape(40, 64)
    rotation = rotation_of(before, after)
    assert rotation.layout == used
    match = match_rotation(rotation, {"all": config_of("rope", dim=64, layout=meant)})
    assert not match.belongs
    sentences = rotation_sentences(match, rotation.identified)
    assert sentences[0].startswith("These vectors have the wrong layout: the model pairs ")
    assert match_rotation(rotation, {"all": config_of("rope", dim=64, layout=used)}).belongs


def test_softmax_scale_has_the_factor_that_huggingface_transformers_47435_adds() -> None:
    (kind,) = MODELS["deepseek-v2-lite"].read().layer_kinds
    factor = 0.1 * 0.707 * math.log(40) + 1
    assert kind.softmax_scale == pytest.approx(factor**2 / math.sqrt(128 + 64), rel=1e-12)


def test_vllm_counts_the_factor_once_unlike_safe_synthesizer_623() -> None:
    """vLLM makes a linear cache of max_position_embeddings times the factor."""
    found = plan_config(dict(published("llama-3-8b")), 16_384, methods=["linear"], scan=64)
    overrides = json.loads(paste(found, found.methods[0]).vllm.split("'")[1])
    assert 8_192 * overrides["rope_parameters"]["factor"] == 16_384
    assert "max_position_embeddings" not in overrides


def test_same_cache_without_the_mistake_matches() -> None:
    assert_matches(halves(positions(300) * yarn(128, 1e6, 4.0, 32_768), MSCALE), QWEN_YARN)
    assert_matches(halves(positions(300) * plain(128, 5e5)), published("llama-3-8b"))


def test_frequencies_scaled_twice_are_named() -> None:
    inv_freq = plain(128, 1e6)
    twice = yarn(128, 1e6, 4.0, 32_768) ** 2 / inv_freq
    with pytest.raises(AssertionError, match="The frequencies are scaled twice by YaRN by 4"):
        assert_matches(halves(positions(300) * twice, MSCALE), QWEN_YARN)
