"""A visitor's checkpoint on Inside a model: how much each rotary pair of a layer can add to logits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from dashboard.blocks import Block, Chart, Data, Findings, Tabs, Text
from dashboard.cache import cached
from dashboard.pages.inside_model import charts, data
from dashboard.pages.inside_model.options import BY_HEAD, BY_LAYER, CUTS, Options
from dashboard.script import whole_script
from dashboard.settings import ChosenModel, Setting, chosen_model
from dashboard.text import number, plain
from dashboard.visitor_weights import cached_weights, layers_of
from posenc.analysis import PairNorms, pair_norms, slow_pairs
from posenc.errors import CheckpointError, PosencError
from posenc.models import read_projections
from posenc.models.projections import ProjectionsMissing, projection_names
from posenc.schemes.rope import RopeConfig
from posenc.text import first_of, printable_name

PURPOSE = (
    "Choose the model, whose config says how the projections are divided, and upload its checkpoint. You "
    "learn which rotary pairs each head can use. One layer is read at a time."
)
GUIDE = (
    "The most that each rotary pair of a head can add to a logit, for inputs of the layer of norm 1, from "
    "the weights alone. Pairs right of the dashed line never complete a turn within the training length. "
    "Barbero et al. 2024, arXiv 2410.06205, figures 2 to 4, show such norms of Gemma 7B: most lie in the "
    "slowest pairs.\n\n"
    "A layer that normalises queries and keys after the projections undoes the size of its weights: there "
    "the numbers compare pairs of one head and are no bound. Heads and layers are counted from 1, pairs "
    "from 0. Many heads are drawn in part; the data has all."
)
UPLOADER = "upload_weights"
CLOSE = "Close this checkpoint", {"weights": ""}
CONFIG_SAYS = "how the projections are divided"
CUT = "Some methods stop the rotation of pairs. The table shows how much those pairs can add, of all pairs."
CUT_HELP = {
    "of what pairs can add (%)": "Share of these pairs in the sum over all pairs and heads of the layer.",
    "without rotation": "p-RoPE: Barbero et al. 2024, arXiv 2410.06205. Partial rotary keeps pairs at even "
    "distances. A conversion to latent attention keeps the pairs with the largest norms of each head (Ji "
    "et al. 2025, arXiv 2502.14837).",
}
CANNOT = "This layer cannot be read."
IMPORTS = """
from posenc.analysis import pair_norms
from posenc.checkpoints import hub_checkpoint, local_checkpoint
from posenc.models import MODELS, read_config_token, read_projections
"""
SCRIPT = """
read = read_projections(checkpoint, model, layer - 1)
norms = pair_norms(
    read.queries, read.keys, read.scheme, query_bias=read.query_bias, key_bias=read.key_bias,
    softmax_scale=read.softmax_scale,
)
print("head,pair,bound")
for head, row in enumerate(norms.bounds.tolist(), 1):
    for pair, bound in enumerate(row):
        print(head, pair, bound, sep=",")
