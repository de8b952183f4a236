"""Reading past the training length: the same targets at every context, against plain loops."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import SCHEMES, Scheme
from posenc.lab import LanguageModel, ModelConfig, Score, Specification, evaluate, train
from posenc.lab.chance import stream
from posenc.lab.evaluate import (
    CLAMPED,
    TRAINED,
    buckets,
    contexts,
    distances,
    segment_ends,
    variants,
)
from posenc.lab.tasks import Copy, Language, Recall
from posenc.lab.train import build_model
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.stretched import AFTER_TRAINING, stretched
from tests.small_runs import CORPUS, small

LENGTH, LONGEST, SEGMENTS = 16, 4, 8
SCORED = 4  # the last quarter of 16


def trained(kind: str, **others: object) -> tuple[LanguageModel, Specification]:
    specification = small(kind, **others)
    corpus = CORPUS if specification.task == "language" else None
    return train(specification, corpus).model, specification


def scores_of(model: LanguageModel, specification: Specification) -> list[Score]:
    return evaluate(model, specification.make_task(CORPUS), specification)


def values(scores: list[Score], measure: str, variant: str = TRAINED) -> dict[int, float]:
    return {s.x: s.value for s in scores if s.measure == measure and s.variant == variant}


@torch.no_grad()
def loss_by_hand(model: LanguageModel, text: list[int], target: int, scheme: Scheme) -> float:
    """-log softmax of the byte behind `text`, with sums and exponentials of Python."""
    logits = model(torch.tensor([text]), None, scheme)[0, -1].tolist()
    top = max(logits)
    return math.log(sum(math.exp(x - top) for x in logits)) - (logits[target] - top)


def longer_table(scheme: Scheme, length: int) -> Scheme:
    """The learned table with its last row again and again; any other scheme as of that length."""
    if scheme.config.at_length(length) != scheme.config:
        return scheme.config.at_length(length).build()
    if scheme.max_length is None or scheme.max_length >= length:
        return scheme
    assert isinstance(scheme, Learned)
    weight = scheme.weight.detach()
    more = weight[-1:].expand(length - len(weight), -1)
    return Learned.from_table(torch.cat((weight, more)), "by hand")


def test_the_same_targets_are_scored_at_every_length_as_by_a_plain_loop(kind: str) -> None:
    model, specification = trained(kind)
    found = scores_of(model, specification)
    text = CORPUS.validation.tolist()
    longest = LONGEST * LENGTH
    ends = [longest + round(n * (len(text) - 1 - longest) / 7) for n in range(SEGMENTS)]
    for length in (8, 16, 24, 32, 64):
        scheme = longer_table(model.scheme, length)
        losses = []
        for end in ends:
            for target in range(end - SCORED + 1, end + 1):  # the same bytes whatever the length
                losses.append(
                    loss_by_hand(model, text[end - length : target], text[target], scheme)
                )
        name = CLAMPED if isinstance(scheme, Learned) and scheme is not model.scheme else TRAINED
        assert values(found, "context", name)[length] == pytest.approx(
            sum(losses) / len(losses), abs=2e-5
        )
    assert {score.count for score in found if score.measure == "context"} == {SEGMENTS * SCORED}


def test_loss_by_position_is_that_of_one_long_window_by_a_plain_loop(kind: str) -> None:
    model, specification = trained(kind)
    found = scores_of(model, specification)
    text = CORPUS.validation.tolist()
    scheme = longer_table(model.scheme, 64)
    ends = segment_ends(len(text), 64, SEGMENTS).tolist()
    by_position = [
        sum(
            loss_by_hand(model, text[end - 64 : end - 64 + n + 1], text[end - 64 + n + 1], scheme)
            for end in ends
        )
        / SEGMENTS
        for n in range(64)
    ]
    starts = [0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56]
    ends_early = model.scheme.max_length is not None
    reads = {TRAINED: starts[:8], CLAMPED: starts} if ends_early else {TRAINED: starts}
    for name, expected_starts in reads.items():  # a shorter reading is of the same text
        scored = [s for s in found if s.measure == "position" and s.variant == name]
        assert [s.x for s in scored] == expected_starts
        assert scored[-1].until == (64 if len(scored) == 16 else 16)
        for score in scored:
            expected = by_position[score.x : score.until]
            assert score.value == pytest.approx(sum(expected) / len(expected), abs=2e-5)
            assert score.count == len(expected) * SEGMENTS


def test_the_learned_table_ends_at_its_last_row_unless_it_is_said_to_repeat() -> None:
    found = scores_of(*trained("learned"))
    assert sorted(values(found, "context")) == [8, 16]
    assert sorted(values(found, "context", CLAMPED)) == [24, 32, 64]
    assert max(s.until for s in found if s.measure == "position" and s.variant == TRAINED) == 16
    assert {s.variant for s in found} == {TRAINED, CLAMPED}
    assert "repeated" in CLAMPED


def test_rope_is_read_stretched_past_the_training_length_alone() -> None:
    found = scores_of(*trained("rope"))
    assert sorted(values(found, "context")) == [8, 16, 24, 32, 64]
    for name in ("position interpolation", "NTK-aware"):
        assert sorted(values(found, "context", name)) == [24, 32, 64]
    model, _ = trained("rope", steps=1)
    read = {v.name: v.scheme for v in variants(model, 48, 16) if v.scheme is not None}
    assert read["position interpolation"].config == RopeLinearConfig(dim=8, factor=3.0)
    assert read["NTK-aware"].config == RopeNtkConfig(dim=8, factor=3.0)


@pytest.mark.parametrize("kind", [kind for kind in SCHEMES if kind not in ("learned", "rope")])
def test_a_scheme_without_rows_and_scalings_is_read_as_trained_at_every_length(kind: str) -> None:
    model, _ = trained(kind, steps=1)
    found = [v.name for length in (8, 64) for v in variants(model, length, 16, AFTER_TRAINING)]
    assert found == [TRAINED] * 2


def test_position_interpolation_by_two_is_the_plain_rotation_at_half_the_position(
    draw: torch.Generator,
) -> None:
    q, k = torch.randn(2, 1, 2, 9, 16, dtype=torch.float64, generator=draw)
    plain = RopeConfig(dim=16)
    halved = RopeLinearConfig(dim=16, factor=2.0).build()
    at = torch.arange(9)
    for found, expected in zip(
        halved.rotate(q, k, 2 * at, 2 * at), plain.build().rotate(q, k, at, at), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("factor", [1.0, 1.5, 16.0])
@pytest.mark.parametrize(("width", "base"), [(4, 10_000.0), (16, 10_000.0), (128, 500_000.0)])
def test_ntk_aware_keeps_the_fastest_and_divides_the_slowest_frequency(
    width: int, base: float, factor: float
) -> None:
    plain = RopeConfig(dim=width, base=base).build().inv_freq.tolist()
    found = RopeNtkConfig(dim=width, base=base, factor=factor).build().inv_freq.tolist()
    assert found[0] == plain[0] == 1.0
    assert found[-1] == pytest.approx(plain[-1] / factor, rel=1e-12)
    for m, theta in enumerate(found):  # in between, pair m is slowed by factor^(m / (pairs - 1))
        assert theta == pytest.approx(plain[m] * factor ** (-m / (width // 2 - 1)), rel=1e-12)


def test_what_is_stretched_is_not_stretched_again() -> None:
    found = stretched(RopeConfig(dim=8), 32, 16)
    assert len(found) == len(AFTER_TRAINING)
    for config in found.values():
        assert stretched(config, 32, 16) == {}
    assert stretched(RopeConfig(dim=8), 5_000 * 16, 16) == {}  # no scaling goes as far


@given(st.integers(1, 3_000), st.integers(16, 300))
def test_buckets_hold_every_position_once(length: int, train_length: int) -> None:
    found = list(buckets(length, train_length))
    assert [n for first, end in found for n in range(first, end)] == list(range(length))
    assert all(first < end for first, end in found)


@pytest.mark.parametrize("train_length", [16, 20, 27, 64, 100])
def test_buckets_part_at_every_doubling_of_the_training_length(train_length: int) -> None:
    edges = {first for first, _ in buckets(16 * train_length, train_length)}
    assert edges >= {0, *(train_length * 2**n for n in range(4))}
    assert sum(edge < train_length for edge in edges) == 8


def test_context_lengths_double_after_one_and_a_half() -> None:
    assert contexts(64, 16) == [32, 64, 96, 128, 256, 512, 1_024]
    assert contexts(64, 1) == [32, 64]
    assert contexts(64, 3) == [32, 64, 96, 128, 192]
    inside = [1, 7, 15, 23, 31, 39, 45, 53, 61]  # eighths of 61, odd
    assert distances(64, 16) == [*inside, 63, 95, 127, 255, 511, 1_023]
    assert distances(16, 4) == [1, 3, 5, 7, 9, 11, 13, 15, 23, 31, 63]


def test_evaluation_reads_validation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, specification = trained("rope", steps=2)
    found = scores_of(model, specification)

    def touched(*_: object) -> None:
        raise AssertionError("evaluation asked for training data")

    monkeypatch.setattr(Language, "batch", touched)
    other = dataclasses.replace(CORPUS, train=torch.zeros_like(CORPUS.train))
    assert evaluate(model, Language(LENGTH, other), specification) == found
    changed = dataclasses.replace(CORPUS, validation=CORPUS.validation.flip(0))
    assert evaluate(model, Language(LENGTH, changed), specification) != found


def test_evaluation_changes_nothing_and_training_may_go_on_at_its_lengths() -> None:
    model, specification = trained("rope", steps=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    first = scores_of(model, specification)
    assert model.training
    assert scores_of(model.eval(), specification) == first
    assert not model.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    # What evaluation left in the memory of angles serves a training at 4 times the length.
    assert train(small("rope", train_length=64, steps=1), CORPUS).stopped is None


class Answering(LanguageModel):
    """A model that says what `answer` says of each row: the next token at every position."""

    def __init__(self, task: str, wrong: bool) -> None:
        sizes = ModelConfig(layers=1, width=16, heads=2)
        scheme = SCHEMES["none"]().build()
        vocabulary = {"recall": Recall, "copy": Copy}[task].vocabulary
        super().__init__(sizes, vocabulary, scheme, stream(0, "weights"))
        self.answer = {"recall": recalled, "copy": copied}[task]
        self.vocabulary, self.wrong = vocabulary, wrong

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, scheme: Scheme | None = None
    ) -> Tensor:
        said = torch.tensor([self.answer(row) for row in tokens.tolist()])
        if self.wrong:  # in the last token of a copy alone; questions stand anywhere
            wrong = slice(-1, None) if self.vocabulary == Copy.vocabulary else slice(None)
            said[:, wrong] = (said[:, wrong] + 1) % self.vocabulary
        return torch.nn.functional.one_hot(said, self.vocabulary).float()


def recalled(row: list[int]) -> list[int]:
    """What stood behind the same token before, filler elsewhere."""
    return [row[row.index(token) + 1] if token in row[:at] else 0 for at, token in enumerate(row)]


def copied(row: list[int]) -> list[int]:
    letters = row[1 : row.index(Copy.MARK)]
    return [0] * (len(letters) + 1) + [*letters, Copy.END]


@pytest.mark.parametrize(("task", "points"), [("recall", 11), ("copy", 32)])
def test_a_model_right_by_construction_scores_one_and_a_wrong_one_nothing(
    task: str, points: int
) -> None:
    specification = small("none", task=task)
    for wrong, expected in ((False, 1.0), (True, 0.0)):
        found = evaluate(Answering(task, wrong), specification.make_task(None), specification)
        assert len(found) == points
        assert all(s.measure == task and s.variant == TRAINED for s in found)
        assert [s.value for s in found] == [expected] * points


@pytest.mark.over_code
@pytest.mark.parametrize("task", ["recall", "copy"])
def test_the_other_tasks_are_read_under_every_scheme(task: str, kind: str) -> None:
    model, specification = trained(kind, task=task, steps=1)
    found = scores_of(model, specification)
    lengths = distances(16, 4) if task == "recall" else list(range(1, 33))
    assert {s.x for s in found} == set(lengths)
    assert all(0 <= s.value <= 1 for s in found)
    if kind == "learned":
        # Rows for all of training: 16 tokens, or 2 x 16 letters and the marks.
        known = lengths[:7] if task == "recall" else list(range(1, 17))
        assert sorted(values(found, task)) == known
        assert sorted(values(found, task, CLAMPED)) == lengths[len(known) :]


def test_an_untrained_model_is_about_as_good_as_chance() -> None:
    specification = small("none", task="recall")
    model = build_model(specification, specification.make_task(None))
    assert all(s.value < 0.1 for s in scores_of(model, specification))


def test_a_repeated_last_row_shows_no_later_byte() -> None:
    model, _ = trained("learned", steps=1)
    clamped = next(variants(model, 64, 16))
    assert clamped.name == CLAMPED
    text = CORPUS.validation[:64].long()[None]
    with torch.no_grad():
        logits = clamped.logits(model, text)
        for at in (5, 17, 40, 63):
            changed = text.clone()
            changed[:, at:] = (changed[:, at:] + 7) % 256
            found = clamped.logits(model, changed)
            torch.testing.assert_close(found[:, :at], logits[:, :at], rtol=0, atol=2e-6)
