"""The lines that `posenc identify` prints of attention logits and of a bias."""

import json
from pathlib import Path

import click
from torch import Tensor

from posenc.checkpoints.array_files import read_array
from posenc.cli.models import UsageError
from posenc.logits.bias import match_bias
from posenc.logits.bias_sentences import bias_record, bias_sentences
from posenc.logits.match import match_logits, nearest
from posenc.logits.rule import LogitRule, rule_of_scheme
from posenc.logits.sentences import match_sentences, record
from posenc.models.logit_rules import logit_rules
from posenc.models.model_config import ModelConfig
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig


def print_logits(
    logits: Path, queries: Path | None, keys: Path | None, model: ModelConfig | None,
    rotated: bool | None, first_head: int, as_json: bool,
) -> bool:  # fmt: skip
    """Print how logits differ from those of a model's layers, or without one of a layer without position.

    Returns whether they belong to the model, True without one.
    """
    if queries is None or keys is None:
        raise UsageError("--logits goes with --queries and --keys.")
    q, k, found = (_read(file) for file in (queries, keys, logits))
    rules = {} if model is None else logit_rules(model)
    if model is None:
        heads, width = (q.shape[-3] if q.dim() > 2 else 1), q.shape[-1]
        rules[""] = rule_of_scheme(NoneConfig(), heads, width)
    matches = {
        name: match_logits(rule, q, k, found, rotated=rotated, first_head=first_head)
        for name, rule in rules.items()
    }
    name = nearest(matches)
    _print(name, match_sentences(matches[name]), record(matches[name]), rules[name], as_json)
    return model is None or matches[name].belongs


def print_bias(
    bias: Path | None, model: ModelConfig | None, first_head: int, as_json: bool
) -> bool:
    """Print how a bias differs from that of a model's layers, or without one from ALiBi of as many heads.

    Returns whether it belongs to the model, True without one.
    """
    assert bias is not None
    found = _read(bias)
    rules = {} if model is None else logit_rules(model)
    if model is None:
        heads = found.shape[-3] if found.dim() > 2 else 1
        rules[""] = rule_of_scheme(AlibiConfig(heads=heads), heads, 1)
    matches = {name: match_bias(rule, found, first_head=first_head) for name, rule in rules.items()}
    name = min(matches, key=lambda name: (not matches[name].belongs, matches[name].masks_apart))
    _print(name, bias_sentences(matches[name]), bias_record(matches[name]), rules[name], as_json)
    return model is None or matches[name].belongs


def _read(file: Path) -> Tensor:
    try:
        return read_array(file)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None


def _print(
    name: str, sentences: list[str], values: dict[str, object], rule: LogitRule, as_json: bool
) -> None:
    compared = f"{name} layers of the model" if name else (
        f"a causal layer of {rule.heads:,} heads with {rule.config.label}"
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps({"compared": compared, **values}, indent=2))
        return
    click.echo(" ".join(sentences))
    click.echo(f"  Compared with {compared}.")