"""


@dataclass(frozen=True, eq=False)
class Layer:
    """The bounds of a layer. tensors: the names of what was read. normalised: as of `Projections`."""

    norms: PairNorms
    tensors: tuple[str, ...]
    normalised: bool


def uploaded(options: Options) -> dict[str, Any]:
    """Return what the uploader needs to know of the files that were taken, and which layer is chosen."""
    return {"weights": options.weights, "layer": options.of_layer - 1}


def asked(options: Options) -> str:
    """Return what to upload, "" for nothing."""
    return "" if options.weights else "Upload a checkpoint, or look at a model that ships."


def blocks(model: ChosenModel, options: Options) -> tuple[str, list[Block]]:
    """Return the bounds of the chosen layer. Raises PosencError where there are none."""
    weights = cached_weights.get(options.weights)
    found = of_layer(options.weights, model.token, options.of_layer)
    length = trained_length(model)
    source = plain(f"{weights.source}: {', '.join(map(printable_name, found.tensors))}.")
    notes = [Text(source, "caption", both="source")]
    if found.normalised:
        normalised = (
            "The layer normalises queries and keys after the projections, so that these numbers compare "
            "pairs of a head and are no bound."
        )
        notes.append(Text(normalised, "info"))
    heads = data.drawn_heads(found.norms.bounds.amax(1))
    by_label: dict[str, Callable[[], list[Block]]] = {
        BY_HEAD: lambda: [Findings("heads", heads_table(found.norms, length, heads))],
        CUTS: lambda: cuts(found.norms, length),
    }
    if len(by_layer := layers_table(options.weights, model.token)) > 1:
        by_label[BY_LAYER] = lambda: [Findings("layers", by_layer)]
    return headline(found.norms, options.of_layer, length), [
        *notes,
        *pictures(found.norms, length, options.of_layer, model.preset.label),
        tables(by_label, options),
        Data(title="Largest pair of every head", frame=heads_table(found.norms, length)),
    ]


def tables(by_label: Mapping[str, Callable[[], list[Block]]], options: Options) -> Tabs:
    """Return tabs of tables, of which the one that is open is made."""
    opened = options.table if options.table in by_label else next(iter(by_label))
    return Tabs("table", (*by_label,), opened, by_label[opened]())


def cuts(norms: PairNorms, length: int | None) -> list[Block]:
    """Return which share of what pairs can add goes with those that lose their rotation."""
    table = data.cuts_table(norms, length)
    return [
        Text(CUT, "caption"),
        Findings("cuts", table.iloc[:, :3], CUT_HELP),
        Data(title=CUTS, frame=table),
    ]


def headline(norms: PairNorms, layer: int, length: int | None) -> str:
    """Say which pair can add most, and what slow pairs hold."""
    head, pair = divmod(int(norms.bounds.argmax()), len(norms.inv_freq))
    most = f"In layer {layer}, pair {pair} of head {head + 1} can add most to a logit"
    if length is None:
        return f"{most}."
    slow = slow_pairs(norms, length)
    if bool(slow.kept.all()):
        return f"{most}; every pair completes a turn within {length:,} tokens."
    count = int((~slow.kept[0]).sum())
    return (
        f"{most}; {count} of {len(norms.inv_freq)} pairs never complete a turn in {length:,} tokens and "
        f"hold {number(100 * slow.share)}% of what pairs can add."
    )


def pictures(norms: PairNorms, length: int | None, layer: int, label: str) -> list[Block]:
    """Return the bounds by pair, of all heads or of some."""
    bounds = norms.bounds
    slow = data.first_slow(norms, length)
    heads = data.drawn_heads(bounds.amax(1))
    names = data.head_names(len(bounds))
    title, y_title = "What pairs can add", "most added to a logit, inputs of norm 1"
    columns = {"name": "head", "x": "pair", "y": y_title}
    is_whole = len(heads) == len(names)
    chart = Chart(
        key="bounds",
        title=f"{title}, layer {layer}",
        frame=data.pair_frame(bounds, slow, heads),
        names=tuple(names[head] for head in heads),
        draw=partial(charts.by_pair, y_title=y_title),
        columns=columns,
        sizes=label,
        listed=is_whole,
    )
    whole: list[Block] = []
    if not is_whole:
        whole = [
            Text(some_heads(heads, len(names), "bound"), "caption"),
            Data(
                title=f"{title}, every head", frame=data.pair_frame(bounds, slow), columns=columns
            ),
        ]
    return [
        Text(title, "heading"),
        chart,
        *whole,
    ]


def some_heads(heads: Sequence[int], count: int, of: str) -> str:
    """Say that some heads are drawn."""
    drawn = f"{len(heads)} of {count} heads are drawn, from the smallest {of} to the largest"
    return f"{drawn}. The data has all."


def heads_table(
    norms: PairNorms, length: int | None, heads: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return the largest pair of each head, and the share of its pairs without a full turn."""
    bounds, pairs = norms.bounds.max(1)
    table = pd.DataFrame(
        {
            "head": data.head_names(len(bounds)),
            "largest bound": bounds.numpy(),
            "of pair": pairs.numpy(),
        }
    )
    if length is not None:
        table[SLOW] = 100 * slow_pairs(norms, length).shares.numpy()
    return table if heads is None else table.iloc[list(heads)].reset_index(drop=True)


