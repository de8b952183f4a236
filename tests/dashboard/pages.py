"""The dashboard's pages without a browser: opened by link, read as frames, matrices and sentences."""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest, app_test
from streamlit.testing.v1.local_script_runner import LocalScriptRunner
from streamlit.util import calc_hash

from dashboard import all_pages, drawers
from dashboard import state as states
from dashboard.blocks import Block, Page, tables_of
from dashboard.drawers import ICONS
from dashboard.export import archive, file_name
from dashboard.menu import PATHS
from dashboard.server import incidents
from dashboard.settings import Setting
from dashboard.state import State
from dashboard.text import JOINER

DASHBOARD = Path(__file__).parents[2] / "dashboard"
KINDS = ("learned", "sinusoidal", "rope", "alibi", "none")
LABELS = dict(zip(KINDS, ("Learned", "Sinusoidal", "RoPE", "ALiBi", "NoPE"), strict=True))
DEFAULT = {
    "dim": 512, "base": 10000.0, "length": 256, "train_length": 128, "heads": 8,
    "equal_width": False, "alibi_head": 0, "seed": 0, "learned_source": "trained",
    "precision": "float32",
}  # fmt: skip

# The folder of every page by its address, Start by its name.
FOLDERS = {address or folder: folder for folder, address in PATHS.items()}
PAGES = (*FOLDERS,)
OPTIONS = {page: all_pages.kind_of(folder) for page, folder in FOLDERS.items()}

# A page that opens on trained models is visited at its formulas, unless a test says otherwise.
VIEWS = {"extrapolation": {"half": "formula"}}


def shows_schemes(page: str) -> bool:
    """Whether a page, as `visit` opens it, shows the schemes of the setting."""
    folder = FOLDERS[page]
    options = {folder: OPTIONS[page](**VIEWS.get(page, {}))}
    return all_pages.uses_of(State(options=options), folder).schemes


SCHEME_PAGES = tuple(page for page in PAGES if shows_schemes(page))


class Runner(LocalScriptRunner):
    """Runs a script as the server does, which tells faults in its own way."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._on_script_error = incidents.tell


app_test.LocalScriptRunner = Runner  # type: ignore[misc]


def turn_to(at: AppTest, page: str) -> AppTest:
    """Open the page of an address at the next run; `switch_page` knows files, after a first run only."""
    at._page_hash = calc_hash(page)
    return at


def visit(page: str, link: Mapping[str, Any] | None = None, **state: Any) -> AppTest:
    """Open a page by its link in a new session; `state` is what a visitor then turned."""
    at = AppTest.from_file(DASHBOARD / "app.py", default_timeout=180)
    # Else every new session looks for components in all installed packages, most of a test's time;
    # ours is registered where it is imported.
    at._bidi_component_manager = BidiComponentManager()
    at.query_params.update(VIEWS.get(page, {}) | dict(link or {}))
    for name, value in state.items():
        at.session_state[name] = value
    if page != "start":
        turn_to(at, page)
    return at.run()


# A page of its own each, for tests that visit all: every part of a page is one.
PLACES: dict[str, tuple[str, dict[str, str]]] = {
    **{page: (page, {}) for page in PAGES},
    "measured": ("extrapolation", {"half": "measured"}),
    "layouts": ("check_my_encoding", {"part": "RoPE layouts"}),
    "decoding": ("check_my_encoding", {"part": "Position decoding"}),
    "logits": ("check_my_encoding", {"part": "Attention logits"}),
    "checkpoint": ("inside_model", {"part": "Your checkpoint"}),
    "captured": ("inside_model", {"part": "Captured queries and keys"}),
    "learned table": ("inside_model", {"part": "Learned table"}),
}


def visit_place(place: str, link: Mapping[str, Any] | None = None, **state: Any) -> AppTest:
    """Open one of PLACES as `visit` opens a page."""
    page, own = PLACES[place]
    return visit(page, {**own, **(link or {})}, **state)


def drawn(at: AppTest) -> AppTest:
    """Assert that the page came out whole: title, headline, pictures, and no error anywhere."""
    assert not at.exception
    assert [box.value for box in at.error] == []
    assert len(at.title) == 1
    assert headline(at).endswith(".")
    return at


def headline(at: AppTest) -> str:
    """The sentence under the title."""
    return at.main.markdown[0].value.strip("*")


def as_read(text: str) -> str:
    """What a visitor reads, without the escapes of Markdown and the joiners that part addresses."""
    return re.sub(r"\\(.)", r"\1", text).replace(JOINER, "")


def captions(at: AppTest) -> list[str]:
    return [as_read(caption.value) for caption in at.main.caption]


def notices(at: AppTest) -> list[str]:
    """What was said of changes: one box, with a line each where there are several."""
    lines = [line for box in at.warning for line in as_read(box.value).split("\n")]
    return [line.removeprefix("- ") for line in lines if not line.endswith("values were changed:")]


def state(at: AppTest) -> State:
    """What the visitor has chosen."""
    found: State = at.session_state["_state"]
    return found


def setting(at: AppTest) -> Setting:
    return state(at).setting


def options(at: AppTest) -> Any:
    """The options of the page at hand."""
    return state(at).of(at.session_state["_page"], at.session_state["_kind"])


def link_of(at: AppTest) -> dict[str, list[str]]:
    """The parameters of the address of the page at hand."""
    return states.to_query(state(at), at.session_state["_page"], at.session_state["_kind"])


def made(at: AppTest) -> tuple[Page, Sequence[Block]]:
    """The page of one more run as a value, and the blocks that are drawn, those of open drawers too."""
    seen: list[tuple[Page, Sequence[Block]]] = []
    draw = drawers.draw

    def record(page: Page, blocks: Sequence[Block]) -> None:
        seen.append((page, blocks))
        draw(page, blocks)

    with mock.patch.object(drawers, "draw", record):
        at.run()
    return seen[-1]


def script_of(at: AppTest) -> str:
    """The Python that the page offers."""
    script = made(at)[0].script
    assert script is not None
    return script()


def tables_shown(at: AppTest) -> dict[str, pd.DataFrame]:
    """The numbers of the page by their title, as the drawer Data and the export have them."""
    return {table.title: table.numbers() for table in tables_of(made(at)[1])}


def exported(at: AppTest) -> dict[str, bytes]:
    """The files of the zip of the page."""
    (page, blocks), now = made(at), state(at)
    packed = archive(page, blocks, now.setting, now.a, "the link")
    with zipfile.ZipFile(io.BytesIO(packed)) as folder:
        assert folder.testzip() is None
        return {name: folder.read(name) for name in folder.namelist()}


def table_keys(at: AppTest) -> list[str]:
    """What `opened` calls the tables of the page that is drawn."""
    return [vars(table).get("key", table.title) for table in tables_of(made(at)[1])]


def charts(at: AppTest) -> list[pd.DataFrame]:
    """The frames that travel to the page's charts, in order."""
    frames = []
    for element in at.get("vega_lite_chart"):
        proto = element.proto
        data = (proto.datasets[0].data if proto.datasets else proto.data).data
        frames.append(pyarrow.ipc.open_stream(io.BytesIO(data)).read_pandas())
    return frames


