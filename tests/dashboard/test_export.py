"""Links, exported Python and the zip of a page: what leaves a page says the same as the page."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dashboard import pictures
from dashboard.blocks import Chart, Matrices, pictures_of
from dashboard.components.matrix.colours import coloured
from dashboard.pages.claims.data import DRAWN
from dashboard.pages.extrapolation import page as extrapolation
from dashboard.settings import Setting
from dashboard.state import RULES
from dashboard.tools import address
from posenc import fields
from posenc.models import config_token
from posenc.planner import METHODS
from tests.dashboard import pages
from tests.dashboard.called_pages import python_of
from tests.dashboard.pages import (
    OPTIONS,
    PAGES,
    as_read,
    charts,
    drawn,
    exported,
    headline,
    link_of,
    options,
    script_of,
    setting,
    state,
    tables_shown,
    visit,
)  # fmt: skip
from tests.dashboard.script_runner import assert_prints, assert_same, run
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ODD = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "rope.layout": "half",
    "schemes": "rope,alibi,none,sinusoidal", "reference": "3", "fit": "all", "offset": "5",
    "reach": "8", "steps": "77",
}  # fmt: skip
TINY = {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "learned_source": "random"}

SVG = "{http://www.w3.org/2000/svg}"

EXPORTED = (*pages.SCHEME_PAGES, "claims", "check_my_encoding")


@pytest.mark.parametrize("page", mostly(PAGES, "similarity", "pca", "context_planner"))
def test_link_of_a_page_restores_it(page: str) -> None:
    own = {
        name: text for name, text in ODD.items() if name in (*RULES, *fields.rules(OPTIONS[page]))
    }
    first = drawn(visit(page, own | {"a": "v~1~base~500", "present": "true"}))
    again = drawn(visit(page, link_of(first)))
    assert pages.notices(again) == pages.notices(first) == []
    assert (setting(again), state(again).a) == (setting(first), state(first).a)
    assert options(again) == options(first)
    assert headline(again) == headline(first)
    for frame, other in zip(charts(first), charts(again), strict=True):
        pd.testing.assert_frame_equal(frame, other)


@pytest.mark.parametrize("root", ["http://127.0.0.1:85", "https://example.org/tools/posenc"])
def test_address_of_a_page_whose_path_ends_in_another_s_is_corrected(root: str) -> None:
    page = "check_my_encoding"
    assert address(f"{root}/check_my_/{page}", page) == f"{root}/{page}"
    assert address(f"{root}/{page}", page) == f"{root}/{page}"
    assert address(f"{root}/encoding", "encoding") == f"{root}/encoding"
    assert address("", page) == ""


# Scripts ------------------------------------------------------------------------------------------


def printed(script: str, env: Mapping[str, str] | None = None) -> str:
    """Return the CSV that a script prints, or its first part."""
    result = run(script, env)
    assert result.returncode == 0, result.stderr
    return result.stdout.split("\n\n")[0]


YARN = {"model_type": "llama", "hidden_size": 2_048, "num_attention_heads": 16,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}  # fmt: skip
OWN = config_token(YARN)
SENTENCE = {"sentence": 'a \'b\' """ \\ {x} \U0001f415 a', "causal": "true", "pattern_head": "3"}
LEARNED = TINY | {"train_length": "2", "table": "learned"}
PLAN = {"context": "9000", "methods": "none,yarn"}
FOUND, BY_DISTANCE = "What this table is", "Position similarity by distance"
SCRIPTS = [
    ("encoding", ODD | {"learned_source": "random"}, "First entries"),
    ("overview", ODD, "Measured properties"),
    ("overview", TINY, "Measured properties"),
    ("similarity", ODD, BY_DISTANCE),
    ("similarity", {"length": "24", "model": "llama-3-8b", "schemes": "rope"}, BY_DISTANCE),
    ("similarity", {"length": "24", "model": OWN, "schemes": "rope_yarn"}, BY_DISTANCE),
    ("pca", ODD, "Scores"),
    ("extrapolation", ODD, BY_DISTANCE),
    ("relative_offsets", ODD, "One matrix per offset"),
    ("relative_offsets", ODD, "Offset only and straight line"),
    ("why_position", ODD | SENTENCE, "Difference by word"),
    ("claims", ODD, "Claims"),
    ("context_planner", PLAN | {"context": "16384"}, "Methods"),
    ("context_planner", PLAN | {"model": "deepseek-v3", "methods": ",".join(METHODS)}, "Methods"),
    ("context_planner", PLAN | {"model": "qwen3-8b", "trained": "4096"}, "Methods"),
    ("check_my_encoding", ODD | {"table": "RoPE cache in bfloat16"}, FOUND),
    ("check_my_encoding", LEARNED, FOUND),
]
TITLES = {"closed": "closed form", "fitted": "fitted matrix", "pairs": "fit per pair",
          "composed": "M_a M_b against M_(a+b)"}  # fmt: skip


