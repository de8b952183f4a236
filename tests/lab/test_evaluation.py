"""Reading past the training length: the same targets at every context, against plain loops."""

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import SCHEMES, Scheme
from posenc.lab import LanguageModel, Score, Specification, evaluate, train
from posenc.lab.evaluate import CLAMPED, TRAINED, buckets, segment_ends
from posenc.lab.tasks import (
    IGNORED,
    Language,
    contexts,
    distances,
    generator_for,
    questions_of,
)
from posenc.lab.train import build_model
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import AFTER_TRAINING, length_extensions
from tests.lab.answers import ANSWERS
from tests.lab.small_runs import CORPUS, corpus_for, small_spec

LENGTH, LONGEST, SEGMENTS = 16, 4, 8
SCORED = 4  # the last quarter of 16
# One scheme of each way to read a longer text: more rows, another config, a bias, a trained bias.
KINDS = ["learned", "rope_dynamic", "alibi", "t5"]
# Losses are float32 sums over 16 numbers; the loop by hand is in float64.
CLOSE = 2e-5


def train_small(kind: str, **others: Any) -> tuple[LanguageModel, Specification]:
    specification = small_spec(kind, **others)
    return train(specification, corpus_for(specification)).model, specification


def scores_of(model: LanguageModel, specification: Specification) -> list[Score]:
    return evaluate(model, specification.make_task(CORPUS), specification)


def values(scores: list[Score], measure: str, variant: str = TRAINED) -> dict[int, float]:
    return {s.x: s.value for s in scores if s.measure == measure and s.variant == variant}


@torch.no_grad()
def losses_by_hand(model: LanguageModel, window: list[int], scheme: Scheme) -> list[float]:
    """Return -log softmax of every byte but the first, with sums and exponentials of Python."""
    losses = []
    rows = model(torch.tensor([window[:-1]]), None, scheme)[0].tolist()
    for row, target in zip(rows, window[1:], strict=True):
        losses.append(math.log(sum(math.exp(x - max(row)) for x in row)) - (row[target] - max(row)))
    return losses


def scheme_at(scheme: Scheme, length: int) -> Scheme:
    """Return a learned table with its last row repeated; any other scheme as of that length."""
    if scheme.config.at_length(length) != scheme.config:
        return scheme.config.at_length(length).build()
    if scheme.max_length is None or scheme.max_length >= length:
        return scheme
    assert isinstance(scheme, Learned)
    weight = scheme.weight.detach()
    more = weight[-1:].expand(length - len(weight), -1)
    return Learned.from_table(torch.cat((weight, more)), "by hand")


@pytest.mark.parametrize("kind", KINDS)
def test_losses_match_a_plain_loop_over_targets(kind: str) -> None:
    model, specification = train_small(kind)
    scores = scores_of(model, specification)
    text = CORPUS.validation.tolist()
    longest = LONGEST * LENGTH
    ends = [longest + round(n * (len(text) - 1 - longest) / 7) for n in range(SEGMENTS)]
    for length in (8, 16, 24, 64):
        scheme = scheme_at(model.scheme, length)
        losses: list[float] = []  # of the same bytes whatever the length
        for end in ends:
            losses += losses_by_hand(model, text[end - length : end + 1], scheme)[-SCORED:]
        name = CLAMPED if isinstance(scheme, Learned) and scheme is not model.scheme else TRAINED
        mean = sum(losses) / len(losses)
        assert values(scores, "context", name)[length] == pytest.approx(mean, abs=CLOSE)
    assert {score.count for score in scores if score.measure == "context"} == {SEGMENTS * SCORED}
    # By position, with one long window, token by token; a shorter reading is of the same text.
    scheme = scheme_at(model.scheme, 64)
    ends = segment_ends(len(text), 64, SEGMENTS).tolist()
    windows = [losses_by_hand(model, text[end - 64 : end + 1], scheme) for end in ends]
    by_position = [sum(at) / SEGMENTS for at in zip(*windows, strict=True)]
    starts = [0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56]
    has_rows = model.scheme.max_length is not None
    reads = {TRAINED: starts[:8], CLAMPED: starts} if has_rows else {TRAINED: starts}
    for name, expected_starts in reads.items():
        scored = [s for s in scores if s.measure == "position" and s.variant == name]
        assert [s.x for s in scored] == expected_starts
        assert scored[-1].until == (64 if len(scored) == 16 else 16)
        for score in scored:
            expected = by_position[score.x : score.until]
            assert score.value == pytest.approx(sum(expected) / len(expected), abs=CLOSE)
            assert score.count == len(expected) * SEGMENTS


def test_scores_of_every_scaling_match_a_plain_loop() -> None:
    specification = small_spec("rope", scalings=tuple(AFTER_TRAINING), steps=40)
    model = train(specification, CORPUS).model
    found = scores_of(model, specification)
    assert {s.variant for s in found if s.measure == "position"} == {TRAINED}
    text = CORPUS.validation.tolist()
    for length in (24, 64):
        s = length / LENGTH
        trained: dict[str, Any] = {"trained_length": LENGTH}
        kinds: dict[str, Any] = dict(SCHEMES)
        configs = {
            TRAINED: RopeConfig(dim=8),
            "position interpolation": kinds["rope_linear"](dim=8, factor=s),
            "NTK-aware": kinds["rope_ntk"](dim=8, factor=s),
            "dynamic NTK": kinds["rope_dynamic"](dim=8, factor=s, length=length, **trained),
            "YaRN": kinds["rope_yarn"](dim=8, factor=s, **trained),
            "YaRN as printed": kinds["rope_yarn_paper"](dim=8, factor=s, **trained),
            "Llama 3 scaling": kinds["rope_llama3"](dim=8, factor=s, **trained),
        }
        expected = {}
        for name, config in configs.items():
            losses: list[float] = []
            for end in segment_ends(len(text), 64, SEGMENTS).tolist():
                window = text[end - length : end + 1]
                losses += losses_by_hand(model, window, config.build())[-SCORED:]
            expected[name] = sum(losses) / len(losses)
        scores = {s.variant: s.value for s in found if (s.measure, s.x) == ("context", length)}
        assert scores == pytest.approx(expected, abs=CLOSE)
        # No two readings have the same loss here.
        assert all(b - a > 1e-4 for a, b in itertools.pairwise(sorted(scores.values())))
    short = {s.variant for s in found if s.measure == "context" and s.x <= LENGTH}
    assert short == {TRAINED}


