"""The background process: it does what waits, alone, and no kill loses or doubles anything."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from posenc.lab import Specification, Store, make_run
from posenc.lab.entry import State
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import Queue
from posenc.lab.worker import NICE
from tests.small_runs import CORPUS, sentences, small, timeless
from tests.worker_processes import PATIENCE, ROOT, alive, own_place, running_at, wait, worker

TEXT = {"text": sentences(), "text_name": CORPUS.name}

# A worker is nice: where others compute, it waits long before it is given a second.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from own_place(tmp_path, monkeypatch)


def long(steps: int = 100_000) -> Specification:
    return small(steps=steps)


def test_everything_that_waits_is_done_in_order_and_the_worker_ends(place: Path) -> None:
    queue = Queue(place / "queue")
    pair = [replace(small(), seed=seed) for seed in (0, 1)]
    queue.add(pair, **TEXT)
    queue.add([small("alibi")], **TEXT)
    queue.add([small("learned", task="copy")])
    process = worker(queue)
    assert process.wait(PATIENCE) == 0
    store = Store()
    assert len(store.ids()) == 4
    for one in pair:
        alone = make_run(one, CORPUS, Store(place / "alone"), work=place / "w")
        assert timeless(store.read(one.run_id)) == timeless(alone)
    assert queue.entries() == []
    assert {path.name for path in queue.folder.iterdir()} == {"queue.lock", "worker-0.lock"}


def test_only_one_worker_works_and_it_is_nice(place: Path) -> None:
    queue = Queue(place / "queue")
    name = queue.add([long()], **TEXT)
    first = worker(queue)
    running_at(queue, name, 1)
    assert worker(queue).wait(PATIENCE) == 0  # finds the place taken, and goes
    assert os.getpriority(os.PRIO_PROCESS, first.pid) >= NICE
    assert queue.entries()[0].state is State.RUNNING
    queue.stop(name)
    assert first.wait(PATIENCE) == 0


def test_a_worker_computes_on_as_many_threads_as_its_run_says(place: Path) -> None:
    script = f"""
from pathlib import Path
import torch
from posenc.lab import worker
from posenc.lab.train import Trainer
seen = set()
step = Trainer.step
def noted(self):
    seen.add(torch.get_num_threads())
    return step(self)
Trainer.step = noted
torch.set_num_threads(3)
worker.main(Path({str(place / "queue")!r}), 1)
print(seen)
"""
    for threads in (1, 2):
        Queue(place / "queue").add([replace(small(), threads=threads)], **TEXT)
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
        )
        assert ran.stdout == f"{{{threads}}}\n", ran.stderr


def test_a_stop_ends_the_run_and_the_same_start_goes_on_from_there(place: Path) -> None:
    queue = Queue(place / "queue")
    name = queue.add([long()], **TEXT)
    after = queue.add([small()], **TEXT)
    process = worker(queue)
    running_at(queue, name, 150)  # past a checkpoint
    queue.stop(name)
    assert process.wait(PATIENCE) == 0
    assert after not in [entry.name for entry in queue.entries()]
    assert Store().ids() == [small().run_id]
    name = queue.add([long()], **TEXT)
    again = worker(queue)
    wait(lambda: queue.progress(name).began > 100)
    queue.stop(name)
    assert again.wait(PATIENCE) == 0


def test_a_stop_also_ends_the_wait_for_another_process(place: Path) -> None:
    queue = Queue(place / "queue")
    name = queue.add([small()], **TEXT)
    checkpoint = checkpoint_of(small().run_id)
    checkpoint.parent.mkdir(parents=True)
    with FileLock(checkpoint.with_suffix(".lock")):  # somebody trains the same on the command line
        process = worker(queue)
        wait(lambda: queue.entries()[0].state is State.RUNNING)
        queue.stop(name)
        assert process.wait(PATIENCE) == 0
    assert queue.entries() == []


def test_a_run_planned_for_other_versions_is_refused(place: Path) -> None:
    queue = Queue(place / "queue")
    queue.add([replace(small(), versions=(("posenc", "0.0.1"), ("torch", "1.0")))], **TEXT)
    assert worker(queue).wait(PATIENCE) == 0
    (entry,) = queue.entries()
    assert entry.error == (
        "The run was planned for other versions than are installed here: posenc 0.0.1, torch 1.0."
    )
    assert Store().ids() == []


def test_a_stop_also_ends_the_reading_of_a_trained_model(place: Path) -> None:
    queue = Queue(place / "queue")
    reads = replace(small(steps=1), segments=65_536, longest=64)
    name = queue.add([reads], **TEXT)
    process = worker(queue)
    wait(lambda: queue.progress(name).reading)
    queue.stop(name)
    assert process.wait(PATIENCE) == 0
    assert queue.entries() == []
    assert Store().ids() == []


def test_the_end_of_the_parent_ends_the_worker_which_saves_first(place: Path) -> None:
    queue = Queue(place / "queue")
    whole = long(steps=700)
    name = queue.add([whole], **TEXT)
    process = worker(queue)
    running_at(queue, name, 5)
    assert process.stdin is not None
    process.stdin.close()  # as the system does for a server that ends, however it ends
    assert process.wait(PATIENCE) in (0, 3)
    (entry,) = queue.entries()
    assert entry.state is State.WAITING
    assert len(list((place / "work").rglob("*.safetensors"))) == 1
    again = worker(queue)
    assert again.wait(PATIENCE) == 0
    found = Store().read(whole.run_id)
    unbroken = make_run(whole, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(found) == timeless(unbroken)


def test_a_server_that_ends_while_a_model_is_read_costs_no_attempt(place: Path) -> None:
    queue = Queue(place / "queue")
    reads = replace(small(steps=1), segments=65_536, longest=64)
    name = queue.add([reads], **TEXT)
    process = worker(queue)
    wait(lambda: queue.progress(name).reading)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    (entry,) = queue.entries()
    assert (entry.state, entry.attempts) == (State.WAITING, 0)
    assert Store().ids() == []


def test_a_killed_server_leaves_no_orphan(place: Path) -> None:
    queue = Queue(place / "queue")
    name = queue.add([long()], **TEXT)
    script = f"""
