"""Loss past the training length, on the same targets at every context length.

Later tokens of a window have more context than its first, which can look like extrapolation: Press et
al. 2022, arXiv 2108.12409, section 2.2 and appendix B. So only the last targets of a window are scored.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from posenc.lab.model import LanguageModel
from posenc.lab.specification import Specification
from posenc.lab.tasks import (
    IGNORED,
    TASKS,
    Batch,
    Language,
    Questions,
    Task,
    contexts,
    generator_for,
)
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope_scaling import length_extensions

TOKENS_AT_ONCE = 4_096  # more would need more memory and no less time
SCORED_SHARE = 4  # the last quarter of a training length is scored
TRAINED = "as trained"
CLAMPED = "last row repeated"
LONG_ROWS = 100  # long texts of a task with answers
Passed = Callable[[int], None]  # told how many tokens went through a model


@dataclass(frozen=True)
class Variant:
    """A way to evaluate a trained model: as trained, with another scheme, or clamped positions."""

    name: str
    scheme: Scheme | None = None
    clamp: int | None = None

    def logits(self, model: LanguageModel, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """Return the model's logits."""
        logits: Tensor = model(tokens, self.positions(tokens), self.scheme)
        return logits

    def positions(self, tokens: Int[Tensor, "b t"]) -> Int[Tensor, " t"] | None:
        """Return the position that `embed` is told of each token, None for 0, 1, 2, ..."""
        if self.clamp is None:
            return None
        return torch.arange(tokens.shape[1], device=tokens.device).clamp(max=self.clamp)


@dataclass(frozen=True)
class Score:
    """A mean loss in nats, or an accuracy, over `count` scored tokens or strings.

    measure: "context" (x tokens of context), "position" (x is the first of a bucket of positions,
    `until` its end), or one of what a task asks. Where segments of a short text overlap, "context"
    counts a token once, "position" in each segment.
    """

    measure: str
    variant: str
    x: int
    value: float
    count: int
    until: int = 0


def evaluate(
    model: LanguageModel, task: Task, specification: Specification, passed: Passed | None = None
) -> list[Score]:
    """Return the scores of a trained model on its task.

    passed: called with the number of tokens of every part that went through the model; together these
    are `evaluated_tokens`.
    """
    tell = passed or (lambda tokens: None)
    with torch.inference_mode():
        if isinstance(task, Language):
            by_context = _by_context(model, task, specification, tell)
            return [*by_context, *_by_position(model, task, specification, tell)]
        assert isinstance(task, Questions)
        accuracies = list(_accuracies(model, task, specification, tell))
        return [*accuracies, *_accuracy_by_position(model, task, specification, tell)]


def variants(
    model: LanguageModel,
    length: int,
    trained: int,
    scalings: Sequence[str],
) -> Iterator[Variant]:
    """Return every way to evaluate a model trained on `trained` tokens at `length` tokens.

    scalings: those applied to plain RoPE past the training length.
    """
    scheme = model.scheme
    if scheme.max_length is None or length <= scheme.max_length:
        yield as_trained(model, length)
    else:
        yield Variant(CLAMPED, clamp=scheme.max_length - 1)
    if length > trained:
        for name, config in length_extensions(scheme.config, length, trained, scalings).items():
            yield Variant(name, scheme=_rebuilt(model, config))


def as_trained(model: LanguageModel, length: int) -> Variant:
    """Return the variant of a model as trained; its scheme may depend on the length of the text."""
    return Variant(TRAINED, scheme=_rebuilt(model, model.scheme.config.at_length(length)))


def _rebuilt(model: LanguageModel, config: SchemeConfig) -> Scheme:
    """Return the model's scheme with another config and the same trained parameters."""
    if config == model.scheme.config:
        return model.scheme
    scheme = config.build(device=model.tokens.weight.device)
    scheme.load_state_dict(model.scheme.state_dict())
    return scheme


