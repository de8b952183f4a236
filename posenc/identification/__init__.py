"""What is this table? The scheme that made it, and how it differs from it."""

from posenc.identification.identify import Deviation, Identification, identify

__all__ = ["Deviation", "Identification", "identify"]
