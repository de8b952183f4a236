"""A rope block of either generation as a scaling reads it: what may stand in it or beside it.

What transformers 5.23's modeling_rope_utils takes from elsewhere in silence is noted as an assumption.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.frequencies import Layout
from posenc.models.config_json import Keys

TRAINED = "original_max_position_embeddings"  # the length before scaling
_BASE = fields.FloatRange(low=limits.MIN_BASE, high=limits.MAX_BASE, closed=False, label="")
_SHARE = fields.FloatRange(low=0.0, high=1.0, closed=False, label="")
_RANGES = {"rope_theta": _BASE, "partial_rotary_factor": _SHARE}
_LENGTH = fields.IntRange(low=2, high=limits.MAX_POSITION, label="")
_FACTOR = fields.FloatRange(low=1.0, high=limits.MAX_SCALE_FACTOR, label="")


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a rope block needs from the rest of the config.

    outer: the keys around the block. base_names, base: keys of the base there, and its default.
    share_names, share: likewise of the rotated share; a share of None must be 1.
    dim: width of the head that the scheme sees; ladder_dim: width that the rotated share is of.
    context: key and value of the length that the config says the model takes.
    trained_length: default of original_max_position_embeddings, None for the context.
    block_defaults: values of keys of the block that its class has, where they are absent.
    types: other words for a rope_type. takes: the only ones that the class takes, () for all.
    why: where defaults come from.
    """

    outer: Keys
    base_names: tuple[str, ...]
    base: float
    share_names: tuple[str, ...]
    share: float | None
    dim: int
    ladder_dim: int
    layout: Layout
    context: tuple[str, int]
    trained_length: int | None
    block_defaults: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str]
    takes: tuple[str, ...]
    why: str


