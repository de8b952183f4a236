"""A server as an operator starts it, `python -m dashboard`, and a visitor of it without a browser."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Subprotocol

ROOT = Path(__file__).parents[1]
HOST = "127.0.0.1"


@dataclass
class Served:
    """One server process: its port, path, folder and log."""

    process: subprocess.Popen[bytes]
    port: int
    path: str
    log: Path

    @property
    def address(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://{HOST}:{self.port}{self.path}"

    def lines(self) -> list[str]:
        """What it has logged."""
        return self.log.read_text().splitlines()

    def kill(self) -> None:
        """End it at once, as a fault would."""
        self.process.kill()
        self.process.wait(20)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


@contextmanager
def server(
    folder: Path, name: str = "server", module: Sequence[str] = ("dashboard",),
    stdout: int = subprocess.DEVNULL, **variables: str,
) -> Iterator[Served]:  # fmt: skip
    """Serve with runs and work in a folder, and these variables of the environment.

    module: what is run, and what it takes before the options of the server.
    """
    places = {"POSENC_RUNS": str(folder / "runs"), "POSENC_WORK": str(folder / "work")}
    path = f"/{variables['POSENC_PATH']}" if variables.get("POSENC_PATH") else ""
    log, port = folder / f"{name}.log", free_port()
    command = [sys.executable, "-m", *module, f"--server.port={port}"]
    command += [f"--server.address={HOST}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=stdout, stderr=output,
            env=os.environ | places | variables | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    found = Served(process, port, path, log)
    try:
        _wait_for(found)
        yield found
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            found.kill()


def _wait_for(one: Served) -> None:
    for _ in range(400):
        try:
            with urllib.request.urlopen(f"{one.address}/_stcore/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert one.process.poll() is None, one.log.read_text()
            time.sleep(0.15)
    raise TimeoutError(one.log.read_text())


@contextmanager
def visiting(
    one: Served, page: str = "", query: str = "", host: str = HOST
) -> Iterator[list[ForwardMsg]]:
    """Open a page over the websocket, as its browser code would; yields what came until it was drawn."""
    place = f"ws://{host}:{one.port}{one.path}/_stcore/stream"
    with connect(
        place,
        proxy=None,
        address=(HOST, one.port),
        subprotocols=[Subprotocol("streamlit"), Subprotocol("x")],
        max_size=None,
    ) as link:
        asked = BackMsg()
        asked.rerun_script.page_name = page
        asked.rerun_script.query_string = query
        link.send(asked.SerializeToString())
        found: list[ForwardMsg] = []
        again = ForwardMsg.FINISHED_EARLY_FOR_RERUN
        end = time.monotonic() + 60
        while time.monotonic() < end:
            message = ForwardMsg.FromString(link.recv(timeout=60))
            found.append(message)
            if message.WhichOneof("type") == "script_finished" and message.script_finished != again:
                break
        yield found
