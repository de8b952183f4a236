"""Two servers that share a folder: one run of what both start at once, and one goes on for the other."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.lab import Store, make_run
from posenc.lab.entry import State
from posenc.lab.queue import Queue
from tests.small_runs import CORPUS, small, timeless
from tests.worker_processes import ROOT, alive, own_place, running_at, wait

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.long]
STARTS = 25  # visitors of each server that press at once

SERVER = f"""
import sys, threading
from pathlib import Path
from dashboard.workers import Workers
from posenc.lab.queue import Queue
from tests.small_runs import CORPUS, sentences, small

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
crew = Workers(Queue(folder, waiting=50))
gate = threading.Barrier({STARTS} + 1)
names = []

def press():
    gate.wait()
    own = Queue(folder, waiting=50)
    names.append(own.add([small(steps=steps)], text=sentences(), text_name=CORPUS.name))
    crew.ensure()

pressing = [threading.Thread(target=press) for _ in range({STARTS})]
for one in pressing: one.start()
print("ready", flush=True)
sys.stdin.readline()
gate.wait()
for one in pressing: one.join()
print(*sorted(set(names)), flush=True)
print(*[one.pid for one in crew._processes], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from own_place(tmp_path, monkeypatch)


def serve(folder: Path, steps: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder), str(steps)],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def said(server: subprocess.Popen[str]) -> list[str]:
    assert server.stdout is not None
    return server.stdout.readline().split()


def go(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.write("go\n")
    server.stdin.flush()


def test_fifty_presses_on_two_servers_at_once_make_one_run(place: Path) -> None:
    queue, whole = Queue(place / "queue", waiting=50), small(steps=400)
    servers = [serve(queue.folder, 400) for _ in range(2)]
    for server in servers:
        assert said(server) == ["ready"]
    for server in servers:
        go(server)
    names = [said(server) for server in servers]
    assert len(names[0]) == 1
    assert names[0] == names[1]
    pids = [int(pid) for server in servers for pid in said(server)]
    assert len(pids) <= 2  # one a server at most; the second finds the place taken, and goes
    wait(lambda: Store().ids() == [whole.run_id])
    wait(lambda: queue.entries() == [])
    wait(lambda: not any(alive(pid) for pid in pids))
    unbroken = make_run(whole, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(Store().read(whole.run_id)) == timeless(unbroken)
    for server in servers:
        go(server)
        assert server.wait(60) == 0


def test_what_a_killed_server_had_begun_another_ends_to_the_same_bits(place: Path) -> None:
    queue, whole = Queue(place / "queue", waiting=50), small(steps=2_000)
    first = serve(queue.folder, 2_000)
    assert said(first) == ["ready"]
    go(first)
    (name,), (pid,) = said(first), said(first)
    running_at(queue, name, 120)
    first.kill()
    first.wait()
    wait(lambda: not alive(int(pid)))
    assert [one.state for one in queue.entries()] == [State.WAITING]
    second = serve(queue.folder, 2_000)  # its visitors press the same start
    assert said(second) == ["ready"]
    go(second)
    assert said(second) == [name]
    wait(lambda: Store().ids() == [whole.run_id])
    unbroken = make_run(whole, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(Store().read(whole.run_id)) == timeless(unbroken)
    second.kill()
    second.wait()
