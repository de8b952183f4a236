"""The sentences of every page at default settings: read from the pages, written to a file, compared.

python -m tests.dashboard.page_texts    rewrites page_texts.txt; read the difference before you commit it
"""

import re
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from dashboard.drawers import HOW_TO_READ
from tests.dashboard.pages import PLACES, as_read, drawn, visit_place

FILE = Path(__file__).with_name("page_texts.txt")
# Their sentences say how long this machine takes, or what others train on it.
LEFT_OUT = ("train",)
TO_REWRITE = (
    "If the page is right, run `python -m tests.dashboard.page_texts` and read the difference."
)
# What stands open: the guide, and the drawers whose sentences are reviewed.
OPEN: dict[str, Any] = {"drawers": [HOW_TO_READ]} | dict.fromkeys(
    ("plan_lengths", "plan_order", "plan_warnings", "plan_inference", "plan_sources"), True
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+|[\s\u00a0]×[\s\u00a0]10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
_EXPONENT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
ROUNDING = 1e-9  # what is smaller is what rounding left, another number on another processor


def page_texts(at: AppTest) -> list[str]:
    """Every sentence of a page's main part, a line each."""
    found = [at.title[0].value]
    for kind in ("header", "markdown", "caption", "info", "warning"):
        for element in getattr(at.main, kind):
            found += [line for line in as_read(str(element.value)).splitlines() if line.strip()]
    return found


def read_pages() -> list[str]:
    lines = []
    for place in PLACES:
        if place not in LEFT_OUT:
            lines += [f"[{place}]", *page_texts(drawn(visit_place(place, **OPEN)))]
    return lines


def reviewed() -> dict[str, list[str]]:
    """The sentences of the file by page."""
    text = FILE.read_text(encoding="utf-8")
    _, *sections = re.split(r"^\[([\w ]+)\]\n", text, flags=re.MULTILINE)
    return {
        place: lines.splitlines()
        for place, lines in zip(sections[::2], sections[1::2], strict=True)
    }


def value_and_unit(text: str) -> tuple[float, float]:
    """The number that 1,024, 8e-16 or 1.4 × 10⁻¹⁵ says, and one unit of its last shown digit."""
    bare = re.sub(r"[\s\u00a0,]", "", text).replace("e", "×10")
    mantissa, _, exponent = bare.partition("×10")
    power = 10.0 ** int(exponent.translate(_EXPONENT) or 0)
    unit = 10.0 ** -len(mantissa.partition(".")[2])
    return float(mantissa) * power, unit * power


def same_number(text: str, other: str) -> bool:
    """Whether two numbers are the same, whole ones exactly, others but for their last shown digit."""
    (one, unit), (another, _) = value_and_unit(text), value_and_unit(other)
    if max(one, another) < ROUNDING:
        return True
    return text == other if "." not in text + other else abs(one - another) < 1.5 * unit


def same_text(text: str, other: str) -> bool:
    """Whether two lines have the same words, and numbers that differ by rounding alone."""
    pairs = [*zip(NUMBER.findall(text), NUMBER.findall(other), strict=False)]
    same_words = NUMBER.sub("#", text) == NUMBER.sub("#", other)
    return same_words and all(same_number(*pair) for pair in pairs)


if __name__ == "__main__":
    FILE.write_text("\n".join(read_pages()) + "\n", encoding="utf-8")
