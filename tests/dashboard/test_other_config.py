"""Extend a model's context compares the model's config with another one once its drawer is opened."""

import json
import subprocess
import sys
from typing import Any

import pytest

from dashboard import all_pages
from dashboard.blocks import Block, Drawer, Table, Text
from dashboard.pages.extend_context import against
from dashboard.pages.extend_context.options import Options
from dashboard.pages.extend_context.page import page
from dashboard.settings import Setting
from dashboard.state import State
from posenc.models import config_token
from posenc.models.presets import MODELS
from tests.dashboard.pages import as_read, drawn, visit

LLAMA = dict(MODELS["llama-3-8b"].config or {})
OTHER = config_token(LLAMA | {"rope_theta": 10_000.0})


def drawer_of(blocks: Any, key: str = "plan_against") -> Drawer:
    (found,) = [one for one in blocks if isinstance(one, Drawer) and one.key == key]
    return found


def opened(options: Options) -> list[Block]:
    return list(drawer_of(page(Setting(model="llama-3-8b"), options).all_blocks).make())


def sentences(blocks: list[Block]) -> list[str]:
    return [as_read(b.text) for b in blocks if isinstance(b, Text) and b.both == "against"]


def test_a_base_that_differs_is_said_with_what_it_does_and_stands_in_a_table() -> None:
    blocks = opened(Options(context=8_192, compares=True, against=OTHER))
    (said,) = sentences(blocks)
    slowest = (5e5 / 1e4) ** (-126 / 128)  # of pair 63
    assert said == (
        "- rope_theta 500,000 against 10,000: every pair but the first turns down to "
        f"{slowest:.3g} times as fast as in the other config."
    )
    (shown,) = [block for block in blocks if isinstance(block, Table)]
    assert shown.frame.to_numpy().tolist() == [["rope theta", "500,000", "10,000"]]
    names = [as_read(str(name)) for name in shown.frame]
    assert names == ["", MODELS["llama-3-8b"].label, "Your other config"]


def test_each_number_of_two_models_that_differs_has_a_row() -> None:
    blocks = opened(Options(context=8_192, compares=True, against="llama-3.1-8b"))
    (shown,) = [block for block in blocks if isinstance(block, Table)]
    rows = {as_read(str(row[0])): [as_read(str(cell)) for cell in row[1:]]
            for row in shown.frame.to_numpy()}  # fmt: skip
    assert rows["context"] == ["8,192", "131,072"]
    assert rows["scaling"][0] == "none"
    assert "8" in rows["scaling"][1]
    assert rows["trained length"] == ["none", "8,192"]


def test_the_same_config_and_none_have_no_table() -> None:
    alike = opened(Options(compares=True, against="llama-3-8b"))
    assert sentences(alike) == ["- Both configs encode position in the same way."]
    assert not [block for block in alike if isinstance(block, Table)]
    assert sentences(opened(Options(compares=True))) == []


def test_a_config_is_pasted_compared_and_in_the_link() -> None:
    at = drawn(visit("context_planner", {"compares": "true", "context": "8192"}))
    (box,) = [box for box in at.text_area if box.label == "Or paste its config.json"]
    box.set_value("{").run()
    assert any("This config cannot be used" in error.value for error in at.error)
    (box,) = [box for box in at.text_area if box.label == "Or paste its config.json"]
    pasted = json.dumps(LLAMA | {"rope_theta": 10_000.0})
    box.set_value(pasted).run()
    at.button(key="use_other_config").click().run()
    texts = [as_read(text.value) for text in drawn(at).markdown]
    assert any("rope_theta 500,000 against 10,000" in text for text in texts)
    assert config_token(pasted.encode()) in at.query_params["against"]


def test_the_script_prints_the_sentences() -> None:
    options = Options(context=8_192, compares=True, against=OTHER, methods=("none",))
    shown = page(Setting(model="llama-3-8b"), options)
    assert shown.script is not None
    lines = shown.script().rsplit("\nfrom posenc.models.config_comparison", 1)
    assert len(lines) == 2
    code = f"import sys\nfrom posenc.models.config_comparison{lines[1]}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (said,) = sentences(opened(options))
    assert run.stderr.splitlines() == [line.removeprefix("- ") for line in said.splitlines()]
    closed = page(Setting(model="llama-3-8b"), Options(context=8_192, against=OTHER))
    assert closed.script is not None
    assert "config_comparison" not in closed.script()


def test_a_and_b_are_each_compared_with_the_other_config() -> None:
    options = {"extend_context": Options(context=8_192, compares=True, against="llama-3-8b")}
    now = State(setting=Setting(model=OTHER), pinned=Setting(model="llama-3-8b"), options=options)
    both = all_pages.page_at(now, "extend_context")
    texts = [as_read(b.text) for b in drawer_of(both.all_blocks).make() if isinstance(b, Text)]
    assert any("rope_theta 10,000 against 500,000" in text for text in texts)
    assert any("Both configs encode position in the same way" in text for text in texts)


@pytest.mark.parametrize("model", ["gpt-2", "transformer"])
def test_a_model_without_a_config_has_no_drawer(model: str) -> None:
    if MODELS[model].config:
        assert against.drawer(model, Options())
    else:
        assert against.drawer(model, Options()) == []
