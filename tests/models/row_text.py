"""The text of families.json: an entry of a row on a line, where it fits, and keys in short lines."""

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 96  # of a line


def file_text(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a file of rows."""
    parts = []
    for name, row in rows.items():
        entries = ",\n".join(f"    {json.dumps(key)}: {_text(row[key], 4)}" for key in row)
        parts.append(f"  {json.dumps(name)}: {{\n{entries}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _text(value: Any, indent: int) -> str:
    """Return a value in lines; the first follows its key, which stands `indent` columns in."""
    line = json.dumps(value)
    if len(line) <= WIDTH - indent - 4 or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_text(each, indent + 2)}" for key, each in value.items()]
        is_short = all(isinstance(each, int | float) for each in value.values())
    else:
        parts = [_text(each, indent + 2) for each in value]
        is_short = all(isinstance(each, str) and len(each) < 60 for each in value)
    separator = "\n" + " " * (indent + 2)
    lines = _joined(parts, WIDTH - indent - 2) if is_short else [f"{part}," for part in parts]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = separator.join(lines).removesuffix(",")
    return f"{opening}{separator}{body}\n{' ' * indent}{closing}"


def _joined(parts: list[str], width: int) -> list[str]:
    """Return as many parts as fit on each line."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) + 2 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part},".strip()
    return lines
