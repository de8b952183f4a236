"""What the five steps say: each is computed by posenc, or read from the shipped runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from dashboard.compute import runs
from dashboard.compute.result_cache import cache_result
from dashboard.compute.schemes import Array
from dashboard.text import listed, number, plain
from posenc import alibi_slopes, sinusoidal_table
from posenc.analysis import RandomLayer, read_orders
from posenc.lab import summary
from posenc.schemes import SCHEMES
from posenc.schemes.base import Scheme
from posenc.settings import Setting

ROWS, WIDTH = 64, 64  # of the table that the second step draws
COMPARED = 1_024  # rows of it that are compared
QUERY, KEY, MOVED = 10, 7, 100  # positions of the third step, and how far both move
HEADS, FAR = 8, 100  # of the fourth step; a distance
MAIN = ("learned", "sinusoidal", "rope", "alibi")


@dataclass(frozen=True, eq=False)
class Lesson:
    """One step: its title, two sentences, a question with its answer, and what its picture shows."""

    title: str
    sentences: str
    question: str
    answer: str
    arrays: dict[str, Array] = field(default_factory=dict)
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    words: tuple[str, ...] = ()


@cache_result
def read(step: str, chosen: Any) -> Lesson:
    """Return a step of "1" to "5". chosen: what its control says."""
    return STEPS[step](chosen)


def scheme(kind: str) -> Scheme:
    """Return a scheme at the default numbers, whatever the sidebar holds."""
    return Setting().config(kind).build("cpu")


def _swap(text: str) -> Lesson:
    """Exchange the first and the last word, without position and with the sinusoidal table."""
    words = tuple(text.split())
    order = (len(words) - 1, *range(1, len(words) - 1), 0)
    arrays, largest = {}, {}
    for kind in ("none", "sinusoidal"):
        layer = RandomLayer.of(Setting(), scheme(kind))
        both = read_orders(scheme(kind), layer, words, order)
        arrays[f"{SCHEMES[kind].label}, your order"] = both.patterns.mean(0).numpy()
        arrays[f"{SCHEMES[kind].label}, swapped"] = both.other_patterns.mean(0).numpy()
        largest[kind] = both.largest
        if kind == "none":
            masked = read_orders(scheme(kind), layer, words, order, causal=True).largest
    return Lesson(
        "Swap two words",
        f"Swap “{plain(words[0])}” and “{plain(words[-1])}”: without position no word's output changes "
        f"(by at most {number(largest['none'])}, which is rounding). "
        f"With the sinusoidal table, outputs change by up to {number(largest['sinusoidal'])}.",
        "A causal mask hides later words. Does it show the order, without any position?",
        f"Yes. With a causal mask the same swap changes outputs by up to {number(masked)}: "
        "the first word now sees one word, the last word sees all.",
        arrays,
        words=words,
    )


def _add(base: str) -> Lesson:
    """Add a row of the sinusoidal table to each word."""
    table = sinusoidal_table(COMPARED, WIDTH, base=float(base), dtype=torch.float64)
    nearest = torch.pdist(table).min().item()
    slowest = 2 * math.pi * float(base) ** (1 - 2 / WIDTH)
    return Lesson(
        "Add a position to the word",
        "Row p of this table is added to the vector of the word at position p. "
        f"Each pair of columns is a wave: the fastest takes {2 * math.pi:.3g} positions, the slowest "
        f"{number(slowest)}.",
        f"Do two of the first {COMPARED:,} positions get the same row?",
        f"No. The two closest rows are {number(nearest)} apart.",
        {"table": table[:ROWS].numpy()},
    )


def _turn(_: None) -> Lesson:
    """Turn a query and a key by their positions."""
    rope = scheme("rope")
    assert rope.frequencies is not None
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, Setting().head_dim, generator=draw, dtype=torch.float64)

    def logit(query: int, key: int) -> float:
        turned = rope.rotate(q, k, torch.tensor([query]), torch.tensor([key]))
        return (turned[0] * turned[1]).sum().item()

    first, moved = logit(QUERY, KEY), logit(QUERY + MOVED, KEY + MOVED)
    one_on = logit(QUERY + 1, KEY)
    return Lesson(
        "Turn the query and the key instead",
        "RoPE turns every pair of features of a query and a key by an angle: position times frequency. "
        f"A query at {QUERY} and a key at {KEY} give the logit {first:.3f}.",
        f"Both move {MOVED} positions on. What is the logit now?",
        f"Still {moved:.3f} (change {number(abs(moved - first))}, which is rounding): only the distance "
        f"counts. If the query alone moves one position on, the logit becomes {one_on:.3f}.",
        {"inv_freq": rope.frequencies.inv_freq.numpy()},
    )


def _lower(head: int) -> Lesson:
    """Lower logits by distance, a slope per head."""
    slopes = alibi_slopes(HEADS).double()
    slope = slopes[head - 1].item()
    distance = np.arange(128)
    parts = [
        pd.DataFrame({"head": n + 1, "x": distance, "y": -one.item() * distance})
        for n, one in enumerate(slopes)
    ]
    hidden = math.floor(math.log(100) / slope) + 1
    return Lesson(
        "Or lower far logits",
        "ALiBi leaves words, queries and keys alone and subtracts slope times distance from each logit. "
        f"Head {head} has the slope {number(slope)}: at distance {FAR} it subtracts {number(FAR * slope)}.",
        "From which distance on is the attention weight multiplied by less than 1%?",
        f"From distance {hidden:,}: there the factor exp(-slope times distance) first falls below 0.01. "
        "Heads with small slopes see far, heads with large slopes see near.",
        frame=pd.concat(parts, ignore_index=True).assign(chosen=lambda rows: rows["head"] == head),
    )


def _past(guess: str) -> Lesson:
    """Evaluate trained models past their training length, once a guess is there."""
    curves = runs.shipped_loss(MAIN)
    changes, broken = {}, []
    for curve in curves:
        label, loss = curve.specification.scheme.label, curve.at(curve.specification.train_length)
        effect = None if loss is None else summary.effect(curve, loss)
        if loss is not None and effect is not None:
            changes[label] = curve.points[-1].mean - loss
            broken += [label] if effect is summary.Effect.BREAKS else []
    if not changes:
        return Lesson("Read past the training length", "No measured run can be read now.", "", "")
    length, longest = curves[0].specification.train_length, max(c.points[-1].x for c in curves)
    best = min(changes, key=changes.__getitem__)
    asked = (
        f"Four small models were trained on {length:,} tokens and evaluated at up to {longest:,}. "
        "Which one's loss rises least? Guess, and the measured curves are drawn."
    )
    by_size = sorted(changes.items(), key=lambda one: one[1])
    rises = listed([f"{change:+.2f} ({label})" for label, change in by_size])
    ended = [SCHEMES[kind].label for kind in MAIN if SCHEMES[kind].label not in changes]
    ends = f" {listed(ended)} ends at {length:,} tokens." if ended else ""
    verdict = "Right" if guess == best else "Not quite"
    return Lesson(
        "Read past the training length",
        asked
        if guess == "not yet"
        else f"{verdict}: it is {best}. Loss change in nats per byte: {rises}.{ends}",
        "Does a formula that is defined at every position promise a model that works there?",
        "No. A formula has a value at every position, but these break: "
        f"{listed(broken) if broken else 'none'}. A model only learns what it meets in training.",
    )


STEPS: dict[str, Callable[[Any], Lesson]] = {
    "1": _swap,
    "2": _add,
    "3": _turn,
    "4": _lower,
    "5": _past,
}