def test_stretched_scheme_is_not_stretched_again() -> None:
    found = length_extensions(RopeConfig(dim=8), 32, 16)
    assert len(found) == len(AFTER_TRAINING)
    for config in found.values():
        assert length_extensions(config, 32, 16) == {}
    assert length_extensions(RopeConfig(dim=8), 5_000 * 16, 16) == {}  # no scaling goes as far


@given(st.integers(1, 3_000), st.integers(16, 300))
def test_buckets_hold_positions_once_and_split_at_doubles(length: int, train_length: int) -> None:
    found = list(buckets(length, train_length))
    assert [n for first, end in found for n in range(first, end)] == list(range(length))
    assert all(first < end for first, end in found)
    edges = {first for first, _ in found}
    assert edges >= {train_length * 2**n for n in range(8) if train_length * 2**n < length}
    if length >= train_length:
        assert sum(edge < train_length for edge in edges) == 8


def test_context_lengths_and_distances_double() -> None:
    assert contexts(64, 16) == [32, 64, 96, 128, 256, 512, 1_024]
    assert contexts(64, 1) == [32, 64]
    assert contexts(64, 3) == [32, 64, 96, 128, 192]
    eighths = [1, 7, 15, 23, 31, 39, 45, 53, 61]  # of 61, odd
    assert distances(64, 16) == [*eighths, 63, 95, 127, 255, 511, 1_023]
    assert distances(16, 4) == [1, 3, 5, 7, 9, 11, 13, 15, 23, 31, 63]


def test_evaluation_reads_validation_text_and_changes_nothing() -> None:
    """The same operations on the same data: equal bit for bit."""
    model, specification = train_small("rope", steps=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    scores = scores_of(model, specification)
    assert model.training
    assert scores_of(model.eval(), specification) == scores
    assert not model.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    other = dataclasses.replace(CORPUS, train=torch.zeros_like(CORPUS.train))
    assert evaluate(model, Language(LENGTH, other), specification) == scores


def answering_model(specification: Specification, wrong: str) -> LanguageModel:
    """A model that gives the right answer wherever one is asked, or a wrong one at the last or at all."""
    task = specification.make_task(None)
    model = build_model(specification, task)

    def forward(tokens: Tensor, *_: object) -> Tensor:
        answers = torch.zeros_like(tokens)
        for row, text in enumerate(tokens.tolist()):
            asked = [
                (at, answer)
                for at, answer in enumerate(ANSWERS[specification.task](text))
                if answer is not None
            ]
            for number, (at, answer) in enumerate(asked, 1):
                is_wrong = wrong == "all" or (wrong == "last" and number == len(asked))
                answers[row, at] = (answer + is_wrong) % task.vocabulary
        return torch.nn.functional.one_hot(answers, task.vocabulary).float()

    model.forward = forward  # type: ignore[assignment]
    return model


@pytest.mark.parametrize("wrong", ["none", "last", "all"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_scores_are_the_share_of_right_answers(kind: str, wrong: str) -> None:
    """A row of one answer counts as a whole; a flip-flop and an index are answers of their own."""
    specification = small_spec("none", task=kind)
    task = questions_of(kind)
    model = answering_model(specification, wrong)
    scores = evaluate(model, specification.make_task(None), specification)
    assert {s.variant for s in scores} == {TRAINED}
    by_x = [s for s in scores if s.measure != f"{kind} position"]
    every = task.asked(16, 4)
    assert [(s.measure, s.x) for s in by_x] == [(asked.measure, asked.x) for asked in every]
    for score, asked in zip(by_x, every, strict=True):
        _, targets = task(16).questions(asked, generator_for(0, asked.measure, asked.x))
        count = asked.rows
        if kind in ("flip_flop", "indexing"):
            count = sum(target != IGNORED for row in targets.tolist() for target in row)
        expected = {"none": 1.0, "last": 1 - asked.rows / count, "all": 0.0}[wrong]
        assert score.value == pytest.approx(expected)
        assert score.count == count
    positions = [s for s in scores if s.measure == f"{kind} position"]
    assert positions[-1].until == task.positions(task.long_length(16, 4))
    assert all(s.x < s.until and s.count > 0 for s in positions)
    if wrong != "last":
        assert {s.value for s in positions} == {float(wrong == "none")}


def test_recall_and_copy_read_a_learned_table_past_its_rows() -> None:
    for task, lengths, rows in (("recall", distances(16, 4), 7), ("copy", [*range(1, 33)], 16)):
        model, specification = train_small("learned", task=task, steps=1)
        scores = scores_of(model, specification)
        assert sorted(values(scores, task)) == lengths[:rows]
        assert sorted(values(scores, task, CLAMPED)) == lengths[rows:]
        # Untrained: 96 values or 26 letters to guess from.
        assert all(0 <= s.value < 0.2 for s in scores if s.x > 1)
