"""Words of every page at the least sizes: no "1 pairs", and what every sentence must name."""

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import pinned
from posenc import Setting
from tests.pages import PAGES, as_read, charts, drawn, headline, rows_of_matrices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# One of something with an s: what follows "1 " and is no plural.
NO_PLURAL = {"is", "was", "has", "this", "less", "times", "as", "across", "loss", "bias", "its"}
NO_PLURAL |= {"falls"}  # "1 falls at every step", of a rank correlation
ONE_OF_MANY = re.compile(
    r"(?<![\d.,^⁻(-])1 (?:(?:trained|training|different|full|other) )?([a-z]+s)\b"
)
LEAST = {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "base": "2"}
TWO = LEAST | {"dim": "4", "heads": "2", "train_length": "2", "length": "3"}
SIZES = {
    "least": LEAST,
    "least, random table": LEAST | {"learned_source": "random"},
    "least, one offset": LEAST | {"train_length": "2", "pair": "0", "places": "fastest"},
    "two": TWO,
    "two, random table": TWO | {"learned_source": "random", "precision": "bfloat16"},
    "least, pinned": LEAST | {"a": pinned.written(Setting(dim=2, heads=1, length=2, base=3.0))},
}
HALVES = {"extrapolation": ({}, {"half": "measured"})}


def said(at: AppTest) -> list[str]:
    """Every text of a page that a visitor can read, in full."""
    found: list[str] = []
    for kind in (
        "title",
        "header",
        "subheader",
        "markdown",
        "caption",
        "info",
        "warning",
        "success",
    ):
        found += [str(one.value) for one in at.get(kind)]
    for kind in (
        "radio",
        "selectbox",
        "slider",
        "select_slider",
        "number_input",
        "toggle",
        "button",
    ):
        for one in at.get(kind):
            found += [one.label, *map(str, getattr(one, "options", ()) or ())]
    for box in at.get("expander"):
        found.append(box.label)
    for frame in [*(one.value for one in at.dataframe), *(one.value for one in at.table)]:
        named = [*map(str, frame.columns), *map(str, frame.index)]
        found += named + [str(cell) for cell in frame.to_numpy().ravel() if isinstance(cell, str)]
    for element in at.get("vega_lite_chart"):
        found += _texts(json.loads(element.proto.spec))
    for frame in charts(at):
        cells = frame.select_dtypes(["object", "category", "string"])
        found += [str(cell) for name in cells for cell in cells[name].unique()]
    for header, _ in rows_of_matrices(at):
        found += _texts(header)
    return [as_read(text) for text in found]


def _texts(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for value in node.values() for text in _texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in _texts(value)]
    return [node] if isinstance(node, str) else []


def odd(texts: list[str]) -> list[str]:
    return [
        f"{match.group(0)}: {text}"
        for text in texts
        for match in ONE_OF_MANY.finditer(text)
        if match.group(1) not in NO_PLURAL
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("page", PAGES)
def test_one_of_a_kind_has_no_plural_on_any_page(page: str, size: str) -> None:
    for half in HALVES.get(page, ({},)):
        at = drawn(visit(page, SIZES[size] | half, **OPENED.get(page, {})))
        texts = said(at)
        assert as_read(headline(at)) in " ".join(texts).replace("**", "")
        assert odd(texts) == []


OPENED = {"claims": {f"claim_code_{name}": True for name in ("slowest", "unique")}}


@pytest.mark.parametrize("page", ["similarity", "extrapolation"])
def test_questions_have_no_plural_of_one(page: str) -> None:
    for half in HALVES.get(page, ({},)):
        at = drawn(visit(page, LEAST | half | {"predict": "true"}))
        assert [box for box in at.selectbox if box.label == "Question"] or page == "similarity"
        assert odd(said(at)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 pairs", 1),
        ("0 of 1 pairs complete a turn", 1),
        ("a table of 1 rows; 11 rows, 1.1 times, 0.1 nats, 2,001 rows", 1),
        ("1 is identical, 1 row, 10 heads, 1 times", 0),
    ],
)
def test_the_scan_sees_what_it_looks_for(text: str, found: int) -> None:
    assert len(odd([text])) == found
