"""The numbers of one rope block, with what may stand beside it or in the defaults of the class.

See posenc.models.rope_blocks for the data of a class.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.frequencies import Layout
from posenc.models.config_json import unusable
from posenc.models.record import EVEN_WIDTH, LENGTH, SHARE, Record
from posenc.models.rope_bases import Base
from posenc.models.rope_types import (
    FACTOR_LISTS,
    KINDS,
    SECTIONS,
    SHARE_KEY,
    THETA,
    TRAINED,
    rope_type_of,
)
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import attention_scale
from posenc.text import printable_name

NEW, OLD = "rope_parameters", "rope_scaling"
# Fields of the head, and the length in use, which no block has.
_NOT_OF_BLOCK = ("dim", "base", "layout", SHARE_KEY, "clockwise", "length")
_REQUIRED = ("low_freq_factor", "high_freq_factor")
_FACTOR = fields.FloatRange(low=1.0, high=limits.MAX_SCALE_FACTOR)
_PAIR_FACTOR = fields.FloatRange(low=1e-3, high=limits.MAX_PAIR_FACTOR)
_WEIGHT = fields.FloatRange(low=0.0, high=limits.MAX_ATTENTION_WEIGHT)
_ALPHA = fields.FloatRange(low=1.0, high=1e9)
_FLAG = fields.Flag(label="")


@dataclass(frozen=True, kw_only=True)
class Head:
    """Numbers of the layers that a rope block needs.

    head_dim: width of a query. rope_dim: the width of which a share is rotated. context_key,
    context: the length that the config names.
    """

    head_dim: int
    rope_dim: int
    layout: Layout
    context_key: str
    context: int


def note_unread(block: Record, name: str) -> None:
    """Note a key of a rope block that is not read, unless it says nothing."""
    value = block.content[name]
    # "finetuned" is of YaRN's authors, whose "dynamic-yarn" alone reads it.
    is_neutral = value is None or name == "finetuned"
    if not is_neutral and (name != "factor" or value != 1 or value is True):
        block.unread.append(block.named(printable_name(name)))


class BlockNumbers:
    """Reads one rope block as a scheme.

    record: the config around the block. rope: of the row of its class. base: of the kind of layer.
    is_shared: whether one block is for all kinds of layers. outer: the keys outside of a block that
    count. block_scale: the square of g(s, mscale_all_dim), by which the class multiplies its softmax
    scale; None where it takes none from a block.
    """

    def __init__(
        self, record: Record, rope: Mapping[str, Any], base: Base, is_shared: bool, head: Head
    ) -> None:
        self.record = record
        self.rope = rope
        self.base = base
        self.is_shared = is_shared
        self.head = head
        self.outer = {NEW, OLD, TRAINED, *rope.get("share_names", (SHARE_KEY,))}
        self.block_scale: float | None = 1.0 if rope.get("scales_softmax") else None

    def scheme(self, block: Record, is_given: bool) -> RopeConfig:
        """Return the scheme of a block. is_given: whether the config has it. Raises ConfigFileError."""
        block.taken, block.unread = self.record.taken, self.record.unread
        if self.rope.get("alpha"):  # HunYuan's files have another name of the sections
            block.names = {**block.names, SECTIONS: (SECTIONS, "xdrope_section")}
        kind = KINDS[rope_type_of(block, self.rope)]
        for key in self.rope.get("needs", ()):
            block.get(key, required=True)
        try:
            config = self._config(block, kind, is_given)
        except ConfigError as error:
            raise unusable(block.path or "the config", error) from None
        if (
            config.rotary_dim > self.head.rope_dim
        ):  # p-RoPE with a separate rotated part of the head
            raise block.error(
                "rope_type",
                f"rotates a whole head of {config.rotary_dim}, of which this model rotates "
                f"{self.head.rope_dim}",
            )
        return config

    def _config(self, block: Record, kind: str, is_given: bool) -> RopeConfig:
        share = self.rope.get("share")
        if kind != "rope" and "scaled_share" in self.rope:
            share = self.rope["scaled_share"]
        head = self._head(block, is_given, share, kind)
        pairs = RopeConfig(**head).rotary_dim // 2
        # Also checked where another type is the one that rotates text.
        in_sections = self._in_sections(block, head, pairs, is_given)
        if in_sections is not None:
            self._share(block, share)
        if kind == "rope_dynamic" and self.rope.get("alpha") and block.says("alpha"):
            return self._with_larger_base(block, in_sections or RopeConfig(**head))
        read = {SECTIONS, "xdrope_section", "mrope_interleaved"} if in_sections else set()
        if kind == "rope_sections" and in_sections is None:
            raise block.error(SECTIONS, "is missing; it must be a list of at most 4 numbers")
        if kind in ("rope", "rope_sections") and in_sections is not None:
            self._note_others(block, read)
            return in_sections
        config = SCHEMES[kind]
        assert issubclass(config, RopeConfig)
        if kind == "rope":
            self._note_others(block, read)
            return config(**head)
        own = self._own(block, config, pairs)
        if own.get("truncate") is False and not self.is_shared:
            self.record.take("truncate", block.named("truncate"), None)
        if self.block_scale is not None:
            # Only YaRN's is also read in a block of one kind of layer.
            is_read = kind == "rope_yarn" or block.path.endswith((NEW, OLD))
            weight = (is_read and block.get("mscale_all_dim", _WEIGHT)) or 0.0
            self.block_scale = attention_scale(own["factor"], weight) ** 2
            read |= {"mscale_all_dim"} if is_read else set()
        names = {TRAINED if name == "trained_length" else name for name in own}
        self._note_others(block, read | names)
        return config(**head, **own)

    def _with_larger_base(self, block: Record, plain: RopeConfig) -> RopeConfig:
        """Return NTK-aware scaling of a fixed factor, as HunYuan has it."""
        power = plain.rotary_dim / max(plain.rotary_dim - 2, 1)
        alpha = block.get("alpha", _ALPHA)
        self.record.take("alpha", block.named("alpha"), (plain.base, alpha, power))
        return plain.replace(base=plain.base * alpha**power)

    def _head(
        self, block: Record, is_given: bool, default_share: float | None, kind: str
    ) -> dict[str, Any]:
        """Return base, width, layout and share, which is cut as transformers cuts it."""
        base = self._theta(block, is_given)
        is_proportional = kind == "rope_proportional"
        share = self._share(
            block, 1.0 if is_proportional and default_share is None else default_share
        )
        dim, whole = self.head.head_dim, self.head.rope_dim
        if dim % 2:
            raise self.record.error("head_dim", f"must be even for RoPE, got {dim}")
        head = {
            "dim": dim, "base": base, "layout": self.head.layout,
            "clockwise": self.rope.get("clockwise", False),
        }  # fmt: skip
        if is_proportional:
            return head | {SHARE_KEY: 1.0 if share is None else share}
        rotary = int(whole * (1.0 if share is None else share))
        if rotary < 2 or rotary % 2:
            key = "head_dim" if share is None else SHARE_KEY
            problem = f"rotates {rotary} of {whole} features; it must be an even number from 2"
            raise self.record.error(key, problem)
        return head | {SHARE_KEY: _share_of(rotary, dim, share)}

    def _theta(self, block: Record, is_given: bool) -> float:
        """Return the base: of the block or around it, else the default of the class."""
        names, default = self.base.names, self.base.default
        if is_given and block.content.get(THETA) is None:
            names, default = self.base.block_names, self.base.block_default
        self.outer |= {*names}
        base: float | None = self._inner_or_outer(block, THETA, names, limits.BASE)
        if base is not None:
            return base
        place, name = (self.record, names[0]) if names else (block, THETA)
        if default is None:
            raise place.error(name, f"is missing; it must be {limits.BASE.allowed()}")
        self.record.take(place.named(name), place.named(name), float(default))
        return float(default)

    def _share(self, block: Record, default: float | None) -> float | None:
        """Return the rotated share as the config or its class has it; None for the whole head."""
        names = self.rope.get("share_names", (SHARE_KEY,))
        share: float | None = self._inner_or_outer(block, SHARE_KEY, names, SHARE)
        key, dim = self.rope.get("rotary_key", ""), self.head.head_dim
        if share is None and key:
            self.outer.add(key)
        if share is None and key and self.record.says(key):
            share = self.record.get(key, EVEN_WIDTH) / dim
        if self.rope.get("share_of_head") and share == self.head.rope_dim / dim:
            share = None  # all of the rotated part
        if share is not None and share != 1 and default is None:
            place = block if block.content.get(SHARE_KEY) is not None else self.record
            problem = f"must be 1 or absent: this model rotates the whole head; got {share:g}"
            raise place.error(SHARE_KEY, problem)
        if share is None and default not in (None, 1.0):
            share = default
            place, name = (
                (self.record, names[0]) if names and self.is_shared else (block, SHARE_KEY)
            )
            if place.has_null(name):
                raise place.no_null(name)
            self.record.take(place.named(name), place.named(name), share)
        return share

    def _inner_or_outer(
        self, block: Record, name: str, outer: Sequence[str], rule: fields.Rule
    ) -> Any:
        """Return a number of a block or of the config around it, or None; both must agree."""
        value = block.get(name, rule)
        for key in outer:
            outside = self.record.get(key, rule) if self.record.says(key) else None
            if None not in (value, outside) and value != outside:
                raise self.record.error(
                    key,
                    f"says {outside:,.10g}, but {block.named(name)} says {value:,.10g}; "
                    "they must agree",
                )
            value = outside if value is None else value
        return value

    def _in_sections(
        self, block: Record, head: Mapping[str, Any], pairs: int, is_given: bool
    ) -> RopeSectionsConfig | None:
        """Return RoPE in sections, or None where neither the block nor the class has them."""
        default = self.rope.get("sections")
        if not block.says(SECTIONS):
            if default is None:
                return None
            if is_given and self.rope.get("needs_sections"):
                raise block.error(SECTIONS, "is missing; it must be a list of 1 to 4 whole numbers")
        rule = fields.Numbers(low=0, high=pairs, least=1, most=4, whole=True)
        sections = block.get(SECTIONS, rule)
        if sections is None and default is not None:
            sections = tuple(default)
            self.record.take(SECTIONS, block.named(SECTIONS), sections)
        own = block.get("mrope_interleaved", _FLAG)
        interleaved = bool(own) or self.rope.get("interleaved_sections", False)
        # grid=0: text, whose axes count alike.
        return RopeSectionsConfig(**head, sections=sections, grid=0, interleaved=interleaved)

    def _own(self, block: Record, config: type[RopeConfig], pairs: int) -> dict[str, Any]:
        """Return the fields of a scaling, each a key of the block by its own name."""
        rules, defaults = fields.rules(config), fields.defaults(config)
        names = [name for name in rules if name not in _NOT_OF_BLOCK]
        trained = self._trained(block, config.kind) if "trained_length" in names else None
        values: dict[str, Any] = {}
        for name in names:
            if name == "trained_length":
                values[name] = trained
            elif name in FACTOR_LISTS:
                values[name] = self._factors(block, name, pairs)
            elif name == "factor":
                values[name] = self._factor(block, config.kind, trained)
            else:
                value = block.get(name, _strict(rules[name]), required=name in _REQUIRED)
                values[name] = defaults[name] if value is None else value
        return values

    def _factors(self, block: Record, name: str, pairs: int) -> tuple[float, ...]:
        """Return LongRoPE's factors of the pairs."""
        values = block.entries(name, pairs, "numbers")
        if values is None:
            raise block.error(name, f"is missing; it must be a list of {pairs:,} numbers")
        return tuple(
            block.checked(f"{name}[{index}]", value, _PAIR_FACTOR)
            for index, value in enumerate(values)
        )

    def _factor(self, block: Record, kind: str, trained: int | None) -> float:
        """Return the factor; without one, the context over the trained length where that may be."""
        if block.says("factor"):
            factor: float = block.get("factor", _FACTOR)
            return factor
        if kind == "rope_proportional":
            return 1.0
        is_null = "factor" in block.content
        may_lack = kind == "rope_longrope" or (kind == "rope_yarn" and is_null)
        if trained is None or not may_lack:
            raise block.error("factor", f"is missing; it must be {_FACTOR.allowed()}")
        name, context = self.record.named(self.head.context_key), self.head.context
        factor = context / trained
        if factor < 1:
            raise block.error(
                "factor",
                f"is absent, and {name} / {TRAINED} = {context:,} / {trained:,} is below 1; give a "
                f"factor from 1 to {limits.MAX_SCALE_FACTOR:g}",
            )
        self.record.take(block.named("factor"), block.named("factor"), factor, null=is_null)
        return factor

    def _trained(self, block: Record, kind: str) -> int:
        """Return the length before scaling, or what transformers takes for it."""
        context, default = self.head.context, self.rope.get("trained_length")
        if kind == "rope_dynamic":
            self.record.take("dynamic", block.named(TRAINED), context)
            return context
        is_whole = self.is_shared and block.path.endswith((NEW, OLD))
        if not is_whole and self.record.says(TRAINED) and not block.says(TRAINED):
            problem = "does not count for blocks of kinds of layers"
            raise self.record.error(TRAINED, f"{problem}: write it as {block.named(TRAINED)}")
        written: int | None = self._inner_or_outer(block, TRAINED, (TRAINED,), LENGTH)
        if default not in (None, written) and written and not self.record.says(TRAINED):
            raise block.error(
                TRAINED,
                f"says {written:,}, but without one beside the block transformers takes "
                f"{default:,}; they must agree",
            )
        if written is not None:
            return written
        taken = context if default is None else int(default)
        self.record.take(TRAINED, block.named(TRAINED), taken)
        return taken

    def _note_others(self, block: Record, read: set[str]) -> None:
        """Note the keys of a block that its scaling does not have."""
        if block.path == self.record.path:
            return  # no block, but the config around it
        known = read | {THETA, SHARE_KEY, TRAINED, "rope_type", "type", *self.rope.get("also", ())}
        for name in block.content:
            if name not in known:
                note_unread(block, name)


def _strict(rule: fields.Rule) -> fields.Rule:
    """Return a rule without 0, which is how fields of a scheme write "none"."""
    return dataclasses.replace(rule, or_zero=False) if isinstance(rule, fields.FloatRange) else rule


def _share_of(rotary: int, dim: int, share: float | None) -> float:
    """Return the share whose part of `dim`, cut as transformers cuts it, is `rotary`; `share` if it is."""
    if share is not None and int(dim * share) == int(dim * share + 1e-9) == rotary:
        return share
    share = rotary / dim
    return share if int(dim * share) == rotary else math.nextafter(share, 1.0)
