"""Uploaded tables: taken, chosen among, refused in words, never run and never formatted."""

import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from starlette.exceptions import HTTPException
from streamlit.proto.Common_pb2 import FileURLs
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec
from streamlit.testing.v1 import AppTest

from dashboard import sources, uploads, used
from posenc import PosencError, Setting, limits
from posenc.interop import read_position_table
from posenc.interop import sources as interop_sources
from posenc.interop.held import Held
from posenc.interop.sources import hold
from tests.crafted_files import legacy_pickle, zipped_pickle
from tests.pages import (
    PAGES,
    SCHEME_PAGES,
    as_read,
    charts,
    cosines,
    drawn,
    headline,
    matrices,
    notices,
    rows_of_matrices,
    setting,
    visit,
)

# A visitor's pages, without the checks of a test run.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


def checkpoint(**tensors: np.ndarray) -> bytes:
    return save({name.replace("__", "."): value for name, value in tensors.items()})


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(30, 12)).astype(np.float32)


def uploaded(content: bytes, name: str = "model.safetensors", page: str = "overview") -> AppTest:
    at = drawn(visit(page, {"length": "40", "train_length": "16"}, upload_table=True))
    table(at).set_value((name, content, "application/octet-stream")).run()
    return at


def table(at: AppTest) -> Any:
    """The sidebar's uploader."""
    return at.sidebar.get("file_uploader")[0]


def use(at: AppTest) -> AppTest:
    return at.button(key="use_upload").click().run()


def test_an_uploaded_table_becomes_the_learned_one(rows: np.ndarray) -> None:
    at = uploaded(checkpoint(embeddings__position_embeddings__weight=rows))
    assert any("30 x 12" in caption.value for caption in at.sidebar.caption)
    drawn(use(at))
    assert setting(at).learned_source.startswith("table-")
    header, shown = matrices(at)
    assert "30x12" in header["panels"][0]["subtitle"]
    assert "model.safetensors" in header["panels"][0]["subtitle"]
    exact = rows.astype(float)
    assert np.allclose(shown["Learned"][:30, :30], cosines(exact @ exact.T), atol=1e-6)
    assert np.isnan(shown["Learned"][30:]).all()
    assert table(at).value is None  # the bytes are gone
    for page in [page for page in PAGES if page not in ("start", "overview")]:
        drawn(at.switch_page(f"views/{page}.py").run())
        assert setting(at).learned_source.startswith("table-")


def test_one_of_several_tables_can_be_chosen(rows: np.ndarray) -> None:
    at = uploaded(checkpoint(wpe__weight=rows, decoder__embed_positions__weight=rows[:20] * 2))
    (choice,) = [box for box in at.selectbox if box.label == "Several position tables"]
    assert len(choice.options) == 2
    choice.select_index(1).run()
    drawn(use(at))
    wanted = choice.options[1].split(": ")[1].replace(" x ", "x")
    assert wanted in matrices(at)[0]["panels"][0]["subtitle"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (legacy_pickle({"a": torch.zeros(2)}), "pickle"),
        (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
        (b"", ""),
        (b"not a checkpoint at all, just some text that somebody saved", ""),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), ""),
        (bytes(range(256)) * 40, ""),
        (checkpoint(wpe__weight=np.zeros((4, 3), np.float32))[:-5], ""),
        (checkpoint(encoder__bias=np.zeros(5, np.float32)), "no position table"),
    ],
    ids=[
        "legacy pickle",
        "zipped pickle",
        "empty",
        "text",
        "PNG",
        "garbage",
        "cut short",
        "no table",
    ],
)
def test_a_file_that_is_no_table_is_refused_in_words(content: bytes, said: str) -> None:
    at = uploaded(content, "strange.bin")
    assert not at.exception
    (box,) = at.error
    text = re.sub(r"\\(.)", r"\1", box.value) + "".join(code.value for code in at.sidebar.code)
    assert text.startswith("strange.bin: ")
    assert said in text
    assert "Traceback" not in text
    assert "/tmp" not in text
    assert setting(at).learned_source == "trained"
    assert not [one for one in at.button if one.key == "use_upload"]
    table(at).clear().run()
    drawn(at)


def takes_tables(page: str) -> bool:
    """Whether a page uses the learned table, and has the uploader."""
    return "learned_source" in used.controls("" if page == "start" else page, Setting())


