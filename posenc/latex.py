r"""Formulas of schemes in LaTeX: in either notation, with symbols or with the current numbers.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5, write :math:`PE_{(pos, 2i)}`; many texts write
:math:`p_t^{(2k)}` with :math:`\omega_k = b^{-2k/d}` instead. Each scheme's config owns its formula; it
is written with the `Writer` of one notation, so that no config knows any letter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout
from posenc.limits import MAX_HEADS, check_choice, check_flag, check_head

Notation = Literal["pos, i", "t, k"]
NOTATIONS: tuple[Notation, ...] = ("pos, i", "t, k")

# Position of the query (or of the token), position of the key, number of a pair.
_LETTERS = {"pos, i": (r"\mathrm{pos}", r"\mathrm{pos}'", "i"), "t, k": ("t", "t'", "k")}
_SYMBOLS = {
    "dim": "d", "rotary_dim": "r", "base": "b", "heads": "n", "max_len": "L", "factor": "s",
    "trained_length": "L", "low_freq_factor": "l", "high_freq_factor": "h", "beta_fast": r"\beta",
    "beta_slow": r"\alpha", "buckets": "N", "max_distance": "D", "width": "w", "threshold": "L",
    "clip": "K", "counted": "P", "scale_base": "B", "origin": "o",
}  # fmt: skip


@runtime_checkable
class Formulated(Protocol):
    """What has a formula: the config of a scheme."""

    def formula(self, write: "Writer") -> str:
        """Return the formula in LaTeX, written with the letters and numbers of `write`."""


@dataclass(frozen=True)
class Writer:
    """The letters and numbers of one formula.

    config: whose fields the formula names. numbers: write their values instead of their symbols.
    head: the head meant, from 0, or "mean" where no single one is.
    """

    config: Any
    notation: Notation = "pos, i"
    numbers: bool = False
    head: Literal["mean"] | int = "mean"

    def __post_init__(self) -> None:
        if not isinstance(self.config, Formulated):
            raise SchemeArgumentError(
                f"config must be a scheme's config, got {type(self.config).__name__}."
            )
        check_flag("numbers", self.numbers)
        check_head(self.head, getattr(self.config, "heads", MAX_HEADS))
        check_choice("notation", self.notation, NOTATIONS)

    @property
    def position(self) -> str:
        """The position of a token, or of a query."""
        return _LETTERS[self.notation][0]

    @property
    def key(self) -> str:
        """The position of a key."""
        return _LETTERS[self.notation][1]

    @property
    def pair(self) -> str:
        """The number of a pair of features, from 0."""
        return _LETTERS[self.notation][2]

    def value(self, field: str) -> str:
        """The symbol of a field of the config, or its current number."""
        return number(getattr(self.config, field)) if self.numbers else _SYMBOLS[field]

    def entry(self, feature: str) -> str:
        """One number of a position's vector."""
        if self.notation == "pos, i":
            return rf"PE_{{({self.position},\,{feature})}}"
        return rf"p_{{{self.position}}}^{{({feature})}}"

    def features(self, layout: Layout, field: str) -> tuple[str, str]:
        """The two features of a pair of a vector whose width is a field of the config."""
        if layout == "interleaved":
            return f"2{self.pair}", f"2{self.pair}+1"
        half = str(getattr(self.config, field) // 2) if self.numbers else f"{self.value(field)}/2"
        return self.pair, f"{self.pair}+{half}"

    def angle(self, field: str) -> str:
        """The angle of a pair at a position; `field` is the width of the frequencies."""
        if self.notation == "pos, i":
            return rf"\frac{{{self.position}}}{{{self.power(field)}}}"
        return rf"\omega_{self.pair}\,{self.position}"

    def power(self, field: str) -> str:
        """The base to the pair's share of the width: one over its frequency."""
        return rf"{{{self.value('base')}}}^{{2{self.pair}/{self.value(field)}}}"

    def frequencies(self, field: str) -> list[str]:
        """The definition of the frequencies where the angle names them, else nothing."""
        if self.notation == "pos, i":
            return []
        return [rf"\omega_{self.pair} &= \frac{{1}}{{{self.power(field)}}}"]

    def waves(self, field: str, layout: Layout) -> str:
        """A pair of features that holds the sine and the cosine of the pair's angle."""
        first, second = (self.entry(feature) for feature in self.features(layout, field))
        angle = rf"\left({self.angle(field)}\right)"
        lines = [rf"{first} &= \sin{angle}", rf"{second} &= \cos{angle}", *self.frequencies(field)]
        return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"

    def bias(self, head: str = "") -> str:
        """What a scheme adds to the logit of a query and a key. head: the index of a head, "" for none."""
        index = f"_{{{head}}}" if head else ""
        return rf"\mathrm{{bias}}{index}({self.position}, {self.key})"

    @property
    def frequency(self) -> str:
        """The frequency of a pair: its angle per position."""
        return rf"\omega_{self.pair}" if self.notation == "t, k" else rf"\theta_{self.pair}"

    def rotation(
        self,
        layout: Layout,
        field: str,
        lines: Sequence[str],
        factor: str = "",
        *,
        clockwise: bool = False,
    ) -> str:
        """Two equations: a pair of features of a query or key x, rotated by the pair's angle.

        lines: the frequency, then definitions of its symbols. factor: of the rotated pair. clockwise:
        whether the angle is negative.
        """
        first, second = (f"{{{feature}}}" for feature in self.features(layout, field))
        angle = rf"\rho_{self.pair}"
        minus, plus = ("+", "-") if clockwise else ("-", "+")
        left, right = (r"\left(", r"\right)") if factor else ("", "")
        equations = [
            rf"x'_{first} &= {factor}{left}x_{first} \cos {angle} {minus} x_{second} \sin {angle}{right}",
            rf"x'_{second} &= {factor}{left}x_{second} \cos {angle} {plus} x_{first} \sin {angle}{right}",
            rf"{angle} &= {self.frequency}\,{self.position}",
            rf"{self.frequency} &= {lines[0]}",
        ]
        text = r"\begin{aligned} " + r" \\ ".join(equations) + r" \end{aligned}"
        if len(lines) == 1:
            return text
        return rf"\begin{{gathered}} {text} \\ " + r",\\ ".join(lines[1:]) + r" \end{gathered}"


def formula(
    config: Formulated,
    notation: Notation = "pos, i",
    *,
    numbers: bool = False,
    head: Literal["mean"] | int = "mean",
) -> str:
    """Return the formula of a scheme in LaTeX.

    config: of the scheme. notation: "pos, i" (Vaswani et al. 2017) or "t, k". numbers: the config's
    values in the place of their symbols. head: the head meant by numbers, from 0.
    Raises SchemeArgumentError for an unknown notation or head.
    """
    write = Writer(config, notation, numbers, head)
    return config.formula(write)


@dataclass(frozen=True)
class _Noting(Writer):
    """A writer that notes the fields whose symbols it writes, in their order in the formula."""

    noted: list[str] = field(default_factory=list)

    def value(self, field: str) -> str:
        self.noted.append(field)
        return super().value(field)


def symbols(config: Formulated, notation: Notation = "pos, i") -> dict[str, str]:
    """Return the fields that the formula of a scheme names, each with its symbol in LaTeX.

    config and notation: as of `formula`. Raises SchemeArgumentError for an unknown notation.
    """
    write = _Noting(config, notation)
    config.formula(write)
    return {name: _SYMBOLS[name] for name in write.noted}


def number(value: float) -> str:
    """Write a number in LaTeX to ten digits, large and small ones as a power of ten."""
    text = f"{value:.10g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    power = rf"10^{{{int(exponent)}}}"
    return f"({power})" if mantissa == "1" else rf"({mantissa} \cdot {power})"
