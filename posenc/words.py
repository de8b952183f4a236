"""Numbers and nouns as sentences write them."""

import math
from collections.abc import Iterable


def counted(count: int, noun: str, several: str = "") -> str:
    """Write how many there are of something: 1 row, 2 rows; `several` where an s is not enough."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def power(value: float) -> str:
    """Return a base with five digits: 5e5, 4.8692e6; below 1e4 in full."""
    if value < 10_000:
        return f"{value:,.5g}"
    exponent = math.floor(math.log10(value))
    mantissa = f"{value / 10.0**exponent:.5g}"
    return f"1e{exponent + 1}" if mantissa == "10" else f"{mantissa}e{exponent}"


def times(factor: float) -> str:
    """Return a factor as x16 or x1.25."""
    return f"x{factor:,.4g}"


def listed(names: Iterable[str], last: str) -> str:
    """Return names as a sentence lists them, `last` before the last one: YaRN, NTK-aware or none."""
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final


def with_advanced(help: str, names: Iterable[str]) -> str:
    """Return a control's help that names what of its choices is advanced, if anything is."""
    said = ", ".join(names)
    return f"{help} Advanced: {said}." if said else help
