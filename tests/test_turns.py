"""Turns of page scripts: in the order in which they came, and nobody waits for one that takes long."""

import threading
import time

import pytest

from dashboard.turns import LONGEST, Turns

FAR, PATIENCE = 1_000.0, 10.0  # seconds: longer than any test; longer than any of its steps


class Script(threading.Thread):
    """A script that has its turn until it is told to end."""

    def __init__(self, turns: Turns, order: list["Script"]) -> None:
        super().__init__(daemon=True)
        self.turns, self.order = turns, order
        self.runs, self.may_end = threading.Event(), threading.Event()

    def run(self) -> None:
        with self.turns.turn():
            self.order.append(self)
            self.runs.set()
            assert self.may_end.wait(PATIENCE)

    def end(self) -> None:
        self.may_end.set()
        self.join(PATIENCE)
        assert not self.is_alive()


def waiting(turns: Turns, scripts: int) -> None:
    """Wait until so many scripts wait for their turn."""
    end = time.monotonic() + PATIENCE
    while len(turns._waiting) != scripts:
        assert time.monotonic() < end
        time.sleep(1e-3)


def test_each_waits_for_the_one_before_in_the_order_in_which_they_came() -> None:
    turns, order = Turns(FAR), list[Script]()
    scripts = [Script(turns, order) for _ in range(6)]
    for place, one in enumerate(scripts):
        one.start()
        waiting(turns, place)  # the first has its turn
    for place, one in enumerate(scripts):
        assert one.runs.wait(PATIENCE)
        assert order == scripts[: place + 1]
        one.end()
    assert turns._now is None


def test_nobody_waits_for_long_for_one_that_takes_long() -> None:
    turns = Turns(0.05)
    slow = Script(turns, [])
    slow.start()
    assert slow.runs.wait(PATIENCE)
    for _ in range(3):
        with turns.turn():
            assert slow.is_alive()
    slow.end()


def test_one_that_has_taken_long_does_not_end_the_turn_of_another() -> None:
    turns = Turns(0.05)
    slow, next_one, last = (Script(turns, []) for _ in range(3))
    for one in (slow, next_one):
        one.start()
        assert one.runs.wait(PATIENCE)
    turns._longest = FAR
    last.start()
    waiting(turns, 1)
    slow.end()
    waiting(turns, 1)
    assert not last.runs.is_set()
    next_one.end()
    assert last.runs.wait(PATIENCE)
    last.end()


def test_a_fault_ends_a_turn() -> None:
    turns = Turns(FAR)
    with pytest.raises(KeyError), turns.turn():
        raise KeyError("a page that fails")
    with turns.turn():
        pass
    assert turns._now is None
    assert not turns._waiting


def test_a_turn_is_longer_than_most_pages_take_and_no_wait_that_a_person_minds() -> None:
    assert 0.1 <= LONGEST <= 0.5
