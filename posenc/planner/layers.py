"""Facts of what a longer context means for each kind of layer of a model, RoPE or not."""

import math
from dataclasses import dataclass

import torch

from posenc.models.model_config import LayerKind, ModelConfig
from posenc.planner.facts import Fact
from posenc.planner.methods import scaled_length
from posenc.schemes.alibi import AlibiConfig, alibi_slopes
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig

FORGOTTEN = 0.01  # factor on a weight below which a head is said to see nothing


@dataclass(frozen=True)
class LayerFacts:
    """The facts of one kind of layer at the target; kinds of equal facts are one.

    layers: number and name of each kind. facts: the first has the source. works: whether positions up to
    the target have a value; that is no promise of quality.
    """

    layers: tuple[tuple[int, str], ...]
    facts: tuple[Fact, ...]
    works: bool = True


def length_fact(
    scheme: SchemeConfig,
    target: int,
    *,
    reach: int,
    trained_length: int | None,
    bias_divisor: float = 1.0,
) -> Fact:
    """Return what a text of `target` tokens means for a scheme.

    reach: tokens of it that a query sees. trained_length: None where not known. bias_divisor: divides
    biases.
    """
    match scheme:
        case NoneConfig():
            return Fact("no_position", {})
        case LearnedConfig():
            word = "learned" if scheme.max_len >= target else "learned_ends"
            return Fact(word, {"rows": scheme.max_len, "last": target - 1})
        case SinusoidalConfig():
            return Fact("sinusoidal", {})
        case AlibiConfig():
            slope = float(alibi_slopes(scheme.heads, dtype=torch.float64, device="cpu").min())
            farthest = math.ceil(-math.log(FORGOTTEN) / slope * bias_divisor)
            return Fact("alibi", {"farthest": farthest, "weight": FORGOTTEN})
        case T5Config():
            last = scheme.last_bucket_start
            return Fact("t5_shared" if reach > last + 1 else "t5", {"last": last})
        case TransformerXLConfig():
            return Fact("transformer_xl", {})
        case RopeConfig():
            numbers = {"label": scheme.label, "base": scheme.base, "trained": trained_length}
            if trained_length is None:
                return Fact("rope", numbers)
            return Fact("rope_within" if reach <= trained_length else "rope_past", numbers)
    return Fact("other_scheme", {"label": scheme.label})


def layer_facts(
    model: ModelConfig, target: int, trained_length: int | None
) -> tuple[LayerFacts, ...]:
    """Return the facts of each kind of layer, or of several that share them, the farthest seeing first."""
    by_facts: dict[str, LayerFacts] = {}
    for kind in model.layer_kinds:
        facts, works = _facts(model, kind, target, trained_length)
        key, layers = repr(facts), ((len(kind.layers), kind.name),)
        others = by_facts[key].layers if key in by_facts else ()
        by_facts[key] = LayerFacts((*others, *layers), facts, works)
    return tuple(by_facts.values())


def own_length(model: ModelConfig, kind: LayerKind) -> int | None:
    """Return the context that a model reaches by a scaling in its config, None without one.

    A context that the config names counts, or what the scaling makes of the trained length that it names.
    """
    if not isinstance(kind.scheme, RopeConfig) or kind.scheme == kind.scheme.as_trained():
        return None
    made_for = scaled_length(kind.scheme) if model.trained_length else 0
    return max(model.context or 0, made_for) or None


def _facts(
    model: ModelConfig, kind: LayerKind, target: int, trained_length: int | None
) -> tuple[tuple[Fact, ...], bool]:
    """Return the facts of one kind of layer, and whether positions up to the target have a value."""
    scheme, own = kind.scheme, own_length(model, kind)
    window = target if kind.window is None else kind.window
    reach = min(target, window)
    works = not isinstance(scheme, LearnedConfig) or scheme.max_len >= target
    facts = []
    if scheme is None:
        word = "unsupported" if kind.unsupported else "no_scheme"
        facts.append(Fact(word, {"what": kind.unsupported}))
    elif (rows := kind.rows) and target > rows:
        works = False
        facts.append(Fact("rows_end", {"rows": rows, "last": target - 1}))
    elif own and trained_length and trained_length < min(own, reach):
        numbers = {"label": scheme.label, "own": own, "trained": trained_length}
        facts.append(Fact("own_scaling", numbers))
        if reach > own:
            facts.append(Fact("past_own_scaling", {"reach": reach}))
    else:
        facts.append(
            length_fact(
                scheme,
                target,
                reach=reach,
                trained_length=trained_length,
                bias_divisor=1 / kind.bias_scale,
            )
        )
        is_rope = isinstance(scheme, RopeConfig)
        if is_rope and trained_length and window <= min(target - 1, trained_length):
            facts.append(Fact("do_not_scale", {}))
    if window < target:
        facts.append(Fact("window", {"window": window}))
    return tuple(facts), works
