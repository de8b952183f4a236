"""What a page sends leaves at once: Nagle's algorithm is off for the server's sockets and no other."""

import socket
from contextlib import ExitStack

import pytest

from dashboard.server import sockets
from tests.dashboard.pages import visit


def test_open_and_new_connections_of_a_server_never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_delay(one: socket.socket) -> bool:
        return bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def accepted(door: socket.socket) -> socket.socket:
        stack.enter_context(socket.create_connection(door.getsockname()))
        return stack.enter_context(door.accept()[0])

    with ExitStack() as stack:
        # As Streamlit binds its own, by which asyncio does not know them for TCP.
        ours, other = (stack.enter_context(socket.socket(socket.AF_INET)) for _ in range(2))
        for door in (ours, other):
            door.bind(("127.0.0.1", 0))
            door.listen()
        monkeypatch.setattr(sockets.st, "get_option", {"server.port": ours.getsockname()[1]}.get)
        before = accepted(ours)
        assert before.proto == 0  # why asyncio leaves it as it is
        with monkeypatch.context() as patched:
            patched.setattr(sockets, "OPEN", sockets.Path("/nowhere"))  # a system without /dev/fd
            sockets.send_at_once.__wrapped__()
        assert not has_no_delay(before)
        sockets.send_at_once.__wrapped__()
        assert has_no_delay(before)
        assert has_no_delay(accepted(ours))
        assert not has_no_delay(accepted(other))


def test_first_page_sets_the_option() -> None:
    sockets.send_at_once.cache_clear()
    assert not visit("start").exception
    assert sockets.send_at_once.cache_info().currsize == 1