@pytest.mark.parametrize(("page", "link", "name"), SCRIPTS)
def test_script_prints_the_numbers_of_its_page(page: str, link: dict[str, str], name: str) -> None:
    at = drawn(visit(page, link))
    assert_prints(printed(script_of(at)), tables_shown(at)[name], TITLES)


def test_script_of_a_table_of_one_row_ends_in_a_sentence() -> None:
    result = run(script_of(drawn(visit("check_my_encoding", LEARNED | {"train_length": "1"}))))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("table must be rows by columns, with 2 rows or more")


COMPARISONS = ("language-64-8c2dbbee", "recall-32-d89b5de4", "copy-20-2311a456")


@pytest.mark.parametrize("comparison", mostly(COMPARISONS, *COMPARISONS[:2]))
def test_script_of_measured_runs_prints_their_curves(comparison: str) -> None:
    at = drawn(visit("extrapolation", {"half": "measured", "comparison": comparison}))
    ours = pd.read_csv(io.StringIO(printed(script_of(at)))).set_index(["scheme", "read", "x"])
    tables = tables_shown(at)
    expected = next(table for name, table in tables.items() if name.startswith("Measured "))
    expected = expected.set_index([*expected.columns[:3]])
    assert len(ours) == len(expected)
    assert "mean" in ours
    assert_same(ours["mean"].loc[expected.index], expected[expected.columns[0]])


def test_script_of_train_makes_the_planned_runs(tmp_path: Path) -> None:
    link = {"task": "copy", "run_length": "16", "steps": "1", "width": "8", "layers": "1",
            "run_heads": "2", "schemes": "rope"}  # fmt: skip
    folders = {"POSENC_RUNS": str(tmp_path), "POSENC_WORK": str(tmp_path / "w"), "PATH": ""}
    (row,) = csv.DictReader(io.StringIO(printed(script_of(drawn(visit("train", link))), folders)))
    assert row["scheme"] == "RoPE"
    assert (tmp_path / f"{row['run']}.parquet").exists()


@pytest.mark.parametrize("page", mostly(EXPORTED, "pca"))
def test_zip_holds_figures_numbers_settings_and_script(page: str) -> None:
    small = {"length": "24", "train_length": "16", "dim": "32", "heads": "2"}
    # Of claims the one with a picture, opened.
    at = drawn(visit(page, small, **{f"claim_code_{DRAWN}": True}))
    (shown, blocks), files = pages.made(at), exported(at)
    assert pictures_of(blocks)
    assert json.loads(files["settings.json"])["dim"] == 32
    assert files.get("script.py", b"").decode() == python_of(shown)
    assert ("script.py" in files) == (page != "start")  # which leads to pages that have one
    assert b"(B)" not in files["README.txt"]  # nothing is compared
    assert as_read(headline(at)) in files["README.txt"].decode()
    for name, table in tables_shown(at).items():
        words = re.findall("[a-z0-9]+", name.lower())
        stored = files[f"numbers/{'-'.join(words)}.csv"].decode()
        assert stored == table.to_csv(index=False)
    for picture in pictures_of(blocks):
        start = f"figures/{picture.key.replace('_', '-')}"
        panels = picture.panels if isinstance(picture, Matrices) else ()
        names = {panel.title for panel in panels}
        names |= {picture.title} if isinstance(picture, Chart) else set()
        drawn_files = [name for name in files if name.startswith(start) and name.endswith(".png")]
        assert len(drawn_files) >= len(names)
        written: set[str] = set()
        for name in drawn_files:
            with Image.open(io.BytesIO(files[name])) as image:
                levels = np.asarray(image.convert("L"))
            assert max(levels.shape) > 300
            assert levels.max() - levels.min() > 20  # something is drawn
            texts = svg_texts(files[name.replace(".png", ".svg")])
            assert any(shown.title in text for text in texts)
            written |= texts
        assert names <= written


