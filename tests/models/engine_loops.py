"""Plain loops of frequencies, written from the files of engines, and short calls that read a config.

The loops take numbers, not configs: what an engine takes from a config stands in each test.
"""

import math
from typing import Any

from posenc.models.engines import (
    ENGINES,
    EngineReading,
    engine_readings,
)
from tests.models.configs import (
    LLAMA,
    preset_config,
)

Config = dict[str, Any]
ALL = [*ENGINES]
DYNAMIC: Config = LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}


def readings(config: Config, length: int | None = None, **options: Any) -> dict[str, EngineReading]:
    """The reading of each engine of the layers that see farthest."""
    every = engine_readings(config, length, **options)
    return {one.engine: one for one in reversed(every)}


def frequencies(reading: EngineReading) -> list[float]:
    assert reading.inv_freq is not None
    listed: list[float] = reading.inv_freq.tolist()
    return listed


def plain_loop(base: float, dim: int) -> list[float]:
    return [base ** (-2 * m / dim) for m in range(dim // 2)]


def ggml_yarn_loop(base: float, dim: int, factor: float, trained: int) -> list[float]:
    """rope_yarn and ggml_rope_yarn_corr_dims of llama.cpp, with their 32 and 1 turns."""

    def corrected(turns: float) -> float:
        return dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    start = max(0, math.floor(corrected(32)))
    end = min(dim - 1, math.ceil(corrected(1)))
    listed, theta = [], 1.0
    for pair in range(dim // 2):
        y = (pair - start) / max(0.001, end - start)
        mix = 1 - min(1.0, max(0.0, y))
        listed.append(theta / factor * (1 - mix) + theta * mix)
        theta *= base ** (-2.0 / dim)
    return listed


def mlx_yarn_loop(base: float, dim: int, factor: float, trained: int) -> list[float]:
    """YarnRoPE of mlx_lm/models/rope_utils.py, which has wavelengths, not frequencies."""
    turns = [dim * math.log(trained / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (32, 1)]
    low, high = max(math.floor(turns[0]), 0), min(math.ceil(turns[1]), dim - 1)
    listed = []
    for pair in range(dim // 2):
        extra = base ** (2 * pair / dim)
        inter = factor * extra
        mask = 1 - min(max((pair - low) / (high - low), 0.0), 1.0)
        listed.append((inter * mask + extra * (1 - mask)) / (inter * extra))
    return listed


def llama3_loop(base: float, dim: int) -> list[float]:
    """generate_extra_tensors of llama.cpp's conversion/llama.py, with Llama 3.1's numbers."""
    listed = []
    for frequency in plain_loop(base, dim):
        wave = 2 * math.pi / frequency
        if wave < 8_192 / 4:
            listed.append(frequency)
        elif wave > 8_192 / 1:
            listed.append(frequency / 8)
        else:
            smooth = (8_192 / wave - 1) / (4 - 1)
            listed.append(frequency * ((1 - smooth) / 8 + smooth))
    return listed


def grown_loop(base: float, dim: int, growth: float) -> list[float]:
    return plain_loop(base * growth ** (dim / (dim - 2)), dim)


def longrope_loop(name: str) -> list[float]:
    factors = preset_config("phi-3-mini-128k")["rope_scaling"][name]
    return [f / c for f, c in zip(plain_loop(1e4, 96), factors, strict=True)]


G4 = 0.1 * math.log(4) + 1  # attention factor of YaRN by 4
G40 = 0.1 * math.log(40) + 1
PHI_FACTOR = math.sqrt(1 + math.log(32) / math.log(4_096))