import time
from pathlib import Path
from dashboard.workers import Workers
from posenc.lab.queue import Queue
crew = Workers(Queue(Path({str(queue.folder)!r})))
crew.ensure()
crew.ensure()
print(*[one.pid for one in crew._processes], flush=True)
time.sleep(600)
"""
    server = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert server.stdout is not None
    (pid,) = map(int, server.stdout.readline().split())  # asked twice, started once
    (place / "pids").mkdir()
    (place / "pids" / str(pid)).touch()
    running_at(queue, name, 1)
    assert alive(pid)
    server.kill()
    server.wait()
    wait(lambda: not alive(pid))
    assert queue.entries()[0].state is State.WAITING


def test_a_killed_worker_loses_no_step_before_its_checkpoint(place: Path) -> None:
    queue = Queue(place / "queue")
    whole = long(steps=700)
    name = queue.add([whole], **TEXT)
    process = worker(queue)
    running_at(queue, name, 250)
    process.kill()
    process.wait()
    assert [(entry.state, entry.attempts) for entry in queue.entries()] == [(State.WAITING, 1)]
    again = worker(queue)
    wait(lambda: queue.progress(name).began >= 201 or queue.entries() == [])
    assert again.wait(PATIENCE) == 0
    unbroken = make_run(whole, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(Store().read(whole.run_id)) == timeless(unbroken)


def test_a_run_that_fails_is_kept_with_its_reason_and_the_next_is_done(place: Path) -> None:
    queue = Queue(place / "queue")
    wrong = replace(small(), corpus="0" * 64, corpus_name="another text")
    queue.add([wrong], **TEXT)
    (place / "runs").mkdir()
    queue.add([small("alibi")], store=str(place / "runs"), **TEXT)
    queue.add([small("none")], store=str(place / "queue" / "queue.lock"), **TEXT)
    assert worker(queue).wait(PATIENCE) == 0
    assert Store().ids() == [small("alibi").run_id]
    reasons = [entry.error for entry in queue.entries()]
    assert reasons[0] == "The run needs the text another text, got the text made-up sentences."
    assert reasons[1] is not None
    assert reasons[1] == "The store of runs cannot be opened: a file is in its place."


def test_a_worker_for_nothing_ends_at_once(place: Path) -> None:
    assert worker(Queue(place / "queue")).wait(PATIENCE) == 0
