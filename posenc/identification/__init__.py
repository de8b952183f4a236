"""Identify the scheme behind a table of numbers, and say how the table differs from its formula."""

from posenc.identification.identify import Deviation, Identification, identify

__all__ = ["Deviation", "Identification", "identify"]
