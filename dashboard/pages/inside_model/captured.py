"""Captured queries and keys on Inside a model: where heads look, and what each rotary pair added."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from dashboard.blocks import Block, Chart, Data, Findings, Text
from dashboard.cache import cached
from dashboard.pages.inside_model import charts, checkpoint, data
from dashboard.pages.inside_model.options import Options
from dashboard.script import whole_script
from dashboard.settings import ChosenModel, Setting, chosen_model
from dashboard.text import number, plain
from dashboard.visitor_files import cached_numbers
from posenc.analysis import AttentionUse, CapturedUse, by_head, captured_use
from posenc.errors import SchemeArgumentError

PURPOSE = (
    "Choose the model, and upload queries and keys that you captured in one of its layers, before the "
    "rotation. You learn where its heads look and what each rotary pair added to logits."
)
GUIDE = (
    "What each rotary pair of a head did add to logits: the mean size, of either sign, over the keys that "
    "a query sees. Below: how attention falls with distance, and over how many tokens a head spreads: e to "
    "the power of the entropy is that number. Softmax scale, window and soft cap are those of the config. "
    "Heads and layers are counted from 1, pairs from 0.\n\n"
    "To capture: call `register_forward_hook` on the projections of a layer, or on the norms of queries "
    "and keys where the layer has them, and divide the output into heads."
)
UPLOADER = "upload_captured"
CLOSE = "Close these files", {"queries": "", "keys": ""}
CONFIG_SAYS = "how queries and keys are rotated"
CANNOT = "Your queries and keys cannot be read."
MOST_TOKENS = 512  # of captured vectors; the command takes more
IMPORTS = """
from posenc.analysis import by_head, captured_use
from posenc.checkpoints.array_files import read_array
from posenc.models import MODELS, read_config_token
"""
SCRIPT = """
kind = next(kind for kind in model.layer_kinds if layer - 1 in kind.layers)
q, k = (by_head(read_array(file)) for file in files)
found = captured_use(q, k, model, kind)
use = found.attention
print("head,entropy,first_token,distance")
for head, row in enumerate(zip(use.entropy, use.first_token, use.distance), 1):
    print(head, *(value.item() for value in row), sep=",")
if found.pairs is not None:
    print("head,pair,contribution")
    for head, row in enumerate(found.pairs.contributions.tolist(), 1):
        for pair, added in enumerate(row):
            print(head, pair, added, sep=",")
