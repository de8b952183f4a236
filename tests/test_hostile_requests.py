"""A server that is asked nonsense over its own socket: every odd address draws a page without a fault."""

import http.client
import random
from collections.abc import Iterator

import pytest

from tests.served_process import HOST, Served, server, visiting
from tests.test_hostile_links import KINDS_OF_ADDRESS

PAGES = ("", "similarity", "pca", "encoding", "overview", "claims", "train", "context_planner")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server(tmp_path_factory.mktemp("asked"), POSENC_PROFILE="shared") as one:
        yield one


def faults(one: Served, page: str, query: str) -> list[str]:
    """What was wrong with the answer to a link: an exception that is shown, an incident, no title."""
    with visiting(one, page, query) as found:
        shown = [message.delta.new_element for message in found if message.HasField("delta")]
    wrong = [str(part.exception)[:200] for part in shown if part.HasField("exception")]
    wrong += [part.alert.body for part in shown if "as incident" in part.alert.body]
    titled = any(part.heading.tag == "h1" for part in shown if part.HasField("heading"))
    return wrong if titled else [*wrong, "no title"]


@pytest.mark.parametrize("query", KINDS_OF_ADDRESS, ids=lambda query: query[:32])
def test_an_odd_address_draws_its_page(served: Served, query: str) -> None:
    assert faults(served, "similarity", query) == []


def test_bytes_drawn_at_random_in_an_address_draw_every_page(served: Served) -> None:
    """Raw percent signs, NUL, halves of characters and of names, as somebody types or a tool sends."""
    drawn = random.Random(7)
    for page in PAGES:
        for _ in range(4):
            names = drawn.choices(
                ("dim", "base", "a", "model", "schemes", "length", "\ufeff", "x"), k=3
            )
            values = (
                "".join(
                    drawn.choices("%00%ff&=+~<>\"';\\\u202e\U0001f600٣-1e9", k=drawn.randint(0, 40))
                )
                for _ in names
            )
            query = "&".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
            assert faults(served, page, query) == [], query


def test_addresses_that_are_too_long_are_answered_and_the_server_goes_on(served: Served) -> None:
    for size, allowed in (
        (50_000, {200}),
        (70_000, {200, 400, 414, 431}),
        (1_000_000, {400, 414, 431}),
    ):
        link = http.client.HTTPConnection(HOST, served.port, timeout=20)
        try:
            link.request("GET", f"/similarity?base={'9' * size}")
            assert link.getresponse().status in allowed, size
        finally:
            link.close()
    assert faults(served, "similarity", "dim=64") == []
