"""Extend a model's context: the drawer on how many tokens fit in a memory, and what has its numbers."""

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

from dashboard import compare, state
from dashboard.blocks import Block, Controls, Data, Drawer, Findings, Page, Text
from dashboard.pages.extend_context import memory
from dashboard.pages.extend_context.options import Options
from dashboard.pages.extend_context.page import page
from dashboard.settings import Setting
from dashboard.state import State
from posenc import __main__ as command
from posenc.models.presets import MODELS
from posenc.planner import MemoryBudget
from tests.dashboard import pages
from tests.dashboard.called_pages import block_of
from tests.dashboard.pages import as_read, drawn, visit
from tests.dashboard.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "context_planner"
OPEN = Options(
    context=16_384, methods=("none",), fits_memory=True, memory="24GiB", weights="16GiB", batch=2
)
TYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "8 bit": 1}


def opened(shown: Page) -> list[Block]:
    drawer: Drawer = block_of(shown, Drawer, "plan_memory")
    return [*drawer.make()]


def of_kind(blocks: list[Block], kind: type[Block]) -> Block:
    (block,) = [block for block in blocks if isinstance(block, kind)]
    return block


def table(blocks: list[Block]) -> pd.DataFrame:
    found = of_kind(blocks, Findings)
    assert isinstance(found, Findings)
    return found.frame


def test_drawer_holds_the_tokens_of_a_count_by_hand() -> None:
    """Gemma 3 4B: 4 heads of keys and values of width 256; 5 of 34 layers have no window of 1,024."""
    blocks = opened(page(Setting(model="gemma-3-4b"), OPEN))
    rows = table(blocks).set_index("number type")
    fits = rows["tokens"].to_dict()
    for number_type, size in TYPES.items():
        layer = 2 * 2 * 4 * 256 * size  # bytes of a token, of both sequences
        left = 8 * 2**30
        windows, blocks_of_16 = 29 * layer * 1_024, 29 * layer * 65 * 16
        assert rows.loc[number_type].to_dict() == {
            "tokens": (left - windows) // (5 * layer),
            "vLLM's blocks": (left - blocks_of_16) // (5 * layer) // 16 * 16,
            "no windows": left // (34 * layer),
        }
    sentence, caption = [block.text for block in blocks if isinstance(block, Text)]
    assert as_read(sentence) == (
        "8 GiB hold the context of 16,384 tokens of each of 2 sequences in bfloat16, and up to "
        f"{fits['bfloat16']:,}."
    )
    assert caption.startswith("Activations, ")
    assert "not counted" in caption
    unstated = opened(page(Setting(model="gemma-3-4b"), replace(OPEN, weights="0GiB")))
    assert "The weights count as 0 until" in [b.text for b in unstated if isinstance(b, Text)][1]
    controls, numbers = of_kind(blocks, Controls), of_kind(blocks, Data)
    assert isinstance(controls, Controls)
    assert isinstance(numbers, Data)
    assert controls.names == ("memory", "weights", "batch")
    assert numbers.frame.equals(table(blocks))


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-oss-20b", "deepseek-v3", "mistral-7b-v0.1"])
def test_page_command_and_script_have_the_same_numbers(name: str) -> None:
    shown = page(Setting(model=name), OPEN)
    rows = table(opened(shown))
    words = ["plan", "-", "--memory", "24GiB", "--weights", "16GiB", "--batch", "2", "--json"]
    config = json.dumps(MODELS[name].config)
    answer = json.loads(CliRunner().invoke(command.main, words, input=config).stdout)["memory"]
    of_command = pd.DataFrame(answer["tokens"])
    titles = dict(zip(("tokens", "blocks", "every_token"), memory.RESERVATION_HELP, strict=True))
    for reservation, title in titles.items():
        same = title if title in rows else "tokens"  # left out without windows
        assert of_command[reservation].to_dict() == dict(
            zip(rows["number type"], rows[same], strict=True)
        )
    assert shown.script is not None
    result = run(shown.script())
    assert result.returncode == 0, result.stderr
    printed = pd.read_csv(io.StringIO(result.stdout.split("\n\n")[1]))
    pd.testing.assert_frame_equal(printed, rows, check_dtype=False)
    (sentence, _) = [block.text for block in opened(shown) if isinstance(block, Text)]
    assert as_read(sentence) in result.stderr


def test_nothing_is_computed_until_the_drawer_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(*arguments: object, **numbers: object) -> MemoryBudget:
        asked.append("memory")
        return budget(*arguments, **numbers)  # type: ignore[arg-type]

    budget = memory.memory_budget
    monkeypatch.setattr(memory, "memory_budget", count)
    shown = page(Setting(model="phi-2"), Options(context=4_096, methods=("none",)))
    assert (block_of(shown, Drawer, "plan_memory").opened, asked) == (False, [])
    assert shown.script is not None
    assert "memory" not in shown.script()
    opened(shown)
    assert asked == ["memory"]


def test_link_holds_the_drawer_and_its_numbers_and_names_what_is_illegal() -> None:
    query = state.to_query(State(options={"extend_context": OPEN}), "extend_context", Options)
    linked = state.read_query(query, "extend_context", Options)
    assert linked.state.of("extend_context", Options) == OPEN
    assert linked.ignored == ()
    for text in ("24", "-1GiB", "1e9GiB", "9" * 5_000 + "GiB", ""):
        bad = state.read_query({"memory": [text], "batch": ["0"]}, "extend_context", Options)
        assert {*bad.ignored} == {"memory", "batch"}
        assert bad.state.of("extend_context", Options) == Options()


def test_pinned_model_is_compared_in_sentence_and_table() -> None:
    names = {"A": "A: model Gemma-3-4B", "B": "B: model Llama-3-8B"}
    settings = (Setting(model="llama-3-8b"), Setting(model="gemma-3-4b"))
    b, a = (page(setting, OPEN) for setting in settings)
    blocks = opened(compare.pages(b, a, names, ["model"]))
    texts = [as_read(block.text) for block in blocks if isinstance(block, Text)]
    assert texts[0].startswith("A: model Gemma-3-4B. 8 GiB hold the context")
    assert texts[1].startswith("B: model Llama-3-8B. 8 GiB hold the context")
    both = table(blocks).set_index(["number type", "setting"])["tokens"]
    for setting, shown in (("B", b), ("A", a)):
        alone = table(opened(shown)).set_index("number type")["tokens"]
        assert all(both[name, setting] == alone[name] for name in TYPES)


def test_memory_is_typed_and_a_text_without_a_unit_is_told() -> None:
    query = {"model": "phi-2", "context": "4096", "methods": "none", "fits_memory": "true"}
    at = drawn(visit(PAGE, query))
    # 32 layers of 32 heads of width 80, keys and values, in 2 bytes
    fits = 24 * 2**30 // (32 * 2 * 32 * 80 * 2)
    assert any(f"{fits:,}" in as_read(box.value) for box in at.markdown)
    drawn(at.text_input(key="memory").set_value("80 GB").run())
    fits = 80 * 10**9 // (32 * 2 * 32 * 80 * 2)
    assert any(f"{fits:,}" in as_read(box.value) for box in at.markdown)
    assert pages.link_of(at)["memory"] == ["80 GB"]
    drawn(at.text_input(key="memory").set_value("80").run())
    assert any("Memory must be a number with a unit" in text for text in pages.notices(at))
    assert at.text_input(key="memory").value == "80 GB"
