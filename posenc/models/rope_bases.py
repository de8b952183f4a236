"""The base of RoPE of each kind of layer, by the data of a class (see posenc.models.rope_blocks)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.models.rope_types import THETA


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base of a kind of layer.

    default: where the config has no rope block; names: the keys outside of a block that count then.
    block_default: where it has a block without a base; block_names: the keys outside of the block
    that count then. Both defaults are None where the class needs the base to be given.
    takes_scaling: whether a rope_scaling applies. may_be_absent: whether the kind takes its defaults
    where rope_parameters has blocks of other kinds alone.
    """

    default: float | None
    names: Sequence[str] = (THETA,)
    block_default: float | None
    block_names: Sequence[str]
    takes_scaling: bool = True
    may_be_absent: bool = True


def bases_of(rope: Mapping[str, Any]) -> dict[str, Base]:
    """Return the bases of a class by kind of layer, "" for all kinds."""
    rows = rope.get("bases") or {"": {"default": rope["base"]}}
    return {
        word: Base(
            **{
                "block_default": row["default"],
                "block_names": row.get("names", (THETA,)),
                **row,
            },
        )
        for word, row in rows.items()
    }


def base_of(bases: Mapping[str, Base], word: str) -> Base:
    """Return the base of a kind of layer: its own, else that of all kinds, else the first."""
    return bases.get(word) or bases.get("") or next(iter(bases.values()))
