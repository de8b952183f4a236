"""Every scheme in small, and once more for each alternative of its own fields."""

import functools
import math
from typing import Any

import torch
from torch import Tensor

from posenc import SCHEMES, ConfigError, Scheme, SchemeConfig, attention, fields
from posenc.schemes.rope import Rope
from posenc.schemes.sizes import Sizes

# Small, with a head count that is no power of two, and enough learned rows for every law.
SMALL = Sizes(dim=80, heads=10, length=16, train_length=300, learned_source="random")
DIM, HEADS, WIDTH = SMALL.dim, SMALL.heads, SMALL.head_dim


# Alternatives of numbers that are 0 for none: the middle of their range is too large for small texts.
FEW = {
    "xpos.origin": (0, 64), "rope_sections.grid": (0, 2), "rnope.every": (2, 4), "rnope.window": (0, 5),
    "rnope.growth_length": (8_192, 4),
}  # fmt: skip


def small_configs() -> dict[str, SchemeConfig]:
    """Return every scheme of the registry in small, and once more per alternative of its own fields.

    Of a scheme made from another one only what is its own and decides how something is computed: its
    factors are numbers like any other (tests/library/scaling_by_hand.py varies them all).
    """
    found = {}
    for kind, config in SCHEMES.items():
        found[kind] = SMALL.config(kind)
        parents = [other for other in SCHEMES.values() if other in config.__mro__[1:]]
        inherited = [rule for other in parents for rule in fields.rules(other).values()]
        for name, rule in found[kind].own_rules().items():
            known = rule in inherited
            known = known or (bool(parents) and isinstance(rule, fields.FloatRange))
            for value in () if known else FEW.get(f"{kind}.{name}") or alternatives(rule):
                if value == getattr(found[kind], name):
                    continue
                try:
                    found[f"{kind}.{name}={value}"] = found[kind].replace(**{name: value})
                except ConfigError:
                    continue
    return found


def alternatives(rule: fields.Rule) -> tuple[object, ...]:
    """Return a few other values of a rule: all words of a choice, the middle of a range.

    Of a range of factors that is its geometric mean.
    """
    match rule:
        case fields.Choice(options=options):
            return options
        case fields.Flag():
            return (False, True)
        case fields.FloatRange(low=low, high=high):
            return ((low + high) / 2,) if low < 1 else (math.sqrt(low * high),)
        case fields.IntRange():
            return (round((rule.low + rule.high) / 2 / rule.multiple_of) * rule.multiple_of,)
        case fields.Numbers(whole=True):  # four pairs shared out among two axes, or three
            return ((1, 3), (0, 1, 3))
        case fields.Numbers():  # one for each of four pairs
            return ((1.0, 1.5, 2.5, 4.0),)
    return ()


SMALL_CONFIGS = small_configs()


def small_scheme(variant: str, **others: Any) -> Scheme:
    """One scheme in small, its parameters (if any) moved off their start so that none is trivial.

    others: values of its fields to change, of those that it has.
    """
    config = SMALL_CONFIGS[variant]
    own = {name: value for name, value in others.items() if hasattr(config, name)}
    built = config.replace(**own).build(seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


@functools.cache
def code_paths() -> tuple[str, ...]:
    """Return one variant of each code path: the first of a class and of the branches that it takes.

    Configs of RoPE differ in their frequencies only, apart from the branches named here.
    """
    found: dict[object, str] = {}
    for variant, config in SMALL_CONFIGS.items():
        scheme = small_scheme(variant)
        branches = (
            type(scheme), scheme.stationary, scheme.rotary_layout, scheme.attention_factor != 1,
            getattr(scheme, "unpaired", 0) > 0, scheme.window is not None,
        )  # fmt: skip
        choices = tuple(
            getattr(config, name)
            for name, rule in config.own_rules().items()
            if isinstance(rule, fields.Choice | fields.Flag) and not isinstance(scheme, Rope)
        )
        found.setdefault((branches, choices), variant)
    return tuple(found.values())


PLACES = {
    "from zero": None,
    "window": torch.arange(9) + 100,
    "per entry": torch.tensor([[4, 2, 2, 9, 0, 1, 8, 7, 3]] * 2),
}


def results(scheme: Scheme, x: Tensor, q: Tensor, positions: Tensor | None) -> dict[str, Tensor]:
    k = q.flip(-1)
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    mixed = attention(q, k, q, scheme, q_positions=positions, k_positions=positions)
    named = {"embed": scheme.embed(x, positions), "q": rotated_q, "k": rotated_k, "mixed": mixed}
    return named if bias is None else named | {"bias": bias}
