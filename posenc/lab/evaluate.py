"""Loss past the training length: the same targets at every context length.

Press et al. 2022, arXiv 2108.12409, section 2.2 and appendix B: part of what looks like extrapolation
is that later tokens have more context than the first tokens of a window. So the last targets of a window
are scored in windows of every length n, and only n changes.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posenc.lab.model import LanguageModel
from posenc.lab.specification import DEFAULT_SCALINGS, Specification
from posenc.lab.tasks import IGNORED, Copy, Language, Recall, Task, generator_for
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.rope_scaling import length_extensions

TOKENS_AT_ONCE = 16_384
SCORED_SHARE = 4  # the last quarter of a training length is scored
TRAINED = "as trained"
CLAMPED = "last row repeated"
COPIES = 200  # strings per length
RECALLS = 400  # questions per distance


@dataclass(frozen=True)
class Variant:
    """One way to read a trained model at a context length: another scheme, or clamped positions.

    name: "as trained", or what is changed at reading; never trained so.
    """

    name: str
    scheme: Scheme | None = None
    clamp: int | None = None

    def logits(self, model: LanguageModel, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """Return the model's logits read this way."""
        positions = None
        if self.clamp is not None:
            positions = torch.arange(tokens.shape[1], device=tokens.device).clamp(max=self.clamp)
        logits: Tensor = model(tokens, positions, self.scheme)
        return logits


@dataclass(frozen=True)
class Score:
    """A mean over `count` scored tokens (or strings): a loss in nats, or a share that is right.

    In a text so short that its segments overlap, a token of two segments weighs twice in the mean;
    `count` of "context" counts it once, that of "position" in each segment.

    measure: "context" (x tokens of context), "position" (x is the first of a bucket of positions,
    `until` its end), "copy" (x letters) or "recall" (x tokens between value and question).
    """

    measure: str
    variant: str
    x: int
    value: float
    count: int
    until: int = 0


def evaluate(model: LanguageModel, task: Task, specification: Specification) -> list[Score]:
    """Measure a trained model in the way of its task. Learned tables end at their last row."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            match task:
                case Language():
                    return [
                        *_by_context(model, task, specification),
                        *_by_position(model, task, specification),
                    ]
                case Recall():
                    return list(_recalled(model, task, specification))
                case Copy():
                    return list(_copied(model, task, specification))
    finally:
        model.train(was_training)
    raise TypeError(f"no evaluation is known for {type(task).__name__}")


def contexts(train_length: int, longest: int) -> list[int]:
    """Context lengths that are read: L/2, L, 1.5 L, 2 L, 4 L, ... up to `longest` L."""
    lengths = [train_length // 2, train_length, train_length * 3 // 2]
    factor = 2
    while factor <= longest:
        lengths.append(factor * train_length)
        factor *= 2
    if longest * train_length not in lengths:
        lengths.append(longest * train_length)
    return sorted(n for n in lengths if n <= longest * train_length)


def variants(
    model: LanguageModel,
    length: int,
    trained: int,
    scalings: Sequence[str] = DEFAULT_SCALINGS,
) -> Iterator[Variant]:
    """Return every way in which a model can be read at `length` tokens, trained on `trained`.

    scalings: by which plain RoPE is stretched past the training length.
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
    """Return the reading of a model as it was trained; a scheme may look at the text's length."""
    config = model.scheme.config.at_length(length)
    if config == model.scheme.config:
        return Variant(TRAINED)
    return Variant(TRAINED, scheme=_rebuilt(model, config))


def _rebuilt(model: LanguageModel, config: SchemeConfig) -> Scheme:
    """Return the model's scheme with another config: what was trained stays as it is."""
    scheme = config.build(device=model.tokens.weight.device)
    scheme.load_state_dict(model.scheme.state_dict())
    return scheme


def readings(specification: Specification) -> list[tuple[int, int]]:
    """Return (length, sequences) of everything that `evaluate` puts through the model."""
    spec, trained = specification, specification.train_length
    limit = spec.scheme.build().max_length
    past = 1 + len(length_extensions(spec.scheme, 2 * trained, trained, spec.scalings))
    if spec.task == Copy.kind:
        shown = Copy.positions(trained)
        lengths = [2 * n + 2 for n in range(1, 2 * trained + 1)]
        return [(n, COPIES * (past if n > shown else 1)) for n in lengths]
    if spec.task == Recall.kind:
        task = Recall(trained)
        lengths = [task.text_length(distance) for distance in distances(trained, spec.longest)]
        return [(n, RECALLS * (past if n > trained else 1)) for n in lengths]
    lengths = contexts(trained, spec.longest)
    found = [(n, spec.segments * (past if n > trained else 1)) for n in lengths]
    longest = max(lengths)
    by_position = [longest] if limit is None or limit >= longest else [limit, longest]
    return found + [(n, spec.segments) for n in by_position]


def segment_ends(text: int, context: int, segments: int) -> Int[Tensor, " s"]:
    """Positions of the last target of each segment, evenly spread where `context` tokens precede it."""
    return torch.linspace(context, text - 1, segments, dtype=torch.float64).round().long()


