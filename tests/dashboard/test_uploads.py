"""Learned tables of visitors and of runs, on the pages that draw them."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.testing.v1 import AppTest

from dashboard import limits, run_descriptions, state
from dashboard.server import upload_limit, uploaders
from dashboard.settings import Setting
from dashboard.visitor_files import UploadCache, cache_table
from posenc.checkpoints import PositionTable, read_position_table
from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.checkpoints.sources import RESULTS, TRAINED_TABLE, named_table
from posenc.errors import CheckpointError, ConfigError
from posenc.lab import Store as RunStore
from posenc.schemes.learned import Learned
from tests.dashboard import pages
from tests.dashboard.pages import as_read, drawn, headline, matrices, notices, setting, visit
from tests.lab.small_runs import make_small_run, small_spec
from tests.library.crafted_files import zipped_pickle

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Store = UploadCache[PositionTable]
SHORT = {"length": "40", "train_length": "16"}
MISSING = "table-0123456789ab"
MARKUP = "![x](http://evil.example/p.png)**b**.safetensors"


def uploader(at: AppTest) -> Any:
    boxes: list[Any] = [*at.sidebar.get("file_uploader")]
    (box,) = [one for one in boxes if one.label.startswith("Upload a checkpoint")]
    return box


def upload(at: AppTest, content: bytes, name: str = "model.safetensors") -> AppTest:
    uploader(at).set_value((name, content, "application/octet-stream")).run()
    return at


def uploaded(content: bytes, name: str = "model.safetensors", page: str = "similarity") -> AppTest:
    """Open a page and give it a file, which is not used yet."""
    return upload(drawn(visit(page, SHORT, learned_source_menu=True)), content, name)


def hold_rows(rows: np.ndarray, name: str = "model.safetensors") -> str:
    """Hold a table as pages do, and return its name."""
    return cache_table(read_position_table(save({"wpe.weight": rows}), file_name=name))


def use(at: AppTest) -> AppTest:
    return at.button(key="use_upload").click().run()


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(30, 12)).astype(np.float32)


def is_offered(at: AppTest) -> bool:
    """Whether the file can be used."""
    return "use_upload" in [button.key for button in at.button]


def test_table_is_drawn_without_its_unusable_rows(rows: np.ndarray, tables: Store) -> None:
    rows[[3, 29]] = np.nan
    rows[7] = 0
    at = uploaded(save({"wpe.weight": rows}), MARKUP)
    drawn(use(at))
    source = setting(at).learned_source
    assert source.startswith("table-")
    assert uploader(at).value is None  # the session does not keep the bytes
    assert tables._entries[source].owner is None  # one person may fill the cache
    header, matrix = matrices(at)
    assert "30x12" in header["panels"][0]["subtitle"]
    usable = np.delete(np.arange(30), [3, 7, 29])
    exact = rows[usable].astype(float)
    expected = pages.cosines(exact @ exact.T)
    assert np.allclose(matrix["Learned"][np.ix_(usable, usable)], expected, atol=1e-6)
    for unusable in (3, 7, *range(29, 40)):
        assert np.isnan(matrix["Learned"][unusable]).all()
    assert any("Learned: 3 positions have no cosine similarity" in text for text in notices(at))


@pytest.mark.usefixtures("shared")
def test_one_of_several_tables_is_chosen_for_its_session(rows: np.ndarray, tables: Store) -> None:
    both = save({"wpe.weight": rows, "decoder.embed_positions.weight": rows[:20] * 2})
    at = uploaded(both)
    (choice,) = [box for box in at.selectbox if box.label == "Several position tables"]
    assert len(choice.options) == 2
    choice.select_index(1).run()
    drawn(use(at))
    size = choice.options[1].split(": ")[1].replace(" x ", "x")
    assert size in matrices(at)[0]["panels"][0]["subtitle"]
    (name,) = tables._entries
    assert setting(at).learned_source == name
    assert tables._entries[name].owner


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zipped_pickle({"a": torch.zeros(2)}), "pickle"),
        (
            b"not a checkpoint at all, just some text that somebody saved",
            "This is not a .safetensors file",
        ),
        (save({"wpe.weight": np.zeros((4, 3), np.float32)})[:-5], "The file is truncated"),
        (save({"encoder.bias": np.zeros(5, np.float32)}), "no position table"),
    ],
    ids=["pickle", "text", "cut short", "no table"],
)
def test_file_without_table_is_refused_until_it_is_cleared(content: bytes, reason: str) -> None:
    at = uploaded(content, MARKUP)
    assert not at.exception
    (box,) = at.error
    text = as_read(box.value) + "".join(code.value for code in at.sidebar.code)
    assert text.startswith(MARKUP)
    assert reason in text
    assert tempfile.gettempdir() not in text
    assert setting(at).learned_source == "trained"
    assert not is_offered(at)
    uploader(at).clear().run()
    drawn(at)


def test_file_past_the_limit_of_all_or_lost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = save({"wpe.weight": np.eye(4, dtype=np.float32)})
    monkeypatch.setattr(upload_limit, "held_bytes", lambda: limits.MAX_HELD_UPLOADS + 1)
    at = uploaded(content)
    assert [as_read(box.value) for box in at.error] == [upload_limit.FULL]
    assert not is_offered(at)
    monkeypatch.setattr(upload_limit, "held_bytes", lambda: limits.MAX_HELD_UPLOADS)
    upload(at, content)
    assert is_offered(at)
    monkeypatch.setattr(MemoryUploadedFileManager, "get_files", lambda *args, **named: [])
    at.run()
    assert not is_offered(at)
    assert [as_read(box.value) for box in at.error] == [uploaders.GONE]


@pytest.mark.parametrize(
    ("page", "value", "precision"),
    [("similarity", np.nan, "float32"), ("relative_offsets", 1e30, "float16")],
)
def test_table_without_usable_row_leaves_others(page: str, value: float, precision: str) -> None:
    name = hold_rows(np.full((30, 12), value, np.float32))
    link = {"schemes": "learned,sinusoidal", "learned_source": name, "precision": precision}
    at = drawn(visit(page, SHORT | link))
    reason = "Learned: no row of the table has a finite norm"
    assert any(reason in as_read(box.value) for box in at.info)
    assert "Sinusoidal" in headline(at)
    assert "Learned" not in headline(at)


def everything_on(at: AppTest, name: str) -> list[str]:
    """All words and numbers of a page, without the name of its table."""
    boxes = [*at.title, *at.markdown, *at.caption, *at.info, *at.warning, *at.error, *at.header]
    texts = [as_read(box.value) for box in boxes] + [one.to_csv() for one in pages.charts(at)]
    texts += [as_read(title.proto.help) for title in at.header]
    texts += [f"{header} {values}" for header, values in pages.rows_of_matrices(at)]
    return [text.replace(name, "NAME") for text in texts]


@pytest.mark.parametrize("page", ["start", "similarity"])
def test_page_shows_nothing_of_an_evicted_table(page: str, rows: np.ndarray, tables: Store) -> None:
    """Cached results must not outlive it: the page is as if the table had never been uploaded."""
    name = hold_rows(rows, f"{page}.safetensors")
    uploaded = everything_on(visit(page, SHORT | {"learned_source": name}), name)
    assert any(f"{page}.safetensors" in text for text in uploaded)
    at = drawn(visit(page, SHORT | {"learned_source": MISSING}))
    (notice,) = notices(at)
    assert f"The uploaded table {MISSING} is not on this server" in notice
    assert setting(at).learned_source == MISSING
    never = everything_on(at, MISSING)
    tables._entries.clear()
    again = everything_on(drawn(visit(page, SHORT | {"learned_source": name})), name)
    assert again == never != uploaded


def test_page_of_a_missing_table_alone_can_still_be_linked_but_not_exported() -> None:
    link = {"learned_source": MISSING, "schemes": "learned"}
    at = visit("similarity", link, menu_export=True)
    assert not at.exception
    assert pages.link_of(at)["learned_source"] == [MISSING]
    assert "Nothing to export on this page." in pages.captions(at)


def test_default_table_is_that_of_the_run_it_names() -> None:
    shipped = RunStore(RESULTS)
    run, table = shipped.read(TRAINED_TABLE), shipped.tables(TRAINED_TABLE)["scheme.weight"]
    scheme = Setting().config("learned").build()
    assert isinstance(scheme, Learned)
    assert torch.equal(scheme.weight, table)  # read from the same file
    assert not scheme.untrained
    assert table.shape == (run.specification.train_length, run.specification.model.width)
    assert "trained table 128x128" in str(scheme.provenance)
    assert run.specification.description in named_table("trained").notes[0]
    untrained = run.specification.scheme.build(seed=run.specification.seed)
    assert isinstance(untrained, Learned)
    assert (table - untrained.weight).norm() > untrained.weight.norm()  # training moved it


def test_source_that_names_no_run_with_a_table_is_refused() -> None:
    for name in ("run-XYZ", "run-" + "0" * 20 + "\n", "../../etc/passwd"):
        with pytest.raises(ConfigError):
            Setting(learned_source=name)
    rope = next(run for run in RunStore(RESULTS) if run.specification.scheme.kind == "rope")
    with pytest.raises(CheckpointError, match="no table of a run"):
        named_table(f"run-{rope.run_id}")


def test_uploaded_table_is_named_by_its_content(rows: np.ndarray) -> None:
    names = [hold_rows(table) for table in (rows, rows.copy(), rows + 1)]
    assert names[0] == names[1] != names[2]
    np.testing.assert_array_equal(named_table(names[0]).table.numpy(), rows)  # as it was put in


def test_a_and_b_and_the_menu_name_an_uploaded_table_by_its_file(rows: np.ndarray) -> None:
    names = [hold_rows(table, "mine.safetensors") for table in (rows, rows + 1)]
    b, pinned = Setting(learned_source=names[0]), Setting(learned_source=MISSING)
    assert state.names(b, Setting())["B"] == "B: learned table mine.safetensors"
    assert state.names(b, pinned)["A"] == "A: learned table Not on this server"
    told_apart = [f"mine.safetensors, {name[6:12]}" for name in names]  # by their contents
    assert [*run_descriptions.table_names((*names, "random")).values()] == [
        *told_apart,
        "Random start",
    ]


def test_table_of_an_own_run_is_offered_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "runs"))
    store, one = make_small_run(tmp_path, "learned")[0], small_spec("learned")
    (run_id,) = store.ids()
    source = f"run-{run_id}"
    assert torch.equal(named_table(source).table, store.tables(run_id)["scheme.weight"])
    link = SHORT | {"learned_source": source, "schemes": "learned"}
    at = drawn(visit("similarity", link, learned_source_menu=True))
    box = at.selectbox(key="learned_source_list")
    assert box.value == source
    assert f"Of {one.train_length} rows, width {one.model.width}, seed {one.seed}" in box.options
    table = f"trained table {one.train_length}x{one.model.width}"
    assert table in matrices(at)[0]["panels"][0]["subtitle"]
    gone = drawn(visit("similarity", {"learned_source": "run-" + "0" * 20}))
    assert any("There is no table of a run" in box.value for box in gone.warning)
