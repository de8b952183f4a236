"""What a claim is: a sentence that textbooks repeat, its source, and the test that decides it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from posenc.schemes.sinusoidal import Sinusoidal, SinusoidalConfig
from posenc.settings import Setting

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class State(StrEnum):
    """What a test found at one setting.

    THEOREM is for what holds at every setting by proof: the check then only confirms it to rounding,
    so its control, on which the same check must fail, is what shows that it could have failed.
    NOT_HERE is for sentences on trained models that the small runs of this library contradict: such
    runs refute nothing of larger models that were trained for longer.
    """

    HOLDS = "holds"
    THEOREM = "theorem holds"
    PARTLY = "partly"
    FALSE = "false"
    NOT_HERE = "not in these models"
    NOT_MEASURED = "not measured here"
    UNDECIDED = "nothing to decide"


@dataclass(frozen=True)
class Number:
    """One computed number with its name and unit; None where there is no such number."""

    name: str
    value: float | None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.value is not None:
            object.__setattr__(self, "value", float(self.value))

    @property
    def written(self) -> str:
        """The number and its unit as people read them."""
        if self.value is None:
            return "none"
        return f"{figure(self.value)} {self.unit}".strip()


@dataclass(frozen=True)
class Verdict:
    """What the test of a claim found at one setting.

    numbers: the first one decides. sentence: what was found, with what was examined. control: the
    same check where the answer must be the other one; every THEOREM has one.
    """

    state: State
    numbers: tuple[Number, ...]
    sentence: str
    control: Number | None = None

    @property
    def decides(self) -> Number | None:
        """The number that decides, None where there is none."""
        return self.numbers[0] if self.numbers else None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence that is repeated, and the test that decides it at any setting.

    source: who says so or what decides it. theme: the claims it stands with. test: setting to
    verdict. uses: the only fields of a setting ("rope.layout" for an own one) that the test reads.
    steps: functions that a reader of the test needs beside it.
    """

    id: str
    sentence: str
    theme: str
    source: str
    test: Callable[[Setting], Verdict]
    uses: tuple[str, ...] = ("dim", "base")
    steps: tuple[Callable[..., Any], ...] = ()
    url: str = ""

    @property
    def link(self) -> str:
        """The address of the source."""
        found = re.search(r"arXiv (\d{4}\.\d{5}|cmp-lg/\d{7})", self.source)
        return self.url or (f"https://arxiv.org/abs/{found.group(1)}" if found else "")

    def relevant(self, setting: Setting) -> Setting:
        """Return a setting with the same verdict, equal for all that differ in nothing it reads."""
        kept: dict[str, Any] = {
            name: getattr(setting, name) for name in self.uses if "." not in name
        }
        own = tuple((key, value) for key, value in setting.own if key in self.uses)
        heads = kept.setdefault("heads", 1)
        kept.setdefault("dim", 2 * heads)
        kept.setdefault("length", 2)
        return Setting(own=own, **kept)


def sinusoidal(setting: Setting) -> Sinusoidal:
    """Return the sinusoidal scheme with its features side by side, whose order changes no verdict."""
    return SinusoidalConfig(dim=setting.dim, base=setting.base).build()


def figure(value: float) -> str:
    """Write a number for a sentence: whole numbers in full, others with three digits."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1000:
        return f"{value:.3g}"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    # No line ends inside a number.
    return (
        f"{mantissa}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{str(int(exponent)).translate(_RAISED)}"
    )


def share(part: float, whole: float) -> str:
    """Write a part of a whole: 3 of 256."""
    return f"{figure(part)} of {figure(whole)}"