SLOW = "in pairs without a full turn (%)"


@cached
def layers_table(name: str, token: str) -> pd.DataFrame:
    """Return the largest pair of every layer whose projections are here, one layer in memory at a time."""
    model = chosen_model(token)
    weights = cached_weights.get(name)
    length = trained_length(model)
    rows = []
    for index in range(min(model.config.layers, 512)):
        if not (
            weights.has(layers_of(model.config, index))
            and projection_names(weights.files, (index,))
        ):
            continue
        try:
            norms = of_layer(name, token, index + 1).norms
        except PosencError:  # which is said where that layer is chosen
            continue
        head, pair = divmod(int(norms.bounds.argmax()), len(norms.inv_freq))
        row = {"layer": f"layer {index + 1}", "largest bound": float(norms.bounds.max()),
               "of head": head + 1, "of pair": pair}  # fmt: skip
        if length is not None:
            row[SLOW] = 100 * slow_pairs(norms, length).share
        rows.append(row)
    return pd.DataFrame(rows)


@cached
def of_layer(name: str, token: str, layer: int) -> Layer:
    """Return the bounds of a layer, counted from 1, of uploaded projections.

    Raises CheckpointError and SchemeArgumentError where they are not here or cannot be read.
    """
    model = chosen_model(token)
    weights = cached_weights.get(name)
    if layer > model.config.layers:
        raise CheckpointError(
            f"The model has {model.config.layers} layers; there is no layer {layer}."
        )
    if not weights.has(layers_of(model.config, layer - 1)):
        raise CheckpointError(f"Layer {layer} is not fetched yet: press Fetch layer.")
    try:
        read = read_projections(weights.checkpoint, model.config, layer - 1)
    except ProjectionsMissing:
        if not weights.missing:
            raise
        files = first_of([printable_name(file) for file in weights.missing], 3)
        raise CheckpointError(
            f"Layer {layer} is in none of the uploaded files; of the checkpoint {files} "
            f"{'are' if len(weights.missing) > 1 else 'is'} missing."
        ) from None
    if not isinstance(read.scheme, RopeConfig):
        raise CheckpointError(f"Layer {layer} does not rotate its queries and keys.")
    norms = pair_norms(
        read.queries, read.keys, read.scheme, query_bias=read.query_bias, key_bias=read.key_bias,
        softmax_scale=read.softmax_scale,
    )  # fmt: skip
    return Layer(norms, read.tensors, read.normalised)


def trained_length(model: ChosenModel) -> int | None:
    """Return the training length of a model as its config has it, or its context."""
    return model.config.trained_length or model.config.context


def script(setting: Setting, options: Options) -> str:
    """Return the script that prints the bounds of the layer."""
    is_hub = options.weights in cached_weights and cached_weights.get(options.weights).is_hub
    opened = 'local_checkpoint("model.safetensors")  # your own: a file, an index or their folder'
    if is_hub:
        opened = f"hub_checkpoint({cached_weights.get(options.weights).source!r})"
    values = (
        f"{model_in_python(setting)}\ncheckpoint = {opened}\nlayer = {options.of_layer}  # from 1"
    )
    return whole_script(IMPORTS, values, SCRIPT)


def model_in_python(setting: Setting) -> str:
    """Return the line that reads the chosen model."""
    model = setting.real_model
    if model is None:
        return 'model = MODELS["llama-3.1-8b"].read(scaled=False)  # your own'
    if model.is_config:
        return f"model = read_config_token({model.token!r})"
    return f"model = MODELS[{model.token!r}].read(scaled=False)"
