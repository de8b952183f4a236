"""What is held of visitors' files: tables, numbers and the files themselves, for one owner and for all."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from dashboard import limits, visitor_files
from dashboard.server import streamlit_parts, upload_limit, uploaders
from dashboard.server.settings import ServerSettingError
from dashboard.server.upload_limit import LEAST, UploadLimit
from dashboard.visitor_files import (
    UploadCache,
    UploadedNumbers,
    cache_numbers,
    cache_table,
    cached_tables,
)
from posenc.checkpoints.array_files import NumberTable
from posenc.checkpoints.sources import named_table
from posenc.errors import CheckpointError

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.usefixtures("tables")
def test_uploaded_tables_are_limited_for_all_and_for_one_owner() -> None:
    """32 tables and 256 MiB for all, a quarter of that for one owner. Untouched memory costs nothing."""
    table = named_table("trained")
    theirs = [cache_table(replace(table, sha256=f"theirs {n}"), "them") for n in range(3)]
    ours = [cache_table(replace(table, sha256=f"ours {n}"), "us") for n in range(12)]
    assert [name for name in ours if name in cached_tables] == ours[-8:]
    last = cache_table(replace(table, table=torch.empty(2**15, 2**9), sha256="of 64 MiB"), "us")
    assert [name for name in (*ours, last) if name in cached_tables] == [last]
    assert all(name in cached_tables for name in theirs)
    with pytest.raises(CheckpointError, match=f"The uploaded table {ours[0]} is not on"):
        named_table(ours[0])
    mib128 = torch.empty(2**15, 2**10)
    names = [cache_table(replace(table, table=mib128, sha256=f"{n}")) for n in range(3)]
    assert [name in cached_tables for name in names] == [False, True, True]
    small = [cache_table(replace(table, sha256=f"small {n}")) for n in range(40)]
    assert sum(name in cached_tables for name in (*names, *small)) == 32


def test_eviction_spares_values_with_two_owners_or_read_last() -> None:
    cache: UploadCache[bytes] = UploadCache(8, 400, len)
    for owner in "xy":
        cache.put("of both", b"1", owner)
    for owner in "xyx":
        for n in range(2):
            cache.put(f"{owner} {n}", b"22", owner)
    assert "of both" in cache
    assert [*cache._entries] == [
        "of both",
        "y 0",
        "y 1",
        "x 0",
        "x 1",
    ]  # the last four of 2 bytes each
    assert cache.get("of both") == b"1"
    for n in range(7):
        cache.put(f"{n}", b"3")
    assert cache.get("of both") == b"1"  # though it came first
    assert "x 0" not in cache


def test_number_tables_are_limited_and_long_ones_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = visitor_files.cached_numbers
    for name, value in (("_entries", {}), ("max_items", 4), ("max_bytes", 200)):
        monkeypatch.setattr(cache, name, value)
    tables = [NumberTable(torch.full((4, 4), float(n)), None, "") for n in range(4)]
    names = [cache_numbers(UploadedNumbers(table, "x")) for table in tables]  # of 64 bytes each
    assert [name in cache for name in names] == [False, True, True, True]
    monkeypatch.setattr(visitor_files, "MAX_NUMBERS", 16)
    cut = visitor_files.without_extra_rows(NumberTable(torch.zeros(8, 4), None, ""))
    assert cut.table.shape == (4, 4)
    assert cut.notes == ("Only the first 4 of 8 rows are checked.",)


def test_name_of_uploaded_numbers_depends_on_all_that_is_shown() -> None:
    """Results are cached by this name, so equal names must mean equal pages."""
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    asked: list[tuple[torch.Tensor, str, tuple[str, ...], dict[str, Any]]] = [
        (table, "a.npy", (), {}), (table + 1, "a.npy", (), {}), (table.double(), "a.npy", (), {}),
        (table.reshape(4, 6), "a.npy", (), {}), (table, "b.npy", (), {}),
        (table, "a.npy", ("Noted.",), {}), (table, "a.npy", (), {"files": ("a.npy",)}),
        (table, "a.npy", (), {"tensor": "wpe"}),
    ]  # fmt: skip
    names = [
        cache_numbers(UploadedNumbers(NumberTable(rows.clone(), None, "", notes), source, **more))
        for rows, source, notes, more in [*asked, asked[0]]
    ]
    assert names[-1] == names[0]
    assert len({*names}) == len(asked)


def file_record(file_id: str, size: int, name: str = "a.npy") -> UploadedFileRec:
    return UploadedFileRec(file_id, name, "", bytes(size))


class Server:
    """The limit in front of a server that stores every file that comes in, a moment later."""

    def __init__(self) -> None:
        self.manager = MemoryUploadedFileManager("/_stcore/upload_file")
        self._limit = UploadLimit(self._store)

    async def _store(self, scope: Scope, receive: Receive, send: Send) -> None:
        *_, session, file_id = scope["path"].split("/")
        await asyncio.sleep(0)
        self.manager.add_file(session, file_record(file_id, (await receive())["size"]))
        await Response(status_code=204)(scope, receive, send)

    async def _put(self, session: str, file_id: str, size: int, length: str | None) -> str:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"size": size, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [] if length is None else [(b"content-length", length.encode())]
        path = f"/posenc/_stcore/upload_file/{session}/{file_id}"
        scope = {"type": "http", "method": "PUT", "path": path, "headers": headers}
        await self._limit(scope, receive, send)
        start, body = sent
        return f"{start['status']} {body.get('body', b'').decode()}".strip()

    def put(self, *files: tuple[str, str, int], length: str | None = "") -> list[str]:
        """Send files of a session, an id and a size at once; return the answers. length: as stated."""

        async def at_once() -> list[str]:
            requests = [self._put(*one, str(one[-1]) if length == "" else length) for one in files]
            return [*await asyncio.gather(*requests)]

        with ThreadPoolExecutor() as pool:  # a browser's tests have an event loop in this thread
            return pool.submit(asyncio.run, at_once()).result()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with room for ten files of the least size that counts."""
    made = Server()
    instance = SimpleNamespace(uploaded_file_mgr=made.manager)
    running = SimpleNamespace(exists=lambda: True, get_instance=lambda: instance)
    monkeypatch.setattr(streamlit_parts, "runtime", running)
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 10 * LEAST)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 0)
    return made


