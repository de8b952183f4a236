"""Turns of page scripts: in the order in which they came, and nobody waits for one that takes long."""

import threading
import time

import pytest
from streamlit.runtime.scriptrunner import RerunData, RerunException

from dashboard.server.run_queue import Standing, Turns

FAR, PATIENCE = 1_000.0, 120.0  # seconds: longer than any test; longer than any of its steps


class Script(threading.Thread):
    """A script that has its turn until it is told to end."""

    def __init__(
        self, turns: Turns, order: "list[Script] | None" = None, session: Standing | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.turns, self.order = turns, [] if order is None else order
        self.session = session or Standing()
        self.runs, self.may_end = threading.Event(), threading.Event()
        self.start()

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
    end = time.monotonic() + PATIENCE
    while len(turns._waiting) != scripts:
        assert time.monotonic() < end
        time.sleep(1e-3)


def test_rerun_keeps_the_place_of_its_session_among_scripts_in_order_of_arrival() -> None:
    turns, order, session = Turns(FAR), list[Script](), Standing()
    with pytest.raises(RerunException), turns.turn(session):
        raise RerunException(RerunData())
    assert session.anew
    scripts = []
    for place in range(4):  # the first has its turn at once
        scripts.append(Script(turns, order))
        waiting(turns, place)
    back = Script(turns, order, session)
    waiting(turns, 4)
    expected = [scripts[0], back, *scripts[1:]]
    for place, one in enumerate(expected, start=1):
        assert one.runs.wait(PATIENCE)
        assert order == expected[:place]
        one.end()
    assert not session.anew
    assert turns._now is None


def test_long_script_blocks_nobody_and_its_end_does_not_end_the_turn_of_the_next() -> None:
    turns = Turns(0.05)
    slow = Script(turns)
    assert slow.runs.wait(PATIENCE)
    for _ in range(3):
        with turns.turn(Standing()):
            assert slow.is_alive()
    next_one = Script(turns)
    assert next_one.runs.wait(PATIENCE)
    turns._longest = FAR
    last = Script(turns)
    waiting(turns, 1)
    slow.end()
    waiting(turns, 1)
    assert not last.runs.is_set()
    next_one.end()
    assert last.runs.wait(PATIENCE)
    last.end()


def test_session_with_a_long_script_runs_beside_the_queue_until_a_short_one() -> None:
    turns, session = Turns(0.05), Standing()
    slow = Script(turns, session=session)
    assert slow.runs.wait(PATIENCE)
    time.sleep(0.06)
    slow.end()
    assert session.long
    turns._longest = FAR
    other = Script(turns)
    assert other.runs.wait(PATIENCE)
    with turns.turn(session):  # beside the other, which has its turn
        assert other.is_alive()
        turns._longest, end = 0.05, time.thread_time() + 0.06
        while time.thread_time() < end:
            pass
    assert session.long
    with turns.turn(session):
        time.sleep(0.06)  # others may work meanwhile: no time of its own
    assert not session.long
    turns._longest = FAR
    again = Script(turns, session=session)
    waiting(turns, 1)
    other.end()
    again.end()


def test_script_stopped_while_waiting_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert turns._now is None
