"""A plan shows what its model was trained to, what is claimed, and what RULER and NoLiMa measured."""

import json

import pytest
from click.testing import CliRunner

from posenc import __main__ as command
from posenc.models.presets import MODELS
from posenc.planner import length_rows
from posenc.planner.evidence import LENGTHS, lengths_of
from posenc.planner.record import plan_record
from tests.models.configs import (
    LLAMA,
    Config,
    plan_config,
    plan_preset,
    preset_config,
    published_config,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# Of the tables of NVIDIA/RULER (ebe802c) and adobe-research/NoLiMa (55966a3): claimed, then effective.
PUBLISHED = {
    "llama-3.1-8b": ("128K", "32K", "1K"),
    "llama-3.3-70b": ("128K", "", "2K"),
    "mixtral-8x7b": ("32K", "32K", ""),
    "mistral-nemo": ("128K", "16K", ""),
    "phi-3-mini-128k": ("128K", "32K", ""),
    "qwen3-8b": ("128K", "64K", ""),
    "exaone-4.0-32b": ("128K", ">128K", ""),
    "exaone-4.0-1.2b": ("64K", "32K", ""),
}


def in_tokens(words: str) -> str:
    """A length of a table, such as >128K, as a plan writes it."""
    if not words:
        return ""
    more = "more than " if words[0] == ">" else ""
    return f"{more}{1_024 * int(words.strip('>K')):,}"


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_those_of_the_published_tables_and_blank_elsewhere(name: str) -> None:
    known = lengths_of(MODELS[name].read())
    assert (known is not None) == (name in PUBLISHED)
    if known is not None:
        assert known.preset == name
        _, claimed, ruler, nolima = length_rows(plan_preset(name, 65_536, methods=("none",)))
        found = tuple(row["tokens"] for row in (claimed, ruler, nolima))
        assert found == tuple(map(in_tokens, PUBLISHED[name]))
        for row in (claimed, ruler, nolima):
            assert bool(row["source"]) == bool(row["tokens"])


def test_every_entry_is_of_a_preset_of_its_own() -> None:
    assert sorted(one.preset for one in LENGTHS) == sorted(PUBLISHED)


@pytest.mark.parametrize(
    ("config", "entered", "tokens", "source"),
    [
        (preset_config("llama-3.1-8b"), None, "131,072", "its config.json"),
        (published_config("qwen3-8b"), None, "32,768", "Qwen team 2025"),
        (LLAMA, None, "8,192", "assumed"),
        (LLAMA, 4_096, "4,096", "as entered"),
        ({"model_type": "t5"}, None, "", ""),
    ],
    ids=["scaled", "published", "assumed", "entered", "none"],
)
def test_a_trained_length_names_where_it_is_from(
    config: Config, entered: int | None, tokens: str, source: str
) -> None:
    found = plan_config(config, 262_144, methods=("none",), trained_length=entered, scan=8)
    trained, *_ = length_rows(found)
    assert trained["tokens"] == tokens
    assert trained["source"].startswith(source)
    assert bool(trained["source"]) == bool(tokens)


def test_command_and_record_show_the_lengths_of_a_model() -> None:
    text = json.dumps(preset_config("llama-3.1-8b"))
    printed = CliRunner().invoke(
        command.main, ["plan", "-", "--context", "131072", "--methods", "none"], input=text
    )
    assert "RULER, Llama-3.1-8B-Instruct: 32,768 (NVIDIA/RULER, README.md" in printed.output
    assert "NoLiMa, Llama 3.1 8B: 1,024 (adobe-research/NoLiMa" in printed.output
    record = plan_record(plan_preset("llama-3.1-8b", 131_072, methods=("none",)))["lengths"]
    assert (record["trained"], record["claimed"]) == (131_072, 131_072)
    assert [one["tokens"] for one in record["effective"]] == [32_768, 1_024]
    assert plan_record(plan_config(LLAMA, 16_384))["lengths"]["effective"] == []
