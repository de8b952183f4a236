"""What a server has done and holds, for its operator: `python -m dashboard.server.counters`.

Asked at a socket of the system's files, in the folder of work, that only whoever runs the server can
open: nothing of it is on any port, and nothing is counted up for nobody. One block for each server of
the folder; `--json` for one line of JSON each.
"""

import contextlib
import json
import logging
import os
import secrets
import socket
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import streamlit as st
from streamlit import runtime

from dashboard.compute import result_cache
from dashboard.server import settings
from dashboard.server.logs import event
from posenc.checkpoints.file_store import work_folder
from posenc.errors import PosencError, RunError
from posenc.lab.jobs import JobState, Queue
from posenc.lab.runs import Store

log = logging.getLogger("dashboard")

FOLDER = "servers"
_PATIENCE = 10.0  # seconds for an answer
_CACHES, _SESSIONS = "cache_memory_bytes", "active_sessions"  # families of Streamlit's statistics


class Counters:
    """Counts of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._began = time.time()
        self._serving: str | None = None

    def count(self, what: str, of: str = "") -> None:
        """Count one more of something, such as a rerun of a page."""
        with self._lock:
            self._counts[what, of] += 1

    def read(self) -> dict[str, Any]:
        """Return everything as plain values: counts, and what is held right now."""
        with self._lock:
            counts = dict(self._counts)
        reruns = {page: n for (what, page), n in counts.items() if what == "reruns"}
        return {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "seconds": round(time.time() - self._began, 1),
            "memory_bytes": _memory(),
            "sessions_begun": counts.get(("sessions", ""), 0),
            "sessions_open": _open_sessions(),
            "reruns": sum(reruns.values()),
            "reruns_by_page": dict(sorted(reruns.items())),
            "incidents": counts.get(("incidents", ""), 0),
            "uploads": counts.get(("uploads", ""), 0),
            "starts": counts.get(("starts", ""), 0),
            "runs": _runs(),
            "cache_bytes": _caches(),
        }

    def serve(self) -> None:
        """Answer the operator of this server from now on; once for each process."""
        folder = work_folder() / FOLDER
        with self._lock:
            if self._serving is not None or not hasattr(socket, "AF_UNIX"):
                return
            # Every container's server may be process 1 of the same host name.
            self._serving = str(folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(folder)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                listener.bind(self._serving)
            finally:
                os.umask(before)
            listener.listen(4)
        except OSError as error:  # a folder that is read-only, or a path too long for a socket
            event("counters_unavailable", reason=type(error).__name__)
            return
        threading.Thread(target=self._answer, args=(listener,), daemon=True).start()

    def _answer(self, listener: socket.socket) -> None:
        while True:
            try:
                asked, _ = listener.accept()
                with asked:
                    asked.settimeout(_PATIENCE)
                    asked.sendall(json.dumps(self.read()).encode())
            except OSError:  # who asked is gone
                time.sleep(0.1)
            except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):
                log.exception("the counters cannot be read")


here = Counters()


def visited() -> None:
    """Count this visitor's session, once."""
    if "counted" not in st.session_state:
        st.session_state["counted"] = True
        here.count("sessions")
        event("session_begun")


def _open_sessions() -> int | None:
    if not runtime.exists():
        return None
    found = runtime.get_instance().stats_mgr.get_stats([_SESSIONS]).get(_SESSIONS, ())
    return sum(int(getattr(one, "value", 0)) for one in found)


def _caches() -> dict[str, int]:
    """Return the bytes of every kind of cache; asked for only when somebody looks, because it is slow.

    "results" is what pages have read (compute/result_cache.py); all else is Streamlit's.
    """
    sizes = Counter({"results": result_cache.RESULTS.currsize})
    if not runtime.exists():
        return dict(sizes)
    for one in runtime.get_instance().stats_mgr.get_stats([_CACHES]).get(_CACHES, ()):
        sizes[str(getattr(one, "category_name", "other"))] += int(getattr(one, "byte_length", 0))
    return dict(sizes)


def _runs() -> dict[str, int | None]:
    """Return how many starts are in each state, and how many runs are finished."""
    found: dict[str, int | None] = dict.fromkeys([*map(str, JobState), "finished"])
    try:
        allowed = settings.current()
        entries = Queue(running=allowed.running, waiting=allowed.waiting).jobs()
        found |= {str(state): sum(one.state is state for one in entries) for state in JobState}
        found["finished"] = len(Store(allowed.store or None).ids())
    except (OSError, RunError):  # not known right now
        pass
    return found


def _memory() -> int | None:
    """Return this process's memory in bytes, where the system tells it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _sweep(folder: Path) -> None:
    """Remove what servers left here that were killed."""
    for path in folder.glob("*.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            found = path.lstat()
            if not stat.S_ISSOCK(found.st_mode) or time.time() - found.st_mtime < _PATIENCE:
                continue  # one that has its name is not at once listened at
            asking.settimeout(1)
            try:
                asking.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)


def ask() -> Iterator[dict[str, Any]]:
    """Return the counters of every server of the folder of work; what a dead one left is removed."""
    for path in sorted((work_folder() / FOLDER).glob("*.sock")):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(_PATIENCE)
            try:
                asking.connect(str(path))
                answer = b""
                while part := asking.recv(65_536):
                    answer += part
            except ConnectionRefusedError:  # nobody listens any more
                path.unlink(missing_ok=True)
                continue
            except OSError as error:
                print(f"{path.name}: {type(error).__name__}", file=sys.stderr)
                continue
        yield json.loads(answer)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Print what each server of the folder of work ($POSENC_WORK) has done and holds: sessions, reruns "
    "by page, incidents, uploads, states of runs, bytes of caches and memory. Exit status 1 where no "
    "server answers, 2 where a setting cannot be used.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each server.")
def main(as_json: bool) -> None:
    """Print the counters; status 1 where no server answers."""
    try:
        settings.current()  # secrets may say where the folder is
    except PosencError as error:
        print(f"posenc: {error}", file=sys.stderr)
        sys.exit(2)
    found = list(ask())
    if not found:
        print(f"No server answers in {work_folder() / FOLDER}.", file=sys.stderr)
        sys.exit(1)
    for one in found:
        print(json.dumps(one) if as_json else _told(one))


def _told(one: dict[str, Any]) -> str:
    lines = []
    for name, value in one.items():
        if isinstance(value, dict):
            lines += [f"  {name}"] + [f"    {key or '-':40}{n}" for key, n in value.items()]
        else:
            lines.append(f"{'' if name == 'process' else '  '}{name:42}{value}")
    return "\n".join(lines)


if __name__ == "__main__":
    main(prog_name="python -m dashboard.server.counters")
