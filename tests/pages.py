"""The dashboard's pages without a browser: opened by link, read as frames, matrices and sentences."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

from dashboard.text import JOINER
from posenc import Setting

DASHBOARD = Path(__file__).parents[1] / "dashboard"
SCHEME_PAGES = (
    "start",
    "encoding",
    "overview",
    "similarity",
    "pca",
    "relative_offsets",
    "extrapolation",
)
PAGES = (
    *SCHEME_PAGES,
    "train",
    "why_position",
    "claims",
    "context_planner",
    "check_my_encoding",
)  # the last five show numbers of their own
KINDS = ("learned", "sinusoidal", "rope", "alibi", "none")
LABELS = dict(zip(KINDS, ("Learned", "Sinusoidal", "RoPE", "ALiBi", "NoPE"), strict=True))
DEFAULT = {
    "dim": 512,
    "base": 10000.0,
    "length": 256,
    "train_length": 128,
    "heads": 8,
    "equal_width": False,
    "alibi_head": 0,
    "seed": 0,
    "learned_source": "trained",
    "precision": "float32",
}


def visit(page: str, link: Mapping[str, Any] | None = None, **state: Any) -> AppTest:
    """Open a page by its link in a new session; `state` is what a visitor then turned."""
    at = AppTest.from_file(DASHBOARD / "app.py", default_timeout=60)
    # Else every new session looks for components in all installed packages, most of a test's time;
    # ours is registered where it is imported.
    at._bidi_component_manager = BidiComponentManager()
    at.query_params.update(link or {})
    for name, value in state.items():
        at.session_state[name] = value
    if page != "start":
        at.switch_page(f"views/{page}.py")
    return at.run()


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
    boxes = [as_read(box.value) for box in at.warning]
    return [
        line.removeprefix("- ")
        for box in boxes
        for line in box.split("\n")
        if not line.endswith("things were changed:")
    ]


def setting(at: AppTest) -> Setting:
    found: Setting = at.session_state["setting"]
    return found


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
    return [
        _row(element.proto.bytes)
        for element in at.get("bidi_component")
        if element.proto.component_name.endswith("posenc_matrix_row")
    ]


def _row(row: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    size = int.from_bytes(row[:4], "little")
    header = json.loads(row[4 : 4 + size])
    values = np.frombuffer(row[4 + size :], "<f4")
    assert len(values) == sum(panel["count"] for panel in header["panels"])
    found, used = {}, 0
    for panel in header["panels"]:
        own, used = values[used : used + panel["count"]], used + panel["count"]
        rows, columns = panel["rows"]["count"], panel["columns"]["count"]
        if panel["kind"] in ("waves", "difference"):
            found[panel["title"]] = _turned(panel, own)
            continue
        size = {"curve": 2 * rows - 1, "triangle": rows * (rows + 1) // 2, "full": rows * columns}
        blanks = np.full(size[panel["kind"]] - len(own), np.nan)  # those at the end do not travel
        own = np.concatenate([own, blanks])
        whole = np.empty((rows, columns))
        for i in range(rows):
            for j in range(columns):
                place = {
                    "curve": j - i + rows - 1,
                    "triangle": max(i, j) * (max(i, j) + 1) // 2 + min(i, j),
                    "full": i * columns + j,
                }
                whole[i, j] = own[place[panel["kind"]]]
        found[panel["title"]] = whole
    return header, found


def _turned(panel: dict[str, Any], words: np.ndarray) -> np.ndarray:
    """Expand sines and cosines entry by entry, as the browser does."""
    rows, columns = panel["rows"]["count"], panel["columns"]["count"]
    if panel["kind"] == "difference":
        first, second = panel["parts"]
        assert len(words) == first + second
        after, before = (
            _turned(panel | {"kind": "waves"}, part) for part in (words[:first], words[first:])
        )
        return (after - before).astype(np.float32).astype(float)
    raw = words.tobytes()
    points = np.frombuffer(raw, "<f8", 4 * columns).reshape(4, columns)
    many = (len(words) - 8 * columns) // 2
    at = np.frombuffer(raw, "<u4", many, 32 * columns)
    value = np.frombuffer(raw, "<f4", many, 32 * columns + 4 * many)
    whole = np.empty((rows, columns))
    for j in range(columns):
        x, y, cosine, sine = (float(one) for one in points[:, j])
        for i in range(rows):
            whole[i, j] = np.float32(x)
            x, y = x * cosine + y * sine, y * cosine - x * sine
    whole.reshape(-1)[at] = value
    return whole


def opened(*names: str) -> dict[str, bool]:
    """The state in which a visitor has opened these numbers under a page."""
    return {f"numbers_{name.replace(' ', '_')}": True for name in names}


def table(at: AppTest, name: str) -> pd.DataFrame:
    """The full numbers under a page, opened by their name."""
    (drawer,) = [one for one in at.expander if one.label == f"Numbers: {name}"]
    return drawer.dataframe[0].value


def of(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """One scheme's rows."""
    return frame[frame["scheme"] == LABELS[kind]].reset_index(drop=True)


def cosines(found: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diag(found))
    return found / scale[:, None] / scale[None, :]
