"""Model types as data: a row for each, and a reader that takes any of them."""

from posenc.families.family import model_types
from posenc.families.read_config import read_config

__all__ = ["model_types", "read_config"]
