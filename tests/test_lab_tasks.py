"""What is trained on, against plain loops: next bytes, keys that were given before, strings again."""

import functools
from collections import Counter

import numpy as np
import pytest
import scipy.stats
import torch

from posenc.lab.chance import stream
from posenc.lab.evaluate import distances
from posenc.lab.tasks import IGNORED, TASKS, Copy, Language, Recall, Task
from tests.small_runs import CORPUS


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(kind: str, train_length: int = 24) -> Task:
    return Language(train_length, CORPUS) if kind == "language" else TASKS[kind](train_length)


def is_key(token: int) -> bool:
    return 0 <= token - Recall.FILLERS < Recall.KEYS


def is_value(token: int) -> bool:
    return 0 <= token - Recall.FILLERS - Recall.KEYS < Recall.VALUES


def test_targets_of_language_are_the_next_bytes_of_the_text() -> None:
    inputs, targets = Language(24, CORPUS).batch(50, draw())
    train, validation = bytes(CORPUS.train.tolist()), bytes(CORPUS.validation.tolist())
    assert inputs.shape == targets.shape == (50, 24)
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        window = bytes([*row, wanted[-1]])
        assert window in train
        assert window not in validation
        assert wanted == list(window[1:])


def test_windows_of_language_reach_both_ends_of_the_text() -> None:
    length = len(CORPUS.train) - 2
    inputs, targets = Language(length, CORPUS).batch(40, draw())
    begins = {tuple(row[:8]) for row in inputs.tolist()}
    text = CORPUS.train.tolist()
    assert begins == {tuple(text[:8]), tuple(text[1:9])}
    assert text[-1] in targets[:, -1].tolist()


