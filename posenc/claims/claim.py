"""A claim: a sentence from the literature, its source, and the test that decides it."""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from posenc.claims.proofs import Proof
from posenc.notebook import Shown, View
from posenc.schemes.sinusoidal import Sinusoidal, SinusoidalConfig
from posenc.schemes.sizes import Sizes
from posenc.text import significant, with_power_of_ten

# In the order in which claims are listed.
THEMES = ("values", "content", "wavelengths", "distance", "order", "tables", "biases", "models")
VASWANI = "Vaswani et al. 2017, arXiv 1706.03762"
TABLE = ("dim", "base", "precision")  # what a sinusoidal table depends on
EXACT = 1e-9  # relative; an identity computed in float64 is off by less


class Status(StrEnum):
    """The outcome of a claim's test at given sizes.

    THEOREM: true at all sizes by proof; the test confirms it to rounding. HOLDS_HERE and NOT_HERE: a
    claim about trained models that this library's small runs bear out or contradict, which proves and
    refutes nothing of larger models.
    """

    HOLDS = "holds"
    HOLDS_HERE = "holds in these models"
    THEOREM = "theorem holds"
    PARTLY = "partly"
    FALSE = "false"
    NOT_HERE = "not in these models"
    NOT_MEASURED = "not measured here"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Number:
    """One computed number with its name and unit; the value is None where there is no such number."""

    name: str
    value: float | None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.value is not None:
            object.__setattr__(self, "value", float(self.value))

    @property
    def text(self) -> str:
        """The number and its unit, rounded for reading."""
        return "none" if self.value is None else f"{figure(self.value)} {self.unit}".strip()


@dataclass(frozen=True)
class Verdict(Shown):
    """The outcome of a claim's test at given sizes.

    numbers: the first one decides. sentence: what was computed, and from what. control: the same
    check where the answer must be the opposite; every THEOREM has one.
    """

    status: Status
    numbers: tuple[Number, ...]
    sentence: str
    control: Number | None = None

    @property
    def decides(self) -> Number | None:
        """The number that decides; None where there is none."""
        return self.numbers[0] if self.numbers else None

    def view(self) -> View:
        control = [] if self.control is None else [("control: " + self.control.name, self.control)]
        named = [(number.name, number) for number in self.numbers] + control
        return View(
            title=f"{self.status.value}: {self.sentence}",
            columns={
                "number": [name for name, _ in named],
                "value": [number.value for _, number in named],
                "unit": [number.unit for _, number in named],
            },
        )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence that textbooks and posts repeat, and the test that decides it at any sizes.

    source: who says so or what decides it. uses: the only fields of Sizes that the test reads,
    such as "dim" or "rope.layout". steps: other functions that a reader of the test needs. proof: of a
    claim whose verdict can be THEOREM.
    """

    id: str
    sentence: str
    theme: str
    source: str
    test: Callable[[Sizes], Verdict]
    uses: tuple[str, ...]
    steps: tuple[Callable[..., Any], ...]
    url: str
    proof: Proof | None

    @property
    def link(self) -> str:
        """The address of the source."""
        arxiv = re.search(r"arXiv (\d{4}\.\d{5}|cmp-lg/\d{7})", self.source)
        return self.url or (f"https://arxiv.org/abs/{arxiv.group(1)}" if arxiv else "")

    def relevant(self, sizes: Sizes) -> Sizes:
        """Return sizes with the same verdict, equal for all that agree in `uses`."""
        fields: dict[str, Any] = {
            name: getattr(sizes, name) for name in self.uses if "." not in name
        }
        own = tuple((key, value) for key, value in sizes.own if key in self.uses)
        heads = fields.setdefault("heads", 1)
        fields.setdefault("dim", 2 * heads)
        fields.setdefault("length", 2)
        return _sizes(own, *fields.items())


@functools.lru_cache(256)  # many claims read the same fields
def _sizes(own: tuple[tuple[str, Any], ...], *shared: tuple[str, Any]) -> Sizes:
    return Sizes(own=own, **dict(shared))


_registry: list[Claim] = []


def claim(
    sentence: str,
    *,
    theme: str,
    source: str,
    uses: tuple[str, ...] = ("dim", "base"),
    steps: tuple[Callable[..., Any], ...] = (),
    url: str = "",
    proof: Proof | None = None,
) -> Callable[[Callable[[Sizes], Verdict]], Callable[[Sizes], Verdict]]:
    """Return a decorator that registers a test as a claim, under the test's name."""

    def register(test: Callable[[Sizes], Verdict]) -> Callable[[Sizes], Verdict]:
        _registry.append(
            Claim(
                id=test.__name__, sentence=sentence, theme=theme, source=source, test=test,
                uses=uses, steps=steps, url=url, proof=proof,
            )
        )  # fmt: skip
        return test

    return register


def claims() -> dict[str, Claim]:
    """Return all registered claims by id, theme by theme, in the order in which they are defined."""
    ordered = sorted(_registry, key=lambda claim: THEMES.index(claim.theme))
    return {claim.id: claim for claim in ordered}


def undecided(sentence: str) -> Verdict:
    """Return the verdict at sizes of which a claim says nothing."""
    return Verdict(Status.UNDECIDED, (), sentence)


def sinusoidal(sizes: Sizes) -> Sinusoidal:
    """Return the sinusoidal scheme with interleaved features, whose order changes no verdict."""
    return SinusoidalConfig(dim=sizes.dim, base=sizes.base).build()


def randn(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return numbers drawn from N(0, 1)."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def relative_change(after: Tensor, before: Tensor) -> float:
    """Return the largest difference over the largest entry."""
    return ((after - before).abs().max() / before.abs().max()).item()


def figure(value: float) -> str:
    """Return a number as a sentence writes it: whole numbers in full, others with three digits."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e15:
        return significant(value)
    return with_power_of_ten(value, 2)


def fraction(part: float, whole: float) -> str:
    """Return a part of a whole in words: 3 of 256."""
    return f"{figure(part)} of {figure(whole)}"
