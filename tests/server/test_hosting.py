"""What the server does before its first visitor."""

import asyncio
import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from dashboard.server import hosting
from tests.server.served_process import server, visiting


def start() -> None:
    """Start what a server does before its first visitor, and end it."""

    async def serve() -> None:
        async with hosting.lifespan(None):  # type: ignore[arg-type]
            pass

    with ThreadPoolExecutor() as pool:  # a browser's tests have an event loop in this thread
        pool.submit(asyncio.run, serve()).result()


def test_full_collections_of_a_server_leave_out_what_it_imported() -> None:
    own = {"imported": [object()]}
    assert any(one is own for one in gc.get_objects())
    start()
    assert not any(one is own for one in gc.get_objects())
    later = {"made": [object()]}  # by a visitor
    assert any(one is later for one in gc.get_objects())


def test_new_connections_of_the_server_and_no_other_send_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sends_at_once(listening: socket.socket) -> bool:
        stack.enter_context(socket.create_connection(listening.getsockname()))
        accepted = stack.enter_context(listening.accept()[0])
        assert accepted.proto == 0  # by which asyncio does not know it for TCP
        return bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with ExitStack() as stack:
        ours, other = (stack.enter_context(socket.socket(socket.AF_INET)) for _ in range(2))
        for listening in (ours, other):
            listening.bind(("127.0.0.1", 0))
            listening.listen()
        monkeypatch.setattr(hosting.st, "get_option", {"server.port": ours.getsockname()[1]}.get)
        with monkeypatch.context() as patched:
            patched.setattr(
                hosting, "OPEN_FILES", hosting.Path("/nowhere")
            )  # a system without /dev/fd
            start()
        assert not sends_at_once(ours)
        start()
        assert sends_at_once(ours)
        assert not sends_at_once(other)


@pytest.mark.long
def test_first_visitor_by_a_link_is_told_of_no_missing_page(tmp_path: Path) -> None:
    """Streamlit takes a folder named pages for pages of its own until a script has run."""
    with server(tmp_path) as one, visiting(one, "similarity", "dim=64") as messages:
        kinds = [message.WhichOneof("type") for message in messages]
    assert "new_session" in kinds
    assert "page_not_found" not in kinds
