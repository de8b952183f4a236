"""Frequencies of every scaling of RoPE by a plain loop over pairs, in mpmath's working precision."""

import json
from pathlib import Path
from typing import Any

import mpmath

from posenc import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig, RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig


def configs_of_every_scaling() -> list[RopeConfig]:
    """Return configs that take every branch of every scaling, at usual sizes and at extreme ones."""
    found = []
    for kind, fields in json.loads(Path(__file__).with_name("scaling_configs.json").read_text()):
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        found.append(SCHEMES[kind](**values))
    return [config for config in found if isinstance(config, RopeConfig)]


def by_hand(config: RopeConfig) -> list[Any]:
    """The frequencies by the formulas as they are written, 60 digits, one pair after the other."""
    d, b = config.rotary_dim, mpmath.mpf(config.base)
    theta = [b ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
    two_pi = 2 * mpmath.pi
    match config:
        case RopeLinearConfig(factor=s):
            return [t / mpmath.mpf(s) for t in theta]
        case RopeDynamicConfig(factor=s, trained_length=trained, length=n):
            if d == 2:
                return theta
            growth = mpmath.mpf(s) * max(n, trained) / trained - (mpmath.mpf(s) - 1)
            larger = b * growth ** (mpmath.mpf(d) / (d - 2))
            return [larger ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
        case RopeNtkConfig(factor=s):
            if d == 2:
                return theta
            larger = b * mpmath.mpf(s) ** (mpmath.mpf(d) / (d - 2))
            return [larger ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
        case RopeYarnConfig(factor=s, trained_length=trained):
            low, high = (
                d * mpmath.log(trained / (two_pi * mpmath.mpf(r))) / (2 * mpmath.log(b))
                for r in (config.beta_fast, config.beta_slow)
            )
            if config.truncate:
                low, high = mpmath.floor(low), mpmath.ceil(high)
            low, high = max(low, 0), min(high, d - 1)
            high += mpmath.mpf("0.001") if low == high else 0
            found = []
            for m, t in enumerate(theta):
                divided = min(max((m - low) / (high - low), 0), 1)
                found.append(t / mpmath.mpf(s) * divided + t * (1 - divided))
            return found
        case RopeYarnPaperConfig(factor=s, trained_length=trained):
            ends = mpmath.mpf(config.beta_slow), mpmath.mpf(config.beta_fast)
            return [ramped(t, trained * t / two_pi, *ends, mpmath.mpf(s)) for t in theta]
        case RopeLlama3Config(factor=s, trained_length=trained):
            low, high = mpmath.mpf(config.low_freq_factor), mpmath.mpf(config.high_freq_factor)
            found = []
            for t in theta:
                wave = two_pi / t
                if wave < trained / high:
                    found.append(t)
                elif wave > trained / low:
                    found.append(t / mpmath.mpf(s))
                else:
                    found.append(ramped(t, trained / wave, low, high, mpmath.mpf(s)))
            return found
        case RopeLongConfig(factor=s):
            is_long = config.length > config.trained_length
            given = config.long_factor if is_long else config.short_factor
            if len(given) > 1:
                return [t / mpmath.mpf(f) for t, f in zip(theta, given, strict=True)]
            if len(given) == 1:
                return [t / mpmath.mpf(given[0]) for t in theta]
            if config.length <= config.trained_length or d == 2:
                return theta
            return [
                t / mpmath.mpf(s) ** (mpmath.mpf(m) / (d // 2 - 1)) for m, t in enumerate(theta)
            ]
        case RopeProportionalConfig(factor=s):
            # A share is a number of hundredths here, so the product is the one that was meant.
            turning = round(config.partial_rotary_factor * 100) * d // 200
            return [
                t / mpmath.mpf(s) if m < turning else mpmath.mpf(0) for m, t in enumerate(theta)
            ]
    return theta


def ramped(theta: Any, at: Any, low: Any, high: Any, factor: Any) -> Any:
    kept = min(max((at - low) / (high - low), 0), 1)
    return (1 - kept) * theta / factor + kept * theta


def sizes_by_hand(config: RopeSectionsConfig) -> tuple[int, ...]:
    pairs = config.rotary_dim // 2
    return config.sections or ((pairs + 1) // 2, pairs // 2)


def axes_by_hand(config: RopeSectionsConfig) -> list[int]:
    """As Qwen2-VL splits (m[i % 3] for i, m of the sections) and Qwen3-VL fills slices of every third."""
    sizes = sizes_by_hand(config)
    if not config.interleaved:
        return [axis for axis, size in enumerate(sizes) for _ in range(size)]
    found = [0] * sum(sizes)
    for axis in range(1, len(sizes)):
        for m in range(axis, sizes[axis] * len(sizes), len(sizes)):
            if m < len(found):
                found[m] = axis
    return found
