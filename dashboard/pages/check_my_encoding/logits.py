"""Attention logits on Check my encoding: samples with a known fault, or a visitor's upload."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch

from dashboard.blocks import Block, Button, Chart, Columns, Controls, Data, Definition, Live, Text
from dashboard.cache import cached
from dashboard.pages.check_my_encoding import charts
from dashboard.pages.check_my_encoding.logit_samples import SAMPLES
from dashboard.pages.check_my_encoding.options import Options
from dashboard.settings import Setting
from dashboard.text import plain
from dashboard.visitor_files import cached_numbers
from posenc.errors import PosencError, SchemeArgumentError
from posenc.logits import LogitMatch, match_logits, rule_of_scheme
from posenc.logits.match import nearest
from posenc.logits.sentences import match_sentences
from posenc.logits.slopes import expected_slopes
from posenc.models.logit_rules import logit_rules
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig

PURPOSE = (
    "A table does not show a wrong softmax scale, bias or mask. Choose a sample, or upload queries, keys "
    "and logits, and you learn which rule made them."
)
GUIDE = (
    "The softmax scale and ALiBi's slopes are fitted to the logits of every head, where a bias is added up "
    "to a constant for each query, which the softmax ignores. Weights after the softmax can be given in "
    "place of logits. For your own test suite: `posenc.testing.assert_logits_match(logits, config, q, k)`."
)
DEFINITION = Definition(
    r"\ell_{ij} = c \tanh\!\left(\frac{s\,\langle R_i q_i, R_j k_j \rangle + b_h(j - i)}{c}\right)",
    "s is the softmax scale, b the bias of a head, c the soft cap; without a cap, there is no tanh. Hidden "
    "keys have minus infinity.",
    (match_logits,),
)
MOST_LOGITS = 2**20  # of an upload; more takes the command
FOUND, EXPECTED = "found", "expected"


@dataclass(frozen=True)
class Answer:
    """The facts that logits show, the causes first.

    by_distance: distance, logit, which. by_head: head, value, which. of_head: what `by_head` has the value
    of, "scale" or "slope". head: the one of `by_distance`.
    """

    sentences: tuple[str, ...]
    source: str = ""
    belongs: bool = False
    by_distance: pd.DataFrame = field(default_factory=pd.DataFrame)
    by_head: pd.DataFrame = field(default_factory=pd.DataFrame)
    of_head: str = "scale"
    head: int = 0


def uploads(options: Options) -> tuple[str, ...]:
    """Return the names of uploaded queries, keys and logits, as far as there are any."""
    return tuple(filter(None, (options.queries, options.keys, options.logits)))


def above(options: Options) -> list[Block]:
    """Return what takes the files, and the choice of a sample or of a model."""
    values = {
        "mark": options.mark,
        "refused": bool(options.refused_file),
        "uploaded": [*uploads(options)],
    }
    chosen = Controls(("model",) if uploads(options) else ("sample",))
    return [Columns(([Live("upload_logits", values)], [chosen]), (3, 2))]


def blocks(setting: Setting, options: Options) -> tuple[str, list[Block]]:
    """Return which rule made the logits: the cause, and the charts."""
    names = uploads(options)
    back: list[Block] = []
    if names:
        changes = {"queries": "", "keys": "", "logits": ""}
        back = [Button("check_sample", "Use a sample", changes)]
    if 0 < len(names) < 3:
        missing = ("queries", "keys", "logits")[len(names)]
        return f"Now upload the {missing}.", back
    try:
        answer = of_upload(setting, names) if names else of_sample(options.sample)
    except PosencError as error:
        return "Your logits cannot be compared.", [Text(plain(str(error)), "error"), *back]
    first, *others = answer.sentences
    icon = "check_circle" if answer.belongs else "error"
    words: list[Block] = [
        Text(plain(answer.source), "caption"),
        *(Text(f":material/{icon}: {plain(sentence)}") for sentence in others),
        *back,
    ]
    drawn = Columns((_by_distance(answer), _by_head(answer)))
    data = [
        Data(title="Logits by distance", frame=answer.by_distance),
        Data(title="Numbers of every head", frame=answer.by_head),
    ]
    return plain(first), [*words, drawn, *data]


@cached
def of_sample(name: str) -> Answer:
    """Return the answer on a sample."""
    source = SAMPLES[name].__doc__ or ""
    return _answer(match_logits(*SAMPLES[name]()), source)


def of_upload(setting: Setting, names: tuple[str, ...]) -> Answer:
    """Return the answer on uploaded queries, keys and logits, beside the chosen model.

    Raises CheckpointError for one that is gone, SchemeArgumentError for arrays that do not fit.
    """
    q, k, logits = _tensors(names)
    chosen = setting.real_model
    if chosen is None:
        heads = q.shape[-3] if q.dim() > 2 else 1
        rules = {"": rule_of_scheme(NoneConfig(), heads, q.shape[-1])}
    else:
        rules = logit_rules(chosen.config)
    matches = {name: match_logits(rule, q, k, logits) for name, rule in rules.items()}
    name = nearest(matches)
    files = ", ".join(cached_numbers.get(each).source for each in names)
    beside = f"{name.replace('_', ' ')} layers of the model" if name else (
        "a causal layer without position: choose a model for its own"
    )  # fmt: skip
    return _answer(matches[name], f"Your upload, {files}, beside {beside}.")


def _tensors(names: tuple[str, ...]) -> list[torch.Tensor]:
    tensors = [cached_numbers.get(name).table.table for name in names]
    if tensors[2].numel() > MOST_LOGITS:
        raise SchemeArgumentError(
            f"The page compares at most {MOST_LOGITS:,} logits, got {tensors[2].numel():,}: give fewer "
            "queries, or use the command posenc identify."
        )
    return tensors


def _answer(match: LogitMatch, source: str) -> Answer:
    head = match.most.head
    of_head, by_head = _numbers_of_heads(match)
    return Answer(
        tuple(match_sentences(match)), source, match.belongs, _logits_by_distance(match, head), by_head,
        of_head, head + match.first_head,
    )  # fmt: skip


def _numbers_of_heads(match: LogitMatch) -> tuple[str, pd.DataFrame]:
    """Return the slope of every head, found and expected, where heads have one; else the softmax scale."""
    heads = np.arange(len(match.scales)) + match.first_head
    found = match.scales.numpy()
    expected = np.full(len(heads), match.rule.softmax_scale)
    of_head = "scale"
    if isinstance(match.rule.config, AlibiConfig) and match.explained:
        of_head = "slope"
        expected = expected_slopes(match.rule, match.first_head, len(heads)).numpy()
        found = expected
        if match.slopes is not None:  # what is 0 up to its error is drawn at 0
            slopes, errors = match.slopes.values, match.slopes.errors
            found = torch.where(slopes.abs() <= errors, 0.0, slopes).numpy()
    parts = [
        pd.DataFrame({"head": heads, "value": values, "which": which})
        for which, values in ((FOUND, found), (EXPECTED, expected))
    ]
    return of_head, pd.concat(parts, ignore_index=True)


def _logits_by_distance(match: LogitMatch, head: int) -> pd.DataFrame:
    """Return the root mean square of the visible logits of a head at each distance to an earlier key."""
    seen = match.given.seen[head]
    queries, keys = seen.shape
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]
    parts = []
    for which, values in ((FOUND, match.given.values[head]), (EXPECTED, match.predicted[head])):
        shown = torch.where(seen, values, 0.0)
        if match.given.is_weights:  # weights show logits up to a constant for each query
            shown = torch.where(
                seen, shown - (shown.sum(-1) / seen.sum(-1).clamp(min=1))[:, None], 0.0
            )
        rows = [
            (each, float((shown[at] ** 2).mean().sqrt()))
            for each in range(keys)
            if bool((at := seen & (distance == each)).any())
        ]
        frame = pd.DataFrame(rows, columns=["distance", "logit"])
        parts.append(frame.assign(which=which))
    return pd.concat(parts, ignore_index=True)


def _by_distance(answer: Answer) -> list[Block]:
    title = f"Logits of head {answer.head:,} by distance"
    chart = Chart(
        key="check_logits", title=title, frame=answer.by_distance, names=(),
        draw=charts.logits_by_distance, x="", listed=False,
        alt=spoken(answer.by_distance, "logit"),
    )  # fmt: skip
    return [Text(f"**{title}**"), chart]


def _by_head(answer: Answer) -> list[Block]:
    title = "Softmax scale of every head" if answer.of_head == "scale" else "Slope of every head"
    draw = charts.scales_by_head if answer.of_head == "scale" else charts.slopes_by_head
    chart = Chart(
        key="check_heads", title=title, frame=answer.by_head, names=(), draw=draw, x="", listed=False,
        alt=spoken(answer.by_head, "value"),
    )  # fmt: skip
    return [Text(f"**{title}**"), chart]


def spoken(frame: pd.DataFrame, column: str) -> str:
    """Say the first and the last number that was found, and that was expected."""
    parts = []
    for which, rows in frame.groupby("which", sort=False):
        values = rows[column].to_numpy()
        parts.append(f"{which} from {values[0]:.3g} to {values[-1]:.3g}")
    return f"{'; '.join(parts)}.".capitalize()