def test_zip_of_a_pinned_page_holds_both_settings_and_every_cell() -> None:
    link = {"length": "12", "train_length": "8", "schemes": "rope"}
    at = drawn(visit("similarity", link | {"a": "dim~64~length~12~base~500"}))
    files, (_, blocks) = exported(at), pages.made(at)
    (picture,) = [one for one in pictures_of(blocks) if one.key == "similarity"]
    stored = pd.read_csv(io.BytesIO(files["numbers/position-similarity-by-distance.csv"]))
    assert set(stored["setting"]) == {"A", "B"}
    assert json.loads(files["pinned.json"])["base"] == 500
    assert json.loads(files["settings.json"])["base"] == 10_000
    assert "\n\nB: model dimension 512, base 10,000, 1 more. RoPE" in files["README.txt"].decode()
    assert (
        "\n\nA: model dimension 64, base 500, 1 more. Position similarity first"
        in files["README.txt"].decode()
    )
    assert b"at settings.json (B)" in files["README.txt"]
    assert "figures/similarity-change-1-rope.png" in files
    assert isinstance(picture, Matrices)
    cells = pd.read_csv(io.BytesIO(files["numbers/similarity-matrices.csv"]))
    dense = picture.panels[0].values.dense()
    first = cells.iloc[: dense.size]
    values = first["value"].to_numpy(np.float32)
    np.testing.assert_array_equal(values, dense[first["row"], first["column"]])  # read back
    shades = coloured(picture.panels[0].values, picture.row("").scale)
    with Image.open(io.BytesIO(files["figures/similarity-1-rope.png"])) as image:
        pixels = np.asarray(image)
    x, y, width, height = (
        round(pictures.DENSITY * number) for number in plot(files["figures/similarity-1-rope.svg"])
    )
    rows, columns = (np.arange(12) * size // 12 + size // 24 for size in (height, width))
    seen = pixels[y:, x:][np.ix_(rows, columns)]
    np.testing.assert_array_equal(seen, shades)


def test_figures_of_a_pinned_page_name_their_setting_axes_and_colours() -> None:
    link = {
        "length": "12",
        "train_length": "8",
        "schemes": "rope",
        "a": "length~12~train_length~8~schemes~rope~base~500",
    }
    files = exported(drawn(visit("similarity", link)))
    settings = {
        "similarity": "Similarity, B: base 10,000",
        "similarity-pinned": "Similarity, A: base 500",
        "similarity-change": "Similarity, B: base 10,000 minus A: base 500",
    }
    for name, setting_name in settings.items():
        texts = svg_texts(files[f"figures/{name}-1-rope.svg"])
        assert {"RoPE", setting_name, "query position", "key position", "10"} <= texts
        unit, ends = "position similarity", {"\u22121.0", "1.0"}
        if name == "similarity-change":
            unit, ends = "difference of similarity", {"0.0"}
        assert {unit} | ends <= texts
    assert {"A: base 500", "B: base 10,000"} <= svg_texts(files["figures/by-offset.svg"])


def svg_texts(svg: bytes) -> set[str]:
    """Return what is written in a drawing."""
    return {(node.text or "").strip() for node in ElementTree.fromstring(svg).iter()}


def plot(svg: bytes) -> tuple[float, float, float, float]:
    """Return left, top, width and height of the image in a drawing."""

    def places(node: ElementTree.Element, x: float, y: float) -> Iterator[tuple[float, ...]]:
        moved = re.match(r"translate\(([^,]+),([^)]+)\)", node.get("transform", ""))
        if moved is not None:
            x, y = x + float(moved[1]), y + float(moved[2])
        if node.tag == f"{SVG}image":
            yield x, y, float(node.attrib["width"]), float(node.attrib["height"])
        for child in node:
            yield from places(child, x, y)

    ((left, top, width, height),) = places(ElementTree.fromstring(svg), 0.0, 0.0)
    return left, top, width, height


def test_matrices_of_an_export_name_their_words_and_axes() -> None:
    files = exported(drawn(visit("why_position", {"schemes": "rope"})))
    cells = pd.read_csv(io.BytesIO(files["numbers/order-patterns-matrices.csv"]))
    assert {"dog", "bites", "man"} <= {*cells["row name"]}
    assert "Down: query. Across: key." in files["README.txt"].decode()


@pytest.mark.parametrize(
    ("page", "figure", "words"),
    [
        ("similarity", "by-offset", ("base 777, dimension 64, training length 20",)),
        ("similarity", "one-row", ("base 777, dimension 64, training length 20",)),
        ("", "start", ("base 777, dimension 64, training length 20",)),
        ("pca", "projection-sinusoidal", ("PC1", "base 777", "hollow:")),
        ("why_position", "order-patterns-1-rope-head-1-of-2-first-order", ("base 777",)),
    ],
)
def test_saved_figure_names_what_made_it(page: str, figure: str, words: tuple[str, ...]) -> None:
    link = {"base": "777", "dim": "64", "heads": "2", "length": "24", "train_length": "20"}
    texts = " ".join(svg_texts(exported(drawn(visit(page, link)))[f"figures/{figure}.svg"]))
    assert [word for word in words if word not in texts] == []


def test_saved_figure_of_measured_runs_says_what_its_bands_are() -> None:
    shown = extrapolation.page(Setting(), extrapolation.Options())
    (chart,) = [b for b in shown.all_blocks if isinstance(b, Chart) and b.key == "measured_context"]
    assert chart.subtitle(shown.title) == (
        "width 128, base 10,000; dots: single trials; band: lowest to highest; Extrapolation"
    )
    assert (chart.frame["low"] < chart.frame["high"]).any()  # there are bands
