"""Numbers and sentences of the five steps: each is computed by posenc, or read from the shipped runs."""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from dashboard import run_losses, runs
from dashboard.cache import cached
from dashboard.charts import loss
from dashboard.charts.lines import apart
from dashboard.results import Array
from dashboard.settings import Setting
from dashboard.text import listed, number, quoted_words
from posenc import alibi_slopes, sinusoidal_table
from posenc.analysis import OrderReading, RandomLayer, read_orders
from posenc.lab.summary import Effect
from posenc.schemes.base import Scheme

ROWS, WIDTH = 64, 64  # of the table that the second step draws
KEY, APART, MOVED = 9, 3, 100  # of the third step: positions, and how far the question moves both
HEADS, FAR = 8, 32  # of the fourth step; a distance
LOWEST, LABEL_GAP = -20, 1.3  # of its picture, where a label is as high as that
ALIBI = (
    "ALiBi lowers the weight of a key by its distance, so a key farther away than any in training only "
    "counts less (Chi et al. 2022, arXiv 2212.10356). "
)
MAIN = ("learned", "sinusoidal", "rope", "alibi")
# How to read the picture of each step.
GUIDES = {
    "1": "A row is a query, a column is a key, and a cell is an attention weight: the mean over the "
    f"{Setting().heads} heads of one layer with random weights and model dimension {Setting().dim}. All "
    "panels list the words in your order, so equal panels mean that the swap changes no weight.",
    "2": "A row is a position, a column is a dimension, and a colour is an entry from -1 to 1. The waves "
    "are fast on the left and slow on the right.",
    "3": "A hand is a pair of dimensions; its angle is position times frequency, clockwise from the top, "
    "and a thick arc shows the angles that occur in training. The logit is that of one random query and "
    f"key of {Setting().sizes.head_dim} dimensions.",
    "4": "A line is a head: what ALiBi adds to a logit at each distance, with the chosen head in colour. "
    f"The dot marks distance {FAR}.",
    "5": "A line is the loss of a small model by context length, the mean over seeds; lower is better. "
    "The dashed line is the training length; a thin line is the same model with its text cut to it.",
}


@dataclass(frozen=True, eq=False)
class Lesson:
    """One step: its title, two sentences, a question with its answer, and what its picture shows."""

    title: str
    sentences: str
    question: str = ""
    answer: str = ""
    arrays: dict[str, Array] = field(default_factory=dict)
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    words: tuple[str, ...] = ()
    key: int = 0


def scheme(kind: str) -> Scheme:
    """Return a scheme at the default numbers, whatever the sidebar holds."""
    return Setting().config(kind).build("cpu")


@cached
def swap(words: tuple[str, ...], first: int, second: int) -> Lesson:
    """Exchange two words, counted from 0, without position and with the sinusoidal table."""
    order = list(range(len(words)))
    order[first], order[second] = second, first
    swapped = tuple(words[n] for n in order)
    if swapped == words:
        return Lesson(
            "Swap two words", "The swap leaves the sentence as it is. Choose another word."
        )

    def outputs(kind: str, *, causal: bool = False) -> OrderReading:
        layer = RandomLayer.of(Setting().sizes, scheme(kind))
        return read_orders(scheme(kind), layer, words, order, causal=causal)

    none, sinusoidal = outputs("none"), outputs("sinusoidal")
    masked = outputs("none", causal=True)
    arrays = {}
    for name, outcome in (("Without position", none), ("Sinusoidal", sinusoidal)):
        arrays[f"{name}, original"] = outcome.patterns.mean(0).numpy()
        arrays[f"{name}, swapped"] = outcome.other_patterns.mean(0).numpy()
    return Lesson(
        "Swap two words",
        f"{quoted_words(words)} becomes {quoted_words(swapped)}. Without position, each word keeps "
        "its output. With the sinusoidal table, the outputs change: the largest change is "
        f"{number(sinusoidal.largest / sinusoidal.size)} times a typical output value.",
        "A causal mask hides later words. Does the mask alone show the order?",
        f"Yes. With a causal mask and no position, the same swap changes output values by up to "
        f"{number(masked.largest)}: the first word sees one word, the last word sees all.",
        arrays,
        words=words,
    )


@cached
def add(base: str) -> Lesson:
    """Add a row of the sinusoidal table to each word."""
    table = sinusoidal_table(ROWS, WIDTH, base=float(base), dtype=torch.float64)
    slowest = 2 * math.pi * float(base) ** (1 - 2 / WIDTH)
    return Lesson(
        "Add a position to the word",
        f"Row p of this table, {WIDTH} numbers, is added to the vector of the word at position p. Each "
        f"pair of columns is a wave: the fastest repeats after {2 * math.pi:.3g} positions, the slowest "
        f"after {number(slowest)}. Learned adds such a table too, but trains it; it ends with its last "
        "row.",
        f"Do two of the {ROWS} rows shown have the same numbers?",
        f"No. The two closest rows are {number(torch.pdist(table).min().item())} apart (Euclidean "
        f"distance; each row has the length {number(math.sqrt(WIDTH / 2))}).",
        {"table": table.numpy()},
    )


