"""Pin as A: every page shows A, B and their difference, and the link holds both."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import frames, pinned
from posenc import Query, Setting, fields, position_kernel
from posenc.schemes import SCHEMES
from tests.pages import (
    LABELS,
    SCHEME_PAGES,
    as_read,
    captions,
    charts,
    cosines,
    drawn,
    notices,
    opened,
    rows_of_matrices,
    setting,
    table,
    visit,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")

THEN = Setting(dim=64, heads=4, base=500.0, length=40, train_length=24)
NOW = {"dim": "96", "heads": "4", "base": "9000", "length": "48", "train_length": "24"}
LINK = NOW | {"a": pinned.written(THEN)}


def grids(name: str) -> st.SearchStrategy[object]:
    rule = fields.rules(Setting)[name]
    assert isinstance(rule, fields.Whole | fields.Real)
    return st.sampled_from(rule.grid)


@given(
    dim=grids("dim"),
    base=grids("base"),
    train_length=grids("train_length"),
    kinds=st.sets(st.sampled_from([*SCHEMES]), min_size=1, max_size=6),
    layout=st.sampled_from(["interleaved", "half"]),
)
def test_a_pinned_setting_is_read_back_as_it_was(
    dim: int, base: float, train_length: int, kinds: set[str], layout: str
) -> None:
    asked = Setting(
        dim=dim, heads=1, base=base, train_length=train_length, length=8,
        schemes=tuple(kind for kind in SCHEMES if kind in kinds), own=(("rope.layout", layout),),
    )  # fmt: skip
    assert pinned.read(pinned.written(asked)) == (asked, [])


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nonsense", "cannot be read"),
        ("~~~~", "cannot be read"),
        ("dim~7", "Pinned setting: Model dimension"),
        ("base~nan~dim~64", "Pinned setting: Base"),
        ("dim~64~" * 1_200, "cannot be read"),
        ("<img src=x>~[x](http://evil.example)", "cannot be read"),
    ],
)
def test_an_odd_pin_is_put_right_and_told(word: str, said: str) -> None:
    at = drawn(visit("similarity", {"a": word}))
    assert any(said in notice for notice in notices(at))
    assert all("evil.example/" not in notice for notice in notices(at))
    held = at.session_state["a"]
    assert held == "" or pinned.read(held)[1] == []


@pytest.mark.parametrize("page", [*SCHEME_PAGES, "why_position", "claims", "check_my_encoding"])
def test_every_page_shows_both_and_says_which_is_which(page: str) -> None:
    alone = drawn(visit(page, NOW))
    at = drawn(visit(page, LINK))
    assert notices(at) == []
    said = ("Pinned setting, A: ", "The same of the pinned setting, A: ")
    assert any(text.startswith(said) for text in captions(at))
    assert at.title[0].value == alone.title[0].value
    assert at.main.markdown[0].value == alone.main.markdown[0].value
    for one, both in zip(charts(alone), charts(at), strict=False):
        if "setting" in both and page != "pca":
            assert set(both["setting"]) <= {"A", "B"}
            kept = both[both["setting"] == "B"].drop(columns="setting").reset_index(drop=True)
            alike = one[kept.columns].reset_index(drop=True)
            pd.testing.assert_frame_equal(kept, alike, check_dtype=False, check_categorical=False)


def test_the_difference_of_matrices_is_the_librarys() -> None:
    at = drawn(visit("similarity", LINK))
    (_, now), (_, then), (header, change) = rows_of_matrices(at)
    assert header["scale"]["low"] == -header["scale"]["high"]
    for kind in ("sinusoidal", "rope", "alibi", "learned"):
        wholes = []
        for one in (setting(at), THEN):
            query = Query.of(one, kind)
            scheme = query.build()
            kernel = position_kernel(scheme, min(40, scheme.max_length or 40), head=query.head)
            wholes.append(cosines(kernel.numpy()))
        size = min(map(len, wholes))
        expected = wholes[0][:size, :size] - wholes[1][:size, :size]
        assert np.allclose(change[LABELS[kind]][:size, :size], expected, atol=1e-6), kind
        shown = now[LABELS[kind]][:size, :size] - then[LABELS[kind]][:size, :size]
        assert np.allclose(change[LABELS[kind]][:size, :size], shown, atol=1e-6)
    assert np.abs(change["RoPE"]).max() > 0.1  # the settings differ


def test_equal_settings_differ_nowhere() -> None:
    same = pinned.written(setting(visit("similarity", NOW)))
    at = drawn(visit("similarity", NOW | {"a": same}, menu_compare=True))
    *_, (_, change) = rows_of_matrices(at)
    assert all(np.nanmax(np.abs(one)) == 0 for one in change.values())
    assert "A and B are the same so far: change something." in captions(at)
    assert "The same of the pinned setting, A: no change." in captions(at)


def test_tables_show_the_change_of_every_number() -> None:
    now = pd.DataFrame({"scheme": ["x", "y"], "error": [3.0, np.nan], "note": ["a", "b"]})
    then = pd.DataFrame({"scheme": ["x", "z"], "error": [1.0, 5.0], "note": ["c", "d"]})
    both = frames.compared(now, then)
    assert both["scheme"].tolist() == ["x", "x", "x", "y", "z"]
    assert both["setting"].tolist() == ["B", "A", "B - A", "B", "A"]
    assert both["error"].tolist()[:3] == [3.0, 1.0, 2.0]
    assert both["note"].fillna("").tolist() == ["a", "c", "", "b", "d"]


def test_numbers_hold_the_rows_of_both() -> None:
    name = "similarity by distance"
    alone = table(drawn(visit("similarity", NOW, **opened(name))), name)
    then = table(drawn(visit("similarity", THEN.write(), **opened(name))), name)
    both = table(drawn(visit("similarity", LINK, **opened(name))), name)
    for said, expected in (("B", alone), ("A", then)):
        mine = both[both["setting"] == said].drop(columns="setting").reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, expected)


def test_pinning_and_unpinning_by_hand() -> None:
    at = drawn(visit("similarity", NOW, menu_compare=True))
    assert at.button(key="unpin").disabled
    before = setting(at)
    at.button(key="pin").click().run()
    assert pinned.read(at.session_state["a"]) == (before, [])
    at.select_slider(key="base_dial").set_value(500.0).run()
    assert len(rows_of_matrices(drawn(at))) == 3
    assert "A has base 9000." in captions(at)
    for page in itertools.chain(SCHEME_PAGES[2:], SCHEME_PAGES[:2]):
        drawn(at.switch_page(f"views/{page}.py").run())
        assert pinned.read(at.session_state["a"])[0] == before
    at.switch_page("views/similarity.py").run()
    at.button(key="unpin").click().run()
    assert len(rows_of_matrices(drawn(at))) == 1


def test_schemes_of_either_setting_are_drawn() -> None:
    then = pinned.written(THEN.replace(schemes=("rope", "none")))
    at = drawn(visit("similarity", NOW | {"schemes": "alibi", "a": then}))
    curves = charts(at)[0]
    shown = {(row.scheme, row.setting) for row in curves.itertuples()}
    assert shown == {("ALiBi", "B"), ("RoPE", "A"), ("NoPE", "A")}
    assert len(rows_of_matrices(at)) == 2  # nothing in common, no difference
    assert as_read(at.title[0].value) == "Similarity"


GONE = "table-0123456789ab"


@pytest.mark.parametrize("page", [*SCHEME_PAGES, "why_position", "claims", "check_my_encoding"])
@pytest.mark.parametrize(
    ("schemes", "then"),
    [
        ("Learned", "schemes~rope"),
        ("RoPE", "schemes~alibi"),
        ("Sinusoidal", "schemes~none"),
        ("NoPE", "schemes~sinusoidal,rope"),
        ("RoPE", f"schemes~learned~learned_source~{GONE}"),
    ],
)
def test_settings_with_nothing_in_common_are_both_shown(page: str, schemes: str, then: str) -> None:
    small = {"dim": "32", "heads": "2", "length": "12", "train_length": "8"}
    at = drawn(visit(page, small | {"schemes": schemes, "a": then}))
    if GONE in then and page not in ("claims", "why_position"):
        said = [as_read(box.value) for box in at.info]
        assert any(text.startswith("Pinned setting, A:") and GONE in text for text in said)


def test_a_pin_that_is_too_long_is_not_read_in_part() -> None:
    at = drawn(visit("similarity", {"a": "dim~64~seed~" + "9" * pinned.MOST_CHARACTERS}))
    assert notices(at) == ["The pinned setting of this link cannot be read; nothing is pinned."]
