"""The base of RoPE of each kind of layer, by the data of a class (see posenc.models.rope_blocks)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.models.rope_types import THETA


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base of a kind of layer; None where the class needs it to be given. See the module."""

    default: float | None
    names: Sequence[str] = (THETA,)
    bare: float | None
    bare_names: Sequence[str]
    scaled: bool = True
    fills: bool = True


def bases_of(rope: Mapping[str, Any]) -> dict[str, Base]:
    """Return the bases of a class by kind of layer, "" for all kinds."""
    rows = rope.get("bases") or {"": {"default": rope["base"]}}
    return {
        word: Base(
            **{"bare": row["default"], "bare_names": row.get("names", (THETA,)), **row},
        )
        for word, row in rows.items()
    }


def base_of(bases: Mapping[str, Base], word: str) -> Base:
    """Return the base of a kind of layer: its own, else that of all kinds, else the first."""
    return bases.get(word) or bases.get("") or next(iter(bases.values()))
