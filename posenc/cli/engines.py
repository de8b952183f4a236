"""`posenc engines`: what inference engines make of a config.json, and in what two configs differ."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from posenc import limits
from posenc.cli.models import UsageError, print_list, print_table
from posenc.errors import PosencError
from posenc.models.config_comparison import compare_configs, comparison_sentences
from posenc.models.config_json import read_object
from posenc.models.engines import engine_readings
from posenc.models.engines.engine_words import (
    difference_sentences,
    engine_rows,
    readings_record,
    source_lines,
)
from posenc.models.presets import MODELS
from posenc.models.read_config import read_record
from posenc.text import printable_name

_SAME = "No engine whose rules were read differs from transformers 5."


@click.command(
    name="engines",
    help="Show what transformers 5 and 4, vLLM, SGLang, llama.cpp and MLX make of a config.json: "
    "frequencies, attention factor, softmax scale, context and LongRoPE's factors. MODEL_OR_CONFIG is the "
    "path of a config.json, - for stdin, or the name of a model that posenc knows, such as llama-3.1-8b.",
)
@click.argument("config", metavar="MODEL_OR_CONFIG")
@click.option(
    "--length", type=int, help="Tokens of the text; by default the context of the config."
)
@click.option(
    "--started",
    type=int,
    help="Context that a server is started with; by default its own, or the length where that is more.",
)
@click.option(
    "--against",
    metavar="MODEL_OR_CONFIG",
    help="Another config, such as the published one: say in what they differ.",
)
@click.option(
    "--assume",
    metavar="TYPE",
    help="Read a config that would be refused as this model type, such as llama.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")
def compare_engines(
    config: str,
    length: int | None,
    started: int | None,
    against: str | None,
    assume: str | None,
    as_json: bool,
) -> None:
    try:
        source = _source(config)
        answer = _answer(source, length, started, assume, as_json)
        if against is not None:
            answer |= _comparison(source, _source(against), length, assume, as_json)
    except PosencError as error:
        raise UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps(answer, indent=2))


def _answer(
    source: Mapping[str, Any],
    length: int | None,
    started: int | None,
    assume: str | None,
    as_json: bool,
) -> dict[str, Any]:
    """Print what engines make of a config, or return it as a record."""
    model = read_record(dict(source), assume).model
    readings = engine_readings(source, length, started=started, assume=assume)
    if as_json:
        return {"assumption": model.assumption} | readings_record(readings, model.read_as)
    if model.assumption:
        click.echo(f"{model.assumption}\n")
    print_table(engine_rows(readings))
    print_list(
        "Differences from transformers 5, marked with *", difference_sentences(readings) or [_SAME]
    )
    print_list("Sources", source_lines(readings, model.read_as))
    return {}


def _comparison(
    source: Mapping[str, Any],
    other: Mapping[str, Any],
    length: int | None,
    assume: str | None,
    as_json: bool,
) -> dict[str, Any]:
    """Print in what two configs differ, or return it as a record."""
    found = compare_configs(source, other, length, assume)
    if as_json:
        sentences = comparison_sentences(found)
        return {"against": [asdict(each) for each in found], "against_words": sentences}
    print_list("This config against the other", comparison_sentences(found))
    return {}


def _source(config: str) -> dict[str, Any]:
    """Return the keys of a config: of a known model, of a file, or of stdin."""
    preset = MODELS.get(config)
    if preset is not None:
        if preset.config is None:
            raise UsageError(f"{config} has no config.json: name a model that has one.")
        return dict(preset.config)
    stdin, path = config == "-", Path(config)
    if not (stdin or path.is_file()):
        name = printable_name(path.name)
        raise UsageError(
            f"{name or 'MODEL_OR_CONFIG'} is no file and no model that posenc knows: give the path of a "
            "config.json, - for stdin, or a name such as llama-3.1-8b."
        )
    return read_object(sys.stdin.buffer.read(limits.MAX_CONFIG_BYTES + 1) if stdin else path)
