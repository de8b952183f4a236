"""`posenc attention`: say what captured queries and keys of a layer do."""

import json
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from posenc import limits
from posenc.analysis.captured import CapturedUse, by_head, captured_use
from posenc.checkpoints.array_files import read_number_table
from posenc.cli.models import UsageError, read_model
from posenc.models import LayerKind, ModelConfig
from posenc.text import significant

MOST_TOKENS = 4_096  # of a text: the weights of a head take 128 MiB
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    name="attention",
    help="Say where heads look and what each rotary pair added to logits, from a layer's queries and keys "
    "before the rotation: .npy or .safetensors files of tokens x features, or heads x tokens x features.",
)
@click.argument("queries", type=_FILE)
@click.argument("keys", type=_FILE)
@click.option("--config", required=True, help="The model's config.json; - is stdin.")
@click.option(
    "--layer", type=int, help="Of the model, from 0; default: its first kind that rotates."
)
@click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")
def captured_attention(
    queries: Path, keys: Path, config: str, layer: int | None, as_json: bool
) -> None:
    model = read_model(config, None)[0]
    kind = _kind(model, layer)
    q, k = _by_head(queries), _by_head(keys)
    if q.shape[1] > MOST_TOKENS:
        raise UsageError(f"QUERIES must have at most {MOST_TOKENS:,} tokens, got {q.shape[1]:,}.")
    found = record(captured_use(q, k, model, kind))
    click.echo(json.dumps(found, indent=2) if as_json else sentences(found))


def _kind(model: ModelConfig, layer: int | None) -> LayerKind:
    """Return the kind of a layer, of None the first kind that rotates."""
    if layer is None:
        return model.rotary_kind
    limits.check_count("layer", layer, 0, model.layers - 1)
    return next(kind for kind in model.layer_kinds if layer in kind.layers)


def _by_head(file: Path) -> Tensor:
    """Return the vectors of a file: heads, tokens, features."""
    read = read_number_table(file)
    # Of two heads the reader makes two tables.
    table = read.table if read.sines is None else torch.stack((read.table, read.sines))
    return by_head(table)


def record(found: CapturedUse) -> dict[str, Any]:
    """Return the numbers of a layer as values of JSON."""
    use, pairs = found.attention, found.pairs
    values: dict[str, Any] = {
        "tokens": use.by_distance.shape[1],
        "entropy": use.entropy.tolist(),
        "first_token": use.first_token.tolist(),
        "mean_distance": use.distance.tolist(),
        "by_distance": use.by_distance.tolist(),
        "equal_weights": {
            "entropy": use.even_entropy,
            "first_token": use.even_first_token,
            "mean_distance": use.even_distance,
        },
    }
    if pairs is not None:
        values |= {
            "inv_freq": pairs.inv_freq.tolist(),
            "query_lengths": pairs.queries.tolist(),
            "key_lengths": pairs.keys.tolist(),
            "contributions": pairs.contributions.tolist(),
        }
    return values


def sentences(found: dict[str, Any]) -> str:
    """Return what the numbers say, a line per head."""
    even = found["equal_weights"]
    lines = [
        f"{found['tokens']:,} tokens; equal weights would have an entropy of "
        f"{significant(even['entropy'])} nats and a mean distance of "
        f"{significant(even['mean_distance'])} tokens."
    ]
    for head, entropy in enumerate(found["entropy"]):
        line = (
            f"Head {head}: entropy {significant(entropy)} nats, mean distance "
            f"{significant(found['mean_distance'][head])} tokens, "
            f"{significant(100 * found['first_token'][head])}% of the attention on the first token"
        )
        if contributions := found.get("contributions"):
            most = max(contributions[head])
            pair = contributions[head].index(most)
            line += f"; pair {pair} added most to logits, {significant(most)} on average"
        lines.append(f"{line}.")
    return "\n".join(lines)
