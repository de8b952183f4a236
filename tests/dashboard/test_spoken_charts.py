"""A screen reader hears numbers of every chart, not its title alone; new ones make no new chart."""

import pandas as pd
import pytest

from dashboard.blocks import Chart, walk
from dashboard.pages.check_my_encoding.page import errors_spoken
from dashboard.pages.encoding.tabs import slopes_spoken
from dashboard.pages.pca import page as pca
from dashboard.settings import Setting
from tests.dashboard.pages import charts as frames_of
from tests.dashboard.pages import drawn, visit


def test_slopes_of_the_first_and_the_last_head_are_spoken() -> None:
    # Press et al. 2022, arXiv 2108.12409, section 3: 2^(-8/n) for n heads, and its powers.
    heads = [2.0 ** (-8 * n / 8) for n in range(1, 9)]
    frame = pd.DataFrame({"scheme": "ALiBi", "head": range(1, 9), "slope": heads})
    assert slopes_spoken(frame) == "Head 1: 0.5; head 8: 0.00391."


def test_largest_and_smallest_error_of_a_column_are_spoken() -> None:
    frame = pd.DataFrame({"x": [0, 1, 2], "y": [0.25, 0.5, 0.125]})
    assert errors_spoken(frame) == "At most 0.5, in column 1; at least 0.125, in column 2."


def test_ends_of_the_positions_on_a_plane_are_spoken() -> None:
    blocks = pca.page(Setting(dim=16, length=24, train_length=16), pca.Options()).blocks
    charts = [one for one in walk(blocks) if isinstance(one, Chart) and "projection" in one.key]
    assert len(charts) == 4
    told = 0
    for chart in charts:
        columns = (chart.frame[name].tolist() for name in ("position", "PC1", "PC2"))
        for position, x, y in zip(*columns, strict=True):
            if position in (0, 23):  # one that lies far outside of the picture has no row
                assert f"position {position} at {x:.3g}, {y:.3g}" in chart.spoken
                told += 1
    assert told > 4


@pytest.mark.parametrize("page", ["start", "similarity", "at_a_glance", "pca", "extrapolation"])
def test_stop_of_a_slider_changes_rows_and_words_of_charts_alone(page: str) -> None:
    """Of another specification, or of another name, Streamlit would make a new chart at every stop."""
    at = drawn(visit(page, {"half": "formula"} if page == "extrapolation" else {}))
    names, specs, rows, words = [], [], [], []
    for base in (500.0, 20_000.0):
        drawn(at.select_slider(key="base").set_value(base).run())
        charts = [element.proto for element in at.get("vega_lite_chart")]
        names.append([chart.alt for chart in charts])
        specs.append([chart.spec for chart in charts])
        rows.append(frames_of(at))
        words.append([text.value for text in at.text])
    assert names[0] == names[1]
    assert all(names[0])
    assert specs[0] == specs[1]
    assert any(not a.equals(b) for a, b in zip(*rows, strict=True))
    assert len(words[0]) == len(names[0])
    assert words[0] != words[1]
    assert not any(text.startswith(name) for text, name in zip(words[0], names[0], strict=True))
