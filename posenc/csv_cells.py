"""Cells of a CSV file that no spreadsheet takes for a formula: text that begins like one is marked.

OWASP ASVS 5.0, 1.2.10, and its page on CSV injection: a cell that begins with =, +, -, @, a tab or a line
end may be computed where the file is opened; an apostrophe before it says that it is text. Numbers,
and texts that are numbers, stay as they are: -0.5 begins with a minus, too.
"""

import re
from typing import Any

_FORMULA = "=+-@＝＋－＠"  # and the wide forms that some spreadsheets take for them
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|nan)", re.IGNORECASE | re.ASCII
)


def cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file: a text that is not taken for a formula, or itself.

    Control characters become blanks: a line end, which not every writer quotes, would begin a row.
    """
    if not isinstance(value, str):
        return value
    text = _CONTROL.sub(" ", value)
    begin = text.lstrip()
    if begin and begin[0] in _FORMULA and _NUMBER.fullmatch(begin) is None:
        return f"'{text}"
    return text
