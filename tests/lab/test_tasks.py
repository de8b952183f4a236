"""Tasks against plain loops, and text as bytes: two sides that share nothing, a hash of everything."""

from collections import Counter

import pytest
import scipy.stats
import torch

from posenc.lab.tasks import (
    IGNORED,
    TASKS,
    Asked,
    Copy,
    Language,
    Recall,
    distances,
    generator_for,
)
from tests.lab.small_runs import CORPUS


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def is_key(token: int) -> bool:
    return 0 <= token - Recall.FILLERS < Recall.KEYS


def is_value(token: int) -> bool:
    return 0 <= token - Recall.FILLERS - Recall.KEYS < Recall.VALUES


def test_language_targets_are_the_next_bytes_of_the_text() -> None:
    inputs, targets = Language(24, CORPUS).batch(50, generator())
    train, validation = bytes(CORPUS.train.tolist()), bytes(CORPUS.validation.tolist())
    assert inputs.shape == targets.shape == (50, 24)
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        window = bytes([*row, target[-1]])
        assert window in train
        assert window not in validation
        assert target == list(window[1:])


@pytest.mark.parametrize("train_length", [16, 65])
def test_recall_scores_every_key_shown_before_and_nothing_else(train_length: int) -> None:
    inputs, targets = Recall(train_length).batch(100, generator())
    assert inputs.shape == targets.shape == (100, train_length)
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        pairs: dict[int, int] = {}
        for at, token in enumerate(row):
            if is_key(token) and token in pairs:
                assert target[at] == pairs[token]
                continue
            assert target[at] == IGNORED
            if is_key(token):
                pairs[token] = row[at + 1]
                assert is_value(pairs[token])
            elif is_value(token):  # directly after its key, and nowhere else
                assert token == pairs[row[at - 1]]
                assert row.index(row[at - 1]) == at - 1
        assert len(pairs) == len(set(pairs.values())) == Recall.PAIRS
        first = next(at for at, scored in enumerate(target) if scored != IGNORED)
        assert first - 2 * (train_length // 4) in (0, 1)
        assert IGNORED not in target[first::2]  # every place of two tokens asks from there


def independence(first: list[int], second: list[int]) -> float:
    """Return the p-value of a chi-squared test that two lists are independent."""
    table = scipy.stats.contingency.crosstab(first, second).count
    return float(scipy.stats.chi2_contingency(table).pvalue)


def test_place_of_a_pair_is_independent_of_its_question() -> None:
    found = []  # rank of the asked pair, place of its key, position of the question, distance
    for seed in range(160):
        inputs, targets = Recall(32).batch(32, generator(seed))
        for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
            keys = [at for at, token in enumerate(row[:-1]) if is_value(row[at + 1])]
            (later,) = {at % 2 for at in keys}
            for at, scored in enumerate(target):
                if scored != IGNORED:
                    key = row.index(row[at])
                    found.append((keys.index(key), (key - later) // 2, at - later, at - key - 1))
    rank, place, question, distance = ([one[n] for one in found] for n in range(4))
    assert set(place) == set(range(8))  # every place of the first half
    assert set(question) == set(range(16, 32, 2))
    once = slice(0, None, 9)  # at most one question of a sequence, so that they are independent
    for values in (place[once], question[once]):
        assert scipy.stats.chisquare([*Counter(values).values()]).pvalue > 0.01
    assert independence(place[once], question[once]) > 0.01
    assert independence(rank[once], question[once]) > 0.01
    assert set(distance) == set(range(1, Recall.farthest(32) + 1, 2))
    measured = distances(32, 16)
    assert {1, Recall.farthest(32)} <= set(measured)
    assert {one % 2 for one in measured} == {1}  # as in training
    # Of 8 questions each of 4 pairs is missed by (3/4)^8.
    _, targets = Recall(32).batch(1_000, generator())
    different = [len(set(row) - {IGNORED}) for row in targets.tolist()]
    assert sum(different) / 1_000 == pytest.approx(4 * (1 - 0.75**8), abs=0.1)


@pytest.mark.parametrize("distance", [1, 7, 61, 63, 1023])
def test_recall_asks_at_exactly_the_distance(distance: int) -> None:
    length = Recall.text_length(64, distance)
    inputs, targets = Recall(64).questions(Asked("recall", distance, 60, length), generator())
    rows, questions = (targets != IGNORED).nonzero().T
    assert rows.tolist() == list(range(60))
    assert inputs.shape[1] == length
    past = distance > 61
    places = set()
    for row, asked, answer in zip(
        inputs.tolist(), questions.tolist(), targets[rows, questions].tolist(), strict=True
    ):
        keys = [at for at, token in enumerate(row) if is_key(token)]
        assert keys[-1] == asked
        assert len(keys) == Recall.PAIRS + 1
        assert sum(is_value(token) for token in row) == Recall.PAIRS
        value = row.index(answer)
        assert row[row.index(row[asked]) + 1] == answer
        assert asked - value == distance
        assert keys[-2] - keys[0] < 32  # within as many places as in training
        assert min(keys) >= 64 if past else asked < 64
        places.add(value)
    # Pair and question stand wherever the distance leaves room.
    assert len(places) >= {61: 2, 1: 2, 7: 8}.get(distance, 10)


def copy_by_hand(length: int, row: list[int]) -> tuple[list[int], list[int]]:
    letters = row[1 : length + 1]
    whole = [Copy.START, *letters, Copy.MARK, *letters, Copy.END]
    scored = [False] * (length + 2) + [True] * (length + 1)
    targets = [token if counts else IGNORED for token, counts in zip(whole, scored, strict=True)]
    return whole[:-1], targets[1:]


def test_copy_repeats_the_string_after_the_mark_and_scores_only_the_copy() -> None:
    inputs, targets = Copy(20).batch(300, generator())
    assert inputs.shape == targets.shape == (300, Copy.positions(20)) == (300, 42)
    lengths = set()
    for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
        length = row.index(Copy.MARK) - 1
        lengths.add(length)
        tokens, scored = copy_by_hand(length, row)
        assert all(0 <= letter < 26 for letter in row[1 : length + 1])
        assert row[: 2 * length + 2] == tokens
        assert target[: 2 * length + 2] == scored
        rest = row[2 * length + 2 :]
        assert rest == [Copy.END, *[Copy.PAD] * (len(rest) - 1)][: len(rest)]
        assert set(target[2 * length + 2 :]) <= {IGNORED}
    assert lengths == set(range(1, 21))
    for length in (1, 40):
        inputs, targets = Copy(20).questions(Asked("copy", length, 30, 2 * length + 2), generator())
        for row, target in zip(inputs.tolist(), targets.tolist(), strict=True):
            assert (row, target) == copy_by_hand(length, row)
        assert len({tuple(row) for row in inputs.tolist()}) > 10


@pytest.mark.parametrize("kind", list(TASKS))
def test_batches_depend_on_the_generator_and_fit_the_model(kind: str) -> None:
    task = Language(24, CORPUS) if kind == "language" else TASKS[kind](24)
    before = torch.random.get_rng_state()
    inputs, targets = task.batch(100, generator(5))
    again = task.batch(100, generator(5))
    assert torch.equal(inputs, again[0])
    assert torch.equal(targets, again[1])
    assert not torch.equal(inputs, task.batch(100, generator(6))[0])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert 0 <= inputs.min() <= inputs.max() < task.vocabulary
    assert targets.max() < task.vocabulary
    assert inputs.shape[1] == task.positions(24)


def test_every_use_and_index_has_its_own_random_stream() -> None:
    names = [(seed, use, n) for seed in range(4) for use in ("weights", "data") for n in range(9)]
    numbers = [tuple(torch.rand(4, generator=generator_for(*name)).tolist()) for name in 2 * names]
    assert len(set(numbers)) == len(names)
