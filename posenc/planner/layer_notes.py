"""What a longer context means for each kind of layer of a model, RoPE or not, in sentences."""

import functools
import math
from dataclasses import dataclass

import torch

from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.alibi import AlibiConfig, alibi_slopes
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from posenc.text import counted, power

FORGOTTEN = 0.01  # factor on a weight below which a head is said to see nothing

_BIAS_IS_SCALED = frozenset({"falcon"})  # model types; BLOOM and MPT add it to the scaled logits


@dataclass(frozen=True)
class LayerNote:
    """One kind of layer at the target: `sentence` says what happens, `source` where that is from.

    works: whether positions up to the target have a value here; that alone is no promise of quality.
    """

    layers: str
    sentence: str
    source: str
    works: bool


@dataclass(frozen=True, kw_only=True)
class LongerText:
    """A text of `target` tokens, read by one kind of layer of a model.

    reach: how many of them a query sees, itself included. trained_length: of the texts of training, None
    where it is not known. bias_divisor: what the model divides a scheme's bias by before adding it.
    """

    target: int
    reach: int
    trained_length: int | None = None
    bias_divisor: float = 1.0


@dataclass(frozen=True)
class LengthNote:
    """What happens at that length, and the source of it.

    works: whether positions up to the target have a value; that alone is no promise of quality.
    """

    sentence: str
    source: str
    works: bool = True


@functools.singledispatch
def length_note(scheme: SchemeConfig, text: LongerText) -> LengthNote:
    """Return what a model with this scheme must know about a longer text."""
    return LengthNote(f"{scheme.label}: nothing here scales it.", "its config")


@length_note.register
def _(scheme: NoneConfig, text: LongerText) -> LengthNote:
    return LengthNote("No position is put in, so there is nothing to scale.", "its config")


@length_note.register
def _(scheme: LearnedConfig, text: LongerText) -> LengthNote:
    table = f"A learned table of {scheme.max_len:,} rows has"
    if scheme.max_len >= text.target:
        return LengthNote(f"{table} one for every position.", "its config")
    past = f"{table} none for positions {scheme.max_len:,} to {text.target - 1:,}: longer texts are"
    return LengthNote(
        f"{past} an error, and new rows have to be trained.", "its config", works=False
    )


@length_note.register
def _(scheme: SinusoidalConfig, text: LongerText) -> LengthNote:
    return LengthNote(
        "Sinusoidal vectors exist at every position, but models trained with them failed a few tokens "
        "past their trained length.",
        "Press et al. 2022, arXiv 2108.12409, section 2.2",
    )


@length_note.register
def _(scheme: AlibiConfig, text: LongerText) -> LengthNote:
    slope = float(alibi_slopes(scheme.heads, dtype=torch.float64, device="cpu").min())
    farthest = math.ceil(-math.log(FORGOTTEN) / slope * text.bias_divisor)
    return LengthNote(
        "ALiBi needs no scaling: its bias has a value at every distance. Its widest head multiplies a "
        f"key {farthest:,} tokens back by less than {FORGOTTEN:g}, so what lies farther is hardly read.",
        "Press et al. 2022, arXiv 2108.12409, section 3; the distance is computed",
    )


@length_note.register
def _(scheme: T5Config, text: LongerText) -> LengthNote:
    last = scheme.last_bucket_start
    told = (
        f"distances from {last:,} on share the last one, so the bias cannot tell them apart"
        if text.reach > last + 1
        else f"no two distances that occur lie in the last one, which begins at {last:,}"
    )
    return LengthNote(
        f"Every distance has a bucket, so nothing needs scaling; {told}.",
        "Raffel et al. 2020, arXiv 1910.10683, section 2.1; the distance is computed",
    )


@length_note.register
def _(scheme: TransformerXLConfig, text: LongerText) -> LengthNote:
    return LengthNote(
        "The sinusoid of a distance exists at every distance, so nothing scales it; what its trained "
        "projection makes of distances that training did not show is not known from here.",
        "Dai et al. 2019, arXiv 1901.02860, section 3.3",
    )


@length_note.register
def _(scheme: RopeConfig, text: LongerText) -> LengthNote:
    name, trained = f"{scheme.label} of base {power(scheme.base)}", text.trained_length
    if trained is None:
        return LengthNote(f"{name}; the trained length is not known.", "its config")
    if text.reach <= trained:
        return LengthNote(f"{name}: no distance occurs that training did not show.", "computed")
    return LengthNote(f"{name}: distances from {trained:,} on were never trained.", "computed")


def layer_notes(model: ModelConfig, target: int, trained_length: int | None) -> list[LayerNote]:
    """Return a note for each kind of layer, the one that sees farthest first."""
    return [
        _note(kind, target, trained_length, _divisor(model, kind), own_length(model, kind))
        for kind in model.layer_kinds
    ]


def own_length(model: ModelConfig, kind: LayerKind) -> int | None:
    """Return the context that a model reaches by a scaling in its config, None without one."""
    scaled = isinstance(kind.scheme, RopeConfig) and kind.scheme != kind.scheme.as_trained()
    return model.context if scaled else None


def _divisor(model: ModelConfig, kind: LayerKind) -> float:
    """Return what a bias is divided by: Falcon adds it to the logits before they are scaled."""
    return 1 / kind.softmax_scale if model.read_as in _BIAS_IS_SCALED else 1.0


def _note(
    kind: LayerKind, target: int, trained_length: int | None, divisor: float, own: int | None
) -> LayerNote:
    window = target if kind.window is None else kind.window
    text = LongerText(
        target=target,
        reach=min(target, window),
        trained_length=trained_length,
        bias_divisor=divisor,
    )
    found = _unsupported(kind) if kind.scheme is None else length_note(kind.scheme, text)
    sentence, source = found.sentence, found.source
    if kind.scheme and own and trained_length and trained_length < min(own, text.reach):
        sentence = (
            f"{kind.scheme.label}: its scaling is made for {own:,} tokens; before it, the model was "
            f"trained on {trained_length:,}."
        ) + (f" {text.reach:,} tokens are past its scaling, too." if text.reach > own else "")
        source = "its config"
    if window < target:
        sentence += (
            f" A query sees {counted(window, 'token')} at most, so no more of them are kept."
        )
    layers = f"{counted(len(kind.layers), 'layer')} ({kind.name})"
    return LayerNote(layers, sentence, source, found.works)


def _unsupported(kind: LayerKind) -> LengthNote:
    sentence = kind.unsupported or "This version has no scheme for these layers."
    return LengthNote(sentence=sentence, source="its config")
