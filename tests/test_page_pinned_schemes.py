"""Schemes that only one of two settings has are drawn on every page; where both have one, the change."""

import pytest

from dashboard import pinned
from dashboard.run_frames import classes_defined
from posenc import Setting
from tests.pages import LABELS, as_read, captions, charts, drawn, headline, rows_of_matrices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SIZES = {"dim": "32", "heads": "2", "length": "24", "train_length": "12"}
THEN = Setting(dim=32, heads=2, base=50.0, length=24, train_length=12)
A = pinned.written(THEN.replace(schemes=("learned", "sinusoidal", "rope")))
LINK = SIZES | {"schemes": "rope,alibi", "a": A}
TURNS_IN_A_ALONE = SIZES | {"schemes": "alibi", "a": A}
MEASURED = {"half": "measured"}
FOUR = [*LABELS.values()][:4]


def lines(page: str, link: dict[str, str], column: str = "y") -> set[tuple[str, str]]:
    """The scheme and setting of every line of a page's charts that have this column."""
    return {
        (str(row.scheme), str(row.setting))
        for frame in charts(drawn(visit(page, link)))
        if column in frame and "setting" in frame
        for row in frame[["scheme", "setting"]].drop_duplicates().itertuples()
    }


def named(*kinds: str) -> set[str]:
    return {LABELS[kind] for kind in kinds}


def test_overview_has_a_column_for_every_scheme_of_either_setting() -> None:
    at = drawn(visit("overview", LINK))
    assert [one.value for one in at.main.subheader] == FOUR
    assert captions(at).count("Of the pinned setting, A, alone.") == 2
    tables = [list(one.value.columns) for one in at.main.table]
    assert tables == [["A"], ["A"], ["B", "A", "B - A"], ["B"]]
    assert lines("overview", LINK) == {
        *((LABELS[kind], "A") for kind in ("learned", "sinusoidal", "rope")),
        *((LABELS[kind], "B") for kind in ("rope", "alibi")),
    }


def test_pca_has_a_panel_for_every_scheme_of_either_setting() -> None:
    at = drawn(visit("pca", LINK))
    subheaders = [one.value for one in at.main.subheader]
    assert subheaders == [*FOUR, "Explained variance"]
    assert len(at.get("vega_lite_chart")) == 6  # two of B, three of A, and the variance
    assert sum(text.startswith("Pinned setting, A: width") for text in captions(at)) >= 2


def test_scores_say_whose_they_are_also_where_a_has_none() -> None:
    a = pinned.written(THEN.replace(schemes=("cope",)))
    at = drawn(visit("pca", SIZES | {"schemes": "learned", "a": a}))
    assert set(at.session_state["sheet"].tables["scores"]()["setting"]) == {"B"}


def test_waves_hands_turns_and_sums_are_drawn_of_either_setting() -> None:
    at = drawn(visit("encoding", TURNS_IN_A_ALONE))
    waves = [frame for frame in charts(at) if "lane" in frame]
    assert [set(one["scheme"]) for one in waves] == [named("sinusoidal"), named("rope")]
    assert all((one["setting"] == "A").all() for one in waves)
    assert all((one["name"] != "").all() for one in waves)  # A's own names where B has none
    clocks = [
        one for one in at.get("bidi_component") if one.proto.component_name.endswith("clock_row")
    ]
    assert len(clocks) == 1
    spectrum = [frame for frame in charts(at) if "wavelength" in frame]
    assert len(spectrum) == 2
    for one in spectrum:
        assert set(one["scheme"]) == named("sinusoidal", "rope")
    (ratios,) = [frame for frame in charts(at) if "ratio" in frame]
    assert set(ratios["scheme"]) == named("learned", "sinusoidal")
    said = [text for text in captions(at) if text.startswith("Pinned setting, A: Tokens that")]
    assert len(said) == 1
    assert "Learned has norm" in said[0]


def test_waves_of_both_have_the_names_of_b() -> None:
    at = drawn(visit("encoding", LINK))
    waves = {one["scheme"].iloc[0]: one for one in charts(at) if "lane" in one}
    assert set(waves) == named("sinusoidal", "rope")
    rope = waves[LABELS["rope"]]
    assert set(rope["setting"]) == {"A", "B"}
    assert (rope.loc[rope["setting"] == "A", "name"] == "").all()
    assert (rope.loc[rope["setting"] == "B", "name"] != "").all()


def test_matrices_of_the_encoding_are_drawn_of_either_setting_and_subtracted_where_both_are() -> (
    None
):
    rows = [set(found) for _, found in rows_of_matrices(drawn(visit("encoding", LINK)))]
    assert rows.count(named("rope")) == 3  # B, A and the difference, alone in their unit
    assert named("alibi") in rows
    assert named("learned", "sinusoidal") in rows
    assert [one for one in rows if "Sum" in one] == [
        {"Tokens times sqrt(d)", f"Position: {LABELS[kind]}", "Sum"}
        for kind in ("learned", "sinusoidal")
    ]


def test_turns_of_the_formula_are_drawn_of_either_setting() -> None:
    at = drawn(visit("extrapolation", TURNS_IN_A_ALONE))
    (turns,) = [frame for frame in charts(at) if "turns" in frame]
    assert {(row.scheme, row.setting) for row in turns.itertuples()} == {
        (LABELS["sinusoidal"], "A"), (LABELS["rope"], "A")
    }  # fmt: skip
    assert any("Turns within the training length" in one.value for one in at.main.subheader)


def test_measured_runs_are_of_the_schemes_of_either_setting() -> None:
    link = {"schemes": "alibi", "a": pinned.written(Setting(schemes=("rope", "alibi")))} | MEASURED
    at = drawn(visit("extrapolation", link))
    context = charts(at)[0]
    assert set(context["scheme"]) == named("rope", "alibi")
    assert "Of the pinned setting, A, alone: RoPE." in captions(at)
    assert "RoPE" not in headline(at)
    (then,) = [text for text in captions(at) if text.startswith("Pinned setting, A: Best at")]
    alone = drawn(visit("extrapolation", {"schemes": "rope,alibi"} | MEASURED))
    assert then == f"Pinned setting, A: {headline(alone)}"
    assert headline(alone).endswith(f"Means of 3 seeds, 1,200 training steps. {classes_defined()}")


def test_a_pinned_setting_without_runs_says_so() -> None:
    gone = pinned.written(Setting(schemes=("none",)))
    at = drawn(
        visit("extrapolation", {"schemes": "alibi", "a": gone, "comparison": "none"} | MEASURED)
    )
    assert any(text.startswith("Pinned setting, A: ") for text in captions(at))


def test_start_names_the_runs_own_numbers_and_says_a_s_schemes() -> None:
    link = {"schemes": "alibi", "base": "50", "dim": "64", "a": pinned.written(Setting())}
    at = drawn(visit("start", link))
    said = headline(at)
    assert said.startswith(
        "Small models trained here on 64 tokens (their own width 128; 1,200 steps)"
    )
    (then,) = [text for text in captions(at) if text.startswith("Pinned setting, A: Small models")]
    assert "(their own width 128, base 10,000; 1,200 steps)" in then
    alone = drawn(visit("start"))
    assert then == f"Pinned setting, A: {as_read(headline(alone))}"
    assert any(
        "The sliders below set the base and dimension of these curves" in t for t in captions(at)
    )
    # The controls beside them change nothing of it.
    assert headline(drawn(visit("start", {"base": "50", "dim": "64"}))) == headline(alone)
