"""The load test itself: its visitors meet what a browser meets, and its counts see what grows."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.load.batches import DIAL, grown, multiplied, run
from tests.load.figures import Figures, table
from tests.load.server import Served, served
from tests.load.visitor import Answer, Visitor

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # A tab that was closed is forgotten at once, not after two minutes.
    forgets = {"STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": "1"}
    with served(tmp_path_factory.mktemp("load"), **forgets) as one:
        yield one


def test_a_visitor_opens_a_page_and_turns_a_control(server: Served) -> None:
    async def visit() -> tuple[Visitor, list[Answer]]:
        async with Visitor(server.address, "similarity", "schemes=rope&dim=64&length=32") as one:
            answers = [await one.look(), await one.turn(DIAL, 3), await one.turn(DIAL, 3)]
        return one, answers

    with ThreadPoolExecutor(1) as alone:  # this thread may have a loop that runs
        visitor, (first, turned, again) = alone.submit(asyncio.run, visit()).result()
    assert visitor.faults == []
    assert "10" in visitor.dials[DIAL].stops[0]
    assert first.size > turned.size == again.size > 0
    assert first.seconds > 0


def test_what_goes_wrong_on_a_page_is_a_fault(server: Served) -> None:
    figures = run(server, visitors=1, reruns=0, pause=0.0, page="nowhere")
    assert figures.faults == ["no page nowhere"]
    missing = run(server, visitors=2, reruns=1, pause=0.0, page="context_planner")  # it has no base
    assert missing.faults == [f"KeyError: '{DIAL}'"] * 2


def test_a_page_that_says_that_it_failed_is_a_fault() -> None:
    visitor = Visitor("http://nowhere")
    for said, colour in (("This page could not be computed.", Alert.ERROR), ("x", Alert.WARNING)):
        message = ForwardMsg()
        message.delta.new_element.alert.body = said
        message.delta.new_element.alert.format = colour
        visitor._drawn(message)
    assert visitor.faults == ["This page could not be computed."]
    assert visitor.text == ["This page could not be computed.", "x"]


def test_visitors_at_once_are_all_served_without_a_fault(server: Served) -> None:
    figures = run(server, visitors=5, reruns=3, pause=0.0, alike=False)
    assert figures.faults == []
    assert (len(figures.first), len(figures.turned)) == (5, 15)
    assert 100 < server.memory() < 4_000
    assert figures.worked > 0
    row = figures.row()
    assert row["p50 ms"] <= row["p95 ms"]
    lines = table([("five", figures)]).splitlines()
    assert lines[1].split()[0] == "five"
    assert len({len(line) for line in lines}) == 1


def test_quantiles_and_sizes_are_those_of_the_answers() -> None:
    figures = Figures(turned=[Answer(n / 10, 1_000 * n, 1) for n in range(1, 12)])
    assert figures.quantile(0.5) == pytest.approx(0.6)
    assert figures.quantile(0.95) == pytest.approx(1.05)
    assert figures.size() == 11
    assert table([]) == ""


def test_what_grows_from_census_to_census_is_found() -> None:
    first = {"1": ("list of int ", 5), "2": ("dict of str a", 5), "3": ("set of int ", 9)}
    second = {"1": ("list of int ", 6), "2": ("dict of str a", 5), "4": ("set of int ", 9)}
    third = {"1": ("list of int ", 8), "2": ("dict of str a", 4), "3": ("set of int ", 99)}
    assert grown(first, second, third) == {"list of int  at 1": [5, 6, 8]}
    assert grown(first, second, first) == {}


def test_kinds_of_which_there_are_ever_more_are_found() -> None:
    censuses = [{str(n): ("dict of str page", 5) for n in range(count)} for count in (3, 7, 11)]
    assert multiplied(*censuses, least=4) == {"dict of str page": [3, 7, 11]}
    assert multiplied(*censuses, least=5) == {}
    assert multiplied(*censuses, censuses[0], least=4) == {}


@pytest.mark.long
def test_a_hundred_who_come_at_once_are_all_served(server: Served) -> None:
    figures = run(server, visitors=100, reruns=1, pause=1.0)
    assert figures.faults == []
    assert (len(figures.first), len(figures.turned)) == (100, 100)


@pytest.mark.long
def test_a_server_that_has_drawn_a_page_needs_550_megabytes_at_most(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        assert run(one, visitors=1, reruns=2, pause=0.0).faults == []
        assert one.memory() <= 550


@pytest.mark.long
def test_nothing_grows_over_identical_batches(server: Served) -> None:
    asked = {"visitors": 4, "reruns": 20, "pause": 0.0, "page": "similarity"}
    for _ in range(2):
        assert run(server, **asked).faults == []
    censuses = []
    for _ in range(3):
        time.sleep(2)  # closed tabs are forgotten
        censuses.append(server.census())
        assert run(server, **asked).faults == []
    time.sleep(2)
    assert len(censuses[0]) > 1_000
    censuses.append(server.census())
    assert grown(*censuses) == {}
    assert multiplied(*censuses, least=4) == {}  # something of every visitor


@pytest.mark.long
def test_a_thousand_reruns_cost_ten_megabytes_at_most(server: Served) -> None:
    run(server, visitors=4, reruns=150, pause=0.0)
    before = server.memory()
    figures = run(server, visitors=4, reruns=250, pause=0.0)
    assert figures.faults == []
    assert server.memory() - before <= 10
