"""The script that writes rows makes those of posenc.models, and fails where a class has a new key."""

import json
from pathlib import Path
from typing import Any

import pytest

import posenc.models.family as family
import tests.models.generate_families as generate
from posenc.models.family import FAMILIES
from tests.longer import mostly
from tests.models.row_text import file_text

transformers: Any = pytest.importorskip("transformers", minversion="5")
ROWS = json.loads((Path(family.__file__).parent / "data" / "families.json").read_text("utf-8"))
SHORT = (
    "bart",
    "deepseek_v3",
    "gemma3_text",
    "glm4",
    "gpt2",
    "kimi_k2",
    "nanochat",
    "nemotron_h",
    "t5",
)


def test_the_file_of_rows_is_written_as_it_stands() -> None:
    assert file_text(ROWS) == (Path(family.__file__).parent / "data" / "families.json").read_text(
        "utf-8"
    )
    assert generate.STATED["rows"].keys() == ROWS.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", mostly(sorted(ROWS), *SHORT))
def test_rows_are_those_of_the_installed_classes(
    model_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for layout and direction, which need a run: tests/models/test_oracle.py runs every class."""
    rope = ROWS[model_type].get("rope") or {}
    observed: dict[str, Any] = {"layout": "interleaved" if rope.get("interleaved") else "half"}
    observed |= {"clockwise": True} if rope.get("clockwise") else {}
    if model_type not in SHORT:
        monkeypatch.setattr(generate, "establish", lambda entry: {"kinds": [observed]})
    made = generate.row(model_type)
    assert file_text({model_type: made}) == file_text({model_type: ROWS[model_type]})


def test_reasons_of_other_types_are_those_that_are_stated() -> None:
    others = json.loads((Path(family.__file__).parent / "data" / "others.json").read_text("utf-8"))
    assert {name: others[name] for name in generate.STATED["others"]} == generate.STATED["others"]
    assert not {*others["kinds"]} & {*FAMILIES}


@pytest.mark.filterwarnings("ignore")
def test_a_class_with_a_field_that_bears_on_position_has_no_row_before_it_is_reviewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class MadeUpConfig(transformers.LlamaConfig):
        window_of_last_layer: int = 7
        color_of_last_layer: int = 7

    monkeypatch.setattr(generate, "config_class", lambda name: MadeUpConfig)
    with pytest.raises(ValueError, match="MadeUpConfig has window_of_last_layer, which bears"):
        generate.row("llama")
    row = generate.STATED["rows"]["llama"]
    monkeypatch.setitem(generate.STATED["rows"], "llama", row | {"also": ["window_of_last_layer"]})
    assert generate.row("llama") == ROWS["llama"] | {
        "class": "MadeUpConfig",
        "also": ["window_of_last_layer"],
    }


def test_expressions_are_explained_by_their_values_at_the_defaults_of_the_class() -> None:
    lines = [*generate.explained("gemma2", ROWS["gemma2"])]
    assert lines[0] == "gemma2: layers: 13 sliding_attention, 13 full_attention"
    assert "gemma2: sliding_attention: window: sliding_window = 4096" in lines
    assert "gemma2: full_attention: scale: query_pre_attn_scalar ** -0.5 = 0.0625" in lines
    lines = [*generate.explained("t5", ROWS["t5"])]
    assert "t5 decoder: full_attention: bidirectional: not causal = False" in lines
    assert "t5 encoder: full_attention: bidirectional: not causal = True" in lines
