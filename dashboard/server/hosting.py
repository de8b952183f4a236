"""The start and the end of a server: what it does before its first visitor and after its last one."""

import contextlib
import gc
import importlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import streamlit as st

from dashboard.server import streamlit_parts, training_process

# Their import takes seconds, which the first visitor would wait for.
SLOW_IMPORTS = (
    "altair",
    "sklearn.decomposition",
    "posenc.analysis",
    "posenc.claims",
    "posenc.identification",
    "posenc.lab.runs",
    "posenc.planner",
)
OPEN_FILES = Path("/dev/fd")  # of this process; not on Windows


@contextlib.asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[None]:
    """Import what is slow and send small messages at once; when the server ends, let trainings save."""
    streamlit_parts.ignore_pages_folder()
    for module in SLOW_IMPORTS:
        importlib.import_module(module)
    # What was imported stays until the end. Left to the collector, every full collection would look
    # through it, 300,000 objects in 170 ms, while all visitors wait.
    gc.collect()
    gc.freeze()
    disable_nagle()
    yield
    training_process.stop_all()


def disable_nagle() -> None:
    """Set TCP_NODELAY on the server's listening socket, from which every connection inherits it.

    A rerun is some seventy small messages. With Nagle's algorithm the last of them wait up to 40 ms for an
    acknowledgement. asyncio disables it for sockets that it binds itself; Streamlit 1.67 binds its own
    (as in https://github.com/Kludex/uvicorn/issues/3149) and has no option for it.
    """
    port = st.get_option("server.port")
    files = [int(file.name) for file in OPEN_FILES.iterdir()] if OPEN_FILES.is_dir() else []
    for file in files:
        with contextlib.suppress(OSError):  # the file by which the folder was read is closed again
            if not stat.S_ISSOCK(os.fstat(file).st_mode):
                continue
            # `dup`: closing the socket object must not close the server's own.
            with socket.socket(fileno=os.dup(file)) as candidate:
                if candidate.type == socket.SOCK_STREAM and candidate.getsockname()[1:2] == (port,):
                    candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
