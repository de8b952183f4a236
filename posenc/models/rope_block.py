"""A rope block of a config, read with what may stand in it or elsewhere in the config.

What transformers 5.23's modeling_rope_utils takes from elsewhere without saying so is noted as an
assumption.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.frequencies import Layout
from posenc.models.config_json import Keys
from posenc.models.families import Base, RopeFamily
from posenc.models.heads import Heads
from posenc.models.layers import EVEN_WIDTH_LIMIT, LENGTH_LIMIT

TRAINED = "original_max_position_embeddings"  # the length before scaling
_SHARE_NAME = "partial_rotary_factor"
_SHARE = fields.FloatRange(low=0.0, high=1.0, closed=False)
_RULES = {"rope_theta": limits.BASE, _SHARE_NAME: _SHARE, TRAINED: LENGTH_LIMIT}
_FACTOR = fields.FloatRange(low=1.0, high=limits.MAX_SCALE_FACTOR)


@dataclass(frozen=True, kw_only=True)
class BlockReader:
    """One rope block, and what it needs from the rest of the config. Errors name the key.

    keys: of the block; an absent key may stand in `outer`, the keys around it. is_given: whether the
    config has the block. base, heads: of its kind of layer. context: key and value of the length that the
    config says the model takes.
    """

    keys: Keys
    is_given: bool
    outer: Keys
    family: RopeFamily
    base: Base
    heads: Heads
    layout: Layout
    context: tuple[str, int]

    def has(self, name: str) -> bool:
        """Return whether the block, or its class, has a key."""
        written = any(self.keys.record.get(key) is not None for key in self._names(name))
        return written or bool(self.family.block_defaults.get(name))

    def _names(self, name: str) -> tuple[str, ...]:
        """Return the names of a key; HunYuan's files have another one of the sections."""
        has_other = name == "mrope_section" and self.family.config_class == "HunYuanVLTextConfig"
        return (name, "xdrope_section") if has_other else (name,)

    def own(self, owner: type, *names: str, required: bool = False) -> dict[str, Any]:
        """Return keys named as fields of `owner`, by the fields' rules and with their defaults."""
        rules, values = fields.rules(owner), {}
        for name in names:
            rule = rules[name]
            if isinstance(rule, fields.FloatRange):
                rule = dataclasses.replace(rule, or_zero=False)  # our way of writing "none"
            default = None if required else fields.defaults(owner)[name]
            values[name] = self.keys.get(name, rule, default)
        return values

    def head(self) -> dict[str, Any]:
        """Return width, base and layout of the head."""
        own, names, default = self.base, self.base.names, self.base.default
        if self.is_given and self.keys.record.get("rope_theta") is None:
            names, default = own.bare_names, own.bare
        base = inner_or_outer(self.keys, self.outer, "rope_theta", names)
        if base is None:
            place, name = (self.outer, names[0]) if names else (self.keys, "rope_theta")
            base = place.get(name, limits.BASE, default, self.family.source)
        return {
            "dim": self.heads.head_dim, "base": base, "layout": self.layout,
            "clockwise": self.family.clockwise,
        }  # fmt: skip

    def share(self) -> float | None:
        """Return the rotated share as the config has it, or None."""
        names = self.family.share_names
        share: float | None = inner_or_outer(self.keys, self.outer, "partial_rotary_factor", names)
        key = self.family.rotary_key
        if share is None and key and self.outer.find(key) is not None:
            share = self.outer.get(key, EVEN_WIDTH_LIMIT) / self.heads.head_dim
        if self.family.config_class == "Dots3NoteTextConfig":
            return None  # the class sets it to the rotated width
        if self.family.config_class == "Mistral4Config":  # of the whole head, which says the same
            share = None if share == self.heads.rope_dim / self.heads.head_dim else share
        return share

    def share_or_default(self) -> float | None:
        """Return the rotated share as the config or its class has it; None for the whole head."""
        share, family = self.share(), self.family
        if share is None and family.share not in (None, 1.0):
            is_outer = "" in family.bases and family.share_names
            place, name = (
                (self.outer, family.share_names[0]) if is_outer else (self.keys, _SHARE_NAME)
            )
            share = place.get(name, _SHARE, family.share, family.source)
        return share

    def shared(self) -> dict[str, Any]:
        """Return what all RoPE configs have: width, base, layout, rotated share."""
        head, family, share = self.head(), self.family, self.share_or_default()
        if share is not None and family.share is None and share != 1:
            is_inner = self.keys.record.get("partial_rotary_factor") is not None
            raise (self.keys if is_inner else self.outer).error(
                "partial_rotary_factor",
                f"must be 1 or absent: this model rotates the whole head; got {share:g}",
            )
        # Cut as transformers cuts it, int(head_dim * share); a fraction only where that differs.
        dim, whole = self.heads.head_dim, self.heads.rope_dim
        rotary = int(whole * (1.0 if share is None else share))
        if dim % 2:
            raise self.outer.error("head_dim", f"must be even for RoPE, got {dim}")
        if rotary < 2 or rotary % 2:
            raise self.outer.error(
                "head_dim" if share is None else next(iter(family.share_names), _SHARE_NAME),
                f"rotates {rotary} of {whole} features; it must be an even number from 2",
            )
        return head | {"partial_rotary_factor": _share_of(rotary, dim, share)}

    def pairs(self) -> int:
        """Return the number of pairs of the rotated width."""
        return int(self.heads.head_dim * self.shared()["partial_rotary_factor"] + 1e-9) // 2

    def counts(self, name: str, total: int) -> tuple[int, ...]:
        """Return a list of at most 4 counts, by default those of the model's class."""
        rule = fields.Numbers(low=0, high=total, least=1, most=4, whole=True)
        default = self.family.block_defaults.get(name)
        if self.is_given and self.family.config_class == "Cosmos3EdgeTextConfig":
            default = None  # its class fills them where there is no block
        counts: tuple[int, ...] = self.keys.get(
            self._names(name), rule, default, self.family.source
        )
        return counts

    def factor(self, trained: int | None = None, *, absent: bool = True) -> float:
        """Return the scale factor; without one, the context over `trained` where that is known.

        absent: whether the key may be absent, too, and not only null.
        """
        keys, is_absent = self.keys, "factor" not in self.keys.record
        if trained is None or (is_absent and not absent) or keys.find("factor") is not None:
            written: float = keys.get("factor", _FACTOR)
            return written
        name, context = self.context
        factor = context / trained
        if factor < 1:
            raise keys.error(
                "factor",
                f"is absent, and {name} / {TRAINED} = {context:,} / {trained:,} is below 1; give a "
                f"factor from 1 to {limits.MAX_SCALE_FACTOR:g}",
            )
        state = "absent" if is_absent else "null"
        keys.assume(f"{keys.named('factor')} is {state}: {factor:g} is taken, {name} / {TRAINED}.")
        return factor

    def trained_length(self) -> int:
        """Return the length before scaling, or what transformers takes for it."""
        keys, family = self.keys, self.family
        written = written_trained_length(keys, self.outer)
        default = family.trained_length
        if default not in (None, written) and written and self.outer.find(TRAINED) is None:
            raise keys.error(
                TRAINED,
                f"says {written:,}, but without one beside the block transformers takes {default:,}, "
                f"{family.source}; they must agree",
            )
        if written is not None:
            return written
        if default is not None:
            keys.assume(f"{TRAINED} is absent: {default:,} is taken, {family.source}.")
            return default
        name, context = self.context
        keys.assume(
            f"{keys.named(TRAINED)} is absent: {context:,} is taken for the scaling, which is {name}, "
            "as transformers does; the model may have been trained on another length."
        )
        return context


def inner_or_outer(inner: Keys | None, outer: Keys, name: str, outer_names: tuple[str, ...]) -> Any:
    """Return a number that may stand in a block or around it, or None; in both it must agree."""
    rule = _RULES[name]
    value = inner.optional(name, rule) if inner is not None and inner is not outer else None
    if not outer_names or (outside := outer.optional(outer_names, rule)) is None:
        return value
    if inner is not None and value not in (None, outside):
        raise outer.error(
            outer.name(outer_names),
            f"says {outside:,.10g}, but {inner.named(name)} says {value:,.10g}; they must agree",
        )
    return outside


def written_trained_length(block: Keys | None, outer: Keys) -> int | None:
    """Return original_max_position_embeddings where the config has it, in the block or around it."""
    length: int | None = inner_or_outer(block, outer, TRAINED, (TRAINED,))
    return length


def _share_of(rotary: int, dim: int, share: float | None) -> float:
    """Return the share whose part of `dim` is `rotary`, cut as transformers cuts it: `share` if it is."""
    if share is not None and int(dim * share) == int(dim * share + 1e-9) == rotary:
        return share
    share = rotary / dim
    return share if int(dim * share) == rotary else math.nextafter(share, 1.0)