def _by_context(model: LanguageModel, task: Language, spec: Specification) -> Iterator[Score]:
    """The same targets, the last quarter of a training length before each end, at every context."""
    text = task.corpus.validation
    lengths = contexts(task.train_length, spec.longest)
    scored = max(1, task.train_length // SCORED_SHARE)
    ends = segment_ends(len(text), max(lengths), spec.segments)
    # In a short text segments overlap: a target that is scored twice is one target.
    count = len((ends[:, None] - torch.arange(scored)).unique())
    for length in lengths:
        for variant in variants(model, length, task.train_length, spec.scalings):
            losses = [
                window[:, -scored:]
                for window in _windows(model, variant, text, ends, length, spec.device)
            ]
            mean = torch.cat(losses).double().mean().item()
            yield Score("context", variant.name, length, mean, count)


def _by_position(model: LanguageModel, task: Language, spec: Specification) -> Iterator[Score]:
    """Loss by the position of the token inside one long window, in buckets that double."""
    text = task.corpus.validation
    longest = max(contexts(task.train_length, spec.longest))
    ends = segment_ends(len(text), longest, spec.segments)
    limit = model.scheme.max_length
    whole = longest if limit is None else min(longest, limit)
    readings = [(as_trained(model, whole), whole)]
    if limit is not None and limit < longest:
        readings.append((Variant(CLAMPED, clamp=limit - 1), longest))
    for variant, length in readings:
        total = torch.zeros(length, dtype=torch.float64)
        # A shorter reading is of the beginning of the same windows: the same text at every position.
        for window in _windows(model, variant, text, ends - longest + length, length, spec.device):
            total += window.double().sum(dim=0)
        means = total / len(ends)
        for first, end in buckets(length, task.train_length):
            count = (end - first) * len(ends)
            yield Score("position", variant.name, first, means[first:end].mean().item(), count, end)


def buckets(length: int, train_length: int) -> Iterator[tuple[int, int]]:
    """Ranges of positions: eighths of the training length, then quarters of every doubling of it.

    The training length is always an edge: no range mixes positions that training showed with others.
    """
    edges = [train_length * eighth // 8 for eighth in range(8)]
    octave = train_length
    while octave < length:
        edges += [octave + octave * quarter // 4 for quarter in range(4)]
        octave *= 2
    inside = [edge for edge in edges if edge < length]
    yield from itertools.pairwise([*inside, length])


def _windows(
    model: LanguageModel,
    variant: Variant,
    text: Tensor,
    ends: Tensor,
    length: int,
    device: str,
) -> Iterator[Float[Tensor, "s n"]]:
    """Loss of every token of the windows of `length` tokens whose last target is at each end."""
    back = torch.arange(-length, 1)
    for some in ends.split(max(1, TOKENS_AT_ONCE // length)):
        window = text[some[:, None] + back].long().to(device)
        logits = variant.logits(model, window[:, :-1])
        losses = functional.cross_entropy(
            logits.float().flatten(0, 1), window[:, 1:].flatten(), reduction="none"
        )
        yield losses.view(len(some), length).cpu()


def distances(train_length: int, longest: int) -> list[int]:
    """Return the distances, in tokens, at which a value is asked for: odd ones as in training, sorted.

    From 1 by eighths to the farthest that training shows, for a score within the training range;
    past it one for every context length that is read, up to `longest` training lengths.
    """
    farthest = Recall.farthest(train_length)
    shown = {farthest * eighth // 8 | 1 for eighth in range(9)}
    past = {(n - 1) | 1 for n in contexts(train_length, longest)}
    return sorted(shown | {distance for distance in past if distance > farthest})


def _recalled(model: LanguageModel, task: Recall, spec: Specification) -> Iterator[Score]:
    for distance in distances(task.train_length, spec.longest):
        drawn = task.at_distance(RECALLS, distance, generator_for(spec.seed, Recall.kind, distance))
        length = drawn.inputs.shape[1]
        for variant in variants(model, length, task.train_length, spec.scalings):
            right = 0
            few = max(1, TOKENS_AT_ONCE // length)
            for some in torch.arange(RECALLS).split(few):
                logits = variant.logits(model, drawn.inputs[some].to(spec.device))
                found = logits[torch.arange(len(some)), drawn.asked[some]].argmax(dim=-1).cpu()
                right += int((found == drawn.answers[some]).sum())
            yield Score(Recall.kind, variant.name, distance, right / RECALLS, RECALLS)


def _copied(model: LanguageModel, task: Copy, spec: Specification) -> Iterator[Score]:
    """Strings written without a fault. Reading each letter after the right ones before it finds the
    same strings as writing them one by one: the first fault ends either.
    """
    for length in range(1, 2 * task.train_length + 1):
        inputs, targets = task.of_length(
            COPIES, length, generator_for(spec.seed, Copy.kind, length)
        )
        trained = task.positions(task.train_length)
        for variant in variants(model, inputs.shape[1], trained, spec.scalings):
            right = 0
            few = max(1, TOKENS_AT_ONCE // inputs.shape[1])
            for some, wanted in zip(inputs.split(few), targets.split(few), strict=True):
                found = variant.logits(model, some.to(spec.device)).argmax(dim=-1).cpu()
                right += int(((found == wanted) | (wanted == IGNORED)).all(dim=1).sum())
            yield Score(Copy.kind, variant.name, length, right / COPIES, COPIES)
