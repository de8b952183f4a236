"""Readings of a trained scheme past its training length, by every scaling that needs no training."""

from collections.abc import Sequence

from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig

# Scalings that a factor and the trained length define; the others need searched numbers or training.
AFTER_TRAINING = tuple(
    kind for kind, config in SCHEMES.items() if config.stretching(RopeConfig(), 16, 8) is not None
)


def stretched(
    trained: SchemeConfig,
    length: int,
    trained_length: int,
    kinds: Sequence[str] = AFTER_TRAINING,
) -> dict[str, SchemeConfig]:
    """Return other readings of weights trained with `trained`, at `length` positions, by name.

    kinds: the scalings asked for. Empty for a scheme that none of them knows, and for a scaled one: a
    second factor would replace the first.
    """
    found = {}
    for kind in kinds:
        config = SCHEMES[kind].stretching(trained, length, trained_length)
        if config is not None:
            found[config.reading] = config
    return found
