"""Turns of page scripts: in the order in which they came, and nobody waits for one that takes long."""

import threading
import time

from dashboard.server.run_queue import RunQueue

FAR, PATIENCE = 1_000.0, 120.0  # seconds: longer than any test; longer than any of its steps


class Script(threading.Thread):
    """A script that has its turn until it is told to end."""

    def __init__(self, queue: RunQueue, order: "list[Script] | None" = None) -> None:
        super().__init__(daemon=True)
        self.queue, self.order = queue, [] if order is None else order
        self.runs, self.may_end = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self.queue.turn():
            self.order.append(self)
            self.runs.set()
            assert self.may_end.wait(PATIENCE)

    def end(self) -> None:
        self.may_end.set()
        self.join(PATIENCE)
        assert not self.is_alive()


def waiting(queue: RunQueue, scripts: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(queue._waiting) != scripts:
        assert time.monotonic() < end
        time.sleep(1e-3)


def test_scripts_run_one_after_the_other_in_order_of_arrival() -> None:
    queue, order = RunQueue(FAR), list[Script]()
    scripts = []
    for place in range(5):  # the first has its turn at once
        scripts.append(Script(queue, order))
        waiting(queue, place)
    for place, one in enumerate(scripts, start=1):
        assert one.runs.wait(PATIENCE)
        assert order == scripts[:place]
        one.end()
    assert queue._running is None


def test_long_script_blocks_nobody_and_its_end_does_not_end_the_turn_of_the_next() -> None:
    queue = RunQueue(0.05)
    slow = Script(queue)
    assert slow.runs.wait(PATIENCE)
    for _ in range(3):
        with queue.turn():
            assert slow.is_alive()
    next_one = Script(queue)
    assert next_one.runs.wait(PATIENCE)
    queue._longest = FAR
    last = Script(queue)
    waiting(queue, 1)
    slow.end()
    waiting(queue, 1)
    assert not last.runs.is_set()
    next_one.end()
    assert last.runs.wait(PATIENCE)
    last.end()
