"""The data of the model types that are read, and why others are not."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
VERSION = "5.23"  # of transformers, whose defaults the data has
UNKNOWN = "unknown"  # the row of Llama's keys alone: every size is required

_FOLDER = Path(__file__).parent / "data"
OTHERS_FILE = _FOLDER / "others.json"
_ROWS: Mapping[str, Row] = json.loads((_FOLDER / "families.json").read_text("utf-8"))
_OTHERS: Mapping[str, Any] = json.loads(OTHERS_FILE.read_text("utf-8"))
# Rows by model type.
FAMILIES: Mapping[str, Row] = {name: row for name, row in _ROWS.items() if name != UNKNOWN}
# The type of the text model of a type that is made of several models.
TEXT_TYPES: Mapping[str, str] = _OTHERS["text types"]


def row_of(model_type: str) -> Row:
    """Return the row of a model type; of an unknown type, the row that requires every size."""
    return _ROWS.get(model_type, _ROWS[UNKNOWN])


@functools.cache
def stacks_of(model_type: str) -> Mapping[str, Row]:
    """Return the row of each stack of a type by its name, "" where there is one alone."""
    row = row_of(model_type)
    parts = row.get("stacks", {"": {}})
    return {name: merged(row, part) for name, part in parts.items()}


def merged(row: Row, part: Row) -> Row:
    """Return a row with the entries of a part in place of its own; objects are joined."""
    joined = {
        name: {**row[name], **value} if isinstance(value, dict) and name in row else value
        for name, value in part.items()
    }
    return {**row, **joined}


def model_types() -> tuple[str, ...]:
    """Return the known model types."""
    return tuple(sorted({*FAMILIES, *TEXT_TYPES}))


def kind_of(model_type: str) -> str:
    """Return what the class of a type that is not read does with position; "" if unknown."""
    return str(_OTHERS["kinds"].get(model_type, ""))


def reason_of(model_type: str) -> str:
    """Return why a type is not read, "" where that is not known."""
    reasons: Mapping[str, str] = _OTHERS["reasons"]
    own: Mapping[str, str] = _OTHERS["types"]
    return own.get(model_type) or reasons.get(kind_of(model_type), "")