"""


@dataclass(frozen=True, eq=False)
class Captured:
    """Use of captured queries and keys. tokens: their number. kind: the name of the kind of layer."""

    use: CapturedUse
    tokens: int
    kind: str


def uploads(options: Options) -> tuple[str, ...]:
    """Return the names of uploaded queries and keys, as far as there are any."""
    return tuple(filter(None, (options.queries, options.keys)))


def uploaded(options: Options) -> dict[str, Any]:
    """Return what the uploader needs to know of the files that were taken."""
    return {"uploaded": [*uploads(options)]}


def asked(options: Options) -> str:
    """Return what to upload next, "" for nothing."""
    if not uploads(options):
        return "Upload the queries of a layer, then its keys, or look at a model that ships."
    if len(uploads(options)) == 1:
        return f"Now upload the {'keys' if options.queries else 'queries'}."
    return ""


def blocks(model: ChosenModel, options: Options) -> tuple[str, list[Block]]:
    """Return what the heads of a layer did. Raises PosencError where that cannot be said."""
    names = uploads(options)
    found = of_upload(names, model.token, options.of_layer)
    sources = [cached_numbers.get(name).source for name in names]
    use, label = found.use, model.preset.label
    whose = "every layer" if found.kind == "all" else f"its {found.kind.replace('_', ' ')} layers"
    said = f"Your upload, {', '.join(sources)}: {found.tokens:,} tokens, read as in {whose} of {label}."
    return headline(use), [
        Text(plain(said), "caption", both="source"),
        *(_pairs(use, label) if use.pairs is not None else []),
        *_heads(use, checkpoint.trained_length(model), label),
    ]


@cached
def of_upload(names: tuple[str, ...], token: str, layer: int) -> Captured:
    """Return what the heads of a layer, counted from 1, did with uploaded vectors.

    Raises CheckpointError for those that are gone, SchemeArgumentError for those that do not fit.
    """
    model = chosen_model(token).config
    if layer > model.layers:
        raise SchemeArgumentError(
            f"The model has {model.layers} layers; there is no layer {layer}."
        )
    q, k = (by_head(cached_numbers.get(name).table.table) for name in names)
    if q.shape[1] > MOST_TOKENS:
        raise SchemeArgumentError(
            f"The page reads at most {MOST_TOKENS} tokens, got {q.shape[1]:,}: give the first ones, or use "
            "the command posenc attention."
        )
    kind = next(kind for kind in model.layer_kinds if layer - 1 in kind.layers)
    return Captured(captured_use(q, k, model, kind), q.shape[1], kind.name)


def headline(use: CapturedUse) -> str:
    """Say which pair added most, and how far heads look."""
    near, far = (
        number(float(end)) for end in (use.attention.distance.min(), use.attention.distance.max())
    )
    looks = f"{near} to {far} tokens back on average"
    if len(use.attention.distance) == 1:
        looks = f"{near} tokens back on average"
    sink = number(100 * float(use.attention.first_token.max()))
    told = f"Heads look {looks}; up to {sink}% of a head's attention is on the first token."
    if use.pairs is None:
        return told
    added = use.pairs.contributions
    head, pair = divmod(int(added.argmax()), added.shape[1])
    most = number(float(added.max()))
    return f"Pair {pair} of head {head + 1} added most to logits, {most} on average. {told}"


def _pairs(use: CapturedUse, label: str) -> list[Block]:
    """Return what each pair added."""
    assert use.pairs is not None
    added = use.pairs.contributions
    heads = data.drawn_heads(added.amax(1))
    names = data.head_names(len(added))
    title, y_title = "What pairs did add", "mean size added"
    columns = {"name": "head", "x": "pair", "y": y_title}
    is_whole = len(heads) == len(names)
    chart = Chart(
        key="contributions",
        title=title,
        frame=data.pair_frame(added, None, heads),
        names=tuple(names[head] for head in heads),
        draw=partial(charts.by_pair, y_title=y_title),
        columns=columns,
        sizes=label,
        listed=is_whole,
    )
    if is_whole:
        return [Text(title, "heading"), chart]
    return [
        Text(title, "heading"),
        chart,
        Text(checkpoint.some_heads(heads, len(names), "contribution"), "caption"),
        Data(title=f"{title}, every head", frame=data.pair_frame(added, None), columns=columns),
    ]


def _heads(use: CapturedUse, length: int | None, label: str) -> list[Block]:
    """Return attention by distance, and the numbers of each head."""
    attention = use.attention
    heads = data.drawn_heads(attention.distance)
    every = data.head_names(len(attention.entropy))
    names = (*(every[head] for head in heads), data.EQUAL_WEIGHTS)
    frame = data.distance_frame(attention, length)
    columns = {"name": "head", "x": "distance", "y": "weight"}
    is_whole = len(heads) == len(every)
    title = "Attention by distance"
    chart = Chart(
        key="by_distance", title=title, frame=frame[frame["name"].isin(names)], names=names,
        draw=charts.by_distance, columns=columns, sizes=label, listed=is_whole,
    )  # fmt: skip
    table = heads_table(attention, use)
    shown = table if is_whole else table[table["head"].isin(names)].reset_index(drop=True)
    whole: list[Block] = []
    if not is_whole:
        whole = [
            Text(checkpoint.some_heads(heads, len(every), "mean distance"), "caption"),
            Data(title=f"{title}, every head", frame=frame, columns=columns),
            Data(title="Numbers of every head", frame=table),
        ]
    return [
        Text("Where heads look", "heading"), chart, *whole, Text("By head", "heading"),
        Findings("heads", shown),
    ]  # fmt: skip


def heads_table(attention: AttentionUse, use: CapturedUse) -> pd.DataFrame:
    """Return the numbers of each head, with its largest pair where pairs rotate."""
    table = data.heads_table(attention)
    if use.pairs is not None:
        added, pair = use.pairs.contributions.max(1)
        table["largest pair"] = [*map(str, pair.tolist()), ""]
        table["it added"] = [*added.tolist(), float("nan")]
    return table


def script(setting: Setting, options: Options) -> str:
    """Return the script that prints the numbers of the heads and of the pairs."""
    files = []
    for name, default in zip(
        (options.queries, options.keys), ("queries.npy", "keys.npy"), strict=True
    ):
        files.append(cached_numbers.get(name).source if name in cached_numbers else default)
    values = (
        f"{checkpoint.model_in_python(setting)}\nfiles = {tuple(files)!r}  # your own\n"
        f"layer = {options.of_layer}  # from 1"
    )
    return whole_script(IMPORTS, values, SCRIPT)
