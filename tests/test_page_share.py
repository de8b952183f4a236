"""Copy link, this as Python, take away: what leaves a page says the same as the page."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from dashboard import pinned, take_away
from dashboard.matrix import Row
from dashboard.matrix.colours import coloured
from dashboard.pair import Pair
from dashboard.sheet import Sheet
from posenc import Setting, fields, own_fields
from posenc.presets import PRESETS
from posenc.schemes import SCHEMES
from tests.pages import (
    PAGES,
    SCHEME_PAGES,
    captions,
    charts,
    drawn,
    headline,
    notices,
    setting,
    visit,
)
from tests.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")
ROOT = Path(__file__).parents[1]

ODD = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "rope.layout": "half",
    "schemes": "rope,alibi,none,sinusoidal", "reference": "3", "fit": "all", "offset": "5",
    "reach": "8",
}  # fmt: skip
TINY = {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "learned_source": "random"}


def sheet(at: AppTest) -> Sheet:
    found: Sheet = at.session_state["sheet"]
    return found


def copied(at: AppTest) -> dict[str, str]:
    """The link that the page offers, as what it says."""
    at.session_state["menu_copy"] = True
    (text,) = [code.value for code in at.run().main.code if code.value.startswith(("?", "http"))]
    said = parse_qs(text.partition("?")[2], keep_blank_values=True, strict_parsing=True)
    return {name: values if len(values) > 1 else values[0] for name, values in said.items()}


# Links --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_a_copied_link_names_every_control_and_restores_the_page(page: str) -> None:
    first = drawn(visit(page, ODD))
    link = copied(first)
    own = {name for name in own_fields.rules() if name.split(".")[0] in setting(first).schemes}
    assert {*fields.rules(Setting), *own} <= {*link}
    again = drawn(visit(page, link))
    assert notices(again) == []
    assert setting(again) == setting(first)
    assert headline(again) == headline(first)
    assert copied(again) == link
    for one, other in zip(charts(first), charts(again), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_copied_link_says_defaults_too_so_that_later_defaults_change_nothing() -> None:
    link = copied(drawn(visit("similarity")))
    assert link["dim"] == "512"
    assert link["base"] == "10000"
    assert link["reference"] == "0"
    assert link["rope.layout"] == "interleaved"
    assert "fit" not in link  # PCA's


def test_a_copied_link_leaves_out_what_schemes_that_are_not_shown_have_by_default() -> None:
    link = copied(drawn(visit("similarity", {"rope_yarn.factor": "8"})))
    assert link["rope_yarn.factor"] == "8"
    assert not any(name.startswith("rope_llama3.") for name in link)
    assert "rope_yarn.truncate" not in link
    shown = copied(drawn(visit("similarity", {"schemes": "rope_yarn"})))
    assert {"rope_yarn.factor", "rope_yarn.truncate"} <= {*shown}


def test_a_pinned_setting_and_presenting_are_in_the_link() -> None:
    at = drawn(visit("pca", {"base": "500", "present": "true"}, menu_compare=True))
    at.button(key="pin").click().run()
    link = copied(drawn(at))
    assert link["present"] == "true"
    assert link["a"] == at.session_state["a"]
    assert "base~500" in link["a"]


def test_presenting_keeps_every_control_and_has_no_sidebar() -> None:
    at = drawn(visit("similarity", ODD | {"present": "true"}, menu_controls=True))
    assert len(at.sidebar.children) == 0
    assert setting(at) == setting(drawn(visit("similarity", ODD)))
    at.select_slider(key="base_dial").set_value(500.0).run()
    assert setting(drawn(at)).base == 500
    at.toggle(key="present").set_value(False).run()
    assert setting(drawn(at)).base == 500
    assert at.sidebar.select_slider(key="base_dial").value == 500


def test_a_page_that_is_turned_to_again_has_its_choices_again() -> None:
    at = drawn(visit("pca", {"fit": "all"}))
    at.query_params.clear()  # as the browser does when the page is left
    at.switch_page("views/similarity.py").run()
    at.number_input(key="reference").set_value(7).run()
    at.switch_page("views/pca.py").run()
    assert at.session_state["fit"] == "all"
    at.switch_page("views/similarity.py").run()
    assert at.session_state["reference"] == 7


def test_reset_and_presets_set_the_numbers() -> None:
    at = drawn(visit("similarity", ODD))
    at.button(key="reset").click().run()
    assert setting(drawn(at)) == Setting()
    assert notices(at) == []


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_legal_setting_that_every_page_draws(name: str) -> None:
    preset = PRESETS[name]
    asked = preset.apply(Setting())
    assert preset.scheme in SCHEMES
    assert preset.source.endswith(tuple("0123456789")) or "arXiv" in preset.source
    at = drawn(visit("similarity", asked.write()))
    assert notices(at) == []
    assert setting(at) == asked


# This as Python -----------------------------------------------------------------------------------


def printed(script: str) -> pd.DataFrame:
    """What a script prints, run as a person would run it."""
    ran = run(script)
    assert ran.returncode == 0, ran.stderr
    return pd.read_csv(io.StringIO(ran.stdout))


MAIN = {
    "start": ("start curves", ["scheme", "distance"], ["mean", "low", "high", "spread"]),
    "overview": ("measured properties", ["scheme"], None),
    "similarity": ("similarity by distance", ["scheme", "distance"],
                   ["mean", "low", "high", "spread"]),
    "pca": ("scores", ["kind", "position"], ["PC1", "PC2", "PC3"]),
    "extrapolation": ("past the training length", ["scheme", "distance"], ["cosine"]),
}  # fmt: skip


@pytest.mark.parametrize("link", [{}, ODD, TINY], ids=["default", "odd", "tiny"])
@pytest.mark.parametrize("page", MAIN)
def test_a_script_prints_the_numbers_of_its_page(page: str, link: dict[str, str]) -> None:
    shown = sheet(drawn(visit(page, link)))
    name, keys, columns = MAIN[page]
    assert shown.script is not None
    found, expected = printed(shown.script), shown.tables[name]()
    assert len(found) == len(expected)
    for key in keys:
        assert found[key].tolist() == expected[key].tolist()
    for column in columns or list(expected.columns[1:]):
        ours = pd.to_numeric(found[column]).to_numpy(float)
        theirs = pd.to_numeric(expected[column]).to_numpy(float)
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True), column


@pytest.mark.parametrize("link", [{}, ODD], ids=["default", "odd"])
def test_the_script_of_relative_offsets_prints_what_its_tables_hold(link: dict[str, str]) -> None:
    shown = sheet(drawn(visit("relative_offsets", link)))
    assert shown.script is not None
    found = printed(shown.script).set_index("scheme")
    maps = shown.tables["one matrix per offset"]().set_index("scheme")
    for ours, theirs in {
        "closed": "closed form", "fitted": "fitted matrix", "pairs": "fit per pair",
        "composed": "M_a M_b against M_(a+b)",
    }.items():  # fmt: skip
        assert np.allclose(found[ours], maps[theirs], rtol=1e-6, atol=1e-12, equal_nan=True)
    spread = "spread along diagonals / overall"
    only = shown.tables["offset only"]().set_index("scheme")
    assert np.allclose(found[spread], only[spread], rtol=1e-6, atol=1e-12, equal_nan=True)
    straight = shown.tables["straight line"]().set_index("scheme")
    assert np.allclose(found["R squared"], straight["R squared"], rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize(
    "comparison", ["language-64-9df31a1c", "copy-20-2311a456", "recall-32-d89b5de4"]
)
def test_the_script_of_measured_runs_prints_their_curves(comparison: str) -> None:
    shown = sheet(drawn(visit("extrapolation", {"half": "measured", "comparison": comparison})))
    assert shown.script is not None
    found = printed(shown.script)
    names = ("measured loss by context", "measured copy", "measured recall")
    (name,) = [key for key in shown.tables if key in names][:1]
    expected = shown.tables[name]()
    x, y = expected.columns[2], expected.columns[3]
    ours = {(r.scheme, r.read, r.x): r.mean for r in found.itertuples()}
    theirs = {(r[1], r[2], r[3]): r[4] for r in expected[["scheme", "read", x, y]].itertuples()}
    assert {key: ours[key] for key in theirs} == pytest.approx(theirs)
    assert len(ours) == len(theirs)
    for column in ("in range", "chance"):  # of recall alone
        assert (column in found) == (column in expected) == (name == "measured recall")
        if column in found:
            own, theirs = (
                {
                    (r[1], r[2], r[3]): float(r[4])
                    for r in table[["scheme", "read", at, column]].itertuples()
                }
                for table, at in ((found, "x"), (expected, x))
            )
            assert own == pytest.approx(theirs)


def test_the_script_of_train_plans_the_runs_of_the_page(tmp_path: Path) -> None:
    link = {"task": "copy", "run_length": "16", "steps": "1", "width": "8", "layers": "1",
            "run_heads": "2", "schemes": "rope"}  # fmt: skip
    shown = sheet(drawn(visit("train", link)))
    assert shown.script is not None
    places = {"POSENC_RUNS": str(tmp_path), "POSENC_WORK": str(tmp_path / "w"), "PATH": ""}
    ran = run(shown.script, env=places)
    assert ran.returncode == 0, ran.stderr
    (row,) = csv.DictReader(io.StringIO(ran.stdout))
    assert row["scheme"] == "RoPE"
    assert (tmp_path / f"{row['run']}.parquet").exists()


# Take away ----------------------------------------------------------------------------------------


def both(at: AppTest) -> Pair[Setting]:
    return Pair(setting(at), pinned.read(at.session_state["a"])[0])


def opened_zip(at: AppTest) -> dict[str, bytes]:
    made = take_away.archive(sheet(at), both(at), "the link")
    with zipfile.ZipFile(io.BytesIO(made)) as folder:
        assert folder.testzip() is None
        return {name: folder.read(name) for name in folder.namelist()}


@pytest.mark.parametrize("page", [*SCHEME_PAGES, "why_position", "claims", "check_my_encoding"])
def test_the_zip_of_a_page_holds_its_figures_numbers_settings_and_script(page: str) -> None:
    at = drawn(visit(page, {"length": "24", "train_length": "16", "dim": "32", "heads": "2"}))
    shown, files = sheet(at), opened_zip(at)
    assert shown.pictures
    assert shown.tables
    record: dict[str, Any] = json.loads(files["settings.json"])
    assert record["dim"] == 32
    assert record["schemes"] == ["learned", "sinusoidal", "rope", "alibi"]
    assert shown.script is not None
    assert files["script.py"].decode() == shown.script
    assert headline(at) in files["README.txt"].decode()
    assert b"the link" in files["README.txt"]
    for name, table in shown.tables.items():
        held = files[f"numbers/{name.replace(' ', '-')}.csv"].decode()
        assert held == table().to_csv(index=False)
    for key in shown.pictures:
        name = key.replace("_", "-")
        with Image.open(io.BytesIO(files[f"figures/{name}.png"])) as image:
            assert image.width > 300
            extrema = image.convert("L").getextrema()
            assert extrema[0] < 120 < extrema[1]  # something is drawn
        root = ElementTree.fromstring(files[f"figures/{name}.svg"])
        assert root.tag.endswith("svg")


def test_the_cells_of_an_exported_matrix_are_the_pages() -> None:
    at = drawn(visit("similarity", {"length": "12", "train_length": "8", "schemes": "rope"}))
    files, picture = opened_zip(at), sheet(at).pictures["similarity"]
    assert isinstance(picture, Row)
    cells = pd.read_csv(io.BytesIO(files["numbers/similarity-matrices.csv"]))
    dense = picture.panels[0].values.dense()
    assert len(cells) == dense.size
    for row in cells.itertuples():
        assert np.float32(row.value) == dense[row.row, row.column]
    shades = coloured(picture.panels[0].values, picture.scale)
    with Image.open(io.BytesIO(files["figures/similarity.png"])) as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(2**24)}
    assert {tuple(int(c) for c in shade[:3]) for shade in shades.reshape(-1, 4)} <= colours


def test_an_exported_pattern_names_its_words() -> None:
    at = drawn(visit("why_position", {"schemes": "rope"}))
    files = opened_zip(at)
    picture = ElementTree.fromstring(files["figures/order-patterns.svg"])
    shown = {
        "".join(element.itertext()) for element in picture.iter() if element.tag.endswith("text")
    }
    assert {"dog", "bites", "man", "word that looks", "word looked at"} <= shown
    cells = pd.read_csv(io.BytesIO(files["numbers/order-patterns-matrices.csv"]))
    assert cells["row name"].tolist()[:4] == ["dog", "dog", "dog", "bites"]
    assert cells["column name"].tolist()[:3] == ["dog", "bites", "man"]


def test_a_zip_of_a_pinned_page_holds_both_settings() -> None:
    at = drawn(visit("similarity", {"length": "12", "a": "dim~64~length~12~base~500"}))
    files = opened_zip(at)
    held = pd.read_csv(io.BytesIO(files["numbers/similarity-by-distance.csv"]))
    assert set(held["setting"]) == {"A", "B"}
    assert json.loads(files["pinned.json"])["base"] == 500
    assert json.loads(files["settings.json"])["base"] == 10_000
    assert b"Pinned setting, A" in files["README.txt"]
    assert "figures/similarity-change.png" in files


def test_a_page_without_numbers_offers_nothing_to_take_away() -> None:
    asked = {"learned_source": "table-0123456789ab", "schemes": "learned"}
    at = visit("similarity", asked, menu_export=True)
    assert any("nothing to take away" in text for text in captions(at))
