"""The drawer of Extend with what tells the model's config from another one, such as the published one."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dashboard.blocks import Block, Controls, Data, Drawer, Live, Table, Text
from dashboard.pages.extend_context import model
from dashboard.pages.extend_context.options import Options
from dashboard.settings import chosen_model
from dashboard.text import plain
from posenc.errors import PosencError
from posenc.models.config_comparison import (
    ConfigDifference,
    compare_configs,
    comparison_sentences,
)
from posenc.models.presets import MODELS

TITLE = "Compare with another config"
NUMBERS = "Two configs"
OTHER = "Your other config"
_INTRODUCTION = (
    "Choose the published model, or paste another config.json. You get what the two do differently with "
    "positions, for a text of {length:,} tokens."
)
_SCRIPT = """
from posenc.models.config_comparison import compare_configs, comparison_sentences

own = {own!r}
other = {other!r}
for sentence in comparison_sentences(compare_configs(own, other, {length}, {assume!r})):
    print(sentence, file=sys.stderr)
"""


def drawer(token: str, options: Options) -> list[Block]:
    """Return the drawer, nothing for a model without a config. token: of the model."""
    if not model.config_keys(token)[0]:
        return []

    def make() -> list[Block]:
        text = Text(_INTRODUCTION.format(length=options.context), "caption")
        chosen = Controls(("against",), narrowed={"against": offered(options.against)})
        return [text, chosen, Live("other_config"), *_differences(token, options)]

    changes = {"compares": True}, {"compares": False}
    return [
        Drawer(
            "plan_against", TITLE, make, icon="difference", changes=changes, opened=options.compares
        )
    ]


def offered(against: str) -> dict[str, str]:
    """Return the models to compare with, by name, and an own config that is chosen."""
    names = {"": "None"} | {name: one.label for name, one in MODELS.items() if one.config}
    return names if against in names else {**names, against: OTHER}


def _differences(token: str, options: Options) -> list[Block]:
    """Return the differences from the chosen config in sentences and as a table."""
    if not options.against:
        return []
    try:
        found = _compared(token, options)
    except PosencError as error:
        return [Text(plain(str(error)), "error", both="against")]
    sentences = "\n".join(f"- {plain(sentence)}" for sentence in comparison_sentences(found))
    if not (rows := table(found)):
        return [Text(sentences, both="against")]
    published = MODELS.get(options.against)
    other = OTHER if published is None else f"against {published.label}"
    names = {"own": chosen_model(token).preset.label, "other": other}
    frame = pd.DataFrame({"": [plain(row["what"]) for row in rows]})
    for key, name in names.items():
        frame[plain(name)] = [plain(row[key]) for row in rows]
    return [
        Text(sentences, both="against"),
        Table(frame, key="against"),
        Data(title=NUMBERS, frame=pd.DataFrame(rows)),
    ]


def table(found: Sequence[ConfigDifference]) -> list[dict[str, str]]:
    """Return a row for each number or word that differs: what, own, other."""
    rows = []
    for each in found:
        layers = f"{each.layers}, " if each.layers else ""
        keys = each.keys or ((each.word, each.first, each.second),)
        if each.word == "rope" and not each.keys:
            continue  # frequencies alone, which the sentence tells
        rows += [
            {"what": f"{layers}{name.replace('_', ' ')}", "own": _cell(own), "other": _cell(other)}
            for name, own, other in keys
        ]
    return rows


def _cell(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:,.10g}"


def _compared(token: str, options: Options) -> tuple[ConfigDifference, ...]:
    """Return the differences. Raises ConfigFileError where a config cannot be read."""
    own, other, assume = _configs(token, options)
    return compare_configs(own, other, options.context, assume)


def _configs(token: str, options: Options) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Return the keys of both configs, and the type that was assumed for one of them."""
    own, assumed = model.config_keys(token)
    other, also = model.config_keys(options.against)
    return own, other, assumed or also


def script(token: str, options: Options) -> str:
    """Return the lines that print the differences, "" while the drawer is closed or nothing is chosen."""
    if not (options.compares and options.against and model.config_keys(token)[0]):
        return ""
    own, other, assume = _configs(token, options)
    return _SCRIPT.format(own=own, other=other, length=options.context, assume=assume)
