"""Tasks with answers against plain loops: what is asked, how often, and what positions alone tell."""

import itertools
from collections import Counter

import pytest
import scipy.stats
import torch

from posenc.lab.tasks import (
    IGNORED,
    TASKS,
    Asked,
    Copy,
    FlipFlop,
    HintedParity,
    Indexing,
    Parity,
    Recall,
    distances,
    questions_of,
)
from posenc.lab.tasks.recall import DEPTHS
from tests.lab.answers import ANSWERS


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(
    task_batch: tuple[torch.Tensor, torch.Tensor],
) -> list[tuple[list[int], list[int | None]]]:
    """Return every row with its targets, None where nothing is scored."""
    inputs, targets = (part.tolist() for part in task_batch)
    return [
        (row, [None if wanted == IGNORED else wanted for wanted in target])
        for row, target in zip(inputs, targets, strict=True)
    ]


def is_likely(counts: list[int], shares: list[float]) -> bool:
    """Return whether counts may be drawn with these shares, by a chi-squared test."""
    expected = [sum(counts) * share for share in shares]
    return bool(scipy.stats.chisquare(counts, expected).pvalue > 0.01)


def test_every_task_but_that_of_text_has_answers() -> None:
    assert {*ANSWERS} == {*TASKS} - {"language"}
    with pytest.raises(KeyError, match="language"):
        questions_of("language")


@pytest.mark.parametrize("kind", ANSWERS)
def test_targets_match_a_plain_loop_over_the_tokens(kind: str) -> None:
    task, answers = questions_of(kind), ANSWERS[kind]
    for row, targets in rows_of(task(24).batch(200, generator())):
        assert len(row) == task.positions(24)
        assert targets == answers(row)
    for number, asked in enumerate(task.asked(24, 4)):
        few = asked._replace(rows=20)
        for row, targets in rows_of(task(24).questions(few, generator(number))):
            assert len(row) == asked.length
            assert targets == answers(row)
    xs = [asked.x for asked in task.asked(24, 4) if asked.measure == kind]
    assert any(task.as_in_training(24, x) for x in xs)
    assert all(task.chance(24, x) <= task.by_position(24, x) + 1e-9 for x in xs)


def test_flip_flop_draws_instructions_at_their_rates_and_random_bits() -> None:
    """Liu et al. 2023, section 3: FFL(p) ignores with p; the rest writes and reads alike."""
    for percent in (FlipFlop.DENSE, FlipFlop.TRAINED, FlipFlop.SPARSE):
        asked = Asked("flip_flop", percent, 600, 64)
        rows = [row for row, _ in rows_of(FlipFlop(64).questions(asked, generator(percent)))]
        assert {(row[0], row[-2]) for row in rows} == {(FlipFlop.WRITE, FlipFlop.READ)}
        inner = Counter(token for row in rows for token in row[2:-2:2])
        rate = percent / 100
        counts = [inner[token] for token in (FlipFlop.IGNORE, FlipFlop.WRITE, FlipFlop.READ)]
        assert is_likely(counts, [rate, (1 - rate) / 2, (1 - rate) / 2])
        bits = Counter(
            row[at + 1] for row in rows for at in range(0, 62, 2) if row[at] != FlipFlop.READ
        )
        assert is_likely([bits[0], bits[1]], [0.5, 0.5])
    trained = Counter(row[2] for row, _ in rows_of(FlipFlop(64).batch(4_000, generator())))
    counts = [trained[token] for token in (FlipFlop.IGNORE, FlipFlop.WRITE, FlipFlop.READ)]
    assert is_likely(counts, [0.8, 0.1, 0.1])


@pytest.mark.parametrize("percent", [10, 80, 98])
def test_best_place_of_a_flip_flop_is_the_enumerated_one(percent: int) -> None:
    """Every text of five instructions, with its probability."""
    write = (1 - percent / 100) / 2
    rate = {"w": write, "r": write, "i": percent / 100}
    right: dict[tuple[int, int], float] = {}
    reads = Counter[int]()
    for inner in itertools.product("wri", repeat=3):
        text = ["w", *inner, "r"]
        weight = 1.0
        for one in inner:
            weight *= rate[one]
        for bits in itertools.product((0, 1), repeat=5):
            memory, shown = 0, list[int]()
            if any(bit and one == "r" for one, bit in zip(text, bits, strict=True)):
                continue  # a read draws no bit
            share = weight / 2 ** sum(one != "r" for one in text)
            for at, (one, bit) in enumerate(zip(text, bits, strict=True)):
                memory = bit if one == "w" else memory
                if one == "r":
                    reads[at] += share
                    for place, before in enumerate(shown):
                        right[at, place] = right.get((at, place), 0) + share * (before == memory)
                shown.append(memory if one == "r" else bit)
    best = sum(max(right[at, place] for place in range(at)) for at in range(1, 5))
    assert FlipFlop.by_position(10, percent) == pytest.approx(best / sum(reads.values()))


