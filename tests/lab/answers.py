"""The right answers to rows of every task, by plain loops over tokens: None where nothing is asked."""

from collections.abc import Callable

from posenc.lab.tasks import Copy, FlipFlop, HintedParity, Indexing, Parity, Recall

Answers = list[int | None]


def of_recall(row: list[int]) -> Answers:
    """A key that stood before asks for what followed it then."""
    answers: Answers = [None] * len(row)
    values: dict[int, int] = {}
    for at, token in enumerate(row):
        if Recall.FILLERS <= token < Recall.FILLERS + Recall.KEYS:
            if token in values:
                answers[at] = values[token]
            else:
                values[token] = row[at + 1]
    return answers


def of_copy(row: list[int]) -> Answers:
    letters = row[1 : row.index(Copy.MARK)]
    return _after_the_mark(row, Copy.MARK, [*letters, Copy.END])


def of_flip_flop(row: list[int]) -> Answers:
    answers: Answers = [None] * len(row)
    memory = -1
    for at in range(0, len(row) - 1, 2):
        if row[at] == FlipFlop.WRITE:
            memory = row[at + 1]
        elif row[at] == FlipFlop.READ:
            answers[at] = memory
    return answers


def of_indexing(row: list[int]) -> Answers:
    answers: Answers = [None] * len(row)
    mark = row.index(Indexing.MARK)
    string = row[:mark]
    offsets = [-1, -2, 1, 2]
    for at in range(mark + 2, len(row), 2):
        if row[at] != Indexing.PAD:
            source = string.index(row[at])
            found = source + offsets[row[at - 1] - Indexing.FIRST_SHIFT]
            assert 0 <= found < mark
            answers[at] = string[found]
    return answers


def of_parity(row: list[int]) -> Answers:
    answer, odd = [], 0
    for bit in row[1 : row.index(Parity.MARK)]:
        odd ^= bit
        answer.append(odd)
    return _after_the_mark(row, Parity.MARK, [*answer, Parity.END])


def of_hinted_parity(row: list[int]) -> Answers:
    answer, odd = [], 0
    steps = row[1 : row.index(Parity.MARK)]
    for hint, bit in zip(steps[::2], steps[1::2], strict=True):
        odd ^= bit
        answer += [hint, odd]
    return _after_the_mark(row, Parity.MARK, [*answer, Parity.END])


def _after_the_mark(row: list[int], mark: int, answer: list[int]) -> Answers:
    before: Answers = [None] * row.index(mark)
    rest = len(row) - len(before) - len(answer)
    assert rest >= 0
    return [*before, *answer, *[None] * rest]


ANSWERS: dict[str, Callable[[list[int]], Answers]] = {
    Recall.kind: of_recall,
    Copy.kind: of_copy,
    FlipFlop.kind: of_flip_flop,
    Indexing.kind: of_indexing,
    Parity.kind: of_parity,
    HintedParity.kind: of_hinted_parity,
}
