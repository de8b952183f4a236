"""What happened, as lines of the log: whatever text of a visitor is in it, no line can pass for another.

A message may quote what a visitor gave. Every line of a fault begins with its incident, and control
characters are written as escapes, so that no made-up line break begins a record of its own and no
terminal that shows the log is told to do anything.
"""

import traceback
import unicodedata

MOST_CHARACTERS = 2_000  # of one line
MOST_LINES = 200  # of one fault, the last ones, which say what happened


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text as one printable line: controls, line ends and lone surrogates as escapes."""
    shown = "".join(
        letter.encode("unicode_escape").decode("ascii")
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else letter
        for letter in text[:most]
    )
    return shown if len(text) <= most else shown + "…"


def of_fault(incident: str, error: BaseException) -> str:
    """Return a fault with its trace, every line under the incident's id.

    The trace's own lines are taken apart before what an error says, which may hold line ends.
    """
    kind = type(error)
    lines = [f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")]
    for part in traceback.format_exception(error, limit=-MOST_LINES):
        # A frame is one part of two or three lines, all of them ours; a message is a part by itself.
        frame = part.startswith("  File ")
        lines += part.rstrip("\n").split("\n") if frame else [part.strip("\n")]
    return "\n".join(f"incident {incident}: {one_line(line)}" for line in lines[-MOST_LINES:])
