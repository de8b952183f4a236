"""`posenc attention`: say what captured queries and keys of a layer do."""

import json
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from posenc import limits
from posenc.analysis import attention_use, attention_weights, pair_use
from posenc.checkpoints.array_files import read_number_table
from posenc.cli.plan import UsageError, read_model
from posenc.models import LayerKind, ModelConfig
from posenc.schemes.rope import Rope
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
    if len(q) % len(k) or q.shape[1:] != k.shape[1:] or q.shape[1] > MOST_TOKENS:
        raise UsageError(
            "QUERIES and KEYS must have as many tokens, at most "
            f"{MOST_TOKENS:,}, and features, and queries a multiple of the heads of keys; they have the "
            f"shapes {tuple(q.shape)} and {tuple(k.shape)}."
        )
    if q.shape[2] != kind.head_dim or kind.scheme is None:
        raise UsageError(
            f"The model's heads have {kind.head_dim} features, the files {q.shape[2]}: they are of two "
            "models."
        )
    found = record(q, k, kind)
    click.echo(json.dumps(found, indent=2) if as_json else sentences(found))


def _kind(model: ModelConfig, layer: int | None) -> LayerKind:
    """Return the kind of a layer, of None the first kind that rotates."""
    if layer is None:
        return model.rotary_kind
    limits.check_count("layer", layer, 0, model.layers - 1)
    return next(kind for kind in model.layer_kinds if layer in kind.layers)


def _by_head(file: Path) -> Tensor:
    """Return the vectors of a file: heads, tokens, features. A leading axis of size 1 is dropped."""
    read = read_number_table(file)
    # Of two heads the reader makes two tables.
    table = read.table if read.sines is None else torch.stack((read.table, read.sines))
    while table.ndim > 3 and len(table) == 1:
        table = table[0]
    table = table[None] if table.ndim == 2 else table
    if table.ndim != 3 or table.is_complex() or not table.isfinite().all():
        raise UsageError(
            f"{file.name} must hold finite numbers of tokens x features, or of heads x tokens x features."
        )
    return table.float()


def record(q: Tensor, k: Tensor, kind: LayerKind) -> dict[str, Any]:
    """Return the numbers of a layer as values of JSON."""
    assert kind.scheme is not None
    scheme = kind.scheme.build()
    factor = kind.softmax_scale / scheme.softmax_scale(
        kind.head_dim
    )  # the model's own, as of Gemma 2
    scaled = q[None] * factor
    use = attention_use(attention_weights(scaled, k[None], scheme))
    found: dict[str, Any] = {
        "tokens": q.shape[1],
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
    if isinstance(scheme, Rope):
        pairs = pair_use(scaled, k[None], scheme)
        found |= {
            "inv_freq": pairs.inv_freq.tolist(),
            "query_lengths": (pairs.queries / factor).tolist(),
            "key_lengths": pairs.keys.tolist(),
            "contributions": pairs.contributions.tolist(),
        }
    return found


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
