"""Mistakes of public code: its table, the scheme that was meant, and what is said of it."""

import math
from collections.abc import Callable
from typing import Any

import torch

from posenc.frequencies import Layout
from tests.library.configs import config_of
from tests.models.public_tables import (
    PHI,
    Tables,
    grown_yarn,
    halves,
    long_factors,
    low_angles,
    low_frequencies,
    neighbours,
    plain,
    positions,
    published,
    shifted_sines,
    short_factors,
    squared_factor,
    yarn,
)

LLAMA3 = config_of(
    "rope_llama3", dim=128, base=5e5, factor=8.0, trained_length=8_192, layout="half"
)
QWEN_YARN = config_of(
    "rope_yarn", dim=128, base=1e6, factor=4.0, trained_length=32_768, layout="half"
)


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


# How code pairs the features of queries, and how the config of the model that it runs pairs them.
LAYOUTS: dict[str, tuple[Layout, Layout]] = {
    "huggingface/transformers#25199": ("interleaved", "half"),
    "huggingface/nanotron#427": ("interleaved", "half"),
    "vllm-project/vllm-ascend#12820": ("half", "interleaved"),
}
# Two threads are not replayed, because what they report could not be read when these tests were written:
# Lightning-AI/litgpt#1860 and ggml-org/llama.cpp#24823.
