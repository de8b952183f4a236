"""The server's sockets: what a page sends leaves at once.

A rerun is some seventy small messages. With Nagle's algorithm the last of them wait until the other side
has acknowledged the ones before, which it puts off by 40 ms. asyncio switches that off for sockets it has
bound itself; Streamlit 1.67 binds its own, by which asyncio does not know it for TCP (as in
https://github.com/Kludex/uvicorn/issues/3149), and has no option for it.
"""

import functools
import os
import socket
from pathlib import Path

import streamlit as st

OPEN = Path("/dev/fd")  # the files that a process has open; not on Windows


@functools.cache  # once for each process: whoever connects later inherits it from the door
def send_at_once() -> None:
    """Switch waiting off for the server's door and for everyone who has come in before."""
    try:
        files = [int(one.name) for one in OPEN.iterdir()]
    except OSError:
        return  # then messages are slower, and that is all
    port = st.get_option("server.port")
    for file in files:
        try:
            copy = os.dup(file)  # closed again; an option is of the socket itself
        except OSError:
            continue  # the one by which the folder was read
        try:
            found = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)  # no socket
            continue
        with found:
            _send_at_once(found, port)


def _send_at_once(found: socket.socket, port: int) -> None:
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
        return
    try:
        if found.getsockname()[1] == port:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        return  # it has just been closed
