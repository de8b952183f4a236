"""Names that are HTML, Markdown, links, formulas: shown as the text they are, in pages, files and scripts.

What is really sent to the browser is walked: of Streamlit's elements those that read Markdown must hold no
visitor's word unescaped; the others show text as it is.
"""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import csv_file, figures
from dashboard.choices import PAGE_CHOICES
from dashboard.matrix import Row, Scale
from dashboard.matrix.payload import Panel
from dashboard.matrix.values import Full
from posenc import Setting, fields, own_fields
from posenc.csv_cells import cell
from posenc.lab import Run, specifications
from posenc.lab.run import to_parquet
from posenc.run_files import ENVIRONMENT
from tests.hostile_numbers import LLAMA, npy
from tests.longer import mostly
from tests.pages import PAGES, as_read, charts, drawn, visit
from tests.small_runs import CORPUS, SIZES
from tests.test_page_uploads import uploaded, use

pytestmark = pytest.mark.usefixtures("no_shape_checks")

NAMES = {
    "HTML": "<img src=x onerror=window.pwned=1>",
    "a script": "</script><script>window.pwned=1</script>",
    "a picture": "![](http://evil.example/p.png)",
    "a link": "[a](javascript:window.pwned=1)",
    "a bare address": "http://evil.example www.evil.example a@evil.example",
    "a directive": ":red[x] :material/lock: :small[y]",
    "mathematics": r"$\href{http://evil.example}{x}$ $$y$$",
    "emphasis": "**b** *i* `c` ~~s~~ # h",
    "a list": "- a\n- b\n1. c\n> d",
    "a formula": "=cmd|' /C calc'!A0",
    "right to left": "\u202egnp.sgnihton\u202c\u200b",
    "a device": "CON",
    "a path": "../../etc/passwd",
    "300 letters": "n" * 300,
    "controls": "a\0b\r\nc\x1b[31md",
}
# Formatting that Streamlit would draw: none of it may stand in what reads Markdown.
DRAWN = (
    "<img", "<script", "![](", "](javascript", "http://", "www.evil", "a@evil", ":red[",
    ":material/lock", ":small[y", "$\\href", "$$y", "**b**", "`c`", "~~s~~", "\u202e",
)  # fmt: skip
# Elements that show text as it is, as their frontend does (streamlit 1.67): read by no Markdown parser.
LITERAL = {"code", "arrow_data_frame", "vega_lite_chart", "arrow_vega_lite_chart", "bidi_component",
           "file_uploader", "text_area", "text_input", "json"}  # fmt: skip


def leaves(at: AppTest) -> Iterator[Any]:
    """Every element and block that was sent, as its message."""

    def walk(block: Any) -> Iterator[Any]:
        if getattr(block, "proto", None) is not None:
            yield block.proto
        for child in (getattr(block, "children", None) or {}).values():
            yield from walk(child)

    yield from walk(at._tree)


def texts(message: Any) -> Iterator[tuple[str, str]]:
    """Every text of a message, by the name of its field."""
    for field, value in message.ListFields():
        for one in value if isinstance(value, list) or hasattr(value, "append") else [value]:
            if hasattr(one, "ListFields"):
                yield from texts(one)
            elif isinstance(one, str):
                yield field.name, one


def unescaped(text: str) -> str:
    """A text without what a backslash makes literal."""
    return re.sub(r"\\.", "·", text)


def formatted(at: AppTest) -> list[str]:
    """Every text of the page that is read as Markdown and holds formatting of a visitor's name."""
    found = []
    for message in leaves(at):
        kind = message.DESCRIPTOR.name
        which = message.WhichOneof("type") if kind == "Element" else None
        if (which or kind.lower()) in LITERAL or kind in ("BidiComponent", "FileUploader", "Code"):
            continue
        for name, text in texts(message):
            # Options of a selectbox and what its user typed are shown as they are; its label is not.
            typed = ("options", "raw_value", "value", "default")
            literal = kind in ("Selectbox", "TextInput", "TextArea") and name in typed
            if (
                not literal
                and name not in ("id", "spec", "url")
                and any(part in unescaped(text) for part in DRAWN)
            ):
                found.append(f"{kind}.{name}: {text[:200]}")
    return found