@pytest.mark.parametrize("page", [page for page in PAGES if takes_tables(page)])
def test_rows_that_are_not_numbers_are_told_and_left_out(page: str, rows: np.ndarray) -> None:
    rows[[3, 29]] = np.nan
    rows[7] = 0
    at = use(uploaded(checkpoint(wpe__weight=rows), page=page))
    drawn(at)
    told = [caption.value for caption in at.sidebar.caption]
    assert any("2 of 30 rows hold NaN" in text for text in told)
    if page in ("overview", "similarity"):
        assert any("Learned: 3 positions have no cosine similarity" in text for text in notices(at))
        blank = np.isnan(matrices(at)[1]["Learned"])
        assert blank[3].all()
        assert blank[7].all()
        assert not blank[0, 1]


@pytest.mark.parametrize("page", ["overview", "similarity", "pca", "relative_offsets"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_table_without_a_usable_row_leaves_the_other_schemes_their_page(
    page: str, value: float, rows: np.ndarray
) -> None:
    rows[:] = rows * value
    precision = {"precision": "float16"} if np.isfinite(value) else {}
    at = use(uploaded(checkpoint(wpe__weight=rows), page=page))
    for name, choice in precision.items():
        at.session_state[name] = choice
    at = drawn(at.run())
    said = [as_read(box.value) for box in at.info]
    assert any("Learned: no row of the table has a finite norm" in text for text in said)
    assert "Sinusoidal" in headline(at)
    assert "Learned" not in headline(at)


@pytest.mark.parametrize("page", SCHEME_PAGES)
def test_a_link_to_a_table_that_is_not_here_asks_for_it_and_shows_no_other(page: str) -> None:
    at = drawn(visit(page, {"learned_source": "table-0123456789ab"}))
    told = notices(at)
    assert len(told) == 1
    assert "The uploaded table table-0123456789ab is not held by this server" in told[0]
    assert told[0].endswith("upload its file again. Nothing is shown in its place.")
    assert setting(at).learned_source == "table-0123456789ab"
    assert at.query_params["learned_source"] in ("table-0123456789ab", ["table-0123456789ab"])
    assert any("table-0123456789ab" in as_read(box.value) for box in at.info)
    for frame in charts(at):
        assert "scheme" not in frame or "Learned" not in set(frame["scheme"])


def told(at: AppTest, name: str) -> list[str]:
    """Every word and number of a page, without the name of its table."""
    words = [*at.title, *at.markdown, *at.caption, *at.info, *at.warning, *at.error, *at.subheader]
    texts = [as_read(one.value).replace(name, "NAME") for one in words]
    rows = [f"{row[0]} {row[1]}" for row in rows_of_matrices(at)]
    return (
        texts + [frame.to_csv() for frame in charts(at)] + [row.replace(name, "") for row in rows]
    )


@pytest.mark.parametrize("page", [page for page in PAGES if takes_tables(page)])
def test_a_page_shows_nothing_of_a_table_that_has_left_the_memory(
    page: str, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it is cached: it is as if the table had never been here."""
    table = read_position_table(checkpoint(wpe__weight=rows), file_name=f"{page}.safetensors")
    name, never = hold(table), "table-0123456789ab"
    link = {"length": "40", "train_length": "16", "learned_source": name}
    here = [told(visit(page, link), name) for _ in range(2)]
    assert here[0] == here[1]
    assert any(f"{page}.safetensors" in text for text in here[0])
    missed = told(visit(page, link | {"learned_source": never}), never)
    monkeypatch.setattr(interop_sources, "_held", Held(1, 1, lambda one: one.table.nbytes))
    for _ in range(2):
        at = visit(page, link)
        assert not at.exception
        assert told(at, name) == missed != here[0]
    hold(table)
    assert told(visit(page, link), name) == here[0]


def test_a_page_of_nothing_but_a_table_that_is_not_here_keeps_its_toolbar() -> None:
    asked = {"learned_source": "table-0123456789ab", "schemes": "learned"}
    at = visit("similarity", asked, menu_copy=True)
    assert not at.exception
    assert [box.value for box in at.error] == []
    assert any("learned_source=table-0123456789ab" in code.value for code in at.main.code)


def test_an_uploaded_table_has_the_name_that_its_content_gives(rows: np.ndarray) -> None:
    content = checkpoint(wpe__weight=rows)
    names = [setting(use(uploaded(content))).learned_source for _ in range(2)]
    assert names[0] == names[1]
    assert sources.missing(names[0]) is None
    with pytest.raises(PosencError):
        Setting(learned_source="../../etc/passwd")


FORMATTING = (
    "![x](http://evil.example/p.png)**b**<img src=x onerror=alert(1)>:red[r]$y$.safetensors"
)


@pytest.mark.parametrize("content", [b"garbage", None], ids=["refused", "taken"])
def test_a_file_name_is_text_and_never_formatting(content: bytes | None, rows: np.ndarray) -> None:
    at = uploaded(content or checkpoint(wpe__weight=rows), FORMATTING, page="pca")
    if content is None:
        drawn(use(at))
    shown = [box.value for box in at.error] + [text.value for text in [*at.caption, *at.markdown]]
    named = [text for text in shown if "evil" in text]
    assert named
    for text in named:
        assert "![x](" not in text
        assert "](http" not in text


def test_files_of_all_visitors_together_are_bounded(
    rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = checkpoint(wpe__weight=rows)
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", len(content) - 1)
    at = uploaded(content)
    assert [as_read(box.value) for box in at.error] == [uploads.FULL]
    assert "use_upload" not in [button.key for button in at.button]
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", len(content))
    table(at).set_value(("model.safetensors", content, "application/octet-stream")).run()
    drawn(use(at))
    assert any("30 x 12" in caption.value for caption in at.sidebar.caption)


def test_a_file_that_is_dropped_is_in_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = MemoryUploadedFileManager("/_stcore/upload_file")
    records = {one: UploadedFileRec(one, "a.npy", "", bytes(10 * n)) for n, one in enumerate("xyz")}
    for session, names in (("ours", "xy"), ("theirs", "z")):
        for name in names:
            keeper.add_file(session, records[name])
    run = SimpleNamespace(uploaded_file_mgr=keeper, session_id="ours")
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: run)
    assert uploads.held() == 30
    uploads._drop(UploadedFile(records["y"], FileURLs()))
    assert uploads.held() == 20
    assert keeper.get_files("ours", ["x", "y"]) == [records["x"]]
    assert keeper.get_files("theirs", ["z"]) == [records["z"]]


def test_the_keeper_of_files_refuses_what_no_page_has_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = MemoryUploadedFileManager("/_stcore/upload_file")
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 1_000_000)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 200_000)
    run = SimpleNamespace(uploaded_file_mgr=keeper, session_id="ours")
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: run)

    def file(name: str, size: int, called: str = "a.npy") -> UploadedFileRec:
        return UploadedFileRec(name, called, "", bytes(size))

    keeper.add_file("ours", file("before", 300_000))
    uploads.bound()
    uploads.bound()
    assert type(keeper) is uploads.Bounded
    keeper.add_file("ours", file("a", 600_000))
    with pytest.raises(HTTPException) as refused:
        keeper.add_file("theirs", file("b", 500_001))
    assert (refused.value.status_code, refused.value.detail) == (503, uploads.FULL)
    assert [len(one.data) for one in keeper.get_files("ours", ["before", "a"])] == [
        300_000,
        600_000,
    ]
    assert keeper.get_files("theirs", ["b"]) == []
    keeper.add_file("ours", file("a", 1_000_000))  # takes the place of the other
    assert uploads.held() == 1_300_000
    keeper.remove_session_files("ours")
    # A long name takes memory as well, and so do many files of nothing.
    with pytest.raises(HTTPException):
        keeper.add_file("ours", file("a", 0, "x" * 1_400_000))
    for n in range(21):  # of 65,536 each
        keeper.add_file("ours", file(str(n), 0))
    with pytest.raises(HTTPException):
        keeper.add_file("ours", file("21", 0))
    keeper.remove_session_files("ours")
    for off in ("0", "no such setting"):
        monkeypatch.setenv("POSENC_UPLOADS", off)
        with pytest.raises(HTTPException) as refused:
            keeper.add_file("ours", file("a", 1))
        assert (refused.value.status_code, refused.value.detail) == (403, uploads.SWITCHED_OFF)
    assert uploads.held() == 0


def test_files_that_come_in_at_once_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = uploads.Bounded("/_stcore/upload_file")
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 10 * uploads.LEAST)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 0)

    def add(n: int) -> bool:
        try:
            keeper.add_file(f"session {n}", UploadedFileRec("a", "a.npy", "", bytes(9)))
        except HTTPException:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(add, range(200))) == 10
    assert len(keeper.file_storage) == 10


def test_one_session_does_not_fill_the_room_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 MiB in all a session has 2.5: its own oldest file goes, nobody else's."""
    monkeypatch.setattr(limits, "MAX_HELD_UPLOADS", 8 * 2**20)
    monkeypatch.setattr(limits, "MAX_UPLOAD_BYTES", 2**20)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_UPLOADS", "1")
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    keeper = uploads.Bounded("/_stcore/upload_file")

    def add(session: str, name: str, kib: int) -> None:
        keeper.add_file(session, UploadedFileRec(name, "a.npy", "", bytes(kib * 2**10)))

    def held(session: str) -> list[str]:
        return [*keeper.file_storage[session]]

    add("theirs", "a", 900)
    for n in range(40):
        add("ours", f"{n}", 600)
        assert held("ours") == [f"{m}" for m in range(max(0, n - 3), n + 1)]
    assert held("theirs") == ["a"]
    add("ours", "37", 1_000)  # in its own place; the oldest goes for it
    assert held("ours") == ["37", "38", "39"]
    add("ours", "new", 1_000)
    assert held("ours") == ["38", "39", "new"]
    for n in range(3):  # of those who come now, until the room is full
        add(f"other {n}", "a", 1_000)
        add(f"other {n}", "b", 1_000)
    with pytest.raises(HTTPException) as refused:
        add("last", "a", 1_200)
    assert refused.value.detail == uploads.FULL
    assert held("ours") == ["38", "39", "new"]
    with pytest.raises(HTTPException):
        add("ours", "large", 3_600)
    assert held("ours") == ["38", "39", "new"]  # nothing goes for what is refused
    monkeypatch.setenv("POSENC_UPLOAD_MB", "3")  # two full files are always allowed
    assert uploads.most_of_one() == 2 * (3 * 2**20 + uploads.LEAST)


def test_a_file_that_is_not_held_any_more_is_told(
    rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = drawn(visit("overview", {"length": "40", "train_length": "16"}, upload_table=True))
    box = table(at)
    box.set_value(("model.safetensors", checkpoint(wpe__weight=rows), "")).run()
    assert at.button(key="use_upload")
    monkeypatch.setattr(MemoryUploadedFileManager, "get_files", lambda *asked, **named: [])
    at.run()
    assert "use_upload" not in [button.key for button in at.button]
    assert [as_read(box.value) for box in at.error] == [uploads.GONE]


@pytest.mark.parametrize(("profile", "owned"), [("private", False), ("shared", True)])
def test_a_session_s_tables_take_its_share_where_people_do_not_know_each_other(
    profile: str, owned: bool, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interop_sources, "_held", Held(8, 2**20, lambda one: one.table.nbytes))
    monkeypatch.setenv("POSENC_PROFILE", profile)
    monkeypatch.setenv("POSENC_UPLOADS", "1")
    at = drawn(use(uploaded(checkpoint(wpe__weight=rows))))
    (name,) = interop_sources._held._values
    assert setting(at).learned_source == name
    assert bool(interop_sources._held._owners.get(name)) is owned


def test_two_files_of_one_name_at_once_stay_apart(rows: np.ndarray) -> None:
    other = np.random.default_rng(6).normal(size=(22, 12)).astype(np.float32)
    pair = [uploaded(checkpoint(wpe__weight=table), "model.safetensors") for table in (rows, other)]
    for at in pair:
        drawn(use(at))
    names = [setting(at).learned_source for at in pair]
    assert len({*names}) == 2
    for at, table in zip(pair, (rows, other), strict=True):
        assert any(f"{len(table)} x 12" in caption.value for caption in at.sidebar.caption)
        drawn(at.run())  # neither takes the other's place
        exact, shown = table.astype(float), matrices(at)[1]["Learned"]
        shown = shown[: len(table), : len(table)]
        np.testing.assert_allclose(shown, cosines(exact @ exact.T), rtol=0, atol=1e-6)
