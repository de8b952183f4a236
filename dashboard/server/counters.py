"""What a server has done and holds, for its operator: among Streamlit's own metrics.

`/_stcore/metrics` of a server answers in the text format of Prometheus. The proxy refuses that address.
"""

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st
from streamlit.runtime.stats import CounterStat, GaugeStat

from dashboard import cache
from dashboard.server import settings
from dashboard.server.logs import event
from posenc.errors import PosencError
from posenc.lab.jobs import JobState, Queue
from posenc.lab.runs import Store

HELP = {
    "posenc_sessions": "Sessions that visitors began.",
    "posenc_reruns": "Runs of a page's script.",
    "posenc_incidents": "Faults that a visitor saw as an incident.",
    "posenc_uploads": "Files that a page took.",
    "posenc_starts": "Starts of training.",
    "posenc_runs": "Trainings, by their state.",
    "posenc_results_bytes": "Results of pages in memory.",
    "process_resident_memory_bytes": "Memory of this server.",
}


class Counters:
    """Counts of one process, which Streamlit asks for its metrics."""

    stats_families = tuple(HELP)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, what: str, page: str = "") -> None:
        """Count one more of something, such as a rerun of a page."""
        with self._lock:
            self._counts[f"posenc_{what}", page] += 1

    def get_stats(
        self, family_names: Sequence[str] | None = None
    ) -> Mapping[str, Sequence[CounterStat | GaugeStat]]:
        """Return every count, and what is held right now."""
        with self._lock:
            counts = sorted(self._counts.items())
        stats: dict[str, list[CounterStat | GaugeStat]] = {family: [] for family in HELP}
        for (family, page), number in counts:
            labels = {"page": page} if page else {}
            stats[family].append(CounterStat(family, number, labels, help=HELP[family]))
        gauges = [("posenc_runs", number, {"state": state}) for state, number in _runs().items()]
        gauges.append(("posenc_results_bytes", int(cache.RESULTS.currsize), {}))
        gauges += [("process_resident_memory_bytes", size, {}) for size in _memory()]
        for family, number, labels in gauges:
            stats[family].append(GaugeStat(family, number, labels, help=HELP[family]))
        return stats


here = Counters()


def visited() -> None:
    """Count this visitor's session, once."""
    if "counted" not in st.session_state:
        st.session_state["counted"] = True
        here.count("sessions")
        event("session_begun")


def _runs() -> dict[str, int]:
    """Return how many starts are in each state, and how many runs are finished."""
    try:
        allowed = settings.current()
        jobs = Queue(running=allowed.running, waiting=allowed.waiting).jobs()
        finished = len(Store(allowed.store or None).ids())
    except (OSError, PosencError):  # not known right now
        return {}
    states = Counter(str(job.state) for job in jobs)
    return {state: states[state] for state in map(str, JobState)} | {"finished": finished}


def _memory() -> list[int]:
    """Return this process's memory in bytes, where the system tells it."""
    try:
        return [int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError, IndexError):
        return []
