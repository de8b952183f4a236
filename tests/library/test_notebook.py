"""Results in a notebook: what they show as HTML, as a frame and as a chart."""

import base64
import contextlib
import importlib.util
import io
import math
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import posenc
from posenc import analysis
from posenc.claims import CLAIMS
from posenc.errors import NothingToShow
from posenc.models import MODELS
from posenc.notebook import MAX_CELLS, MAX_POINTS, MAX_ROWS, Column, Shown, View
from posenc.planner import plan

GUIDE = (Path(__file__).parents[2] / "posenc" / "README.md").read_text()
ROPE = posenc.Request(config=posenc.RopeConfig(dim=64), length=256)
WAVES = posenc.Request(config=posenc.SinusoidalConfig(dim=32), length=64)
LIMIT = 50_000  # characters of what a notebook keeps


def results() -> dict[str, Shown]:
    """Return a result of every analysis of a request, and of a claim."""
    coverage = analysis.scheme_coverage(ROPE, 128)
    norms = analysis.pair_norms(torch.ones(4, 8, 3), torch.ones(2, 8, 3), posenc.RopeConfig(dim=8))
    base = analysis.smallest_base(64, 4096)
    assert coverage is not None
    assert base is not None
    kernel = posenc.position_kernel(WAVES.config.build(), 64)
    found = [
        analysis.scheme_similarity(ROPE), analysis.similarity_by_offset(kernel), coverage, base,
        analysis.scheme_projection(WAVES, 64, 3), analysis.scheme_projection(WAVES, 64, 3).projection,
        analysis.scheme_kernel_past(ROPE, 128), analysis.scheme_offset_map(WAVES, 1, 2),
        analysis.scheme_map_errors(WAVES), analysis.scheme_offset_claims(ROPE),
        analysis.scheme_properties(WAVES), analysis.scheme_dense_fit(WAVES, 1),
        analysis.inspect_layouts(16, 64), analysis.inspect_layouts(16, 64).mended,
        analysis.probe(posenc.sinusoidal_table(64, 32)), analysis.spectrum(torch.ones(4), 16),
        norms, analysis.slow_pairs(norms, 64),
        CLAIMS["slowest"].test(posenc.Sizes(dim=512)),
        plan(MODELS["llama-3-8b"].read(), 16_384, methods=["yarn", "linear"], search_base=False),
    ]  # fmt: skip
    return {type(one).__name__: one for one in found}


RESULTS = results()


