"""What a page sends leaves at once: Nagle's algorithm is off for the server's sockets and no other."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dashboard import sockets
from tests.pages import visit


@pytest.fixture
def doors() -> Iterator[list[socket.socket]]:
    """Two listening sockets as Streamlit binds its own, by which asyncio does not know them for TCP."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(socket.AF_INET)) for _ in range(2)]
        for door in made:
            door.bind(("127.0.0.1", 0))
            door.listen()
        yield made


def at_once(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def entered(door: socket.socket, stack: ExitStack) -> socket.socket:
    stack.enter_context(socket.create_connection(door.getsockname()))
    return stack.enter_context(door.accept()[0])


def test_those_who_came_and_those_who_will_are_answered_at_once(
    doors: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = doors
    monkeypatch.setattr(sockets.st, "get_option", {"server.port": ours.getsockname()[1]}.get)
    with ExitStack() as stack:
        before = entered(ours, stack)
        assert before.proto == 0  # why asyncio leaves it as it is
        assert not at_once(before)
        sockets.send_at_once.__wrapped__()
        assert at_once(before)
        assert at_once(entered(ours, stack))
        assert not at_once(entered(other, stack))


def test_a_system_without_such_a_folder_is_left_as_it_is(
    doors: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "OPEN", sockets.Path("/nowhere"))
    monkeypatch.setattr(sockets.st, "get_option", {"server.port": doors[0].getsockname()[1]}.get)
    sockets.send_at_once.__wrapped__()
    assert not at_once(doors[0])


def test_the_first_page_that_a_server_draws_does_so() -> None:
    sockets.send_at_once.cache_clear()
    assert not visit("start").exception
    assert sockets.send_at_once.cache_info().currsize == 1
