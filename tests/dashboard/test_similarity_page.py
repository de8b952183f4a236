"""The page Similarity, against kernels computed without posenc."""

import numpy as np
import pandas as pd
import pytest

from dashboard.blocks import Matrices
from dashboard.pages.similarity.page import FROM_MINUS_ONE, FROM_ZERO, Options, page
from dashboard.settings import Setting
from posenc.analysis import scheme_similarity
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard.called_pages import (
    block_of,
    chart,
    numbers,
    panel_values,
    small_setting,
    texts,
)
from tests.dashboard.independent_kernels import SETTINGS, Small, kernel, mean_by_distance
from tests.dashboard.pages import KINDS, LABELS, cosines, of


@pytest.fixture(params=SETTINGS)
def small(request: pytest.FixtureRequest) -> Small:
    """The numbers of one small setting."""
    return SETTINGS[request.param]


def test_matrices_and_curves_are_cosines_of_the_kernel(small: Small) -> None:
    shown = page(small_setting(small), Options())
    matrices, full, drawn = (
        panel_values(shown, "similarity"),
        numbers(shown, "by_offset"),
        chart(shown, "by_offset").drawn,
    )
    for kind in KINDS:
        cosine = cosines(kernel(kind, small))
        n = len(cosine)
        whole = np.full((small["length"], small["length"]), np.nan)
        whole[:n, :n] = cosine
        # Matrices and drawn curves travel in float32: 6e-8 of 1.
        assert np.allclose(matrices[LABELS[kind]], whole, atol=1e-7, rtol=1e-6, equal_nan=True)
        ranges = by_hand.diagonals(cosine)
        if kind == "alibi":  # the range of the heads beside their mean
            ranges = np.exp(by_hand.biases(small))[:, :, 0].T.tolist()
        expected = pd.DataFrame({
            "distance": range(n), "mean": mean_by_distance(cosine),
            "low": [*map(min, ranges)], "high": [*map(max, ranges)],
        })  # fmt: skip
        own = of(full, kind)[[*expected]]
        assert np.allclose(own, expected, atol=1e-12)
        line = of(drawn, kind)[["x", "y", "low", "high"]]
        assert np.allclose(line, own, atol=1e-7, rtol=1e-6)


def test_row_and_cell_are_those_of_the_chosen_query_and_key(small: Small) -> None:
    shown = page(small_setting(small), Options(reference=10, key_position=12))
    (cell,) = [text for text in texts(shown) if text.startswith("Query 10, key 12, distance 2: ")]
    row = numbers(shown, "one_row")
    for kind in KINDS:
        cosine = cosines(kernel(kind, small))
        if len(cosine) <= 10:
            assert of(row, kind).empty
            assert f"{LABELS[kind]}: no row exists at position 10." in texts(shown)
        else:
            assert np.allclose(of(row, kind)["cosine"], cosine[10], atol=1e-12)
            assert of(row, kind)["position"].tolist() == list(range(len(cosine)))
        if len(cosine) > 12:
            assert f"{cosine[10, 12]:.3g} ({LABELS[kind]})" in cell
    far = texts(page(small_setting(small), Options(key_position=29)))
    (cell,) = [text for text in far if text.startswith("Query 0, key 29, ")]
    assert ("no row 29 (Learned)" in cell) == (by_hand.known_positions("learned", small) <= 29)


def test_headline_names_the_distance_of_the_kernel(small: Small) -> None:
    shown = page(small_setting(small), Options())
    for kind in KINDS:
        mean = mean_by_distance(cosines(kernel(kind, small)))
        below = [distance for distance, value in enumerate(mean) if value < 0.5]
        stays = f"{LABELS[kind]} does not drop below 0.5 within the positions shown"
        assert (f"{below[0]:,} ({LABELS[kind]}" if below else stays) in shown.headline


def test_similarity_of_two_random_positions_is_the_mean_of_all_pairs(small: Small) -> None:
    (sentence,) = [
        text for text in texts(page(small_setting(small), Options())) if "chosen at random" in text
    ]
    for kind in KINDS:
        cosine = cosines(kernel(kind, small))
        pairs = [cosine[i, j] for i in range(len(cosine)) for j in range(i)]
        assert f"{np.mean(pairs):.3g} ({LABELS[kind]})" in sentence
    alone = scheme_similarity(Setting().request("rope", "cpu", 1))
    assert np.isnan(alone.random_pair)


def test_learned_table_is_blank_past_its_last_row() -> None:
    setting = Setting(length=64, train_length=20, learned_source="random")
    shown = page(setting, Options(reference=30))
    values = panel_values(shown, "similarity")
    rows, columns = np.indices((64, 64))
    assert np.array_equal(np.isnan(values["Learned"]), (rows >= 20) | (columns >= 20))
    assert not np.isnan(values["RoPE"]).any()
    row = block_of(shown, Matrices, "similarity")
    assert {panel.boundary for panel in row.panels} == {20}


def test_a_first_token_without_a_logit_has_no_similarity() -> None:
    """SSMax multiplies the first query by ln 1 = 0, and a cosine with a vector of norm 0 is undefined."""
    setting = Setting(length=12, schemes=("rope", "ssmax", "ssmax_rope"))
    (cell,) = [text for text in texts(page(setting, Options(key_position=1))) if "key 1" in text]
    assert cell.startswith("Query 0, key 1, distance 1: 0.")
    assert cell.endswith(" (RoPE), undefined (SSMax and SSMax on RoPE).")


def test_a_query_and_a_key_are_asked_for_until_they_are_chosen() -> None:
    """Every position is as similar to itself as can be, so that the pair 0, 0 says nothing."""
    setting = Setting(length=12, schemes=("rope",))
    ask = "Choose a query and a key, or click a cell: their similarity then stands here."
    for options, asked in (
        (Options(), True),
        (Options(reference=1), False),
        (Options(key_position=1), False),
    ):
        assert (ask in texts(page(setting, options))) == asked


def test_query_past_the_positions_shown_is_the_last_one() -> None:
    shown = page(Setting(length=12, schemes=("rope",)), Options(reference=300))
    assert "The last position shown is 11; it is used as the query." in texts(shown)
    assert chart(shown, "one_row").title == "Position similarity of query 11 and each key"


def test_jump_of_the_bundled_table_is_explained_where_its_last_row_is_shown() -> None:
    for setting, explained in (
        (Setting(length=128), True), (Setting(length=64), False),
        (Setting(learned_source="random"), False), (Setting(schemes=("rope",)), False),
    ):  # fmt: skip
        jumps = [text for text in texts(page(setting, Options())) if "jumps" in text]
        assert [text.split(":")[0] for text in jumps] == [
            "Learned jumps at position 127"
        ] * explained


def test_colours_start_at_zero_on_request() -> None:
    for from_zero, scale in ((False, FROM_MINUS_ONE), (True, FROM_ZERO)):
        shown = page(Setting(length=12), Options(from_zero=from_zero))
        assert block_of(shown, Matrices, "similarity").scale == scale


def test_page_of_a_missing_table_alone_says_why_and_is_not_cached() -> None:
    setting = Setting(schemes=("learned",), learned_source=f"table-{'0' * 12}")
    shown = page(setting, Options())
    assert list(shown.reasons) == ["learned"]
    assert "Upload its file again." in shown.reasons["learned"]
    assert not shown.blocks
    assert page(setting, Options()) is not shown
