"""The load test itself: its visitors meet what a browser meets, and its counts see what grows."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scipy.stats import theilslopes

from dashboard.server import hosting
from tests.load.batches import grown, multiplied, run
from tests.load.server import Served, served

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # A tab that was closed is forgotten at once, not after two minutes.
    forgets = {"STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": "1"}
    with served(tmp_path_factory.mktemp("load"), **forgets) as one:
        yield one


def test_concurrent_visitors_open_a_page_and_turn_its_dial(server: Served) -> None:
    figures = run(server, visitors=3, reruns=2, pause=0.0, alike=False)
    assert figures.faults == []
    assert (len(figures.first), len(figures.turned)) == (3, 6)
    assert min(one.seconds for one in figures.first) > 0
    assert min(one.size for one in figures.first) > max(one.size for one in figures.turned) > 0
    assert 100 < server.memory() < 4_000
    assert figures.worked > 0


@pytest.mark.long
def test_hundred_visitors_at_once_are_served(server: Served) -> None:
    figures = run(server, visitors=100, reruns=1, pause=1.0)
    assert figures.faults == []
    assert (len(figures.first), len(figures.turned)) == (100, 100)


def _memory_of_imports() -> float:
    """Return the MB of a process that imports what the server does; machines differ by a third."""
    text = """
import importlib
import sys

from tests.load.server import resident_memory

for module in sys.argv[1:]:
    importlib.import_module(module)
print(resident_memory("self"))
"""
    modules = ("streamlit.web.cli", *hosting.SLOW_IMPORTS)
    command = [sys.executable, "-c", text, *modules]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.long
def test_thousand_reruns_leak_no_memory(tmp_path: Path) -> None:
    with served(tmp_path) as fresh:
        run(fresh, visitors=1, reruns=2, pause=0.0)
        assert fresh.memory() <= 1.4 * _memory_of_imports()
        run(fresh, visitors=4, reruns=150, pause=0.0)
        memory = [fresh.memory()]
        for _ in range(5):
            assert run(fresh, visitors=4, reruns=50, pause=0.0).faults == []
            memory.append(fresh.memory())
    # The allocator takes and returns pages in steps of many MB, back and forth from batch to batch: the
    # median slope between any two batches shows what leaks.
    assert theilslopes(memory).slope <= 2, memory  # MB in 200 reruns


@pytest.mark.long
def test_no_container_grows_over_identical_batches(server: Served) -> None:
    censuses = []
    for batch in range(5):
        time.sleep(2)  # closed tabs are forgotten
        if batch > 1:
            censuses.append(server.census())
        assert run(server, visitors=4, reruns=20, pause=0.0, page="similarity").faults == []
    time.sleep(2)
    assert len(censuses[0]) > 1_000
    censuses.append(server.census())
    assert grown(*censuses) == {}
    assert multiplied(*censuses, least=4) == {}  # something of every visitor