def test_indexing_draws_distinct_letters_and_every_shift_alike() -> None:
    lengths, shifts, places = Counter[int](), Counter[int](), Counter[int]()
    for row, _ in rows_of(Indexing(16).batch(3_000, generator())):
        mark = row.index(Indexing.MARK)
        string, source, shift = row[:mark], row[mark + 2], row[mark + 1] - Indexing.FIRST_SHIFT
        assert len({*string}) == mark
        assert all(0 <= letter < Indexing.LETTERS for letter in string)
        lengths[mark] += 1
        shifts[shift] += 1
        if mark == 12 and shift == 3:  # two places to the right
            places[string.index(source)] += 1
    assert is_likely([lengths[n] for n in range(8, 17)], [1 / 9] * 9)
    assert is_likely([shifts[n] for n in range(4)], [1 / 4] * 4)
    assert {*lengths} == {*range(8, 17)}
    assert {*places} <= {*range(10)}
    assert len(places) >= 8
    assert Indexing.vocabulary == Indexing.FIRST_SHIFT + 4


@pytest.mark.parametrize("letters", [8, 11, 32])
def test_best_place_of_indexing_is_the_most_frequent_one(letters: int) -> None:
    answers = Counter[int]()
    asked = Asked("indexing", letters, 4_000, letters + 17)
    for row, targets in rows_of(Indexing(16).questions(asked, generator())):
        answers.update(row.index(answer) for answer in targets if answer is not None)
    total = sum(answers.values())
    expected = Indexing.by_position(16, letters)
    # 32,000 answers: a share of p is off by sqrt(p (1 - p) / 32,000), and the largest of some by more.
    assert max(answers.values()) / total == pytest.approx(expected, abs=0.008)
    assert expected > Indexing.chance(16, letters)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
def test_no_choice_of_places_tells_more_of_parities(bits: int) -> None:
    """Every place for every answer, on every string: bits, then the parities so far."""
    texts = []
    for drawn in itertools.product((0, 1), repeat=bits):
        parities = [sum(drawn[: n + 1]) % 2 for n in range(bits)]
        texts.append((*drawn, *parities))
    choices = itertools.product(*(range(bits + step) for step in range(bits)))
    best = max(
        sum(all(text[bits + n] == text[place] for n, place in enumerate(places)) for text in texts)
        for places in choices
    )
    assert Parity.by_position(16, bits) == HintedParity.by_position(16, bits) == best / len(texts)


def test_hints_are_consecutive_from_any_of_the_circle() -> None:
    first = set()
    for row, _ in rows_of(HintedParity(16).batch(2_000, generator())):
        steps = row[1 : row.index(Parity.MARK)]
        hints = [hint - Parity.vocabulary for hint in steps[::2]]
        assert hints == [(hints[0] + n) % HintedParity.HINTS for n in range(len(hints))]
        first.add(hints[0])
    assert first == {*range(HintedParity.HINTS)}
    longest = HintedParity(HintedParity.most).asked(HintedParity.most, 1)[-1]
    (row, _), *_ = rows_of(HintedParity(HintedParity.most).questions(longest, generator()))
    hints = row[1 : row.index(Parity.MARK) : 2]
    assert len({*hints}) == len(hints) == HintedParity.HINTS


def test_copy_repeats_letters_at_one_place_before() -> None:
    asked = Asked("copy", 9, 50, 20)
    for row, targets in rows_of(Copy(20).questions(asked, generator())):
        assert row[11:] == row[1:10]
        assert targets[10:19] == row[1:10]
    assert Copy.by_position(20, 9) == 1
    assert Copy.chance(20, 2) == pytest.approx(1 / 676)


@pytest.mark.parametrize("distance", [1, 7, 15, 29, 31, 63])
def test_recall_by_position_is_that_of_the_best_pair_of_many_rows(distance: int) -> None:
    """For each place of a question, how often it asks for the first, second, third or fourth pair."""
    length = Recall.text_length(32, distance)
    asked, ranks = Asked("recall", distance, 12_000, length), Counter[tuple[int, int]]()
    for row, targets in rows_of(Recall(32).questions(asked, generator())):
        (question,) = [at for at, answer in enumerate(targets) if answer is not None]
        first = Recall.FILLERS + Recall.KEYS
        values = [token for token in row if token >= first]
        ranks[question, values.index(targets[question])] += 1  # type: ignore[arg-type]
    best = sum(max(ranks[at, rank] for rank in range(4)) for at in {at for at, _ in ranks})
    assert best / 12_000 == pytest.approx(Recall.by_position(32, distance), abs=0.02)


def test_map_of_recall_places_the_asked_pair_at_its_depth() -> None:
    every = [asked for asked in Recall.asked(32, 16) if asked.measure != "recall"]
    assert {asked.measure for asked in every} == {*DEPTHS}
    assert {asked.x for asked in every} == {32, 48, 64, 128, 256, 512}
    for asked in every:
        depth = int(asked.measure.split()[-1].rstrip("%")) / 100
        for row, targets in rows_of(Recall(32).questions(asked._replace(rows=5), generator())):
            (question,) = [at for at, answer in enumerate(targets) if answer is not None]
            assert question == len(row) - 1 in (asked.x - 1, asked.x - 2)
            assert abs(row.index(row[question]) - depth * (question - 2)) <= 1
            assert sum(token >= Recall.FILLERS + Recall.KEYS for token in row) == 4
    assert max(distances(32, 16)) == 511
