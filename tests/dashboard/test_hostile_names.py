"""Hostile names (HTML, Markdown, links, formulas) are shown as text, in pages, tables and scripts.

The messages that are sent to the browser are searched: Streamlit's elements that read Markdown hold no
visitor's text unescaped; the others show text as it is.
"""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import all_pages, controls
from dashboard.pages.check_my_encoding.options import DECODING
from dashboard.settings import Setting
from posenc import fields
from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.claims import CLAIMS
from posenc.lab import Run, specifications
from posenc.lab.runs import to_parquet
from posenc.lab.summary import comparison
from posenc.schemes.sizes import own_rules
from tests.dashboard import pages
from tests.dashboard.hostile_texts import FORMATTING, NAMES
from tests.dashboard.page_queue import empty_page_caches
from tests.dashboard.pages import (
    FOLDERS,
    OPTIONS,
    PAGES,
    as_read,
    charts,
    drawn,
    messages,
    opened,
    panels,
    texts_of,
    turn_to,
    visit,
)
from tests.lab.small_runs import CORPUS, SIZES
from tests.library.crafted_files import npy
from tests.longer import mostly
from tests.server.hostile_numbers import LLAMA

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# Elements whose frontend (streamlit 1.67) shows text as it is.
LITERAL = {"code", "arrow_data_frame", "vega_lite_chart", "arrow_vega_lite_chart", "bidi_component",
           "file_uploader", "text_area", "text_input", "json"}  # fmt: skip


def assert_text(at: AppTest) -> None:
    """Assert that a page has no error, and no text of it that is read as Markdown is formatted."""
    assert not at.exception
    for message in messages(at):
        kind = message.DESCRIPTOR.name
        which = message.WhichOneof("type") if kind == "Element" else None
        if (which or kind.lower()) in LITERAL or kind in ("BidiComponent", "FileUploader", "Code"):
            continue
        literal = {"id", "spec", "url", "alt"}  # alt: an attribute of the picture, read as it is
        if kind in ("Selectbox", "TextInput", "TextArea"):  # the label alone is Markdown
            literal |= {"options", "raw_value", "value", "default"}
        if kind == "Text":  # st.text, whose help alone is Markdown
            literal |= {"body"}
        for name, text in texts_of(message):
            bare = "" if name in literal else re.sub(r"\\.", "·", text)  # without what is escaped
            assert not any(part in bare for part in FORMATTING), f"{kind}.{name}: {text[:200]}"


def shows(at: AppTest, part: str) -> bool:
    """Return whether this text is anywhere on the page."""
    texts = [as_read(text) for message in messages(at) for _, text in texts_of(message)]
    return any(part in text for text in [*texts, *map(str, panels(at))])


ROWS = np.random.default_rng(5).normal(size=(30, 12)).astype(np.float32)


def give_file(block: Any, name: str, content: bytes) -> None:
    """Give a file to the uploader of a part of the page."""
    block.get("file_uploader")[0].set_value((name, content, "application/octet-stream")).run()


def use_table(file: str, *names: str) -> AppTest:
    """Upload a file of tables of these names, and use the first."""
    at = drawn(visit("overview", {"length": "40", "train_length": "16"}, learned_source_menu=True))
    give_file(at.sidebar, file, save({f"{name}.weight": ROWS for name in names}))
    assert_text(at)
    return at.button(key="use_upload").click().run()


def assert_no_formula(frame: pd.DataFrame) -> None:
    """Assert that no text of a table begins as a formula: Streamlit's own download writes it as it is."""
    for name in frame:
        for value in [name, *frame[name]]:
            if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
                float(value)  # a number, or this raises


