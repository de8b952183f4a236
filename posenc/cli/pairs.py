"""`posenc pairs`: say which rotary pairs the layers of a checkpoint can use."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from posenc.analysis import PairNorms, cut_pairs, pair_norms, slow_pairs
from posenc.checkpoints.sharded import Checkpoint, hub_checkpoint, local_checkpoint
from posenc.cli.models import UsageError, read_model
from posenc.models import ModelConfig, Projections, read_projections
from posenc.schemes.rope import RopeConfig
from posenc.text import significant

# What a cut is called, its rule, and the share of pairs that keeps its rotation.
CUTS = {
    "p-RoPE 0.75": ("fastest", 0.75),
    "partial rotary 0.5": ("spread", 0.5),
    "latent attention 0.5": ("largest", 0.5),
}


@click.command(
    name="pairs",
    help="Say how much each rotary pair of a checkpoint's layers can add to a logit, and how much of it "
    "would go with the pairs that p-RoPE, partial rotary or a conversion to latent attention stops. "
    "CHECKPOINT is a .safetensors file, an index of several, their folder, or a model on the Hub.",
)
@click.argument("checkpoint")
@click.option("--config", help="The model's config.json; default: that beside the checkpoint.")
@click.option(
    "--layer", "layers", type=int, multiple=True, help="From 0; default: all that rotate."
)
@click.option("--length", type=click.IntRange(1, 2**31), help="Training length in tokens; default: as "
              "the config has it.")  # fmt: skip
@click.option("--hub", is_flag=True, help="CHECKPOINT is a model's name on the Hugging Face Hub.")
@click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")
def rotary_pairs(
    checkpoint: str, config: str | None, layers: tuple[int, ...], length: int | None, hub: bool,
    as_json: bool,
) -> None:  # fmt: skip
    if config is None:
        if hub:
            raise UsageError("With --hub, --config must name the model's config.json.")
        path = Path(checkpoint)
        config = str((path if path.is_dir() else path.parent) / "config.json")
    model = read_model(config, None)[0]
    tokens = length or model.trained_length or model.context
    if tokens is None:
        raise UsageError("The config names no length; --length has the training length in tokens.")
    opened = hub_checkpoint(checkpoint) if hub else local_checkpoint(checkpoint)
    records = []
    for layer in layers or rotating(model):
        records.append(of_layer(opened, model, layer, tokens))
        if not as_json:
            click.echo(sentences(records[-1]))
    if as_json:
        click.echo(json.dumps(records, indent=2))


def of_layer(checkpoint: Checkpoint, model: ModelConfig, layer: int, length: int) -> dict[str, Any]:
    """Return the numbers of a layer; its weights are gone before those of the next are read."""
    read = read_projections(checkpoint, model, layer)
    if not isinstance(read.scheme, RopeConfig):
        raise UsageError(f"Layer {layer} does not rotate its queries and keys.")
    norms = pair_norms(
        read.queries, read.keys, read.scheme, query_bias=read.query_bias, key_bias=read.key_bias,
        softmax_scale=read.softmax_scale,
    )  # fmt: skip
    return record(read, norms, length)


def rotating(model: ModelConfig) -> Iterator[int]:
    """Yield the layers that rotate, from 0."""
    kinds = [kind for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    layers = sorted(layer for kind in kinds for layer in kind.layers)
    if not layers:
        raise UsageError("No layer of this model rotates its queries and keys.")
    yield from layers


def record(read: Projections, norms: PairNorms, length: int) -> dict[str, Any]:
    """Return the numbers of a layer as values of JSON."""
    bounds = norms.bounds
    head, pair = divmod(int(bounds.argmax()), bounds.shape[1])
    slow = slow_pairs(norms, length)
    cuts = {name: cut_pairs(norms, rule, share) for name, (rule, share) in CUTS.items()}
    return {
        "layer": read.layer,
        "tensors": list(read.tensors),
        "normalised": read.normalised,
        "largest": {"head": head, "pair": pair, "bound": float(bounds[head, pair])},
        "training_length": length,
        "slow_pairs": int((~slow.kept[0]).sum()),
        "share_of_slow_pairs": slow.share,
        "share_cut": {name: cut.share for name, cut in cuts.items()},
        "inv_freq": norms.inv_freq.tolist(),
        "bounds": bounds.tolist(),
    }


def sentences(found: dict[str, Any]) -> str:
    """Return what a layer's numbers say."""
    largest, slow = found["largest"], significant(100 * found["share_of_slow_pairs"])
    cuts = ", ".join(
        f"{name} {significant(100 * share)}%" for name, share in found["share_cut"].items()
    )
    lines = [
        f"Layer {found['layer']}: the largest bound, {significant(largest['bound'])} for inputs of norm "
        f"1, is that of pair {largest['pair']} of head {largest['head']}.",
        f"  {found['slow_pairs']} of {len(found['inv_freq'])} pairs never complete a turn in "
        f"{found['training_length']:,} tokens; they hold {slow}% of the bounds.",
        f"  Share of the bounds in pairs that would stop: {cuts}.",
    ]
    if found["normalised"]:
        lines.append(
            "  The layer normalises queries and keys after the projections, so that these norms compare "
            "pairs and are no bound."
        )
    return "\n".join(lines)
