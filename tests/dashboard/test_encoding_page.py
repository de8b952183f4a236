"""The Encoding page: its matrices, waves, clocks, sums and worked example, against the papers' formulas."""

import base64
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from streamlit.testing.v1 import AppTest

from dashboard.pages.encoding import data as encoding
from dashboard.pages.encoding.options import PLACES, EncodingChoice
from posenc.analysis import STARTS, content_and_position
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard import pages
from tests.dashboard.independent_kernels import SETTINGS, Small, entries, open_small
from tests.dashboard.pages import LABELS, drawn, headline, of, rows_of_matrices, table, visit
from tests.library import independent

SUMS, WORKED = "Added to token embeddings", "Worked by hand"

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def clocks(at: AppTest) -> dict[str, dict[str, Any]]:
    """What travels to the clocks: every face by its scheme."""
    (row,) = [
        json.loads(element.proto.json)
        for element in at.get("bidi_component")
        if element.proto.component_name.endswith("posenc_clock_row")
    ]
    return {face["title"]: face for face in row["faces"]}


@pytest.mark.parametrize("name", SETTINGS)
def test_page_shows_the_numbers_of_the_papers(name: str) -> None:
    small = SETTINGS[name]
    at = open_small("encoding", small, "waves", "pairs", "position beside content", pair="5")
    check_matrices(at, small)
    check_waves_pairs_and_hands(at, small)
    at.session_state["encoding_tab"] = SUMS
    check_sums(drawn(at.run()), small)
    taken = float(headline(at).split("ALiBi subtracts ")[1].split(" from the logit")[0])
    mean = np.mean(by_hand.slopes_shown(small)) * (small["train_length"] - 1)
    assert taken == pytest.approx(mean, rel=6e-3)


def check_matrices(at: AppTest, small: Small) -> None:
    rows = rows_of_matrices(at)[:3]
    shown = {title: matrix for _, found in rows for title, matrix in found.items()}
    expected = {LABELS[kind]: entries(kind, small) for kind in ("learned", "sinusoidal", "rope")}
    biases = by_hand.biases(small).mean(axis=0)
    future = np.triu(np.ones_like(biases, bool), 1)  # what a causal model does not read
    expected["ALiBi"] = np.where(future, np.nan, biases)
    assert {*shown} == {*expected}
    for title, matrix in expected.items():
        known = len(matrix)
        assert np.allclose(shown[title][:known], matrix, rtol=1e-6, atol=1e-7, equal_nan=True), (
            title
        )
        assert np.isnan(shown[title][known:]).all()
    # One scale for each unit, which holds all but the outliers.
    for header, found in rows:
        values = np.concatenate([matrix.ravel() for matrix in found.values()])
        values = values[np.isfinite(values)]
        low, high = (np.float32(header["scale"][end]) for end in ("low", "high"))
        assert ((values >= low) & (values <= high)).mean() >= 0.998
        assert {panel["boundary"] for panel in header["panels"]} == {small["train_length"]}


def check_waves_pairs_and_hands(at: AppTest, small: Small) -> None:
    waves, pairs, trained = table(at, "waves"), table(at, "pairs"), small["train_length"]
    faces = clocks(at)
    for kind, width in (("sinusoidal", small["dim"]), ("rope", by_hand.rope_width(small))):
        count, thetas = width // 2, independent.inverse_frequencies(width, small["base"])
        own = of(waves, kind)
        places = {round(share * (count - 1)) for share in (0.0, 0.3, 0.6, 1.0)}
        assert set(own["pair"]) == places | {min(5, count - 1)}
        groups: Any = own.groupby(["pair", "wave"])
        for (m, wave), values in groups:
            exact = [
                float({"sin": mp.sin, "cos": mp.cos}[wave](p * thetas[m])) for p in values["x"]
            ]
            # atol: four units in the last place of 1.
            assert np.allclose(
                values["y"], by_hand.in_precision(exact, small["precision"]), atol=1e-15
            )
            assert list(values["x"]) == list(range(small["length"]))
        travelled = np.frombuffer(base64.b64decode(faces[LABELS[kind]]["waves"]), "<f4")
        assert np.array_equal(
            travelled, own["y"].to_numpy(np.float32)
        )  # of a pair sines, then cosines
        assert list(own["wave"].unique()) == ["sin", "cos"]
        own = of(pairs, kind)
        columns = {
            "inv_freq": np.array(thetas, float),
            "wavelength": np.array([2 * mp.pi / theta for theta in thetas], float),
            "turns": np.array([trained * theta / (2 * mp.pi) for theta in thetas], float),
        }
        assert list(own["pair"]) == list(range(count))
        for column, numbers in columns.items():
            assert np.allclose(own[column], numbers, rtol=1e-14, atol=0), column
        assert np.allclose(own["share"], np.minimum(columns["turns"], 1), rtol=1e-14)
        full, label = int((columns["turns"] >= 1).sum()), LABELS[kind]
        said = f"{full:,} of {label}'s {count:,} pairs complete{'s' * (full == 1)} a turn"
        assert said in headline(at)
        (ratios,) = [
            text for text in pages.captions(at) if text.startswith("Each pair turns slower")
        ]
        (ratio,) = re.findall(rf"([\d.,]+) \({label}\)", ratios)
        assert float(ratio) == pytest.approx(small["base"] ** (2 / width), rel=6e-3)
        for hand in faces[label]["hands"]:
            exact = [numbers[hand["pair"]] for numbers in columns.values()]
            sent = [hand["frequency"], hand["period"], hand["turns"]]
            assert np.allclose(sent, exact, rtol=1e-15, atol=0)


