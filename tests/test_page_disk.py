"""The Train page while nothing can be written: a sentence, and the page around it stands."""

import errno
from pathlib import Path

import pytest
import streamlit as st

from dashboard import workers
from dashboard.workers import Workers, server_workers
from posenc.lab import worker
from posenc.lab.estimate import Speed
from posenc.lab.queue import Queue
from tests.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.page_queue import page_queue
from tests.pages import as_read, captions, drawn, setting, visit
from tests.small_runs import small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

LINK = {
    "schemes": "rope,alibi", "run_length": "16", "steps": "5", "width": "16", "layers": "1",
    "run_heads": "2",
}  # fmt: skip
ensure = Workers.ensure


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return page_queue(tmp_path, monkeypatch, Speed(layer=3e-3, multiplication=3e-9, reading=1e-9))


@pytest.mark.parametrize(
    ("error", "reason"), [(errno.EROFS, "Read-only file system"), (FULL, "No space left on device")]
)
def test_a_start_that_cannot_be_written_is_one_sentence_and_the_page_stands(
    queue: Queue, tmp_path: Path, error: int, reason: str
) -> None:
    at = drawn(visit("train", LINK))
    with bad_disk(tmp_path, error, TAKING_SPACE):
        at.button(key="start_training").click().run()
        assert not at.exception
        (box,) = at.error
        assert as_read(box.value) == f"The queue cannot be written: {reason}."
        assert setting(at).schemes == ("rope", "alibi")
        assert [one.value for one in at.subheader if one.value == "In training"]
    assert queue.entries() == []
    at.button(key="start_training").click().run()
    drawn(at)
    assert len(queue.entries()) == 1


def test_what_waits_in_a_folder_that_is_read_only_is_shown_with_the_reason(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = queue.add([small(steps=5)])
    monkeypatch.setattr(Workers, "ensure", ensure)
    with bad_disk(queue.folder, errno.EROFS):
        at = visit("train", LINK)
        assert not at.exception
        assert not at.error
        (box,) = at.warning
        assert as_read(box.value) == (
            "The queue cannot be written: Read-only file system. Nothing is begun until it can be."
        )
        at.button(key=f"stop_{name}").click().run()
        assert not at.exception
        (box,) = at.error
        assert as_read(box.value) == "The queue cannot be written: Read-only file system."
    assert [entry.name for entry in queue.entries()] == [name]
    assert server_workers()._processes == []


@pytest.mark.parametrize("code", [worker.UNWRITABLE, worker.DEVICE_LOST])
def test_a_process_that_ended_on_a_full_disk_is_told_apart(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Ended:
        pid = 1

        def wait(self, timeout: float) -> int:
            return code

    crew, slept = server_workers(), []
    monkeypatch.setattr(workers.time, "sleep", slept.append)
    process = Ended()
    crew._processes.append(process)
    crew._await(process)
    assert slept == [workers.PAUSE]
    monkeypatch.undo()
    monkeypatch.setattr(Workers, "ensure", lambda self: None)
    at = drawn(visit("train", LINK))
    full = [
        text for text in captions(at) if text.startswith("What is trained could not be written")
    ]
    other = [text for text in captions(at) if text.startswith("The background process ended by a")]
    assert (len(full), len(other)) == ((1, 0) if code == worker.UNWRITABLE else (0, 1))
    st.cache_resource.clear()
