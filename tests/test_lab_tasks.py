"""What is trained on, against plain loops: next bytes, keys that were given before, strings again."""

import pytest
import torch

from posenc.lab.chance import stream
from posenc.lab.evaluate import distances, farthest
from posenc.lab.tasks import IGNORED, TASKS, Copy, Language, Recall, Task
from tests.small_runs import CORPUS


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(kind: str, train_length: int = 24) -> Task:
    return Language(train_length, CORPUS) if kind == "language" else TASKS[kind](train_length)


def is_key(token: int) -> bool:
    return 128 <= token < 160


def is_value(token: int) -> bool:
    return 160 <= token < 256


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
    scored = 0
    for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        given: dict[int, int] = {}
        for at, token in enumerate(row):
            if is_key(token) and token in given:
                assert wanted[at] == given[token]
                scored += 1
                continue
            assert wanted[at] == IGNORED
            if is_key(token):
                given[token] = row[at + 1]
                assert is_value(given[token])
        assert len(given) == Recall.PAIRS
        # Everything else is filler; a value stands right behind a key and nowhere else.
        for before, token in zip([0, *row[:-1]], row, strict=True):
            assert is_value(token) == is_key(before)
    assert scored > 100


def test_recall_asks_at_both_parities_of_position() -> None:
    _, targets = Recall(16).batch(400, draw())
    asked = (targets != IGNORED).sum(dim=0)
    # Four pairs take 8 tokens, or 9 with the filler before them; then any place may ask.
    assert (asked[:8] == 0).all()
    assert (asked[8:] > 0).all()


@pytest.mark.parametrize("length", [16, 33, 50, 64])
def test_recall_is_measured_at_distances_that_training_shows(length: int) -> None:
    """Every distance inside the training length, the largest included, and none of another parity."""
    shown = set()
    for seed in range(20):
        inputs, targets = Recall(length).batch(64, draw(seed))
        for row, asked in zip(inputs.tolist(), (targets != IGNORED).tolist(), strict=True):
            for place, scored in enumerate(asked):
                if scored:  # the key that asks stands here, its value after its first place
                    shown.add(place - (row.index(row[place]) + 1))
    measured = distances(length, 16)
    assert {distance for distance in measured if distance + 2 <= length} <= shown
    assert max(shown) == farthest(length)
    assert farthest(length) in measured
    assert {distance % 2 for distance in measured} == {distance % 2 for distance in shown} == {1}


@pytest.mark.parametrize("distance", [7, 9, 31, 255])
def test_a_value_is_asked_for_at_exactly_the_distance(distance: int) -> None:
    inputs, answers = Recall(64).at_distance(60, distance, draw())
    asked_pairs = set()
    for row, answer in zip(inputs.tolist(), answers.tolist(), strict=True):
        key, asked_at = row[-1], len(row) - 1
        places = [at for at, token in enumerate(row[:-1]) if token == key]
        assert len(places) == 1
        value_at = places[0] + 1
        assert row[value_at] == answer
        assert asked_at - value_at == distance
        keys = [token for token in row[:-1] if is_key(token)]
        assert len(set(keys)) == len(keys) == Recall.PAIRS
        assert sum(is_value(token) for token in row) == Recall.PAIRS
        asked_pairs.add(key)
    assert len(asked_pairs) > 10


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
