"""The Encoding page: its matrices, waves, clocks, sums and worked example, against the papers' formulas."""

import base64
import math
import re
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from dashboard import compare
from dashboard.blocks import Chart, Clocks, Data, Formula, Matrices, Page, Table, Text
from dashboard.components.clock.faces import encode
from dashboard.pages.encoding import data as encoding
from dashboard.pages.encoding.options import PLACES, SUMS, WAVELENGTHS, WORKED
from dashboard.pages.encoding.page import Options, page
from dashboard.settings import Setting
from posenc.analysis import STARTS, content_and_position
from posenc.latex import Notation
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard.called_pages import (
    block_of,
    blocks,
    chart,
    data,
    numbers,
    panel_values,
    small_setting,
    texts,
)
from tests.dashboard.independent_kernels import SETTINGS, Small, entries
from tests.dashboard.pages import LABELS, of
from tests.library import independent


def faces(shown: Page) -> dict[str, dict[str, Any]]:
    """Return what travels to the clocks: every face by its scheme."""
    row: Clocks = block_of(shown, Clocks, "clocks")
    sent = encode(row.faces, row.last, row.trained, row.text, row.first)["faces"]
    return {face["title"]: face for face in sent}


def rows_of_matrices(shown: Page) -> list[Matrices]:
    return blocks(shown, Matrices)


@pytest.mark.parametrize("name", SETTINGS)
def test_page_shows_the_numbers_of_the_papers(name: str) -> None:
    small = SETTINGS[name]
    shown = page(small_setting(small), Options(pair=5))
    check_matrices(shown, small)
    check_waves_pairs_and_hands(shown, small)
    check_sums(page(small_setting(small), Options(tab=SUMS)), small)
    taken = float(texts(shown)[0].split("ALiBi subtracts ")[1].split(" from the logit")[0])
    mean = np.mean(by_hand.slopes_shown(small)) * (small["train_length"] - 1)
    assert taken == pytest.approx(mean, rel=6e-3)
    rows = 512 if small["learned_source"] == "minilm" else small["train_length"]
    assert f"Learned has one vector for each of {rows:,} positions" in texts(shown)[0]
    assert shown.headline == (
        "Learned and Sinusoidal add a vector to each token. RoPE rotates queries and keys. ALiBi adds a "
        "bias to the logits."
    )


def check_matrices(at: Page, small: Small) -> None:
    rows = rows_of_matrices(at)
    shown = {title: matrix for row in rows for title, matrix in panel_values(at, row.key).items()}
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
    for row in rows:
        values = np.concatenate([panel.values.dense().ravel() for panel in row.panels])
        values, scale = values[np.isfinite(values)], row.row("Title").scale
        within = (values >= np.float32(scale.low)) & (values <= np.float32(scale.high))
        assert within.mean() >= 0.998
        assert {panel.boundary for panel in row.panels} == {small["train_length"]}


def check_waves_pairs_and_hands(shown: Page, small: Small) -> None:
    waves, pairs, trained = data(shown, "Waves"), data(shown, "Pairs"), small["train_length"]
    sent = faces(shown)
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
        travelled = np.frombuffer(base64.b64decode(sent[LABELS[kind]]["waves"]), "<f4")
        # Of each pair its sines, then its cosines.
        assert np.array_equal(travelled, own["y"].to_numpy(np.float32))
        assert list(own["wave"].unique()) == ["sin", "cos"]
        own = of(pairs, kind)
        columns = {
            "inv_freq": np.array(thetas, float),
            "wavelength": np.array([2 * mp.pi / theta for theta in thetas], float),
            "turns": np.array([trained * theta / (2 * mp.pi) for theta in thetas], float),
        }
        assert list(own["pair"]) == list(range(count))
        for column, values in columns.items():
            assert np.allclose(own[column], values, rtol=1e-14, atol=0), column
        assert np.allclose(own["share"], np.minimum(columns["turns"], 1), rtol=1e-14)
        full, label = int((columns["turns"] >= 1).sum()), LABELS[kind]
        assert f"{full:,} of {count:,} {label} waves" in texts(shown)[0]
        (ratios,) = [text for text in texts(shown) if text.startswith("Each pair turns slower")]
        (ratio,) = re.findall(rf"([\d.,]+) \({label}\)", ratios)
        assert float(ratio) == pytest.approx(small["base"] ** (2 / width), rel=6e-3)
        for hand in sent[label]["hands"]:
            exact = [values[hand["pair"]] for values in columns.values()]
            turning = [hand["frequency"], hand["period"], hand["turns"]]
            assert np.allclose(turning, exact, rtol=1e-15, atol=0)


def check_sums(shown: Page, small: Small) -> None:
    sums = data(shown, "Position beside content").set_index("scheme")
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


