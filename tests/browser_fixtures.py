"""What every browser test is given: the dashboard and a small app served, a Chromium, visitors.

A process of the test run serves each app once and launches one Chromium, when the first test asks;
every test has browser contexts of its own, and no fault may be left in them at its end.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visit, Visitor, find_chromium, launched, served

if TYPE_CHECKING:
    from tests.matrix_probe import Desk

expect.set_options(timeout=20_000)  # a busy machine shows late what it shows

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of an installed Chromium, for Playwright's executable_path."""
    path = find_chromium()
    if path is None:
        pytest.fail("POSENC_REQUIRE_BROWSER is 1, but no Chromium is installed.")
    return path


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """The one browser of this process; each test has its own contexts in it."""
    with launched(chromium_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the dashboard, served once."""
    with served(tmp_path_factory.mktemp("dashboard") / "log.txt") as found:
        yield found


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a small app with three rows of matrices, served once."""
    from tests import matrix_probe  # not for those who only ask whether there is a browser

    folder = tmp_path_factory.mktemp("probe")
    with served(folder / "log.txt", matrix_probe.written(folder)) as found:
        yield found


@pytest.fixture
def visitor(chromium: Browser, address: str) -> Iterator[Visit]:
    """Makes visitors of the dashboard with a browser context of the given kind."""
    with _visitors(chromium, address) as make:
        yield make


@pytest.fixture
def visit(chromium: Browser, probe: str) -> Iterator[Callable[..., Page]]:
    """Opens the small app by its query in a browser context of the given kind."""
    from tests import matrix_probe

    with _visitors(chromium, probe) as make:
        yield lambda query="", **kind: matrix_probe.opened(make(**kind), query)


@pytest.fixture(scope="session")
def desk(chromium: Browser, probe: str) -> Iterator["Desk"]:
    """Where the page stands that tests share."""
    from tests import matrix_probe

    made = matrix_probe.Desk(chromium, probe)
    yield made
    made.close()


@pytest.fixture
def page(desk: "Desk", request: pytest.FixtureRequest) -> Iterator[Page]:
    """The small app at a desk, shared by tests that only point, zoom and read; tidied up after each."""
    yield desk.lend()
    desk.take_back(whole=not request.node.stash.get(_FAILED, False))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember whether a test failed: what it leaves behind is not lent to another."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@contextmanager
def _visitors(chromium: Browser, address: str) -> Iterator[Visit]:
    made: list[Visitor] = []

    def make(**kind: Any) -> Visitor:
        made.append(Visitor(chromium, address, **kind))
        return made[-1]

    yield make
    for one in made:
        one.context.close()
    assert [fault for one in made for fault in one.faults] == []