def check_sums(at: AppTest, small: Small) -> None:
    sums = table(at, "position beside content").set_index("scheme")
    assert len(sums) == 2 * len(STARTS)
    for kind in ("learned", "sinusoidal"):
        rows = entries(kind, small)
        norm, width = math.sqrt((rows**2).sum(axis=1).mean()), rows.shape[1]
        for start, words in STARTS.items():
            row = sums.loc[f"{LABELS[kind]}, {words}"]
            expected = content_and_position(norm, width, start)
            for column, value in {
                "token norm": expected.token,
                "position norm": norm,
                "ratio, plain": expected.ratio_plain,
                "ratio, times sqrt(d)": expected.ratio_scaled,
                "share, times sqrt(d)": expected.share_scaled,
            }.items():
                assert row[column] == pytest.approx(value, rel=1e-6), (start, column)


@pytest.mark.parametrize("scaled", ["true", "false"])
def test_pictured_sum_is_content_plus_position(scaled: str) -> None:
    link = {"dim": "64", "heads": "4", "length": "40", "start": "1", "scaled": scaled}
    link |= {"sinusoidal.layout": "half"}
    at = drawn(visit("encoding", link, schemes=["sinusoidal"]))
    ((_, first),) = rows_of_matrices(at)
    at = drawn(visit("encoding", link, schemes=["sinusoidal"], encoding_tab=SUMS))
    ((_, summed),) = rows_of_matrices(at)
    content, position, total = summed.values()
    paper = independent.sinusoidal(range(40), 64, layout="half").numpy()
    assert np.allclose(first["Sinusoidal"], paper, atol=1e-7)
    assert np.allclose(position, paper[:, :48], atol=1e-7)
    assert np.allclose(total, content + paper[:, :48], atol=1e-5)
    assert content.std() == pytest.approx(8.0 if scaled == "true" else 1.0, rel=0.05)


def test_what_is_too_large_to_draw_is_cut_and_the_page_says_so() -> None:
    at = drawn(visit("encoding", {"length": "1100", "dim": "768", "schemes": "sinusoidal,rope"}))
    cut = {p["title"]: p for p in pages.panels(at) if p["title"] in ("Sinusoidal", "RoPE")}
    sizes = {panel[axis]["count"] for panel in cut.values() for axis in ("rows", "columns")}
    assert sizes == {512, 96}
    assert "the first 512 of 1,100 positions" in cut["RoPE"]["subtitle"]
    assert "the first 512 of 768 dimensions" in cut["Sinusoidal"]["subtitle"]
    assert " of 96 dimensions" not in cut["RoPE"]["subtitle"]


def test_worked_example_and_formulas_follow_the_setting() -> None:
    link = {"dim": "96", "heads": "4", "length": "9", "train_length": "5"}
    link |= {"base": "16", "notation": "t, k", "substituted": "true"}
    state = {"alibi_head": 3, "places": [], "encoding_tab": WORKED}
    at = drawn(visit("encoding", link, **state, **pages.opened("worked example")))
    shown = table(at, "worked example")
    assert list(shown["position"]) == [0, 1, 2, 3]
    angles = np.outer(range(4), [1, 1 / 2, 1 / 4, 1 / 8])
    by_hand = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(4, 8)
    assert np.allclose(shown.drop(columns="position"), by_hand, rtol=0, atol=1e-15)
    assert "1, 0.5, 0.25 and 0.125 radians per position" in " ".join(pages.captions(at))
    formulas = " ".join(formula.value for formula in at.latex)
    assert r"\sin(1.5) = 0.9975" in formulas
    assert r"\mathrm{pos}" not in formulas
    # The worked example's own width, the setting's, and RoPE's.
    for width in (8, 96, 24):
        assert f"{{16}}^{{2k/{width}}}" in formulas
    assert r"2^{-8 \cdot 3/4} = 0.015625" in formulas
    # No place on the scale of frequencies is chosen: the default choice.
    assert {label: len(face["hands"]) for label, face in clocks(at).items()} == {
        "Sinusoidal": 4,
        "RoPE": 4,
    }


def test_places_on_the_frequency_scale_are_the_nearest_pairs_each_once() -> None:
    chosen = EncodingChoice(places=tuple(PLACES)[:5], pair=2047)
    assert encoding.chosen_pairs(chosen, 1) == (0,)
    assert encoding.chosen_pairs(chosen, 101) == (0, 10, 20, 30, 40, 100)
    assert encoding.chosen_pairs(EncodingChoice(places=("slowest",)), 32) == (0, 31)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", ["logit", "entry of a vector"])
def test_matrices_without_a_finite_entry_have_the_unit_scale(unit: str) -> None:
    for entry in (np.nan, -np.inf):
        found = encoding.scale(unit, [np.full((3, 3), entry, np.float32)])
        assert (found.low, found.high) == ((-1.0, 0.0) if unit == "logit" else (-1.0, 1.0))
    beside = [np.full((2, 2), np.nan, np.float32), np.array([[0.0, -4.0]], np.float32)]
    found = encoding.scale("logit", beside)
    assert (found.low, found.high) == (-4.0, 0.0)