@pytest.mark.parametrize("scaled", [True, False])
def test_pictured_sum_is_content_plus_position(scaled: bool) -> None:
    setting = Setting(
        dim=64, heads=4, length=40, schemes=("sinusoidal",), own=(("sinusoidal.layout", "half"),)
    )
    first = panel_values(page(setting, Options()), "encoding_entry")
    shown = page(setting, Options(tab=SUMS, start="1", scaled=scaled))
    content, position, total = panel_values(shown, "sum_sinusoidal").values()
    paper = independent.sinusoidal(range(40), 64, layout="half").numpy()
    assert np.allclose(first["Sinusoidal"], paper, atol=1e-7)
    assert np.allclose(position, paper[:, :48], atol=1e-7)
    assert np.allclose(total, content + paper[:, :48], atol=1e-5)
    assert content.std() == pytest.approx(8.0 if scaled else 1.0, rel=0.05)


def test_what_is_too_large_to_draw_is_cut_and_the_page_says_so() -> None:
    shown = page(Setting(length=1100, dim=768, schemes=("sinusoidal", "rope")), Options())
    cut = {panel.title: panel for row in rows_of_matrices(shown) for panel in row.panels}
    assert cut["Sinusoidal"].values.shape == (512, 512)
    assert cut["RoPE"].values.shape == (512, 96)
    assert "the first 512 of 1,100 positions" in cut["RoPE"].subtitle
    assert "the first 512 of 768 dimensions" in cut["Sinusoidal"].subtitle
    assert " of 96 dimensions" not in cut["RoPE"].subtitle


def test_page_says_of_waves_without_a_full_turn_what_happens_past_training() -> None:
    """A base of 10,000 has slow waves; at base 2 all 32 turn at least once in 128 positions."""
    new = "Past these positions the other waves reach angles that training never showed."
    assert any(new in text for text in texts(page(Setting(), Options())))
    fast = Setting(base=2.0, schemes=("rope",))
    assert 2 * np.pi < 128 * 2.0 ** (-62 / 64)
    said = texts(page(fast, Options()))
    assert any("32 of 32 RoPE waves make a full turn" in text for text in said)
    assert not any(new in text for text in said)


def test_worked_example_and_formulas_follow_the_setting() -> None:
    setting = Setting(dim=96, heads=4, length=9, train_length=5, base=16.0, alibi_head=3)
    shown = page(setting, Options(tab=WORKED, notation="t, k", substituted=True))
    table = data(shown, "Worked example")
    assert list(table["position"]) == [0, 1, 2, 3]
    angles = np.outer(range(4), [1, 1 / 2, 1 / 4, 1 / 8])
    by_hand = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(4, 8)
    assert np.allclose(table.drop(columns="position"), by_hand, rtol=0, atol=1e-15)
    (drawn,) = [block.frame for block in shown.all_blocks if isinstance(block, Table)]
    assert list(drawn["dimension"]) == [*"01234567"]
    for position, numbers_by_hand in enumerate(by_hand):
        assert list(drawn[f"position {position}"]) == [f"{n:.4f}" for n in numbers_by_hand]
    assert "1, 0.5, 0.25 and 0.125 radians per position" in " ".join(texts(shown))
    formulas = " ".join(block.latex for block in shown.all_blocks if isinstance(block, Formula))
    assert r"\sin(1.5) = 0.9975" in formulas
    assert r"\mathrm{pos}" not in formulas
    # The worked example's own width, the setting's, and RoPE's.
    for width in (8, 96, 24):
        assert f"{{16}}^{{2k/{width}}}" in formulas
    assert r"2^{-8 \cdot 3/4} = 0.015625" in formulas


@pytest.mark.parametrize(
    ("notation", "letters"),
    [
        ("pos, i", [{r"\mathrm{pos}", "L", "d"}, {r"\mathrm{pos}", "i", "b", "d"},
                    {r"\mathrm{pos}", "i", "b", "r"}, {r"\mathrm{pos}", r"\mathrm{pos}'", "h", "n"}]),
        ("t, k", [{"t", "L", "d"}, {"t", "k", "b", "d"}, {"t", "k", "b", "r"}, {"t", "t'", "h", "n"}]),
    ],
)  # fmt: skip
def test_help_of_a_formula_says_what_its_letters_mean(
    notation: Notation, letters: list[set[str]]
) -> None:
    shown = page(Setting(), Options(notation=notation))
    helps = [one.help for one in shown.all_blocks if isinstance(one, Text) and one.help][:4]
    explained = [dict(re.findall(r"\$(.+?)\$: (.+)", text)) for text in helps]
    assert [{*found} for found in explained] == letters
    assert explained[0]["L"] == "Rows of the table"
    assert explained[2]["r"] == "Rotated features of a head"
    assert explained[3]["h"] == "Number of the head, from 1"


