"""A server whose output nobody can take serves, ends when it is told to, and its trainings save."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.lab.jobs import JobState, Queue
from tests.lab.small_runs import small_spec
from tests.lab.worker_processes import PATIENCE, ROOT, alive, running_at, wait
from tests.server.served_process import server, visiting

PRINTS = """
import sys
from dashboard.server import output
sys.stdout.write("before ")
output.make_output_safe()
sys.stdout.write("ö" * 10_000)
print("after")
print("fault", file=sys.stderr)
sys.stdin.readline()
for stream in (sys.stdout, sys.stderr):
    print("\\U0001f4d0" * 10_000, file=stream, flush=True)
open(sys.argv[1], "w").write("went on")
"""


def test_output_without_a_reader_is_dropped(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRINTS, str(tmp_path / "end")], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUTF8": "1"},
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - for types alone
        assert process.stdout.readline().decode() == f"before {'ö' * 10_000}after\n"
        assert process.stderr.readline() == b"fault\n"
        for stream in (process.stdout, process.stderr, process.stdin):
            stream.close()
        assert process.wait(60) == 0
    assert (tmp_path / "end").read_text() == "went on"


@pytest.mark.long
def test_server_without_a_reader_serves_and_saves(tmp_path: Path) -> None:
    """`python -m dashboard | head -1`: Streamlit prints its addresses, and that it stops, to nobody."""
    queue = Queue(tmp_path / "work" / "queue")
    name = queue.add([small_spec("none", task="copy", steps=100_000)])
    reads, writes = os.pipe()
    os.close(reads)
    with server(tmp_path, stdout=writes) as one:
        os.close(writes)
        with visiting(one):  # whoever comes lets the queue go on
            running_at(queue, name, 1)
        (row,) = queue._rows("SELECT process FROM jobs WHERE name = ?", name)
        trains = int(row["process"].split()[0])
        one.process.terminate()
        assert one.process.wait(PATIENCE) == 0, one.log.read_text()
        assert "BrokenPipe" not in one.log.read_text()
    wait(lambda: not alive(trains))
    (entry,) = queue.jobs()
    assert (entry.state, entry.attempts) == (JobState.QUEUED, 0)
    assert len(list((tmp_path / "work").rglob("*.safetensors"))) == 1  # its checkpoint
