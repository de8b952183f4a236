"""Give each test visitors and tabs of the Chromium and the dashboard that tests/conftest.py starts.

No fault may be left in a test's tabs at its end. Contexts are lent from one test to the next: a test
leaves nothing in them but a warm cache, for its sessions end with its tabs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.bare_page import open_bare
from tests.browser.browser import Visit, Visitor
from tests.dashboard.conftest import empty_result_cache, own_main  # noqa: F401


@pytest.fixture(scope="session")
def _warm_visitors() -> Iterator[list[Visitor]]:
    """Visitors at a desk with a warm cache, lent to one test after another."""
    visitors: list[Visitor] = []
    yield visitors
    for visitor in visitors:
        visitor.context.close()


@pytest.fixture
def visitor(chromium: Browser, address: str, _warm_visitors: list[Visitor]) -> Iterator[Visit]:
    """Makes visitors of the dashboard, each with a browser context of its own."""
    lent: list[Visitor] = []

    def make(**kind: Any) -> Visitor:
        warm = [each for each in _warm_visitors if each not in lent and not kind]
        one = warm[0] if warm else Visitor(chromium, address, **kind)
        if not warm and not kind:
            _warm_visitors.append(one)
        one.leave()  # a closed tab may have been heard late
        lent.append(one)
        return one

    yield make
    faults = [fault for each in lent for fault in each.faults]
    for each in lent:
        if each in _warm_visitors:
            each.leave()
        else:
            each.context.close()
    assert faults == []


@pytest.fixture
def page(bare: Callable[..., Page]) -> Page:
    """A bare page with the code of matrices and clocks; no server runs behind it."""
    return bare()


@pytest.fixture
def bare(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the bare page in a browser context of the given kind."""
    visitors: list[Visitor] = []

    def make(**kind: Any) -> Page:
        visitor, page = open_bare(chromium, **kind)
        visitors.append(visitor)
        return page

    yield make
    faults = [fault for each in visitors for fault in each.faults]
    for each in visitors:
        each.context.close()
    assert faults == []
