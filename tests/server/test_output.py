"""A server whose output nobody can take serves, ends when it is told to, and its trainings save."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.server import jobs
from tests.lab.small_runs import small_spec
from tests.lab.worker_processes import PATIENCE, ROOT, wait
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
    place = tmp_path / "work" / "jobs"
    name = jobs.add(place, [small_spec("none", task="copy", steps=100_000)], waiting=8)
    reads, writes = os.pipe()
    os.close(reads)
    with server(tmp_path, stdout=writes) as one:
        os.close(writes)
        with visiting(one):  # whoever comes lets the jobs go on
            wait(lambda: jobs.progress(place, name).step >= 1)
        one.process.terminate()
        assert one.process.wait(PATIENCE) == 0, one.log.read_text()
        assert "BrokenPipe" not in one.log.read_text()
    with jobs.taken(place, patience=PATIENCE) as free:
        assert free
    assert [(job.name, job.error) for job in jobs.jobs(place)] == [(name, "")]
    assert (place / f"{name}.tries").read_text() == "0"  # it was no fault of the job
    assert len(list((tmp_path / "work").rglob("*.safetensors"))) == 1  # its checkpoint
