"""A plan shows what its model was trained to, what is claimed, and what RULER and NoLiMa measured."""

import json

import pytest
from click.testing import CliRunner

from posenc import __main__ as command
from posenc.models.presets import MODELS
from posenc.planner import advice_of, how_far, length_rows, nearest_factor, recommendation
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


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        # Suggested is a larger base, by which others extended Llama-3-8B: 16,384 and 32,768 by RULER.
        (
            "llama-3-8b",
            131_072,
            "By RULER, 2 models extended so from its family work to 32,768 tokens at most.",
        ),
        # Suggested is YaRN, by which RULER measured no model of its family.
        ("llama-3-8b", 16_384, ""),
        ("llama-2-7b", 32_768, ""),
        ("llama-3.1-8b", 131_072, "By RULER, Llama-3.1-8B-Instruct works to 32,768 tokens."),
        # Past its own scaling it is no longer the model that was measured.
        ("llama-3.1-8b", 524_288, ""),
        ("qwen3-8b", 131_072, "By RULER, Qwen3-8B works to 65,536 tokens."),
        ("mistral-nemo", 131_072, "By RULER, Mistral-Nemo-Instruct-2407 works to 16,384 tokens."),
        ("exaone-4.0-32b", 65_536, "By RULER, EXAONE-4.0-32B works to more than 131,072 tokens."),
        ("llama-3.3-70b", 131_072, ""),  # NoLiMa alone measured it
        ("gpt-2", 4_096, ""),
    ],
)
def test_advice_says_to_what_length_ruler_found_it_to_work(
    name: str, target: int, said: str
) -> None:
    found = plan_preset(name, target)
    assert how_far(found) == said
    assert recommendation(found).endswith(said)
    assert ("RULER" in recommendation(found)) == bool(said)


@pytest.mark.parametrize(
    ("target", "factor", "tokens"),
    [(131_072, 2, 16_384), (16_384, None, None), (8_192, None, None)],
)
def test_where_no_source_reports_a_factor_the_largest_below_it_is_named(
    target: int, factor: int | None, tokens: int | None
) -> None:
    """Without training, x2 is the most that sources of the compared methods report."""
    found = plan_preset("llama-3-8b", target)
    untrained = [one.sentence for one in advice_of(found) if one.title == "No training"]
    if factor is None:
        assert not any("largest factor" in sentence for sentence in untrained)
        return
    assert nearest_factor(found, "none") == factor
    assert f"The largest factor reported is x{factor} ({tokens:,} tokens), with" in untrained[0]
    for words in ("YaRN", "NTK-aware", "dynamic NTK"):
        assert words in untrained[0]
    assert "interpolation" not in untrained[0]  # which fails there without training
