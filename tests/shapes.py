"""The type checker of the test run: beartype, which has no notion of Self on a plain method."""

from typing import Self

from beartype import BeartypeConf, FrozenDict, beartype

checked = beartype(
    conf=BeartypeConf(hint_overrides=FrozenDict({Self: object}), is_pep484_tower=True)
)