def shows(at: AppTest, part: str) -> bool:
    """Whether a visitor reads this anywhere on the page."""
    return any(part in as_read(text) for message in leaves(at) for _, text in texts(message))


def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(30, 12)).astype(np.float32)


def named_table(name: str) -> bytes:
    tensor = name.replace("\0", "")[:200]
    return save(
        {f"{tensor}.wpe.weight": rows(), f"{tensor}.position_embeddings.weight": rows()[:20]}
    )


def test_the_walk_sees_what_it_looks_for() -> None:
    def page() -> None:
        import streamlit as st

        st.markdown("a ![](http://evil.example/p.png)")
        st.button("![](http://evil.example/p.png)")
        st.selectbox("![](http://evil.example/p.png)", ["![](http://evil.example/p.png)"])
        st.code("![](http://evil.example/p.png)")
        st.caption("\\!\\[\\]\\(http\\:\\/\\/evil\\.example\\/p\\.png\\)")

    at = AppTest.from_function(page).run()
    assert len(formatted(at)) == 3
    assert shows(at, "![](http://evil.example/p.png)")


@pytest.mark.parametrize("name", mostly(NAMES, "HTML", "a directive", "controls"))
def test_names_of_a_checkpoint_and_its_tensors_are_text(name: str) -> None:
    said = NAMES[name]
    at = uploaded(named_table(said), f"{said}.safetensors", page="overview")
    assert not at.exception
    assert formatted(at) == []
    drawn(use(at))
    assert formatted(at) == []
    source = at.session_state["setting"].learned_source
    assert source.startswith("table-")  # under the name of its content, whatever the file is called
    assert source.removeprefix("table-").isalnum()


@pytest.mark.parametrize("page", mostly([page for page in PAGES if page != "overview"], "claims"))
def test_a_table_of_the_worst_names_is_text_on_every_page(page: str) -> None:
    worst = "".join(NAMES[one] for one in ("HTML", "a picture", "a link"))
    at = use(uploaded(named_table(worst), f"{worst}.safetensors", page="overview"))
    at = drawn(at.switch_page(f"views/{page}.py").run())
    assert formatted(at) == []


@pytest.mark.parametrize("name", mostly(NAMES, "a bare address"))
def test_a_file_that_is_refused_is_named_as_text(name: str) -> None:
    at = uploaded(b"garbage", f"{NAMES[name]}.bin")
    assert len(at.error) == 1
    assert formatted(at) == []


@pytest.mark.parametrize("name", mostly(NAMES, "a picture"))
def test_names_of_a_table_to_be_checked_are_text(name: str) -> None:
    said = NAMES[name]
    at = visit("check_my_encoding", check_upload=True)
    for content in (npy(rows()), save({f"{said}.a": rows(), f"{said}.b": rows()}), b"garbage"):
        uploader = at.main.get("file_uploader")[0]
        uploader.set_value((f"{said}.npy", content, "application/octet-stream")).run()
        assert not at.exception
        assert formatted(at) == []
    uploader = at.main.get("file_uploader")[0]
    uploader.set_value((f"{said}.npy", npy(rows()), "application/octet-stream")).run()
    assert formatted(drawn(at)) == []


@pytest.mark.parametrize("name", mostly(NAMES, "HTML", "a link"))
def test_a_model_that_calls_itself_so_is_text(name: str) -> None:
    config = LLAMA | {"model_type": NAMES[name], "position_" + NAMES[name]: 1}
    at = visit("context_planner", your_model=True)
    at.text_area[0].set_value(json.dumps(config)).run()
    assert not at.exception
    assert len(at.error) == 1
    assert formatted(at) == []
    (switch,) = [one for one in at.toggle if str(one.key).startswith("assume_")]
    switch.set_value(True).run()
    assert [box.value for box in at.error] == []
    assert formatted(at) == []
    at.button(key="use_config").click().run()
    assert not at.exception
    assert formatted(at) == []
    assert at.session_state["model"].startswith("config-")
    at.switch_page("views/overview.py").run()
    assert formatted(drawn(at)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["HTML", "a picture", "a directive", "controls"])
