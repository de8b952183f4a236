"""Two servers that share a folder make one run of what both start at once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.server import jobs
from posenc.lab import Store, run_once
from tests.lab.small_runs import CORPUS, small_spec, without_time
from tests.lab.worker_processes import ROOT, alive, own_place, wait

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.long]
STARTS = 25  # visitors of each server that press at once

SERVER = f"""
import sys, threading
from pathlib import Path
from dashboard.server import jobs
from dashboard.server.training_process import TrainingProcess
from tests.lab.small_runs import CORPUS, sentences, small_spec

folder = Path(sys.argv[1])
process = TrainingProcess(folder)
gate = threading.Barrier({STARTS} + 1)
names = []

def press():
    gate.wait()
    run = small_spec(steps=400)
    names.append(jobs.add(folder, [run], waiting=50, text=sentences(), text_name=CORPUS.name))
    process.start_if_needed()

pressing = [threading.Thread(target=press) for _ in range({STARTS})]
for one in pressing: one.start()
print("ready", flush=True)
sys.stdin.readline()
gate.wait()
for one in pressing: one.join()
print(*sorted(set(names)), flush=True)
print(*[one.pid for one in [process._process] if one], flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for place in own_place(tmp_path, monkeypatch):
        yield place / "jobs"


def test_many_simultaneous_starts_on_two_servers_make_one_run(folder: Path) -> None:
    whole, place = small_spec(steps=400), folder.parent
    command = [sys.executable, "-c", SERVER, str(folder)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT, "bufsize": 0}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as two:
        servers: tuple[Any, Any] = (one, two)
        (tell_one, hear_one), (tell_two, hear_two) = (
            (server.stdin.write, server.stdout.readline) for server in servers
        )
        assert hear_one() == hear_two() == b"ready\n"
        tell_one(b"go\n")
        tell_two(b"go\n")
        names = hear_one()
        assert len(names.split()) == 1
        assert names == hear_two()
        pids = [int(pid) for pid in (hear_one() + hear_two()).split()]
        assert len(pids) <= 2  # one a server at most; the second finds the place taken, and goes
        wait(lambda: Store().ids() == [whole.run_id])
        wait(lambda: jobs.jobs(folder) == [])
        wait(lambda: not any(alive(pid) for pid in pids))
        tell_one(b"go\n")
        tell_two(b"go\n")
        assert one.wait(60) == two.wait(60) == 0
    unbroken = run_once(whole, CORPUS, Store(place / "alone"))
    assert without_time(Store().read(whole.run_id)) == without_time(unbroken)
