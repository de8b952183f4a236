"""The Encoding page: its matrices, waves, clocks, sums and worked example, against the papers' formulas."""

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from streamlit.testing.v1 import AppTest

from dashboard.components.clock import Face
from dashboard.components.clock.payload import encode
from dashboard.pages.encoding import data as encoding
from dashboard.pages.encoding.options import PLACES, EncodingChoice
from posenc.analysis import STARTS, content_and_position
from posenc.errors import SchemeArgumentError
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard import pages
from tests.dashboard.independent_kernels import SETTINGS, Small, entries, open_small
from tests.dashboard.pages import LABELS, drawn, headline, of, rows_of_matrices, table, visit
from tests.library import independent

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def clocks(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What travels to the clocks: the header, and the three numbers of every hand by scheme."""
    (data,) = [
        element.proto.bytes
        for element in at.get("bidi_component")
        if element.proto.component_name.endswith("posenc_clock_row")
    ]
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    numbers = np.frombuffer(data[4 + length :], "<f8").reshape(-1, 3)
    ends = np.cumsum([len(face["pairs"]) for face in header["faces"]])
    assert len(numbers) == ends[-1]
    titles = [face["title"] for face in header["faces"]]
    return header, dict(zip(titles, np.split(numbers, ends[:-1]), strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_page_shows_the_numbers_of_the_papers(name: str) -> None:
    small = SETTINGS[name]
    at = open_small("encoding", small, "waves", "pairs", "position beside content", pair="5")
    check_matrices(at, small)
    check_waves_pairs_and_hands(at, small)
    check_sums(at, small)
    taken = float(headline(at).split("ALiBi takes")[1].split(" off a logit")[0].split()[-1])
    mean = np.mean(by_hand.slopes_shown(small)) * (small["train_length"] - 1)
    assert taken == pytest.approx(mean, rel=6e-3)


def check_matrices(at: AppTest, small: Small) -> None:
    rows = rows_of_matrices(at)[:3]
    shown = {title: matrix for _, found in rows for title, matrix in found.items()}
    expected = {LABELS[kind]: entries(kind, small) for kind in ("learned", "sinusoidal", "rope")}
    expected["ALiBi"] = by_hand.biases(small).mean(axis=0)
    assert {*shown} == {*expected}
    for title, matrix in expected.items():
        known = len(matrix)
        assert np.allclose(shown[title][:known], matrix, rtol=1e-6, atol=1e-7), title
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
    header, hands = clocks(at)
    for kind, width, face in zip(
        ("sinusoidal", "rope"),
        (small["dim"], by_hand.rope_width(small)),
        header["faces"],
        strict=True,
    ):
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
        shown = np.stack([numbers[face["pairs"]] for numbers in columns.values()], 1)
        # Within one unit in the last place of a frequency.
        assert np.allclose(hands[label][:, 0], shown[:, 0], rtol=2.3e-16, atol=0)
        assert np.allclose(hands[label], shown, rtol=1e-15, atol=0)
    assert {x for frame in pages.charts(at)[:2] for x in frame["boundary"].dropna()} == {trained}


def check_sums(at: AppTest, small: Small) -> None:
    sums = table(at, "position beside content")
    assert set(sums["scheme"]) == {"Learned", "Sinusoidal"}
    for kind in ("learned", "sinusoidal"):
        rows = entries(kind, small)
        norm, width = math.sqrt((rows**2).sum(axis=1).mean()), rows.shape[1]
        for start, row in zip(STARTS, of(sums, kind).to_dict("records"), strict=True):
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
    at = drawn(visit("encoding", link | {"sinusoidal.layout": "half"}, schemes=["sinusoidal"]))
    (_, first), (_, summed) = rows_of_matrices(at)
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
    state = {"alibi_head": 3, "places": []}
    at = drawn(visit("encoding", link, **state, **pages.opened("worked example")))
    shown = table(at, "worked example")
    assert list(shown["position"]) == [0, 1, 2, 3]
    angles = np.outer(range(4), [1, 1 / 2, 1 / 4, 1 / 8])
    by_hand = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(4, 8)
    assert np.allclose(shown.drop(columns="position"), by_hand, rtol=0, atol=1e-15)
    assert "1, 0.5, 0.25 and 0.125 radians" in " ".join(pages.captions(at))
    formulas = " ".join(formula.value for formula in at.latex)
    assert r"\sin(1.5) = 0.9975" in formulas
    assert r"\mathrm{pos}" not in formulas
    # The worked example's own width, the setting's, and RoPE's.
    for width in (8, 96, 24):
        assert f"{{16}}^{{2k/{width}}}" in formulas
    assert r"2^{-8 \cdot 3/4} = 0.015625" in formulas
    # No place on the scale of frequencies is chosen: the default choice.
    faces = {face["title"]: len(face["pairs"]) for face in clocks(at)[0]["faces"]}
    assert faces == {"Sinusoidal": 4, "RoPE": 4}


def test_places_on_the_frequency_scale_are_the_nearest_pairs_each_once() -> None:
    chosen = EncodingChoice(places=tuple(PLACES)[:5], pair=2047)
    assert encoding.chosen_pairs(chosen, 1) == (0,)
    assert encoding.chosen_pairs(chosen, 101) == (0, 10, 20, 30, 40, 100)
    assert encoding.chosen_pairs(EncodingChoice(places=("slowest",)), 32) == (0, 31)


def test_clock_face_with_impossible_values_is_refused() -> None:
    good: dict[str, Any] = {
        "title": "x", "subtitle": "", "color": "#0072b2", "pairs": (0, 1),
        "inv_freq": np.ones(2), "wavelengths": np.ones(2), "turns": np.ones(2),
    }  # fmt: skip
    for fault in ({"pairs": ()}, {"color": "red"}, {"turns": np.ones(3)}, {"pairs": (*range(9),)}):
        with pytest.raises(SchemeArgumentError):
            Face(**good | fault)
    for faces, last, trained in ((1, 0, 1), (1, 4, 0), (0, 1, 1)):
        with pytest.raises(SchemeArgumentError):
            encode([Face(**good)] * faces, text_alternative="", last=last, trained=trained)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", ["logit", "entry of a vector"])
def test_matrices_without_a_finite_entry_have_the_unit_scale(unit: str) -> None:
    for entry in (np.nan, -np.inf):
        found = encoding.scale(unit, [np.full((3, 3), entry, np.float32)])
        assert (found.low, found.high) == ((-1.0, 0.0) if unit == "logit" else (-1.0, 1.0))
    beside = [np.full((2, 2), np.nan, np.float32), np.array([[0.0, -4.0]], np.float32)]
    found = encoding.scale("logit", beside)
    assert (found.low, found.high) == (-4.0, 0.0)
