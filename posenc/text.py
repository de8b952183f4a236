"""Numbers, names, cells of CSV files and the command that installs an extra as text."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MAX_NAME_LENGTH = 80  # characters
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printable_name(name: str, limit: int = MAX_NAME_LENGTH) -> str:
    """Return `name` for display: control and bidirectional characters escaped, cut to `limit`.

    A backslash is doubled, so two different names that fit the limit never look the same.
    """
    text = "".join(
        character.encode("unicode_escape").decode("ascii")
        if character == "\\" or unicodedata.category(character).startswith(("C", "Zl", "Zp"))
        else character
        for character in name[: limit + 1]
    )
    return text if len(text) <= limit else text[: limit - 1] + "…"


_FORMULA = "=+-@＝＋－＠"  # and the wide forms that some spreadsheets take for them
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|nan)", re.IGNORECASE | re.ASCII
)


def csv_cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file that no spreadsheet takes for a formula.

    A text that begins like a formula gets an apostrophe (OWASP ASVS 5.0, 1.2.10); numbers, and texts
    that are numbers, stay as they are: -0.5 begins with a minus, too. Control characters become
    blanks: a line end, which not every writer quotes, would begin a row.
    """
    if not isinstance(value, str):
        return value
    text = _CONTROL.sub(" ", value)
    begin = text.lstrip()
    if begin and begin[0] in _FORMULA and _NUMBER.fullmatch(begin) is None:
        return f"'{text}"
    return text


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: 1 row, 2 rows; `plural` is for those that do not end in s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number with at least so many significant digits: 0.00123, 12.3, 999.7 as 1,000, 12,346.

    From 1e-4 to 1e15 it is written in full, and thousands are separated; others have a power of ten.
    """
    rounded = float(f"{value:.{digits}g}")
    if rounded and math.isfinite(value) and not 1e-4 <= abs(rounded) < 1e15:
        return with_power_of_ten(value, digits)
    return f"{value:,.0f}" if 10**digits <= abs(rounded) < 1e15 else f"{value:,.{digits}g}"


def with_power_of_ten(value: float, digits: int) -> str:
    """Return a number as 1.4 × 10⁻¹⁵, with so many digits before the power."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def as_factor(factor: float) -> str:
    """Return a factor as x16 or x1.25; one that is not quite 1 with the digits that show it."""
    near_one = factor != 1 and f"{factor:.4g}" == "1"
    return f"x{significant(factor, 9 if near_one else 4)}"


def joined(names: Iterable[str], last: str) -> str:
    """Return names as a sentence lists them, `last` before the last one: YaRN, NTK-aware or none."""
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are: a, b, c and 7 more."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def with_advanced(help: str, names: Iterable[str]) -> str:
    """Return a help text that lists which of the choices are advanced, if any are."""
    advanced = ", ".join(names)
    return f"{help} Advanced: {advanced}." if advanced else help


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where this package came.

    It is run in the folder of the checkout, or in the folder of the wheel. Installers write down the
    place: https://packaging.python.org/specifications/direct-url/.
    """
    from importlib.metadata import distributions  # takes a while to load

    records = (found.read_text("direct_url.json") for found in distributions(name="posenc"))
    origin = json.loads(next(filter(None, records), "{}"))
    if "dir_info" in origin or (Path(__file__).parents[1] / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]'"
    if "vcs_info" in origin:
        return f"pip install 'posenc[{extra}] @ {origin['vcs_info']['vcs']}+{origin['url']}'"
    file = unquote(origin["url"]).rpartition("/")[2] if origin else "posenc"
    return f"pip install '{file}[{extra}]'"
