"""Identify the scheme behind a table of numbers, and say how the table differs from its formula."""

from posenc.identification.facts import ModelMatch
from posenc.identification.identify import Deviation, Identification, identify
from posenc.identification.match import match_model
from posenc.identification.rotated import RotationMatch, VectorRotation, match_rotation, rotation_of

__all__ = [
    "Deviation",
    "Identification",
    "ModelMatch",
    "RotationMatch",
    "VectorRotation",
    "identify",
    "match_model",
    "match_rotation",
    "rotation_of",
]
