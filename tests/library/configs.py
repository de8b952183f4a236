"""Configs by the name of their scheme, whose own fields no type checker knows."""

from typing import Any

from posenc import SCHEMES


def config_of(kind: str, **fields: Any) -> Any:
    return SCHEMES[kind](**fields)