def test_wavelengths_are_those_of_the_pairs_and_stand_once_in_the_data() -> None:
    setting = Setting(dim=16, heads=2, base=81.0, length=9)
    shown = page(setting, Options(tab=WAVELENGTHS))
    found = of(numbers(shown, "wavelengths"), "rope")
    assert np.allclose(found["wavelength"], [2 * math.pi * 3**n for n in range(4)], rtol=1e-12)
    titles = [block.title for block in shown.all_blocks if isinstance(block, Chart | Data)]
    assert titles == ["Wavelength of each pair", "First entries", "Waves"]


@pytest.mark.parametrize(
    ("kinds", "sentences"),
    [
        (("rope",), ["In RoPE a column is a wave"]),
        (
            ("learned", "alibi"),
            ["In Learned every position has a row of its own", "In ALiBi a cell is"],
        ),
        (("none", "t5", "fire"), ["In T5 bias and FIRE a cell is"]),
        (("rope_sections",), []),  # its pairs turn by row and column
        (("none",), []),
    ],
)
def test_matrices_are_explained_by_what_their_columns_are(
    kinds: tuple[str, ...], sentences: list[str]
) -> None:
    found = texts(page(Setting(schemes=kinds, dim=64, heads=2, length=16), Options()))
    explained = [text for text in found if text.startswith("In ")]
    assert len(explained) == bool(sentences)
    for text in explained:
        assert all(sentence in text for sentence in sentences)
        assert text.count("In ") == len(sentences)


def test_clocks_and_matrices_of_a_stand_beside_those_of_b() -> None:
    sizes: dict[str, Any] = {"dim": 32, "heads": 2, "length": 24}
    b = page(Setting(**sizes, train_length=12, schemes=("rope", "alibi")), Options())
    a = page(
        Setting(**sizes, train_length=6, base=500.0, schemes=("sinusoidal", "rope")), Options()
    )
    both = compare.pages(b, a, {"A": "A", "B": "B"}, ["base"])
    clocks: Clocks = block_of(both, Clocks, "clocks")  # one slider
    assert [(face.title, face.subtitle[:2], face.trained) for face in clocks.faces] == [
        ("RoPE", "A;", 6), ("RoPE", "B;", 12), ("Sinusoidal", "A;", 6)
    ]  # fmt: skip
    of_a, of_b = [text for text in texts(both) if "by the factor" in text]
    assert f"{10_000 ** (2 / 16):.3g} (RoPE)" in of_b  # a head has 16 dimensions
    assert f"{500 ** (2 / 16):.3g} (RoPE)" in of_a
    rows = [{panel.title for panel in row.panels} for row in rows_of_matrices(both)]
    assert rows == [{"RoPE"}] * 3 + [{"ALiBi"}, {"Sinusoidal"}]


def test_places_on_the_frequency_scale_are_the_nearest_pairs_each_once() -> None:
    places = tuple(PLACES)[:5]
    assert encoding.chosen_pairs(places, 2047, 1) == (0,)
    assert encoding.chosen_pairs(places, 2047, 101) == (0, 10, 20, 30, 40, 100)
    assert encoding.chosen_pairs(("slowest",), 0, 32) == (0, 31)


def test_saved_pictures_name_the_numbers_that_made_them() -> None:
    b = page(Setting(dim=256, base=500.0, train_length=64), Options(tab=WAVELENGTHS))
    sizes = "base 500, dimension 256, training length 64"
    assert chart(b, "wavelengths").subtitle("Encoding") == f"{sizes}; Encoding"
    clocks: Clocks = block_of(b, Clocks, "clocks")
    assert [face.subtitle for face in clocks.faces] == [
        "256 dimensions, base 500; training length 64",
        "32 dimensions per head, base 500; training length 64",
    ]
    a = page(Setting(dim=256, base=9_000.0, train_length=64), Options(tab=WAVELENGTHS))
    both = compare.pages(b, a, {"A": "A: base 9,000", "B": "B: base 500"}, ["base"])
    assert chart(both, "wavelengths").subtitle("Encoding") == (
        f"B: {sizes}; A: base 9,000; Encoding"
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", ["logit", "entry of a vector"])
def test_matrices_without_a_finite_entry_have_the_unit_scale(unit: str) -> None:
    for entry in (np.nan, -np.inf):
        found = encoding.scale(unit, [np.full((3, 3), entry, np.float32)])
        assert (found.low, found.high) == ((-1.0, 0.0) if unit == "logit" else (-1.0, 1.0))
    beside = [np.full((2, 2), np.nan, np.float32), np.array([[0.0, -4.0]], np.float32)]
    found = encoding.scale("logit", beside)
    assert (found.low, found.high) == (-4.0, 0.0)
