"""Turns of page scripts: in the order in which they came, and nobody waits for one that takes long."""

import threading
import time

import pytest
from streamlit.runtime.scriptrunner import RerunData, RerunException

from dashboard.turns import LONGEST, Standing, Turns

FAR, PATIENCE = 1_000.0, 10.0  # seconds: longer than any test; longer than any of its steps


class Script(threading.Thread):
    """A script that has its turn until it is told to end."""

    def __init__(
        self, turns: Turns, order: list["Script"], session: Standing | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.turns, self.order = turns, order
        self.session = session or Standing()
        self.runs, self.may_end = threading.Event(), threading.Event()

    def run(self) -> None:
        with self.turns.turn(self.session):
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
        with turns.turn(Standing()):
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
    with pytest.raises(KeyError), turns.turn(Standing()):
        raise KeyError("a page that fails")
    with turns.turn(Standing()):
        pass
    assert turns._now is None
    assert not turns._waiting


def test_a_session_whose_last_script_took_long_is_not_in_the_queue_until_one_is_short() -> None:
    turns, session = Turns(0.05), Standing()
    slow = Script(turns, [], session)
    slow.start()
    time.sleep(0.06)
    slow.end()
    assert session.long
    turns._longest = FAR
    other = Script(turns, [])
    other.start()
    assert other.runs.wait(PATIENCE)
    with turns.turn(session):  # beside the other, which has its turn
        assert other.is_alive()
        time.sleep(0.06)  # no work of its own
    assert not session.long
    again = Script(turns, [], session)
    again.start()
    waiting(turns, 1)
    other.end()
    again.end()


def test_a_session_that_works_for_long_beside_the_others_stays_there() -> None:
    turns, session = Turns(0.02), Standing(long=True)
    with turns.turn(session):
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            pass
    assert session.long


def test_a_script_that_is_called_off_keeps_the_place_of_its_session() -> None:
    turns, order, session = Turns(FAR), list[Script](), Standing()
    with pytest.raises(RerunException), turns.turn(session):
        raise RerunException(RerunData())
    assert session.anew
    before = [Script(turns, order) for _ in range(3)]
    for place, one in enumerate(before):
        one.start()
        waiting(turns, place)
    back = Script(turns, order, session)
    back.start()
    waiting(turns, 3)
    for one in (before[0], back, before[1], before[2]):
        assert one.runs.wait(PATIENCE)
        assert order[-1] is one
        one.end()
    assert not session.anew


def test_who_is_called_away_while_waiting_is_in_the_queue_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(FAR)
    with monkeypatch.context() as patched:

        def end(self: Turns) -> float:
            patched.undo()
            raise KeyboardInterrupt

        patched.setattr(Turns, "_call", end)
        with pytest.raises(KeyboardInterrupt), turns.turn(Standing()):
            pass
    assert not turns._waiting
    with turns.turn(Standing()):
        pass


def test_a_turn_is_longer_than_most_pages_take_and_no_wait_that_a_person_minds() -> None:
    assert 0.1 <= LONGEST <= 0.5