@pytest.mark.parametrize("page", mostly([page for page in PAGES if page != "overview"], "encoding"))
def test_hostile_table_is_text_on_every_page(page: str) -> None:
    """In Markdown, in tables, which spreadsheets open, and in charts, where Vega reads a.b[0]:Q."""
    name = NAMES["formula"][:40] + NAMES["HTML"]
    at = use_table(f"{name}.safetensors", f"{name}.wpe", f"{name}.position_embeddings")
    views = {
        "check_my_encoding": {"part": DECODING, "table": "learned"},  # the part that can decode it
        "extrapolation": {"half": "formula"},  # the view that draws it
    }
    at.query_params.update(views.get(page, {}))
    at = drawn(turn_to(at, page).run())
    for claim in CLAIMS:
        at.session_state[f"claim_code_{claim}"] = True
    for drawer, state in opened(*pages.table_keys(at)).items():
        at.session_state[drawer] = state
    assert_text(drawn(at.run()))
    used = controls.used(all_pages.uses_of(pages.state(at), FOLDERS[page]), pages.setting(at))
    assert shows(at, "onerror=window") == ("learned_source" in used)  # its menu has the file's name
    for frame in [*(element.value for element in at.dataframe), *charts(at)]:
        if frame is not None:
            assert_no_formula(frame)
    for frame in charts(at):
        assert all(set(str(column)).isdisjoint(".[]:") for column in frame.columns)


def test_names_of_a_table_to_check_are_text() -> None:
    name = NAMES["HTML"]
    at = visit("check_my_encoding")
    several = save({f"{name}.a": ROWS, f"{name}.b": ROWS})
    for content in (several, b"garbage", npy(ROWS)):
        give_file(at.main, f"{name}.npy", content)
        assert shows(at, "onerror=window")
        assert_text(at)


@pytest.mark.parametrize("name", mostly(NAMES, "HTML"))
def test_hostile_type_of_a_model_is_text(name: str) -> None:
    config = LLAMA | {"model_type": NAMES[name], "position_" + NAMES[name]: 1}
    at = visit("context_planner", model_menu=True)
    at.text_area[0].set_value(json.dumps(config)).run()
    assert len(at.error) == 1
    assert shows(at, NAMES[name][:30])
    assert_text(at)
    (switch,) = [toggle for toggle in at.toggle if str(toggle.key).startswith("assume_")]
    assert_text(switch.set_value(True).run())
    assert_text(at.button(key="use_config").click().run())
    assert pages.setting(at).model.startswith("config-")
    assert_text(drawn(turn_to(at, "overview").run()))


@pytest.mark.long
def test_name_of_a_text_is_text() -> None:
    at = visit("train", {"task": "language"})
    for name in NAMES.values():
        give_file(at.main, f"{name}.txt", CORPUS.train.numpy().tobytes())
        assert_text(at)


def test_texts_of_a_stored_run_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store that others write to: the name of a run's corpus and its reason to stop."""
    specification = specifications(["rope"], corpus=CORPUS, widths=[16], **SIZES)[0]
    hostile = replace(specification, corpus_name=NAMES["HTML"])
    run = Run(hostile, f"=1+1{NAMES['HTML']}", 0.5, (), (2.5, 2.0))
    (tmp_path / f"{run.run_id}.parquet").write_bytes(to_parquet(run))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    empty_page_caches()
    measured = {"half": "measured", "comparison": comparison(hostile)}
    for page, link in (("train", {}), ("extrapolation", measured)):
        at = visit(page, link)
        assert_text(at)
        assert shows(at, "onerror=window")
        for frame in at.dataframe:
            assert_no_formula(frame.value)
    empty_page_caches()


def test_values_of_a_link_are_text_in_every_key() -> None:
    keys = [*fields.rules(Setting), *own_rules()]
    keys += [key for choice in OPTIONS.values() for key in fields.rules(choice)]
    name = NAMES["HTML"]
    at = visit("why_position", dict.fromkeys([*keys, "a", name], name))
    assert_text(at)
    assert not any("evil" in as_read(box.value) for box in at.warning)


@pytest.mark.long
def test_exported_script_holds_no_text_of_a_visitor_as_code() -> None:
    """A name that ends its comment or its string would run where the script is run."""
    ends = "'''\"\"\"\\\n__import__('os').system('touch pwned')\r#"
    at = use_table(f"{ends}.safetensors", f"{ends}.wpe")
    at.session_state["menu_python"] = True
    link = dict.fromkeys(["table", "sentence", "reorder", "a"], ends) | {"model": f"config-{ends}"}
    scripts = []
    for page in PAGES:
        for view in (visit(page, link, menu_python=True), turn_to(at, page).run()):
            scripts += [code.value for code in view.code if "posenc" in code.value]
    assert len(scripts) >= 8
    for script in scripts:
        names = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(ast.parse(script))}
        assert not names & {"__import__", "system"}