def evaluation_lengths(specification: Specification) -> list[tuple[int, int]]:
    """Return (length, sequences) of all that `evaluate` passes through the model."""
    spec, length = specification, specification.train_length
    trained = TASKS[spec.task].positions(length)
    past = 1 + len(length_extensions(spec.scheme, 2 * length, length, spec.scalings))
    task, limit = TASKS[spec.task], spec.scheme.build().max_length
    if issubclass(task, Questions):
        every = task.asked(length, spec.longest)
        by_length = [
            (one.length, one.rows * (past if one.stretched and one.length > trained else 1))
            for one in every
        ]
        rows, longest = LONG_ROWS, task.positions(task.long_length(length, spec.longest))
    else:
        by_length = [
            (n, spec.segments * (past if n > trained else 1))
            for n in contexts(length, spec.longest)
        ]
        rows, longest = spec.segments, max(contexts(length, spec.longest))
    return by_length + [(n, rows) for n, _ in _long_readings(longest, limit)]


def _long_readings(longest: int, limit: int | None) -> list[tuple[int, int | None]]:
    """Return how much of a long text a model reads, and the last position that it is told, if any.

    limit: rows of its table.
    """
    if limit is None or limit >= longest:
        return [(longest, None)]
    return [(limit, None), (longest, limit - 1)]


def evaluated_tokens(specification: Specification) -> int:
    """Return how many tokens `evaluate` passes through the model."""
    return sum(length * count for length, count in evaluation_lengths(specification))


def length_reached(lengths: Sequence[tuple[int, int]], tokens: int) -> int:
    """Return which of the `evaluation_lengths` is evaluated after `tokens` tokens, from 1.

    It is the last one when all tokens went through the model.
    """
    ends = itertools.accumulate(length * count for length, count in lengths)
    return min(1 + sum(end <= tokens for end in ends), len(lengths))


def segment_ends(text: int, context: int, segments: int) -> Int[Tensor, " s"]:
    """Return the last targets of evenly spread segments, each after at least `context` tokens."""
    return torch.linspace(context, text - 1, segments, dtype=torch.float64).round().long()


