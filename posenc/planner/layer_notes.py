"""What a longer context means for each kind of layer of a model, RoPE or not, in sentences."""

import math
from dataclasses import dataclass, replace

import torch

from posenc.models.model_config import LayerKind, ModelConfig
from posenc.planner.methods import scaled_length
from posenc.schemes.alibi import AlibiConfig, alibi_slopes
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from posenc.text import count_of, short_number

FORGOTTEN = 0.01  # factor on a weight below which a head is said to see nothing

_BIAS_IS_SCALED = ("falcon",)  # model types; BLOOM and MPT add the bias to the scaled logits


@dataclass(frozen=True)
class LayerNote:
    """What happens in one kind of layer at the target, and the source of that.

    works: whether positions up to the target have a value; that is no promise of quality.
    """

    layers: str
    sentence: str
    source: str
    works: bool = True


def length_note(
    scheme: SchemeConfig,
    target: int,
    *,
    reach: int,
    trained_length: int | None,
    bias_divisor: float = 1.0,
) -> tuple[str, str]:
    """Return what a text of `target` tokens means for a scheme, and the source of that.

    reach: tokens of it that a query sees. trained_length: None where not known. bias_divisor: divides
    biases.
    """
    config = "its config"
    match scheme:
        case NoneConfig():
            return "These layers encode no position, so there is nothing to scale.", config
        case LearnedConfig():
            table = f"A learned table of {scheme.max_len:,} rows has"
            if scheme.max_len >= target:
                return f"{table} one for every position.", config
            return (
                f"{table} none for positions {scheme.max_len:,} to {target - 1:,}: longer texts "
                "are an error, and new rows need training."
            ), config
        case SinusoidalConfig():
            return (
                "Sinusoidal vectors exist at every position, but models trained with them failed a few "
                "tokens past their trained length."
            ), "Press et al. 2022, arXiv 2108.12409, section 2.2"
        case AlibiConfig():
            slope = float(alibi_slopes(scheme.heads, dtype=torch.float64, device="cpu").min())
            farthest = math.ceil(-math.log(FORGOTTEN) / slope * bias_divisor)
            return (
                "ALiBi needs no scaling: its bias has a value at every distance. The head with the "
                f"smallest slope multiplies the weight of a key {farthest:,} tokens back by less than "
                f"{FORGOTTEN:g}, and farther keys by even less."
            ), "Press et al. 2022, arXiv 2108.12409, section 3; the distance is computed"
        case T5Config():
            last = scheme.last_bucket_start
            end = (
                f"distances from {last:,} on share the last one, so the bias cannot tell them apart"
                if reach > last + 1
                else f"no two distances that occur lie in the last one, which begins at {last:,}"
            )
            source = "Raffel et al. 2020, arXiv 1910.10683, section 2.1; the distance is computed"
            return f"Every distance has a bucket, so nothing needs scaling; {end}.", source
        case TransformerXLConfig():
            return (
                "The sinusoid of a distance exists at every distance, so nothing needs scaling. How its "
                "trained projection acts on distances that training did not show is not known."
            ), "Dai et al. 2019, arXiv 1901.02860, section 3.3"
        case RopeConfig():
            name = f"{scheme.label} of base {short_number(scheme.base)}"
            if trained_length is None:
                return f"{name}; the trained length is not known.", config
            if reach <= trained_length:
                return f"{name}: no distance occurs that training did not show.", "computed"
            return f"{name}: training showed no distance from {trained_length:,} on.", "computed"
    return f"{scheme.label}: nothing here scales it.", config


def layer_notes(model: ModelConfig, target: int, trained_length: int | None) -> list[LayerNote]:
    """Return a note for each kind of layer, or for several of one sentence, the farthest seeing first."""
    notes: dict[str, LayerNote] = {}
    for kind in model.layer_kinds:
        note = _note(model, kind, target, trained_length)
        if alike := notes.get(note.sentence):
            note = replace(note, layers=f"{alike.layers} and {note.layers}")
        notes[note.sentence] = note
    return list(notes.values())


def own_length(model: ModelConfig, kind: LayerKind) -> int | None:
    """Return the context that a model reaches by a scaling in its config, None without one.

    A context that the config names counts, or what the scaling makes of the trained length that it names.
    """
    if not isinstance(kind.scheme, RopeConfig) or kind.scheme == kind.scheme.as_trained():
        return None
    made_for = scaled_length(kind.scheme) if model.trained_length else 0
    return max(model.context or 0, made_for) or None


def _note(
    model: ModelConfig, kind: LayerKind, target: int, trained_length: int | None
) -> LayerNote:
    scheme, own = kind.scheme, own_length(model, kind)
    window = target if kind.window is None else kind.window
    reach = min(target, window)
    works = not isinstance(scheme, LearnedConfig) or scheme.max_len >= target
    if scheme is None:
        sentence = kind.unsupported or "This version has no scheme for these layers."
        source = "its config"
    elif (rows := kind.rows) and target > rows:
        works = False
        sentence = (
            f"The class makes {rows:,} rows of sines and cosines, none for positions {rows:,} to "
            f"{target - 1:,}: longer texts are an error."
        )
        source = "its class"
    elif own and trained_length and trained_length < min(own, reach):
        sentence = (
            f"{scheme.label}: its scaling is made for {own:,} tokens; before it, the model was trained "
            f"on {trained_length:,}."
        )
        sentence += f" {reach:,} tokens are past its scaling, too." if reach > own else ""
        source = "its config"
    else:
        divisor = 1 / kind.softmax_scale if model.read_as in _BIAS_IS_SCALED else 1.0
        sentence, source = length_note(
            scheme, target, reach=reach, trained_length=trained_length, bias_divisor=divisor
        )
        if (
            isinstance(scheme, RopeConfig)
            and trained_length
            and window <= min(target - 1, trained_length)
        ):
            sentence += " Do not scale these layers."
    if window < target:
        sentence += (
            f" A query sees {count_of(window, 'token')} at most, so the cache needs no more."
        )
    return LayerNote(
        layers=f"{count_of(len(kind.layers), 'layer')} ({kind.name})",
        sentence=sentence,
        source=source,
        works=works,
    )
