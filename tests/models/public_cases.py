"""Mistakes of every kind: the table, the scheme and positions that were meant, the fact and the words."""

import math
from typing import Any

import torch
from torch import Tensor

from tests.library.configs import config_of
from tests.models.public_bugs import LLAMA3, QWEN_YARN
from tests.models.public_tables import (
    EVEN,
    NTK_OF_30_000,
    Tables,
    blanked,
    changed,
    exchanged,
    grown_yarn,
    in_bfloat16,
    llama3,
    picture,
    plain,
    rows,
    stale_keys,
    turned,
    with_sines,
    yarn,
    zeros_first,
)

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


def axes(interleaved: bool) -> Any:
    return config_of(
        "rope_sections", dim=128, base=1e6, sections=(24, 20, 20), grid=0, layout="half",
        interleaved=interleaved,
    )  # fmt: skip


LONG_ROPE = config_of(
    "rope_longrope", dim=64, factor=8.0, trained_length=300, layout="half",
    short_factor=tuple(1 + 0.01 * pair for pair in range(32)),
    long_factor=tuple(1 + 0.2 * pair for pair in range(32)),
)  # fmt: skip


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
