"""A queue that one visitor cannot fill: how many starts each may have there."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import visitor
from posenc.errors import QueueFull
from posenc.lab.estimate import Speed
from posenc.lab.queue import Queue
from tests.page_queue import page_queue
from tests.pages import as_read, drawn, visit
from tests.small_runs import small

LINK = {
    "schemes": "rope", "run_length": "16", "steps": "5", "width": "16", "layers": "1", "run_heads": "2",
}  # fmt: skip


def test_two_hundred_starts_of_one_person_leave_room_for_the_next(tmp_path: Path) -> None:
    queue = Queue(tmp_path, running=1, waiting=4)
    mine: list[str] = []
    refused: list[str] = []
    for n in range(200):
        try:
            mine.append(queue.add([small(steps=n + 1)], each=2, mine=mine))
        except QueueFull as full:
            refused.append(str(full))
    assert (len(mine), len(refused)) == (2, 198)
    assert all(said.startswith("2 of your starts are here already") for said in refused)
    queue.add([small(steps=300)], each=2)
    queue.remove(mine[0])
    mine.append(queue.add([small(steps=301)], each=2, mine=mine))
    assert len(queue.entries()) == 3


def test_a_name_has_its_share_wherever_it_starts_and_the_same_start_is_one(tmp_path: Path) -> None:
    queue = Queue(tmp_path, running=1, waiting=4)
    first = queue.add([small(steps=1)], owner="ann", each=1)
    with pytest.raises(QueueFull, match="1 of your starts is here already"):
        queue.add([small(steps=2)], owner="ann", each=1)
    assert queue.add([small(steps=1)], owner="ann", each=1) == first
    queue.add([small(steps=2)], owner="bob", each=1)
    queue.add([small(steps=3)], owner="", each=1)
    queue.add([small(steps=4)], owner="", each=1)  # two whom nothing names: their sessions know
    assert [entry.owner for entry in queue.entries()] == ["ann", "bob", "", ""]


def test_an_entry_that_failed_is_no_part_of_a_share(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.add([small(steps=1)], owner="ann", each=1)
    with queue.taken() as entry:
        assert entry is not None
        queue.fail(entry, "It broke.")
    queue.add([small(steps=2)], owner="ann", each=1)


@pytest.mark.parametrize("known", ["", "ann@example.org"])
@pytest.mark.usefixtures("no_shape_checks")
def test_a_session_of_a_shared_server_starts_two_and_another_one_its_own(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_RUNNING", "1")
    monkeypatch.setenv("POSENC_USER_HEADER", "X-User")
    monkeypatch.setattr(visitor.st, "user", {visitor.KEY: known} if known else {})
    queue = page_queue(tmp_path, monkeypatch, Speed(3e-3, 3e-9, 1e-9))

    def start(at: AppTest, steps: int) -> AppTest:
        at.session_state["steps"] = steps
        return at.run().button(key="start_training").click().run()

    at = visit("train", LINK)
    for steps in (5, 6):
        drawn(start(at, steps))
    refused = start(at, 7)
    assert not refused.exception
    (box,) = refused.error
    assert as_read(box.value).startswith("2 of your starts are here already")
    assert len(queue.entries()) == 2
    other = start(visit("train", LINK), 8)
    assert len(queue.entries()) == (2 if known else 3)  # a name is one person in every session
    assert bool(other.error) is bool(known)
    st.cache_resource.clear()
