"""What is held of visitors' files: tables, numbers and the files themselves, for one owner and for all."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starlette.exceptions import HTTPException
from streamlit.proto.Common_pb2 import FileURLs
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

from dashboard import limits
from dashboard.compute import uploaded_numbers
from dashboard.compute.upload_cache import UploadCache, cache_table, is_cached
from dashboard.controls import uploads
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
    assert [name for name in ours if is_cached(name)] == ours[-8:]
    last = cache_table(replace(table, table=torch.empty(2**15, 2**9), sha256="of 64 MiB"), "us")
    assert [name for name in (*ours, last) if is_cached(name)] == [last]
    assert all(map(is_cached, theirs))
    with pytest.raises(CheckpointError, match=f"The uploaded table {ours[0]} is not held"):
        named_table(ours[0])
    mib128 = torch.empty(2**15, 2**10)
    names = [cache_table(replace(table, table=mib128, sha256=f"{n}")) for n in range(3)]
    assert [is_cached(name) for name in names] == [False, True, True]
    small = [cache_table(replace(table, sha256=f"small {n}")) for n in range(40)]
    assert sum(map(is_cached, (*names, *small))) == 32


def test_eviction_spares_values_with_two_owners_or_read_last() -> None:
    cache: UploadCache[bytes] = UploadCache(8, 400, len)
    for owner in "xy":
        cache.put("of both", b"1", owner)
    for owner in "xyx":
        for n in range(2):
            cache.put(f"{owner} {n}", b"22", owner)
    assert "of both" in cache
    assert cache.size() == 9  # the last four of 2 bytes each
    assert cache.get("of both") == b"1"
    for n in range(7):
        cache.put(f"{n}", b"3")
    assert cache.get("of both") == b"1"  # though it came first
    assert cache.get("x 0") is None


def test_number_tables_are_limited_and_long_ones_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    size = uploaded_numbers._cache._size
    monkeypatch.setattr(uploaded_numbers, "_cache", UploadCache(3, 200, size))

    def cache_numbers(value: float, rows: int = 4) -> str:
        table = torch.full((rows, 4), value)
        return uploaded_numbers.cache_numbers(NumberTable(table, None, ""), "x")

    names = [cache_numbers(float(n)) for n in range(4)]  # of 64 bytes each
    assert [uploaded_numbers.are_cached(name) for name in names] == [False, True, True, True]
    monkeypatch.setattr(uploaded_numbers, "MAX_NUMBERS", 16)
    cut = uploaded_numbers.cached_numbers(cache_numbers(9.0, rows=8))
    assert cut.table.shape == (4, 4)
    assert cut.notes == ("Only the first 4 of 8 rows are looked at.",)


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
        uploaded_numbers.cache_numbers(
            NumberTable(numbers.clone(), None, "", notes), source, **more
        )
        for numbers, source, notes, more in [*asked, asked[0]]
    ]
    assert names[-1] == names[0]
    assert len({*names}) == len(asked)


ENDPOINT = "/_stcore/upload_file"


def file_record(file_id: str, size: int, name: str = "a.npy") -> UploadedFileRec:
    return UploadedFileRec(file_id, name, "", bytes(size))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryUploadedFileManager:
    """A store whose calls come from a page of the session "ours"."""
    made = MemoryUploadedFileManager(ENDPOINT)
    run = SimpleNamespace(uploaded_file_mgr=made, session_id="ours")
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: run)
    return made


def test_dropped_file_leaves_its_session_alone(store: MemoryUploadedFileManager) -> None:
    record = file_record("x", 20)
    store.add_file("ours", record)
    store.add_file("theirs", record)
    assert uploads.held() == 40
    uploads._drop(UploadedFile(record, FileURLs()))
    assert uploads.held() == 20
    assert store.get_files("theirs", ["x"]) == [record]


def test_store_refuses_files_past_its_limit_or_all(
    store: MemoryUploadedFileManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 1_000_000)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 200_000)  # two of them may come in besides
    store.add_file("ours", file_record("before", 300_000))
    uploads.bound()
    uploads.bound()
    assert type(store) is uploads.Bounded
    store.add_file("ours", file_record("a", 600_000))
    with pytest.raises(HTTPException) as refused:
        store.add_file("theirs", file_record("b", 500_001))
    assert (refused.value.status_code, refused.value.detail) == (503, uploads.FULL)
    store.add_file("ours", file_record("a", 1_000_000))  # takes the place of the other
    assert uploads.held() == 1_300_000
    store.remove_session_files("ours")
    for n in range(21):  # each counts as 65,536 bytes, though it is empty
        store.add_file("ours", file_record(str(n), 0))
    with pytest.raises(HTTPException):
        store.add_file("ours", file_record("21", 0))
    store.remove_session_files("ours")
    with pytest.raises(HTTPException):  # a long name takes memory as well
        store.add_file("ours", file_record("a", 0, "x" * 1_400_000))
    store.remove_session_files("ours")
    for off in ("0", "no such setting"):
        monkeypatch.setenv("POSENC_UPLOADS", off)
        with pytest.raises(HTTPException) as refused:
            store.add_file("ours", file_record("a", 1))
        assert (refused.value.status_code, refused.value.detail) == (403, uploads.SWITCHED_OFF)
    assert uploads.held() == 0


def test_files_that_arrive_at_once_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    store = uploads.Bounded(ENDPOINT)
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 10 * uploads.LEAST)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 0)

    def add(n: int) -> None:
        with suppress(HTTPException):
            store.add_file(f"session {n}", file_record("a", 9))

    with ThreadPoolExecutor(16) as pool:
        assert len([*pool.map(add, range(200))]) == 200
    assert len(store.file_storage) == 10


@pytest.mark.usefixtures("shared")
def test_session_over_its_share_loses_its_own_oldest_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 MiB in all, a session of a shared server has 2.5 MiB."""
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 8 * 2**20)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 2**20)
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    store = uploads.Bounded(ENDPOINT)

    def add(session: str, file_id: str, kib: int) -> None:
        store.add_file(session, file_record(file_id, kib * 2**10))

    def file_ids(session: str) -> list[str]:
        return [*store.file_storage[session]]

    add("theirs", "a", 900)
    for n in range(10):
        add("ours", f"{n}", 600)
        assert file_ids("ours") == [f"{m}" for m in range(max(0, n - 3), n + 1)]
    assert file_ids("theirs") == ["a"]
    for n in range(3):
        add(f"other {n}", "a", 1_000)
        add(f"other {n}", "b", 1_000)
    for session, kib in (("last", 1_200), ("ours", 3_600)):
        with pytest.raises(HTTPException):
            add(session, "large", kib)
    assert file_ids("ours") == ["6", "7", "8", "9"]  # nothing goes for a file that is refused
    monkeypatch.setenv("POSENC_UPLOAD_MB", "3")  # two files of full size are always allowed
    assert uploads.most_of_one() == 2 * (3 * 2**20 + uploads.LEAST)
