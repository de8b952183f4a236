"""A pinned setting, A: pages show A, B and their difference, and the link holds both."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.charts import overlay
from dashboard.settings import Setting, to_text
from dashboard.state import to_token
from tests.dashboard import pages
from tests.dashboard.independent_kernels import Small, kernel
from tests.dashboard.pages import (
    LABELS,
    as_read,
    captions,
    charts,
    drawn,
    headline,
    rows_of_matrices,
    visit,
    visit_place,
)
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")


MAIN = ("learned", "sinusoidal", "rope", "alibi")
A: Small = {"dim": 64, "heads": 4, "base": 500.0, "length": 40, "train_length": 24}
B: Small = {"dim": 96, "heads": 4, "base": 9000.0, "length": 48, "train_length": 24}
THEN = Setting(**A, learned_source="random")
NOW = {name: f"{value:.0f}" for name, value in B.items()} | {"learned_source": "random"}
CURVES = "Position similarity by distance"


def test_difference_of_matrices_is_b_minus_a() -> None:
    at = drawn(visit("similarity", NOW | {"a": to_token(THEN)}, **pages.opened(CURVES)))
    assert pages.notices(at) == []
    (_, then), (_, now), (header, change) = rows_of_matrices(at)
    assert header["scale"]["low"] == -header["scale"]["high"]
    settings: list[Small] = [
        pages.DEFAULT | {"learned_source": "random"} | small for small in (B, A)
    ]
    for kind in MAIN:
        after, before = (pages.cosines(kernel(kind, small)) for small in settings)
        size = min(len(after), len(before))
        expected = after[:size, :size] - before[:size, :size]
        if kind == "alibi":  # which neither the width nor the base affects
            assert np.allclose(expected, 0, atol=1e-6)
            continue
        assert np.allclose(change[LABELS[kind]][:size, :size], expected, atol=1e-6), kind
        shown = now[LABELS[kind]][:size, :size] - then[LABELS[kind]][:size, :size]
        assert np.allclose(change[LABELS[kind]][:size, :size], shown, atol=1e-6)
    assert np.abs(change["RoPE"]).max() > 0.1  # the settings differ


def test_equal_settings_differ_nowhere() -> None:
    at = drawn(visit("similarity", to_text(THEN) | {"a": to_token(THEN)}))
    assert len(rows_of_matrices(at)) == 1
    every = "Learned, Sinusoidal, RoPE and ALiBi"
    assert f"A and B are equal for {every}." in captions(at)
    assert as_read(headline(at)).startswith("A (pinned); B (current). ")


@pytest.mark.parametrize(
    ("then", "sentence", "changed"),
    [
        ("heads~2~base~500", "Equal in A and B, so not drawn: Learned and ALiBi.", ["Sinusoidal", "RoPE"]),
        ("heads~4~base~500", "The base and the heads do not affect Learned: ",
         ["Sinusoidal", "RoPE", "ALiBi"]),
    ],
)  # fmt: skip
def test_difference_is_drawn_of_what_the_changed_controls_affect(
    then: str, sentence: str, changed: list[str]
) -> None:
    link = {"dim": "64", "heads": "2", "length": "16", "a": f"dim~64~length~16~{then}"}
    at = drawn(visit("similarity", link | {"base": "9000"}))
    assert any(caption.startswith(sentence) for caption in captions(at))
    assert [[*row] for _, row in rows_of_matrices(at)] == [changed] * 3  # A, B and the difference
    names = [pages.as_read(text.value) for text in at.main.markdown]
    assert any("base 9,000" in name and name.startswith("**B: ") for name in names)
    assert any("base 500" in name and name.startswith("**A: ") for name in names)


PLACES = [*pages.SCHEME_PAGES, "measured"]


@pytest.mark.parametrize("place", mostly(PLACES, "overview", "similarity"))
def test_a_shows_the_schemes_of_b(place: str) -> None:
    """After two of the four that A was pinned with are removed."""
    link = SIZES | {"schemes": "rope,alibi", "a": to_token(SMALL)}
    at = drawn(visit_place(place, link, menu_compare=True))
    shown = {str(kind) for frame in charts(at) if "scheme" in frame for kind in frame["scheme"]}
    shown |= {panel["title"].partition(",")[0] for panel in pages.panels(at)}
    shown |= {one.value for one in at.main.header}
    assert shown
    assert not shown & {"Learned", "Sinusoidal"}
    for text in (*captions(at), headline(at)):
        assert "schemes with" not in text


def test_rows_of_a_and_b_hold_the_same_schemes_after_some_are_removed() -> None:
    pinned = to_token(THEN)
    for page in ("similarity", "relative_offsets"):
        at = drawn(visit(page, NOW | {"schemes": "rope", "a": pinned}))
        rows = [{title.partition(",")[0] for title in row} for _, row in rows_of_matrices(at)]
        assert rows == [{"RoPE"}] * 3, page  # A, B and the difference


def test_words_of_a_difference_name_no_schemes() -> None:
    token = to_token(Setting(schemes=("rope",), base=500.0))
    link = {"schemes": "learned,sinusoidal,alibi", "a": token}
    at = drawn(visit("similarity", link, menu_compare=True))
    assert "A has base 500." in [pages.as_read(text.value) for text in at.caption]
    equal = to_token(Setting(schemes=("rope",)))
    at = drawn(visit("similarity", link | {"a": equal}, menu_compare=True))
    said = [pages.as_read(text.value) for text in at.caption]
    assert "A and B are equal. Change a control to compare." in said


def test_tables_show_the_change_of_every_number() -> None:
    now = pd.DataFrame({"scheme": ["x", "y"], "error": [3.0, np.nan], "note": ["a", "b"]})
    then = pd.DataFrame({"scheme": ["x", "z"], "error": [1.0, 5.0], "note": ["c", "d"]})
    both = overlay.compared(now, then)
    assert both["scheme"].tolist() == ["x", "x", "x", "y", "z"]
    assert both["setting"].tolist() == ["B", "A", "B - A", "B", "A"]
    assert both["error"].tolist()[:3] == [3.0, 1.0, 2.0]
    assert both["note"].fillna("").tolist() == ["a", "c", "", "b", "d"]
    words = overlay.compared(now[["scheme", "note"]], then[["scheme", "note"]])
    assert words.to_numpy().tolist() == [
        ["x", "B", "a"], ["x", "A", "c"], ["y", "B", "b"], ["z", "A", "d"],
    ]  # fmt: skip


SIZES = {"dim": "32", "heads": "2", "length": "24", "train_length": "12"}
SMALL = Setting(dim=32, heads=2, base=50.0, length=24, train_length=12)
PINNED = to_token(SMALL.replace(schemes=("learned", "sinusoidal", "rope")))
GONE = "table-0123456789ab"


def lines(at: AppTest, column: str) -> set[tuple[str, str]]:
    """The scheme and setting of every line of the charts that have this column."""
    return {
        (str(scheme), str(whose))
        for frame in charts(at)
        if column in frame and "setting" in frame
        for scheme, whose in frame[["scheme", "setting"]].drop_duplicates().to_numpy()
    }


@pytest.mark.parametrize(
    ("page", "column", "expected"),
    [
        ("overview", "y", ("RoPE", "ALiBi")),
        ("encoding", "wavelength", ("RoPE",)),
        ("extrapolation", "y", ("RoPE",)),
    ],
)
def test_charts_show_the_schemes_of_b_in_both_settings(
    page: str, column: str, expected: tuple[str, ...]
) -> None:
    link = SIZES | {"a": PINNED, "schemes": "rope,alibi", "reason": "turns per pair"}
    at = drawn(visit(page, link | {"tab": "Wavelengths"}))
    assert lines(at, column) == {(scheme, whose) for scheme in expected for whose in "AB"}


def test_score_table_names_b_when_pinned_setting_a_has_no_scores() -> None:
    link = {"schemes": "learned", "learned_source": "random", "a": f"learned_source~{GONE}"}
    at = drawn(visit("pca", SIZES | link))
    assert set(pages.tables_shown(at)["Scores"]["setting"]) == {"B"}


def test_measured_models_are_the_same_whatever_is_pinned() -> None:
    link = {"half": "measured", "schemes": "alibi"}
    alone = drawn(visit("extrapolation", link))
    at = drawn(visit("extrapolation", link | {"a": PINNED}))
    assert headline(at) == headline(alone)
    said, *rest = captions(at)
    assert said.startswith("A and B have one result here")
    assert rest == captions(alone)
    for frame, other in zip(charts(at), charts(alone), strict=True):
        pd.testing.assert_frame_equal(frame, other)


@pytest.mark.parametrize("page", pages.SCHEME_PAGES)
def test_page_says_why_a_scheme_of_a_is_left_out(page: str) -> None:
    link = {"schemes": "learned,rope", "learned_source": "random", "a": f"learned_source~{GONE}"}
    boxes = [pages.as_read(box.value) for box in drawn(visit(page, SIZES | link)).info]
    assert any(text.startswith("Pinned setting, A:") and GONE in text for text in boxes)