@cached
def rotate(shift: int) -> Lesson:
    """Rotate a query and a key by their positions, both moved by a shift."""
    rope = scheme("rope")
    assert rope.frequencies is not None
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, Setting().sizes.head_dim, generator=draw, dtype=torch.float64)

    def logit(query: int, key: int) -> float:
        rotated = rope.rotate(q, k, torch.tensor([query]), torch.tensor([key]))
        return (rotated[0] * rotated[1]).sum().item()

    key, query = KEY + shift, KEY + APART + shift
    shown, alone = logit(query, key), logit(query + 1, key)
    change = abs(logit(KEY + APART + MOVED, KEY + MOVED) - logit(KEY + APART, KEY))
    return Lesson(
        "Rotate query and key",
        "RoPE rotates each pair of dimensions of query and key by position times frequency. "
        f"Key {key}, query {query}: logit {shown:.3f}.",
        f"Move both {MOVED} positions. Does the logit change?",
        f"No (change {number(change)}, rounding): only the distance counts. "
        f"If the query alone moves, the logit changes. Key {key}, query {query + 1}: logit {alone:.3f}.",
        {"inv_freq": rope.frequencies.inv_freq.numpy()},
        key=key,
    )


@cached
def lower(head: int) -> Lesson:
    """Lower logits by distance, a slope per head."""
    # Every other distance: as many as a line in passing has (previews.POINTS), so that none is left out.
    slopes, distance = alibi_slopes(HEADS).double().numpy(), np.arange(0, 128, 2)
    heads = np.arange(1, HEADS + 1).repeat(len(distance))
    lines = {"head": heads, "x": np.tile(distance, HEADS), "y": np.outer(-slopes, distance).ravel()}
    slope, factors = slopes[head - 1], np.exp(-FAR * slopes)
    frame = pd.DataFrame(lines).assign(chosen=heads == head)
    ends = frame.loc[frame[frame["y"] >= LOWEST].groupby("head")["x"].idxmax()]
    right = ends[ends["x"] == distance[-1]]
    frame["label_y"] = ends["y"]
    frame.loc[right.index, "label_y"] = apart(right["y"].to_numpy(), LABEL_GAP, LOWEST, 0)
    return Lesson(
        "Lower distant logits",
        "ALiBi subtracts slope times distance from each logit and changes nothing else. "
        f"Head {head} has the slope {number(slope)}: at distance {FAR} it subtracts {number(FAR * slope)}.",
        f"Which head sees farther, head 1 or head {HEADS}?",
        f"Head {HEADS}: its slope is the smallest. Before normalization, its bias at distance {FAR} "
        f"multiplies the attention weight by {number(factors[-1])}, the bias of head 1 by "
        f"{number(factors[0])}.",
        frame=frame,
    )


def evaluate_longer(guess: str) -> Lesson:
    """Evaluate trained models past their training length, drawn once a guess is there."""
    title, curves = "Evaluate longer contexts", runs.shipped_loss(MAIN)
    if not curves:
        return Lesson(title, "No measured run can be read now.")
    results = {
        curve.specification.scheme.label: run_losses.past_training(curve) for curve in curves
    }
    change = {
        label: math.inf if result.change is None else result.change
        for label, result in results.items()
    }
    order = sorted(results, key=change.__getitem__)
    lengths, drawn = run_losses.lengths(curves), loss.frame(curves)
    if guess == "not yet":
        past = drawn["x"] > drawn["boundary"]
        return Lesson(
            title,
            f"Four small models, {lengths}: whose loss rises least? Choose your guess to see the curves.",
            # Names stand at the heights of the ends.
            frame=drawn.assign(y=drawn["y"].mask(past), cut=math.nan, label=None),
        )
    holding = [label for label, result in results.items() if result.effect and result.effect.keeps]
    broken = [label for label, result in results.items() if result.effect is Effect.BREAKS]
    right = f"{'Right' if guess == order[0] else 'Not quite'}: it is {order[0]}."
    verdict = f"The loss of {order[0]} rises least." if guess == "shown" else right
    return Lesson(
        title,
        f"{verdict} Change of the loss per byte, "
        f"{lengths}: {listed([f'{label} {results[label].text}' for label in order])}.",
        "A formula is defined at every position. Does a model with this formula work at every position?",
        f"No. These break: {listed(broken) if broken else 'none'}. A model only learns what it meets in "
        f"training. {ALIBI if 'ALiBi' in holding else ''}{run_losses.rules()}",
        frame=drawn,
    )
