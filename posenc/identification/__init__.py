"""Identify the scheme behind a table of numbers, and say how the table differs from its formula."""

from posenc.identification.identify import Deviation, Identification, identify
from posenc.identification.model_match import match_model

__all__ = ["Deviation", "Identification", "identify", "match_model"]
