"""Numbers of Inside a model: bounds and contributions of pairs, and where heads look."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
import torch

from dashboard.cache import cached
from dashboard.charts import frames
from posenc.analysis import (
    AttentionUse,
    PairNorms,
    PairUse,
    attention_use,
    attention_weights,
    cut_pairs,
    pair_norms,
    pair_use,
    slow_pairs,
)
from posenc.lab.evaluate import SCORED_SHARE, Variant, variants
from posenc.lab.shipped_models import (
    LayerInputs,
    layer_inputs,
    layer_projections,
    shipped_model,
)
from posenc.schemes.rope import Rope
from posenc.text import count_of

NO_TURN = "no full turn in training"
EQUAL_WEIGHTS = "equal weights"  # the line and the row that heads are compared with
MOST_DRAWN = 8  # heads of one chart
# What a cut is called: its rule and the share of pairs that stays.
CUTS = {
    "p-RoPE, fastest three quarters": ("fastest", 0.75),
    "partial rotary, half": ("spread", 0.5),
    "partial rotary, quarter": ("spread", 0.25),
    "latent attention, half": ("largest", 0.5),
    "latent attention, quarter": ("largest", 0.25),
}


@dataclass(frozen=True, eq=False)
class Heads:
    """The distances at which the heads of a layer look in a text.

    length: tokens of the text. loss: of the whole model, in nats per byte.
    """

    length: int
    use: AttentionUse
    loss: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """The numbers that the rotary pairs of a layer can add to logits, and did add in a text.

    bounds (heads, pairs): for the inputs of the layer, whose norm is known.
    """

    norms: PairNorms
    bounds: torch.Tensor
    use: PairUse


def variant_of(run_id: str, times: int, reading: str) -> tuple[Variant, int]:
    """Return the variant in which a model reads a text of so many training lengths, and its tokens.

    A variant that there is not, as a scaling within the training length, is that of the model as trained.
    """
    trained = shipped_model(run_id)
    specification = trained.specification
    length = times * specification.train_length
    own = [*variants(trained.model, length, specification.train_length, specification.scalings)]
    named = {variant.name: variant for variant in own}
    return named.get(reading, own[0]), length


@cached
def heads(run_id: str, index: int, times: int, reading: str) -> Heads:
    """Return where a layer looks from the last tokens of the model's text. index: from 0."""
    trained = shipped_model(run_id)
    variant, length = variant_of(run_id, times, reading)
    inputs = _inputs(run_id, index, times, reading)
    scored = max(1, trained.specification.train_length // SCORED_SHARE)
    with torch.inference_mode():
        weights = attention_weights(inputs.queries, inputs.keys, inputs.scheme)
    use = attention_use(weights, scored)
    return Heads(length, use, trained.loss(variant, length))


@cached
def pairs(run_id: str, index: int, times: int, reading: str) -> Pairs | None:
    """Return what the pairs of a layer can add and did add, None for a layer without rotation."""
    trained = shipped_model(run_id)
    inputs = _inputs(run_id, index, times, reading)
    scheme = trained.model.scheme  # whose frequencies it was trained with
    if not (isinstance(inputs.scheme, Rope) and isinstance(scheme, Rope)):
        return None
    norms = pair_norms(*layer_projections(trained.model, index), scheme.config)
    norm = trained.specification.model.width**0.5
    with torch.inference_mode():
        use = pair_use(inputs.queries, inputs.keys, inputs.scheme)
    return Pairs(norms, norms.at_most(norm, norm), use)


def _inputs(run_id: str, index: int, times: int, reading: str) -> LayerInputs:
    """Return what the attention of a layer receives."""
    trained = shipped_model(run_id)
    variant, length = variant_of(run_id, times, reading)
    return next(islice(layer_inputs(trained.model, trained.window(length), variant), index, None))


def head_names(count: int) -> tuple[str, ...]:
    """Return what the heads of a layer are called, counted from 1."""
    return tuple(f"head {head + 1}" for head in range(count))


def drawn_heads(values: torch.Tensor, most: int = MOST_DRAWN) -> list[int]:
    """Return which heads are drawn: all of a few, else some from the smallest value to the largest."""
    order = values.argsort(stable=True)
    return sorted(order[frames.evenly(len(values), most)].tolist())


def pair_frame(
    values: torch.Tensor, first_slow: int | None, heads: Collection[int] | None = None
) -> pd.DataFrame:
    """Return a line per head over pairs.

    first_slow: the first pair without a full turn, None for none; the boundary stands before it. heads:
    that are drawn, None for all.
    """
    boundary = np.nan if first_slow is None else first_slow - 0.5
    pairs = np.arange(values.shape[1])
    parts = [
        {"name": name, "x": pairs, "y": row.numpy(), "boundary": boundary}
        for head, (name, row) in enumerate(zip(head_names(len(values)), values, strict=True))
        if heads is None or head in heads
    ]
    return frames.stacked(parts, ["name", "x", "y", "boundary"])


def distance_frame(use: AttentionUse, train_length: int | None) -> pd.DataFrame:
    """Return a line per head over distances, and one of equal weights."""
    n = use.by_distance.shape[1]
    boundary = float(train_length) if train_length and train_length < n else np.nan
    seen = np.arange(n - use.queries, n)  # positions of the queries
    even = np.array([np.mean(1 / (seen[seen >= distance] + 1)) for distance in range(n)])
    rows = {**dict(zip(head_names(len(use.by_distance)), use.by_distance.numpy(), strict=True))}
    parts = [
        {"name": name, "x": np.arange(n), "y": values, "boundary": boundary}
        for name, values in (*rows.items(), (EQUAL_WEIGHTS, even))
    ]
    return frames.stacked(parts, ["name", "x", "y", "boundary"])


def heads_table(use: AttentionUse) -> pd.DataFrame:
    """Return mean distance, weight on the first token and entropy of each head, and of equal weights."""
    names = head_names(len(use.entropy))
    return pd.DataFrame(
        {
            "head": [*names, EQUAL_WEIGHTS],
            "mean distance (tokens)": [*use.distance.tolist(), use.even_distance],
            "on the first token (%)": [
                *(100 * use.first_token).tolist(), 100 * use.even_first_token,
            ],
            "entropy (nats)": [*use.entropy.tolist(), use.even_entropy],
        }
    )  # fmt: skip


def readings_table(run_id: str, index: int) -> pd.DataFrame:
    """Return loss, entropy and weight on the first token at each length, in every way to evaluate it."""
    trained = shipped_model(run_id)
    rows = []
    for times in (1, 2, 4):
        specification = trained.specification
        length = times * specification.train_length
        for variant in variants(
            trained.model, length, specification.train_length, specification.scalings
        ):
            found = heads(run_id, index, times, variant.name)
            rows.append(
                {
                    "text": f"{count_of(length, 'token')}, {variant.name}",
                    "loss (nats)": found.loss,
                    "entropy (nats)": float(found.use.entropy.mean()),
                    "entropy of equal weights (nats)": found.use.even_entropy,
                    "on the first token (%)": 100 * float(found.use.first_token.mean()),
                    "mean distance (tokens)": float(found.use.distance.mean()),
                }
            )
    return pd.DataFrame(rows)


def cuts_table(norms: PairNorms, train_length: int | None) -> pd.DataFrame:
    """Return which share of pairs and of bounds each cut takes."""
    named = {} if train_length is None else {NO_TURN: slow_pairs(norms, train_length)}
    named |= {name: cut_pairs(norms, rule, share) for name, (rule, share) in CUTS.items()}
    return pd.DataFrame(
        [
            {
                "without rotation": name,
                "pairs (%)": 100 * (1 - float(cut.kept.double().mean())),
                "of what pairs can add (%)": 100 * cut.share,
                "lowest head (%)": 100 * float(cut.shares.min()),
                "highest head (%)": 100 * float(cut.shares.max()),
            }
            for name, cut in named.items()
        ]
    )


def first_slow(norms: PairNorms, train_length: int | None) -> int | None:
    """Return the first pair that completes no turn in training, None where all do or nobody knows."""
    if train_length is None:
        return None
    slow = (~slow_pairs(norms, train_length).kept[0]).nonzero().flatten()
    return int(slow[0]) if len(slow) else None