@pytest.mark.parametrize("train_length", [16, 17, 40, 65])
def test_every_scored_value_was_given_with_its_key_and_no_other_target_is_scored(
    train_length: int,
) -> None:
    inputs, targets = Recall(train_length).batch(200, draw())
    assert inputs.shape == targets.shape == (200, train_length)
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        given: dict[int, int] = {}
        for at, token in enumerate(row):
            if is_key(token) and token in given:
                assert wanted[at] == given[token]
                continue
            assert wanted[at] == IGNORED
            if is_key(token):
                given[token] = row[at + 1]
                assert is_value(given[token])
            elif is_value(token):  # right behind its key, and nowhere else
                assert token == given[row[at - 1]]
                assert row.index(row[at - 1]) == at - 1
        assert len(given) == len(set(given.values())) == Recall.PAIRS
        # Every place of two tokens asks from the first that does.
        first = next(at for at, target in enumerate(wanted) if target != IGNORED)
        assert first - 2 * (train_length // 4) in (0, 1)
        assert IGNORED not in wanted[first::2]


@functools.cache
def asked_of_training(train_length: int = 32) -> list[tuple[int, int, int, int]]:
    """(rank of the asked pair, place of its key, position of the question, distance), by a loop."""
    found = []
    for seed in range(160):
        inputs, targets = Recall(train_length).batch(32, draw(seed))
        for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
            keys = [at for at, token in enumerate(row[:-1]) if is_value(row[at + 1])]
            (later,) = {at % 2 for at in keys}
            for at, target in enumerate(wanted):
                if target != IGNORED:
                    key = row.index(row[at])
                    found.append((keys.index(key), (key - later) // 2, at - later, at - key - 1))
    return found


def chi_square(first: list[int], second: list[int]) -> float:
    """The chance of a table of counts as far from independence as that of two lists."""
    rows, columns = sorted(set(first)), sorted(set(second))
    table = np.zeros((len(rows), len(columns)))
    for one, other in zip(first, second, strict=True):
        table[rows.index(one), columns.index(other)] += 1
    return float(scipy.stats.chi2_contingency(table).pvalue)


def test_the_place_of_a_pair_says_nothing_of_its_question() -> None:
    found = asked_of_training()
    rank, place, question, distance = ([one[n] for one in found] for n in range(4))
    assert set(place) == set(range(8))  # every place of the first half
    assert set(question) == set(range(16, 32, 2))
    once = slice(0, None, 9)  # one question of a sequence at most, so that they are drawn apart
    for alike in (place[once], question[once]):
        assert scipy.stats.chisquare([*Counter(alike).values()]).pvalue > 0.01
    assert chi_square(place[once], question[once]) > 0.01
    assert chi_square(rank[once], question[once]) > 0.01
    assert set(distance) == set(range(1, 30, 2))
    assert max(distance) == Recall.farthest(32)


def test_each_question_of_a_sequence_draws_among_all_four_pairs() -> None:
    _, targets = Recall(32).batch(1_000, draw())
    asked = [len({target for target in row if target != IGNORED}) for row in targets.tolist()]
    # Of 8 questions each pair is missed by (3/4)^8.
    assert sum(asked) / len(asked) == pytest.approx(4 * (1 - 0.75**8), abs=0.1)


def test_whoever_goes_by_positions_alone_recalls_one_value_in_four() -> None:
    """The best rule of every question's position and every pair's place, fitted on other sequences."""
    found = asked_of_training()
    half = len(found) // 2
    by_position: dict[int, Counter[int]] = {}
    for rank, _, question, _ in found[:half]:
        by_position.setdefault(question, Counter())[rank] += 1
    rules = {question: ranks.most_common(1)[0][0] for question, ranks in by_position.items()}
    right = sum(rules[question] == rank for rank, _, question, _ in found[half:])
    assert right / (len(found) - half) == pytest.approx(Recall.CHANCE, abs=0.02)
    for place in range(8):  # a head that looks at one position
        assert sum(at == place for _, at, _, _ in found) / len(found) < Recall.CHANCE / 1.5


def test_within_the_trained_distances_places_help_as_much_as_readme_says() -> None:
    """Each distance is asked alike; the best rule of the question's place, fitted on other questions."""
    asked = [one for one in distances(32, 16) if one <= Recall.farthest(32)]
    chosen: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    for distance in asked:
        for half, found in enumerate(chosen):
            drawn = Recall(32).at_distance(4_000, distance, draw(distance + 100 * half))
            for row, at in zip(drawn.inputs.tolist(), drawn.asked.tolist(), strict=True):
                keys = [n for n, token in enumerate(row[:at]) if is_key(token)]
                found[at, keys.index(at - distance - 1)] += 1
    rule = {
        at: max(range(4), key=lambda rank: chosen[0][at, rank])
        for at in {at for at, _ in chosen[0]}
    }
    right = sum(count for (at, rank), count in chosen[1].items() if rule.get(at) == rank)
    assert right / chosen[1].total() == pytest.approx(0.49, abs=0.01)


def looked_up(row: list[int], asked: int) -> int:
    """Whoever reads the sequence: the token behind the first that is the one asked for."""
    return row[row.index(row[asked]) + 1]


def test_whoever_reads_the_sequence_recalls_every_value() -> None:
    inputs, targets = Recall(32).batch(100, draw())
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        for at, target in enumerate(wanted):
            assert target == IGNORED or target == looked_up(row, at)


@pytest.mark.parametrize("length", [16, 33, 50, 64])
def test_recall_is_measured_at_distances_that_training_shows(length: int) -> None:
    """Every distance inside the training length, the largest included, and longer ones."""
    shown = {distance for _, _, _, distance in asked_of_training(length)}
    assert shown == set(range(1, Recall.farthest(length) + 1, 2))
    measured = distances(length, 16)
    assert {1, Recall.farthest(length)} <= set(measured)
    assert len([distance for distance in measured if distance in shown]) >= min(8, len(shown))
    past = [distance for distance in measured if distance not in shown]
    assert [round(max(past) / length), {distance % 2 for distance in measured}] == [16, {1}]


@pytest.mark.parametrize("distance", [1, 3, 7, 31, 59, 61, 63, 255, 1023])
def test_a_value_is_asked_for_at_exactly_the_distance(distance: int) -> None:
    found = Recall(64).at_distance(60, distance, draw())
    assert found.inputs.shape[1] == Recall(64).text_length(distance)
    past = distance > 61
    places = set()
    for row, asked, answer in zip(
        found.inputs.tolist(), found.asked.tolist(), found.answers.tolist(), strict=True
    ):
        keys = [at for at, token in enumerate(row) if is_key(token)]
        assert keys[-1] == asked
        assert len(keys) == Recall.PAIRS + 1
        assert sum(is_value(token) for token in row) == Recall.PAIRS
        value = row.index(answer)
        assert looked_up(row, asked) == answer == row[value]
        assert asked - value == distance
        assert keys[-2] - keys[0] < 32  # within as many places as in training
        assert min(keys) >= 64 if past else asked < 64
        places.add(value)
    # Pair and question stand wherever the distance leaves room.
    assert len(places) >= {61: 2, 59: 4, 1: 2, 3: 4, 7: 8}.get(distance, 10)


def test_past_the_training_length_pairs_stand_alike_at_every_distance() -> None:
    """Where the pairs stand, and which of them is asked for, does not depend on the distance."""
    near, far = (Recall(32).at_distance(2_000, distance, draw(distance)) for distance in (32, 512))
    for found in (near, far):
        ranks: Counter[int] = Counter()
        for row, asked in zip(found.inputs.tolist(), found.asked.tolist(), strict=True):
            keys = [at for at, token in enumerate(row) if is_key(token)]
            ranks[keys.index(row.index(row[asked]))] += 1
        assert scipy.stats.chisquare([ranks[one] for one in range(4)]).pvalue > 0.01
    places = [(found.asked - distance).tolist() for found, distance in ((near, 32), (far, 512))]
    assert scipy.stats.ks_2samp(*places).pvalue > 0.01
    assert min(map(min, places)) > 32


def walked(length: int, row: list[int]) -> tuple[list[int], list[int]]:
    """Inputs and targets of one string of letters, written out one by one."""
    letters = row[1 : length + 1]
    whole = [Copy.START, *letters, Copy.MARK, *letters, Copy.END]
    scored = [False] * (length + 2) + [True] * (length + 1)
    targets = [token if counts else IGNORED for token, counts in zip(whole, scored, strict=True)]
    return whole[:-1], targets[1:]


def test_a_string_is_copied_after_the_mark_and_only_the_copy_is_scored() -> None:
    task = Copy(20)
    inputs, targets = task.batch(300, draw())
    assert inputs.shape == targets.shape == (300, Copy.positions(20)) == (300, 42)
    lengths = []
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        length = row.index(Copy.MARK) - 1
        lengths.append(length)
        said, scored = walked(length, row)
        assert all(0 <= letter < 26 for letter in row[1 : length + 1])
        assert row[: 2 * length + 2] == said
        assert wanted[: 2 * length + 2] == scored
        behind = row[2 * length + 2 :]
        assert behind == [Copy.END, *[Copy.PAD] * (len(behind) - 1)][: len(behind)]
        assert set(wanted[2 * length + 2 :]) <= {IGNORED}
    assert set(lengths) == set(range(1, 21))


@pytest.mark.parametrize("length", [1, 20, 40])
def test_strings_of_one_length(length: int) -> None:
    inputs, targets = Copy(20).of_length(30, length, draw())
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert (row, wanted) == walked(length, row)
    assert len({tuple(row) for row in inputs.tolist()}) > 10


@pytest.mark.parametrize("task", list(TASKS))
def test_batches_depend_on_the_generator_alone(task: str) -> None:
    torch.manual_seed(1)
    first = make(task).batch(8, draw(5))
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    again, other = make(task).batch(8, draw(5)), make(task).batch(8, draw(6))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("task", list(TASKS))
def test_tokens_are_in_the_vocabulary_and_rows_in_the_positions(task: str) -> None:
    inputs, targets = make(task).batch(100, draw())
    vocabulary = TASKS[task].vocabulary
    assert inputs.min() >= 0
    assert inputs.max() < vocabulary
    assert targets.max() < vocabulary
    assert inputs.shape[1] == TASKS[task].positions(24)


def test_every_use_and_index_of_chance_has_its_own_stream() -> None:
    asked = [
        (seed, use, index) for seed in range(4) for use in ("weights", "data") for index in range(9)
    ]
    drawn = {name: tuple(torch.rand(4, generator=stream(*name)).tolist()) for name in asked}
    assert len(set(drawn.values())) == len(asked)
    assert all(
        tuple(torch.rand(4, generator=stream(*name)).tolist()) == drawn[name] for name in asked
    )