FULL = f"503 {upload_limit.FULL}"


def test_files_past_the_limit_of_all_are_refused(server: Server) -> None:
    assert server.put(("ours", "a", 6 * LEAST), ("theirs", "b", 0)) == ["204", "204"]
    assert server.put(("theirs", "c", 4 * LEAST)) == [FULL]
    assert server.put(("theirs", "c", 3 * LEAST - 1_000)) == ["204"]
    assert server.put(("ours", "d", 0)) == [FULL]
    server.manager.remove_session_files("ours")
    assert server.put(("ours", "d", 0)) == ["204"]
    server.manager.add_file(
        "ours", file_record("e", 0, "x" * 5 * LEAST)
    )  # its name takes memory as well
    assert server.put(("ours", "f", 0)) == [FULL]


def test_files_that_arrive_at_once_are_limited_together(server: Server) -> None:
    """Empty ones count, too; what was refused or has failed takes no room."""
    for _ in range(2):
        answers = server.put(*[(f"session {n}", "a", 9) for n in range(200)])
        assert (answers.count("204"), answers.count(FULL)) == (10, 190)
        for session in [*server.manager.file_storage]:
            server.manager.remove_session_files(session)


def test_uploads_without_a_length_or_switched_off_are_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for length in (None, "-1", "x", "1e3", "²"):
        (answer,) = server.put(("ours", "a", 1), length=length)
        assert answer == f"411 {upload_limit.NO_LENGTH}"
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    assert server.put(("ours", "a", 2**20 + 1)) == [
        "413 A file may have at most 1 MB; this file is larger."
    ]
    monkeypatch.setenv("POSENC_UPLOADS", "0")
    assert server.put(("ours", "a", 1)) == [f"403 {upload_limit.SWITCHED_OFF}"]
    monkeypatch.setenv("POSENC_UPLOADS", "no such setting")
    with pytest.raises(ServerSettingError):  # the web server answers 500
        server.put(("ours", "a", 1))
    assert upload_limit.held_bytes() == 0


@pytest.mark.usefixtures("shared")
def test_session_of_a_shared_server_has_a_quarter_of_the_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 16 * 2**20)
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    answers = server.put(*[("ours", f"{n}", 2**20) for n in range(5)], ("theirs", "a", 2**20))
    assert answers == ["204"] * 4 + [FULL, "204"]
    server.manager.remove_session_files("ours")
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 8 * 2**20)
    assert server.put(("third", "a", 2**20), ("third", "b", 2**20)) == ["204"] * 2  # two always


def test_table_of_a_shared_server_belongs_to_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimpleNamespace(session_id="ours")
    monkeypatch.setattr(streamlit_parts, "get_script_run_ctx", lambda: run)
    assert uploaders.owner() is None  # of the one person of a private server
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    assert uploaders.owner() == "ours"
