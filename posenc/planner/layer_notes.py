"""What a longer context means for each kind of layer of a model, RoPE or not, in sentences."""

from dataclasses import dataclass

from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.base import LengthNote, LongerText
from posenc.schemes.rope import RopeConfig
from posenc.text import counted

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
    found = _unsupported(kind) if kind.scheme is None else kind.scheme.length_note(text)
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
