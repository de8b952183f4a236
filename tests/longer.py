"""Longer proofs: of many variants that all should hold, some are run always and the others when asked."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def mostly(of: Iterable[Any], *first: Any, name: Callable[[Any], str] | None = None) -> list[Any]:
    """Return variants as parameters: those in `first` are always run, the others with -m long.

    name: of a variant in the test's name.
    """
    every = list(of)
    strange = [one for one in first if one not in every]
    assert not strange, f"no variants: {strange}"
    return [
        pytest.param(
            *(one if isinstance(one, tuple) else (one,)),
            marks=() if one in first else pytest.mark.long,
            id=name(one) if name else None,
        )
        for one in every
    ]