class Tags(HTMLParser):
    """Tags and texts of a document, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.open.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself_as_small_html_without_a_script(name: str) -> None:
    html = RESULTS[name]._repr_html_()
    tags = Tags(html)
    assert len(html) < LIMIT
    assert tags.open == []
    assert tags.seen.count("svg") <= 1
    assert not {"script", "iframe", "object", "link"} & {*tags.seen}
    assert not [one for one in tags.attributes if one.startswith("on")]
    assert html.count("nan") == html.count("inf") == 0


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_a_frame_with_its_columns(name: str) -> None:
    view, frame = RESULTS[name].view(), RESULTS[name].to_frame()
    assert len(frame) > 0
    if view.columns:
        assert list(frame) == list(view.columns)
    assert {view.x, *view.lines} - {""} <= {*frame.columns}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_chart_or_says_that_it_has_numbers_only(name: str) -> None:
    view = RESULTS[name].view()
    if view.lines or view.matrix is not None:
        specification = RESULTS[name].plot().to_dict()
        assert specification["title"] == view.title
        rows = next(iter(specification["datasets"].values()))
        assert 0 < len(rows) <= max(MAX_POINTS * len(view.lines), MAX_CELLS**2)
    else:
        with pytest.raises(NothingToShow, match="single numbers only"):
            RESULTS[name].plot()


def test_the_frame_of_a_similarity_has_the_cosines_of_a_plain_loop() -> None:
    frame = RESULTS["SchemeSimilarity"].to_frame()
    for distance in (0, 1, 17, 255):
        angles = [distance * 10000 ** (-2 * pair / 64) for pair in range(32)]
        expected = sum(map(math.cos, angles)) / 32
        assert frame["mean"][distance] == pytest.approx(expected, abs=1e-12)


class Made(Shown):
    """A result for tests."""

    def __init__(self, view: View) -> None:
        self.made = view

    def view(self) -> View:
        return self.made


def test_a_picture_draws_every_point_at_its_place_and_a_gap_where_a_value_is_missing() -> None:
    columns: dict[str, Column] = {"x": [0, 1, 2, 3, 4], "y": [0.0, 1.0, math.nan, 0.5, 0.25]}
    html = Made(View(title="t", columns=columns, x="x", lines=("y",)))._repr_html_()
    line = re.findall(r'<path d="(M[^"]*)" fill="none" stroke="#', html)[0]
    assert line == "M64.0,232.0L184.0,12.0M424.0,122.0L544.0,177.0"


def test_a_matrix_is_drawn_in_grey_from_its_lowest_to_its_highest_value() -> None:
    html = Made(View(title="t", matrix=torch.tensor([[-2.0, 0.0, 2.0], [2.0, 1.0, torch.nan]])))
    png = base64.b64decode(re.findall(r"base64,([^\"]*)", html._repr_html_())[0])
    content = png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8]
    assert zlib.decompress(content) == bytes([0, 0, 128, 255, 0, 255, 191, 0])
    assert png[16:24] == bytes([0, 0, 0, 3, 0, 0, 0, 2])


def test_names_are_texts_and_never_tags() -> None:
    bad = "<script>alert(1)</script>"
    columns: dict[str, Column] = {bad: [0, 1], "y": [bad, bad]}
    html = Made(View(title=bad, numbers={bad: bad}, columns=columns))._repr_html_()
    lines = Made(View(title=bad, columns={bad: [0, 1]}, x=bad, lines=(bad,)))._repr_html_()
    assert "<script" not in html + lines


def test_a_long_table_shows_its_first_rows_and_says_how_many_follow() -> None:
    html = Made(View(title="t", columns={"x": list(range(100))}))._repr_html_()
    assert html.count("<tr>") == MAX_ROWS + 1
    assert f"{100 - MAX_ROWS} more" in html


def test_nothing_finite_is_said_in_the_picture() -> None:
    html = Made(View(title="t", columns={"x": [0], "y": [math.inf]}, x="x", lines=("y",)))
    assert "no finite value" in html._repr_html_()


@pytest.mark.parametrize(("method", "package"), [("to_frame", "pandas"), ("plot", "altair")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    method: str, package: str
) -> None:
    found = importlib.util.find_spec
    absent = mock.patch(
        "importlib.util.find_spec", lambda name: None if name == package else found(name)
    )
    result: Any = RESULTS["BaseWindow"]
    ask = {"to_frame": result.to_frame, "plot": result.plot}[method]
    with absent, pytest.raises(NothingToShow, match=rf"{package} must be installed.*\[plot\]"):
        ask()


def test_the_notebook_of_the_guide_has_ten_cells_that_run() -> None:
    section = GUIDE.partition("## In a notebook\n")[2].partition("\n## ")[0]
    cells = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert len(cells) == 10
    names: dict[str, Any] = {}
    shown = 0
    for cell in cells:
        *first, last = cell.strip().split("\n")
        with contextlib.redirect_stdout(io.StringIO()):
            exec("\n".join(first), names)
            try:
                code = compile(last, "cell", "eval")
            except SyntaxError:
                exec(last, names)
                continue
            value = eval(code, names)
        html = getattr(value, "_repr_html_", None)
        shown += html is not None and 0 < len(html()) < LIMIT
    assert shown >= 5
    assert np.isfinite(names["frame"]["mean"]).all()
