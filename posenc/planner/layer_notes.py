"""What a longer context means for each kind of layer of a model, RoPE or not, in sentences."""

import math
from dataclasses import dataclass

import torch

from posenc.interop.models.model_config import LayerKind, ModelConfig
from posenc.planner.words import power
from posenc.schemes.alibi import AlibiConfig, alibi_slopes
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.words import counted

_BIAS_IS_SCALED = frozenset({"falcon"})  # model types; BLOOM and MPT add it to the scaled logits
FORGOTTEN = 0.01  # weight factor below which an ALiBi head is said to see nothing


@dataclass(frozen=True)
class LayerNote:
    """One kind of layer at the target: `sentence` says what happens, `source` where that is from.

    works: whether positions up to the target have a value here; that alone is no promise of quality.
    """

    layers: str
    sentence: str
    source: str
    works: bool


def layer_notes(model: ModelConfig, target: int, trained_length: int | None) -> list[LayerNote]:
    """Return a note for each kind of layer, the one that sees farthest first."""
    return [
        _note(kind, target, trained_length, _divisor(model, kind)) for kind in model.layer_kinds
    ]


def _divisor(model: ModelConfig, kind: LayerKind) -> float:
    """Return what a bias is divided by: Falcon adds it to the logits before they are scaled."""
    return 1 / kind.softmax_scale if model.model_type in _BIAS_IS_SCALED else 1.0


def _note(kind: LayerKind, target: int, trained_length: int | None, divisor: float) -> LayerNote:
    layers = f"{counted(len(kind.layers), 'layer')} ({kind.name})"
    sentence, source, works = _said(kind, target, trained_length, divisor)
    if kind.window is not None and kind.window < target:
        sentence += (
            f" A query sees {counted(kind.window, 'token')} at most, so no more of them are kept."
        )
    return LayerNote(layers, sentence, source, works)


def _said(
    kind: LayerKind, target: int, trained_length: int | None, divisor: float
) -> tuple[str, str, bool]:
    scheme = kind.scheme
    reach = target if kind.window is None else min(target, kind.window)
    if isinstance(scheme, RopeConfig):
        name = f"{scheme.label} of base {power(scheme.base)}"
        if trained_length is None:
            return f"{name}; the trained length is not known.", "its config", True
        if reach <= trained_length:
            return f"{name}: no distance occurs that training did not show.", "computed", True
        return f"{name}: distances from {trained_length:,} on were never trained.", "computed", True
    if isinstance(scheme, AlibiConfig):
        slopes = alibi_slopes(scheme.heads, dtype=torch.float64)
        slope = float(slopes.min())
        farthest = math.ceil(-math.log(FORGOTTEN) / slope * divisor)
        return (
            "ALiBi needs no scaling: its bias has a value at every distance. Its widest head "
            f"multiplies a key {farthest:,} tokens back by less than {FORGOTTEN:g}, so what lies farther "
            "is hardly read.",
            "Press et al. 2022, arXiv 2108.12409, section 3; the distance is computed",
            True,
        )
    if isinstance(scheme, LearnedConfig):
        rows = scheme.max_len
        if rows >= target:
            return (
                f"A learned table of {rows:,} rows has one for every position.",
                "its config",
                True,
            )
        return (
            f"A learned table of {rows:,} rows has none for positions {rows:,} to {target - 1:,}: "
            "longer texts are an error, and new rows have to be trained.",
            "its config",
            False,
        )
    if isinstance(scheme, SinusoidalConfig):
        return (
            "Sinusoidal vectors exist at every position, but models trained with them failed a few "
            "tokens past their trained length.",
            "Press et al. 2022, arXiv 2108.12409, section 2.2",
            True,
        )
    if isinstance(scheme, NoneConfig):
        return "No position is put in, so there is nothing to scale.", "its config", True
    if scheme is None:
        return (
            kind.unsupported or "This version has no scheme for these layers.",
            "its config",
            True,
        )
    return f"{scheme.label}: nothing here scales it.", "its config", True
