"""A server whose output nobody can take serves, ends when it is told to, and its trainings save."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posenc.lab.queue import Queue, State
from tests.served_process import server, visiting
from tests.small_runs import CORPUS, sentences, small
from tests.worker_processes import ROOT, alive, running_at, wait

PRINTS = """
import sys
from dashboard import output
sys.stdout.write("before ")
output.install()
sys.stdout.write("ö" * 10_000)
print("after")
print("fault", file=sys.stderr)
sys.stdin.readline()
for stream in (sys.stdout, sys.stderr):
    print("\\U0001f4d0" * 10_000, file=stream, flush=True)
open(sys.argv[1], "w").write("went on")
"""


def test_what_nobody_reads_is_lost_and_all_else_is_written(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTS, str(tmp_path / "end")], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONUTF8": "1"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().decode() == f"before {'ö' * 10_000}after\n"
    assert process.stderr.readline() == b"fault\n"
    process.stdout.close()
    process.stderr.close()
    process.stdin.close()
    assert process.wait(60) == 0
    assert (tmp_path / "end").read_text() == "went on"


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_output_that_is_no_file_stays_as_it_is(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard import output

    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    output.install()
    assert sys.stdout is sys.stderr is stream


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_server_whose_reader_is_gone_serves_saves_and_ends_within_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m dashboard | head -1`: Streamlit prints its addresses, and that it stops, to nobody."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    queue = Queue(tmp_path / "work" / "queue")
    name = queue.add([small(steps=100_000)], text=sentences(), text_name=CORPUS.name)
    reads, writes = os.pipe()
    os.close(reads)
    with server(tmp_path, stdout=writes) as one:
        os.close(writes)
        with visiting(one):  # whoever comes lets the queue go on
            running_at(queue, name, 1)
        trains = int((queue.folder / f"{name}.working").read_text().split()[0])
        told = time.monotonic()
        one.process.terminate()
        assert one.process.wait(60) == 0, one.log.read_text()
        assert time.monotonic() - told < 10
        assert "BrokenPipe" not in one.log.read_text()
    wait(lambda: not alive(trains))
    (entry,) = queue.entries()
    assert (entry.state, entry.attempts) == (State.WAITING, 0)
    assert len(list((tmp_path / "work").rglob("*.safetensors"))) == 1  # its checkpoint