def matrices(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header of the page's one row of matrices, and what the browser expands, by title."""
    (row,) = rows_of_matrices(at)
    return row


def rows_of_matrices(at: AppTest) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Every row of matrices on the page, in order."""
    return [_row(row) for row in _sent_rows(at)]


def panels(at: AppTest) -> list[dict[str, Any]]:
    """The headers of all panels of all rows of matrices, without their values."""
    return [panel for row in _sent_rows(at) for panel in _header(row)[0]["panels"]]


def _sent_rows(at: AppTest) -> list[bytes]:
    sent = [element.proto for element in at.get("bidi_component")]
    return [one.bytes for one in sent if one.component_name.endswith("posenc_matrix_row")]


def _header(row: bytes) -> tuple[dict[str, Any], int]:
    """The header of a row of matrices, and where its values begin."""
    size = int.from_bytes(row[:4], "little")
    return json.loads(row[4 : 4 + size]), 4 + size


def _row(row: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, start = _header(row)
    values = np.frombuffer(row[start:], "<f4")
    assert len(values) == sum(panel["count"] for panel in header["panels"])
    found, used = {}, 0
    for panel in header["panels"]:
        own, used = values[used : used + panel["count"]], used + panel["count"]
        rows, columns = panel["rows"]["count"], panel["columns"]["count"]
        if panel["kind"] == "waves":
            angles, sines = np.frombuffer(own.tobytes(), "<f8").reshape(2, columns)
            turned = np.arange(rows)[:, None] * angles
            waves = np.where(sines, np.sin(turned), np.cos(turned))
            found[panel["title"]] = waves.astype(np.float32).astype(float)
            continue
        i, j = np.indices((rows, columns))
        low, high = np.minimum(i, j), np.maximum(i, j)
        place, size = {
            "curve": (j - i + rows - 1, 2 * rows - 1),
            "triangle": (high * (high + 1) // 2 + low, rows * (rows + 1) // 2),
            "full": (i * columns + j, rows * columns),
        }[panel["kind"]]
        blanks = np.full(size - len(own), np.nan)  # those at the end do not travel
        found[panel["title"]] = np.concatenate([own, blanks])[place].astype(float)
    return header, found


def messages(at: AppTest) -> Iterator[Any]:
    """Yield every element and block that was sent, as its message."""

    def walk(block: Any) -> Iterator[Any]:
        if getattr(block, "proto", None) is not None:
            yield block.proto
        for child in (getattr(block, "children", None) or {}).values():
            yield from walk(child)

    yield from walk(at._tree)


def texts_of(message: Any) -> Iterator[tuple[str, str]]:
    """Yield every text of a message with the name of its field."""
    for field, value in message.ListFields():
        for one in value if isinstance(value, list) or hasattr(value, "append") else [value]:
            if hasattr(one, "ListFields"):
                yield from texts_of(one)
            elif isinstance(one, str):
                yield field.name, one


def opened(*names: str) -> dict[str, Any]:
    """The state in which a visitor has opened every drawer of a page, and these tables of its data.

    names: keys of charts, titles of other tables.
    """
    return {"drawers": [*ICONS]} | {f"numbers_{file_name(name)}": True for name in names}


def table(at: AppTest, name: str) -> pd.DataFrame:
    """The full numbers under a page, opened by their title."""
    *_, drawer = [one for one in at.expander if one.label == name]  # of Data
    return drawer.dataframe[0].value


def of(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """One scheme's rows."""
    return frame[frame["scheme"] == LABELS[kind]].reset_index(drop=True)


def cosines(found: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diag(found))
    return found / scale[:, None] / scale[None, :]
