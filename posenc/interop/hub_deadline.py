"""When a reading from the Hub must be over: its connection is cut then, however steadily it drips.

The timeout of a socket begins anew with every byte, so it alone bounds nothing.
"""

import contextlib
import socket
import threading
import time
import urllib.request
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from posenc.errors import CheckpointError


class Deadline:
    """A moment after which nothing is read: the connection that it watches is cut then."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def left(self) -> float:
        """Return the seconds that are left. Raises CheckpointError where there are none."""
        left = self._end - time.monotonic()
        if left <= 0 or self._over:
            raise CheckpointError("The Hub took too long to answer.")
        return left

    def watch(self, connected: socket.socket) -> None:
        """Cut this connection at the end, or now where the end has come."""
        with self._lock:
            self._socket = connected
            over = self._over
        if over:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            self._over = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed
                    self._socket.shutdown(socket.SHUT_RDWR)


class _Watched(urllib.request.AbstractHTTPHandler):
    """Gives every connection that is made to the deadline."""

    deadline: Deadline

    def do_open(self, http_class: Any, req: urllib.request.Request, **more: Any) -> HTTPResponse:
        def connection(host: str, **given: Any) -> HTTPConnection:
            made: HTTPConnection = http_class(host, **given)
            connect = made.connect

            def watched() -> None:
                connect()
                self.deadline.watch(made.sock)

            made.connect = watched  # type: ignore[method-assign]
            return made

        return super().do_open(connection, req, **more)


class _Http(_Watched, urllib.request.HTTPHandler):
    """http alone."""


class _Https(_Watched, urllib.request.HTTPSHandler):
    """https alone."""


def opener_until(deadline: Deadline) -> urllib.request.OpenerDirector:
    """Return what opens http and https addresses alone, and follows no redirection."""
    http, https = _Http(), _Https()
    http.deadline = https.deadline = deadline
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        http,
        https,
        urllib.request.HTTPDefaultErrorHandler(),  # every answer but 2xx is raised as an HTTPError
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
