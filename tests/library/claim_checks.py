"""A claim's verdict and its numbers by their names, and the sinusoidal table that claims are about."""

from typing import Any

from posenc.claims import CLAIMS
from posenc.schemes.sizes import Sizes


def verdict(name: str, **changes: Any) -> Any:
    """Return the verdict of a claim at the default sizes with these changes."""
    return CLAIMS[name].test(Sizes(**changes))


def number(found: Any, prefix: str) -> float:
    (value,) = [number.value for number in found.numbers if number.name.startswith(prefix)]
    return value


def deciding(found: Any) -> float:
    return found.decides.value


def control(found: Any) -> float:
    return found.control.value
