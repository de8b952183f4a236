"""A server as an operator starts it, `python -m dashboard`, and a visitor of it without a browser."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Subprotocol

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"


@dataclass
class Served:
    process: subprocess.Popen[bytes]
    port: int
    path: str
    log: Path

    @property
    def address(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://{HOST}:{self.port}{self.path}"

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)


def load_script(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


@contextmanager
def server(
    folder: Path, name: str = "server", module: Sequence[str] = ("dashboard",),
    stdout: Any = subprocess.DEVNULL, python: str = sys.executable, cwd: str | Path = ROOT,
    behind: Sequence[str] = (), **variables: str,
) -> Iterator[Served]:  # fmt: skip
    """Serve with runs and work in a folder, and these variables of the environment.

    module: what is run, and what it takes before the options of the server; behind: after them.
    python: the interpreter, and cwd: the folder where it is started.
    """
    places = {"POSENC_RUNS": str(folder / "runs"), "POSENC_WORK": str(folder / "work")}
    path = f"/{variables['POSENC_PATH']}" if variables.get("POSENC_PATH") else ""
    log, port = folder / f"{name}.log", free_port()
    command = [python, "-m", *module, f"--server.port={port}", *behind]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=stdout, stderr=output,
            env=os.environ | places | {"PYTHONPATH": str(ROOT)} | variables,
        )  # fmt: skip
    found = Served(process, port, path, log)
    try:
        end = time.monotonic() + 120
        while not _healthy(found.address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield found
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # a busy machine; nobody waits for it any more
            found.kill()


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def visiting(
    one: Served, page: str = "", query: str = "", host: str = HOST
) -> Iterator[list[ForwardMsg]]:
    """Open a page over the websocket, as its browser code would; yields what came until it was drawn."""
    place = f"ws://{host}:{one.port}{one.path}/_stcore/stream"
    protocols = [Subprotocol("streamlit"), Subprotocol("x")]
    there = (HOST, one.port)
    with connect(place, proxy=None, address=there, subprotocols=protocols, max_size=None) as link:
        asked = BackMsg()
        asked.rerun_script.page_name = page
        asked.rerun_script.query_string = query
        link.send(asked.SerializeToString())
        found: list[ForwardMsg] = []
        end = time.monotonic() + 60
        while time.monotonic() < end:
            message = ForwardMsg.FromString(link.recv(timeout=60))
            found.append(message)
            ended = message.WhichOneof("type") == "script_finished"
            if ended and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                break
        yield found