def test_the_name_of_a_text_is_text(name: str) -> None:
    at = visit("train", {"task": "language"})
    content = CORPUS.train.numpy().tobytes()
    (uploader,) = at.main.get("file_uploader")
    uploader.set_value((f"{NAMES[name]}.txt", content, "text/plain")).run()
    assert not at.exception
    assert formatted(at) == []


def test_what_a_run_says_of_itself_is_text(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in a store that others write to: its text's name and its reason to stop."""
    worst = "".join(NAMES[one] for one in ("HTML", "a picture", "a link", "a directive"))
    one = specifications(["rope"], corpus=CORPUS, widths=[16], **SIZES)[0]
    run = Run(replace(one, corpus_name=worst), (), (2.5, 2.0), f"=1+1{worst}", 0.5)
    (tmp_path / f"{run.run_id}.parquet").write_bytes(to_parquet(run))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    streamlit.cache_data.clear()
    streamlit.cache_resource.clear()
    found = 0
    for page, link in (("train", {}), ("extrapolation", {"half": "measured"})):
        at = visit(page, link)
        assert not at.exception
        assert formatted(at) == []
        found += shows(at, "onerror=window")
    assert found
    for frame in (one.value for one in at.dataframe):
        assert_no_formula(frame)
    streamlit.cache_data.clear()
    streamlit.cache_resource.clear()


KEYS = [
    *fields.rules(Setting),
    *own_fields.rules(),
    *(k for c in PAGE_CHOICES for k in fields.rules(c)),
]


@pytest.mark.parametrize("name", mostly(NAMES, "mathematics"))
def test_what_a_link_says_is_text_in_every_key(name: str) -> None:
    for page in ("overview", "why_position"):
        at = visit(page, dict.fromkeys([*KEYS, "a", NAMES[name]], NAMES[name]))
        assert not at.exception
        assert formatted(at) == []
        for part in ("evil", "pwned", "red[x"):
            assert not any(part in as_read(box.value) for box in at.warning)


@pytest.mark.long
def test_a_script_to_take_away_holds_no_word_of_a_visitor_as_code() -> None:
    """A name that ends its comment or its text would run on whoever runs the script."""
    ends = "'''\"\"\"\\\n__import__('os').system('touch pwned')\r#"
    table = save({f"{ends}.wpe.weight": rows()})
    at = use(uploaded(table, f"{ends}.safetensors", page="overview"))
    at.session_state["menu_python"] = True
    found = 0
    for page in PAGES:
        link = {
            "model": f"config-{ends}",
            "table": ends,
            "sentence": ends,
            "reorder": ends,
            "a": ends,
        }
        for one in (visit(page, link, menu_python=True), at.switch_page(f"views/{page}.py").run()):
            scripts = [code.value for code in one.get("code") if "posenc" in code.value]
            found += len(scripts)
            for script in scripts:
                named = {
                    getattr(node, "id", getattr(node, "attr", ""))
                    for node in ast.walk(ast.parse(script))
                }
                assert not named & {"__import__", "system"}
    assert found >= 8


# Files to take away ---------------------------------------------------------------------------------

CELLS = {
    "=1+1": "'=1+1",
    "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "' =1",
    "\r=1": "' =1",
    "\n=1": "' =1",
    "\0=1": "' =1",
    "a\r=1": "a =1",
    "  =1": "'  =1",
    "＝1+1": "'＝1+1",
    "-": "'-",
    "-0.5": "-0.5",
    "+3e-7": "+3e-7",
    "-inf": "-inf",
    "-1_0": "'-1_0",
    "a=1": "a=1",
    "B - A": "B - A",
    "'quoted": "'quoted",
    "": "",
}


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def assert_no_formula(frame: pd.DataFrame) -> None:
    """No text of a table begins as a formula does: Streamlit's own download writes it as it is."""
    for name in frame:
        for value in [name, *frame[name]]:
            if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
                assert value == "" or is_number(value), value


@pytest.mark.parametrize("text", CELLS)
def test_a_cell_is_marked_where_a_spreadsheet_would_compute_it(text: str) -> None:
    assert cell(text) == CELLS[text]


@settings(max_examples=40)
@given(
    st.lists(st.text(max_size=12) | st.sampled_from([*CELLS]), min_size=1, max_size=6),
    st.lists(st.floats(), min_size=6, max_size=6),
)
def test_a_file_reads_back_as_its_cells_and_numbers_stay_numbers(
    words: list[str], numbers: list[float]
) -> None:
    frame = pd.DataFrame(
        {"=name": words, "value": numbers[: len(words)], "kind": pd.Categorical(words)}
    )
    read = [
        *csv.reader(
            io.StringIO(csv_file.written(frame).decode("utf-8", "surrogatepass"), newline="")
        )
    ]
    assert read[0] == ["'=name", "value", "kind"]
    for row, word, number in zip(read[1:], words, numbers, strict=False):
        assert row[0] == row[2] == cell(word)
        assert row[0].lstrip()[:1] not in ("=", "@")
        assert not set(row[0]) & {"\0", "\r", "\n", "\t"}
        assert row[1] == "" if np.isnan(number) else float(row[1]) == number
    assert len(read) == len(words) + 1


def test_the_cells_of_a_matrix_are_safe_and_exact() -> None:
    values = np.array([[-0.5, 1e-7], [np.pi, -2.0]])
    ticks = ((0, "=1+1"), (1, "-3"))
    panel = Panel(title="@SUM(A1)", values=Full(values), row_ticks=ticks)
    row = Row(panels=(panel,), key="m", scale=Scale(low=-2.0, high=4.0), text_alternative="m")
    read = [*csv.DictReader(io.StringIO(figures.cells(row).decode()))]
    assert [one["panel"] for one in read] == ["'@SUM(A1)"] * 4
    assert [one["row name"] for one in read] == ["'=1+1", "'=1+1", "-3", "-3"]
    assert [np.float32(one["value"]) for one in read] == [*values.astype(np.float32).ravel()]


@pytest.mark.parametrize("page", mostly(PAGES, "check_my_encoding"))
def test_no_text_of_a_table_on_a_page_begins_like_a_formula(page: str) -> None:
    worst = NAMES["a formula"]
    at = use(uploaded(named_table(worst), f"{worst}.safetensors", page="overview"))
    at = drawn(at.switch_page(f"views/{page}.py").run())
    for drawer in [one for one in at.expander if one.label.startswith("Numbers: ")]:
        at.session_state[f"numbers_{drawer.label.removeprefix('Numbers: ').replace(' ', '_')}"] = (
            True
        )
    at = drawn(at.run())
    frames = [one.value for one in at.dataframe]
    for frame in [*frames, *charts(at)]:
        if frame is not None:
            assert_no_formula(frame)


def test_names_with_dots_and_colons_are_data_and_no_field_of_a_chart() -> None:
    """Vega reads x:Q as a type and a dot as nesting: a name is a value of a row, never a column."""
    odd = "a.b[0]:Q"
    at = use(uploaded(named_table(odd), f"{odd}.safetensors", page="overview"))
    for page in ("overview", "pca", "encoding", "extrapolation"):
        at = drawn(at.switch_page(f"views/{page}.py").run())
        for frame in charts(at):
            assert not any(odd in str(name) for name in frame.columns)
            assert all(set(str(name)).isdisjoint(".[]:") for name in frame.columns)