class BlockReader:
    """One block, `keys`, in what is `around` it.

    Errors name the key; what is taken for granted is noted.
    """

    def __init__(self, keys: Keys, around: Around) -> None:
        self.keys = keys
        self.around = around
        self.assume = keys.assume
        self.named = keys.named
        self.error = keys.error
        self.numbers = keys.numbers

    @property
    def context(self) -> tuple[str, int]:
        """The key of the length that the config says the model takes, and its value."""
        return self.around.context

    def has(self, name: str) -> bool:
        """Whether the block, or its class, says a key."""
        return self.keys.record.get(name) is not None or bool(self.around.block_defaults.get(name))

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""
        return self.keys.flag(name, default, "")

    def own(self, owner: type, name: str, *, required: bool = False) -> Any:
        """Return the key of a field's name, by the field's rule; its default where it is absent."""
        rule, default = fields.rules(owner)[name], fields.defaults(owner)[name]
        if isinstance(rule, fields.Flag):
            return self.keys.flag(name, default, "")
        if not isinstance(rule, fields.FloatRange):
            raise TypeError(f"{owner.__name__}.{name} is neither a number nor a flag")
        rule = dataclasses.replace(rule, or_zero=False)  # 0 for "none" is our way of writing it
        if not required and self.keys.find(name) is None:
            return default
        return self.keys.get(name, rule)

    def head(self) -> dict[str, Any]:
        """Return width, base and layout of the head."""
        around = self.around
        base = self._inner_or_outer("rope_theta", around.base_names)
        if base is None:
            first = around.base_names[0] if around.base_names else "rope_theta"
            place = around.outer if around.base_names else self.keys
            base = place.get(first, _BASE, around.base, around.why)
        return {"dim": around.dim, "base": base, "layout": around.layout}

    def share(self) -> float | None:
        """Return the rotated share as the config says it, or None."""
        return self._inner_or_outer("partial_rotary_factor", self.around.share_names)

    def shared(self) -> dict[str, Any]:
        """Return what all RoPE configs have: width, base, layout, share."""
        head, around, share = self.head(), self.around, self.share()
        if share is None and around.share is not None and around.share != 1:
            share = around.outer.get(around.share_names[0], _SHARE, around.share, around.why)
        if share is not None and around.share is None and share != 1:
            place = around.outer
            if self.keys.record.get("partial_rotary_factor") is not None:
                place = self.keys
            raise place.error(
                "partial_rotary_factor",
                f"must be 1 or absent: this model rotates the whole head; got {share:g}",
            )
        # Cut as transformers cuts it, int(head_dim * share); a fraction only where that differs.
        rotary = int(around.ladder_dim * (1.0 if share is None else share))
        if around.dim % 2:
            raise around.outer.error("head_dim", f"must be even for RoPE, got {around.dim}")
        if rotary < 2 or rotary % 2:
            raise around.outer.error(
                around.share_names[0] if share is not None else "head_dim",
                f"rotates {rotary} of {around.ladder_dim} features; it must be an even number from 2",
            )
        return head | {"partial_rotary_factor": _share_of(rotary, around.dim, share)}

    def pairs(self) -> int:
        """Return the number of pairs of the rotated width."""
        return int(self.around.dim * self.shared()["partial_rotary_factor"] + 1e-9) // 2

    def _inner_or_outer(self, name: str, outer_names: tuple[str, ...]) -> float | None:
        """Return a number that may stand in the block or beside it, or None; in both it must agree."""
        keys, outer = self.keys, self.around.outer
        inner = keys.optional(name, _RANGES[name]) if keys is not outer else None
        found = outer.find(outer_names) if outer_names else None
        if found is None:
            return inner
        beside = outer.get(found[0], _RANGES[name])
        if inner is not None and inner != beside:
            raise outer.error(
                found[0], f"says {beside:g}, but {keys.named(name)} says {inner:g}; they must agree"
            )
        return beside

    def counts(self, name: str, total: int) -> tuple[int, ...]:
        """Return a list of 1 to 4 counts that sum to `total`, or the default of the model's class."""
        found, default = self.keys.find(name), self.around.block_defaults.get(name)
        if found is None:
            if not default:
                raise self.error(name, f"is missing; it must list counts that sum to {total}")
            self.assume(
                f"{self.named(name)} is absent: {list(default)} is taken, {self.around.why}."
            )
            counts = default
        else:
            values = found[1]
            good = isinstance(values, list) and 0 < len(values) <= 4
            if not good or not all(type(one) is int and 0 <= one <= total for one in values):
                raise self.error(
                    name, f"must be a list of 1 to 4 counts from 0 to {total}, got {values!r:.60}"
                )
            counts = tuple(values)
        if sum(counts) != total:
            raise self.error(
                name,
                f"must sum to {total}, the pairs of the rotated width, got {list(counts)}, "
                f"{sum(counts)}",
            )
        return counts

    def factor(self, trained: int | None = None, *, absent: bool = True) -> float:
        """Return the scale factor; without one, the context over `trained` where that is given.

        absent: whether the key may be left out, too, and not only be null.
        """
        left_out = not absent and "factor" not in self.keys.record
        if trained is None or left_out or self.keys.find("factor") is not None:
            return self.keys.get("factor", _FACTOR)
        name, context = self.context
        factor = context / trained
        if factor < 1:
            raise self.error(
                "factor",
                f"is absent, and {name} / {TRAINED} = {context:,} / {trained:,} is below 1; give a "
                f"factor from 1 to {limits.MAX_SCALE_FACTOR:g}",
            )
        said = "null" if "factor" in self.keys.record else "absent"
        self.assume(f"{self.named('factor')} is {said}: {factor:g} is taken, {name} / {TRAINED}.")
        return factor

    def trained_length(self) -> int:
        """Return the length before scaling, or what transformers takes for it."""
        told = told_trained_length(self.keys, self.around.outer)
        given = self.around.trained_length
        if given not in (None, told) and told and self.around.outer.find(TRAINED) is None:
            raise self.error(
                TRAINED,
                f"says {told:,}, but without one beside the block transformers takes {given:,}, "
                f"{self.around.why}; they must agree",
            )
        if told is not None:
            return told
        if given is not None:
            self.assume(f"{TRAINED} is absent: {given:,} is taken, {self.around.why}.")
            return given
        name, context = self.context
        self.assume(
            f"{self.named(TRAINED)} is absent: {context:,} is taken for the scaling, which is {name}, "
            "as transformers does; the model may have been trained on another length."
        )
        return context


def told_trained_length(keys: Keys | None, outer: Keys) -> int | None:
    """Return original_max_position_embeddings where the config says it, in the block or beside it."""
    inner = keys.optional(TRAINED, _LENGTH) if keys is not None else None
    beside = outer.optional(TRAINED, _LENGTH)
    if keys is not None and inner is not None and beside is not None and inner != beside:
        raise outer.error(
            TRAINED, f"says {beside:,}, but {keys.named(TRAINED)} says {inner:,}; they must agree"
        )
    return beside if beside is not None else inner


def _share_of(rotary: int, dim: int, share: float | None) -> float:
    """Return the share of `dim` that is `rotary`, cut by transformers or not: the one told, if it is."""
    if share is not None and int(dim * share) == int(dim * share + 1e-9) == rotary:
        return share
    share = rotary / dim
    return share if int(dim * share) == rotary else math.nextafter(share, 1.0)