def _by_context(
    model: LanguageModel, task: Language, spec: Specification, passed: Passed
) -> Iterator[Score]:
    """Score the last quarter of a training length before each end, at every context length."""
    text = task.corpus.validation
    lengths = contexts(task.train_length, spec.longest)
    scored = max(1, task.train_length // SCORED_SHARE)
    ends = segment_ends(len(text), max(lengths), spec.segments)
    # Segments of a short text overlap.
    count = len((ends[:, None] - torch.arange(scored)).unique())
    for length in lengths:
        for variant in variants(model, length, task.train_length, spec.scalings):
            windows = _windows(model, variant, text, ends, length, passed)
            losses = [window[:, -scored:] for window in windows]
            mean = torch.cat(losses).double().mean().item()
            yield Score("context", variant.name, length, mean, count)


def _by_position(
    model: LanguageModel, task: Language, spec: Specification, passed: Passed
) -> Iterator[Score]:
    """Score each position inside one long window, in buckets that double."""
    text = task.corpus.validation
    longest = max(contexts(task.train_length, spec.longest))
    ends = segment_ends(len(text), longest, spec.segments)
    for variant, length in _by_long_text(model, longest):
        total = torch.zeros(length, dtype=torch.float64)
        # A shorter window is the beginning of the longest: the same text at every position.
        for window in _windows(model, variant, text, ends - longest + length, length, passed):
            total += window.double().sum(dim=0)
        means = total / len(ends)
        for first, end in buckets(length, task.train_length):
            count = (end - first) * len(ends)
            yield Score("position", variant.name, first, means[first:end].mean().item(), count, end)


def _by_long_text(model: LanguageModel, longest: int) -> Iterator[tuple[Variant, int]]:
    """Return the ways to read a long text, each with how much of it is read."""
    for length, clamp in _long_readings(longest, model.scheme.max_length):
        yield (
            (as_trained(model, length) if clamp is None else Variant(CLAMPED, clamp=clamp)),
            length,
        )


def buckets(length: int, train_length: int) -> Iterator[tuple[int, int]]:
    """Return ranges of positions: eighths of the training length, then quarters of each doubling."""
    edges = [train_length * eighth // 8 for eighth in range(8)]
    octave = train_length
    while octave < length:
        edges += [octave + octave * quarter // 4 for quarter in range(4)]
        octave *= 2
    inside = [edge for edge in edges if edge < length]
    yield from itertools.pairwise([*inside, length])


def _windows(
    model: LanguageModel, variant: Variant, text: Tensor, ends: Tensor, length: int, passed: Passed
) -> Iterator[Float[Tensor, "s n"]]:
    """Return the loss of every token of the windows of `length` tokens before each end."""
    back = torch.arange(-length, 1)
    for part in ends.split(max(1, TOKENS_AT_ONCE // length)):
        window = text[part[:, None] + back].long().to(model.tokens.weight.device)
        logits = variant.logits(model, window[:, :-1])
        losses = functional.cross_entropy(
            logits.float().flatten(0, 1), window[:, 1:].flatten(), reduction="none"
        )
        yield losses.view(len(part), length).cpu()
        passed(len(part) * length)


def _accuracies(
    model: LanguageModel, task: Questions, spec: Specification, passed: Passed
) -> Iterator[Score]:
    """Score the share of rows whose scored tokens are all correct, or that of scored tokens."""
    # Each letter of a copy follows the correct ones. Writing them singly fails at the same first error.
    trained = task.positions(task.train_length)
    for asked in task.asked(task.train_length, spec.longest):
        batch = task.questions(asked, generator_for(spec.seed, asked.measure, asked.x))
        scalings = spec.scalings if asked.stretched else ()
        for variant in variants(model, asked.length, trained, scalings):
            correct = count = 0
            for right, scored in _answers(model, variant, batch, passed):
                answers = (right | ~scored).all(dim=1) if task.whole_rows else right[scored]
                correct += int(answers.sum())
                count += len(answers)
            yield Score(asked.measure, variant.name, asked.x, correct / count, count)


def _accuracy_by_position(
    model: LanguageModel, task: Questions, spec: Specification, passed: Passed
) -> Iterator[Score]:
    """Score every token of long texts, in buckets of positions that double."""
    whole = task.long_length(task.train_length, spec.longest)
    longer = type(task)(whole)
    inputs, targets = longer.batch(LONG_ROWS, generator_for(spec.seed, f"{task.kind} position"))
    for variant, length in _by_long_text(model, inputs.shape[1]):
        correct, count = torch.zeros(2, length, dtype=torch.int64)
        batch = inputs[:, :length], targets[:, :length]
        for right, scored in _answers(model, variant, batch, passed):
            correct += (right & scored).sum(dim=0)
            count += scored.sum(dim=0)
        for first, end in buckets(length, task.positions(task.train_length)):
            if total := int(count[first:end].sum()):
                value = int(correct[first:end].sum()) / total
                yield Score(f"{task.kind} position", variant.name, first, value, total, end)


def _answers(
    model: LanguageModel, variant: Variant, batch: Batch, passed: Passed
) -> Iterator[tuple[Bool[Tensor, "b t"], Bool[Tensor, "b t"]]]:
    """Return for parts of a batch where the model is right, and where it is scored."""
    inputs, targets = batch
    size = max(1, TOKENS_AT_ONCE // inputs.shape[1])
    for tokens, wanted in zip(inputs.split(size), targets.split(size), strict=True):
        best = variant.logits(model, tokens.to(model.tokens.weight.device)).argmax(dim=-1).cpu()
        yield best == wanted, wanted != IGNORED
        passed(tokens.numel())
