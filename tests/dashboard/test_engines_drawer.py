"""Extend a model's context shows what engines make of a config once its drawer is opened."""

from unittest import mock

from dashboard.blocks import Block, Drawer, Table, Text
from dashboard.pages.extend_context import engines
from dashboard.pages.extend_context.options import Options
from dashboard.pages.extend_context.page import page
from dashboard.settings import Setting
from posenc.models import config_token
from posenc.models.engines import SOURCES, engine_readings
from posenc.models.engines.engine_words import difference_sentences, engine_rows
from posenc.models.presets import MODELS
from tests.dashboard.pages import as_read


def opened(blocks: list[Block]) -> tuple[list[dict[str, str]], list[str]]:
    """The table of an open drawer, a row for each engine, and the texts under it."""
    (drawer,) = blocks
    assert isinstance(drawer, Drawer)
    _, table, *texts = drawer.make()
    assert isinstance(table, Table)
    names = [as_read(name) for name in table.frame[""]]
    rows = [
        {"engine": as_read(str(engine))} | dict(zip(names, map(as_read, cells), strict=True))
        for engine, cells in table.frame.items()
        if engine
    ]
    return rows, [as_read(block.text) for block in texts if isinstance(block, Text)]


def test_the_drawer_has_the_table_the_differences_and_links_to_the_sources() -> None:
    table, (sentences, sources) = opened(engines.drawer("phi-3-mini-128k", 2_000))
    readings = engine_readings(dict(MODELS["phi-3-mini-128k"].config or {}), 2_000)
    assert table == engine_rows(readings)
    assert sentences.splitlines() == [f"- {one}" for one in difference_sentences(readings)]
    for source in SOURCES.values():
        assert all(f"]({link})" in sources for link in source.links("phi3"))


def test_a_config_of_ones_own_is_read_from_its_token() -> None:
    config = dict(MODELS["llama-3.1-8b"].config or {}) | {
        "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}
    }
    table, _ = opened(engines.drawer(config_token(config), 200_000))
    (vllm,) = [row for row in table if row["engine"].startswith("vLLM")]
    assert vllm["dynamic scaling"] == "the base stays as it is at every length *"


def test_a_scaling_that_makers_only_recommend_is_left_out_as_in_the_plan() -> None:
    table, (sentences, _) = opened(engines.drawer("qwen3-8b", 131_072))
    assert {row["scaling"] for row in table} == {"default"}
    assert sentences == "- No engine whose rules were read differs from transformers 5."


def test_each_kind_of_layer_has_its_rows() -> None:
    table, _ = opened(engines.drawer("gemma-3-4b", 131_072))
    assert len(table) == 2 * len(SOURCES)
    assert table[-1]["engine"].endswith(", sliding_attention")
    assert {row["base"] for row in table} == {"1,000,000", "10,000"}


def test_models_without_rope_or_without_a_config_have_no_drawer() -> None:
    assert engines.drawer("gpt-2", 2_000) == []
    assert engines.drawer("transformer", 2_000) == []


def test_the_page_reads_no_engine_until_the_drawer_is_opened() -> None:
    with mock.patch.object(engines, "engine_readings", side_effect=AssertionError):
        blocks = page(Setting(model="llama-3.1-8b"), Options(context=262_143)).blocks
    (drawer,) = [one for one in blocks if isinstance(one, Drawer) and one.key == "plan_engines"]
    assert drawer.title == "What each engine makes of the model's own config"
