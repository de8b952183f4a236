"""Pictures of a page at the stops of a slider, which the browser shows while a visitor moves it.

The browser asks for some stops at once (components/preview/preview.js). Each answer holds the matrices,
clocks, lines and dots of the page as it is at these stops, made by the function that makes the page. Lines
and dots are thinned and rounded to what can be seen of them in passing.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, TypeGuard
from urllib.parse import parse_qs

import pandas as pd
import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dashboard import session, state
from dashboard.all_pages import kind_of, page_at, uses_of
from dashboard.blocks import Block, Changes, Chart, Clocks, Controls, Matrices
from dashboard.components.matrix import MatrixValues, Row
from dashboard.components.matrix.payload import joined, row_header, sent_bytes
from dashboard.controls import is_slider, slider_text, used
from dashboard.menu import TITLES
from dashboard.server import incidents, run_queue, settings
from dashboard.state import DEFAULTS, State
from posenc import fields

FOLLOWED = (
    "base",
    "dim",
)  # the shared sliders that pictures follow; they follow those of their page, too
SLOW = ("check_my_encoding",)  # identifies a table at each stop, which takes seconds
POINTS = 64  # of a line or a plot in passing
SECONDS = 0.15  # after which an answer gets no more stops: the browser asks again for the others
MOST_BYTES = 4 * 2**20  # of the matrices of an answer
_one_at_a_time = asyncio.Lock()  # so that a run of the script waits for one stop at most

Picture = Row | Clocks | Chart
Pictures = dict[str, Picture]  # of a page, by the keys of their blocks


def following(now: State, folder: str, blocks: Sequence[Block]) -> dict[str, Any] | None:
    """Return what the browser needs to let pictures follow sliders, None where nothing follows.

    blocks: that are drawn. An option that no link holds would be lost on the way, so that a page with one
    is not followed. Nor is a page of tables in 16 bits, which have no closed form and take long.
    """
    kind = kind_of(folder)
    options, default = vars(now.of(folder, kind)), vars(kind())
    lost = any(options[name] != default[name] for name in state.unlinked(kind))
    names = used(uses_of(now, folder), now.setting)
    rounded = "precision" in names and now.setting.precision != DEFAULTS["precision"]
    sliders = {name: vars(now.setting)[name] for name in FOLLOWED if name in names}
    rules = fields.rules(kind)
    sliders |= _of_page(options, rules, blocks)
    if lost or rounded or folder in SLOW or not sliders or not any(map(_follows, blocks)):
        return None
    query = state.to_query(now, folder, kind)
    query.pop(state.VERSIONED, None)  # which is not there where all is at its default
    return {
        "path": f"{_root()}/{folder}",
        "dials": {
            name: {
                "drawn": slider_text(rules.get(name))(value),
                "stops": list(_stops(now, folder, name)),
                # Without its own value: what the browser got stays valid wherever the slider is.
                "query": session.to_address({key: query[key] for key in query if key != name}),
            }
            for name, value in sliders.items()
        },
    }


def _of_page(
    options: Mapping[str, Any], rules: Mapping[str, fields.Rule], blocks: Sequence[Block]
) -> dict[str, int]:
    """Return what the sliders of a page's own options show."""
    return {
        name: min(options[name], block.narrowed.get(name, options[name]))
        for block in blocks
        if isinstance(block, Controls)
        for name in block.names
        if name in rules and is_slider(rules[name]) and name not in block.empty
    }


def _stops(now: State, folder: str, name: str) -> dict[str, float]:
    """Return the stops of a slider by their text, none where no slider has this name."""
    stops: Sequence[float] = ()
    rule = fields.rules(kind_of(folder)).get(name)
    if name in FOLLOWED:
        stops = state.stops(now.setting, name, settings.current().positions)
    elif is_slider(rule):
        stops = range(rule.low, rule.high + 1, rule.multiple_of)
    text = slider_text(rule)
    return {text(stop): stop for stop in stops}


def _follows(block: Block) -> TypeGuard[Matrices | Clocks | Chart]:
    """Whether a block is a picture that follows: a chart is one if it can be thinned."""
    return isinstance(block, Matrices | Clocks) or (
        isinstance(block, Chart) and block.x in block.frame
    )


def route() -> Route:
    """Return the route of the app by which browsers ask."""
    return Route(f"{_root()}/{{folder}}/{{name}}/{{drawn}}/{{stops}}", _answer)


def _root() -> str:
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"/{base}/previews" if base else "/previews"


async def _answer(request: Request) -> Response:
    """Answer with the pictures at some stops; 404 for a page or a slider that does not exist."""
    folder, name, drawn, asked = map(
        request.path_params.__getitem__, ("folder", "name", "drawn", "stops")
    )
    if folder not in TITLES or not (any_stops := _stops(State(), folder, name)):
        return Response(status_code=404)
    # In one pass: `getlist` of each name looks at all of them, seconds for a long address.
    query = parse_qs(request.url.query, keep_blank_values=True)
    value = f"{any_stops[drawn]:.15g}" if drawn in any_stops else drawn.replace(",", "")
    now = _state(folder, query | {name: [value]})
    stops = _stops(now, folder, name)
    texts = [text for text in asked.split(";") if text in stops]
    here = await _pictures(now, folder, {}) if texts else {}
    found: dict[str, Pictures] = {}
    end = time.monotonic() + SECONDS
    for text in texts:
        if not found or time.monotonic() < end:
            if await request.is_disconnected():
                break
            found[text] = await _pictures(now, folder, {name: stops[text]})
    content = await run_in_threadpool(encode, here, found)
    return Response(content, media_type="application/octet-stream")


def _state(folder: str, query: state.Query) -> State:
    """Return the state that a link means on this server."""
    now = state.read_query(query, folder, kind_of(folder)).state
    pinned = None if now.pinned is None else settings.within(now.pinned)[0]
    return replace(now, setting=settings.within(now.setting)[0], pinned=pinned)


async def _pictures(now: State, folder: str, changes: Changes) -> Pictures:
    """Return the pictures of a page after a change, {} where there are none for a reason that it tells."""
    async with _one_at_a_time:
        return await run_in_threadpool(_in_turn, now, folder, changes)


def _in_turn(now: State, folder: str, changes: Changes) -> Pictures:
    with run_queue.server.turn():
        try:
            return pictures(now.changed(folder, kind_of(folder), changes), folder)
        except incidents.ANY_FAULT:
            return {}  # the page says why, once it is at this stop


def pictures(now: State, folder: str) -> Pictures:
    """Return the matrices, the clocks and the charts that follow of a page."""
    page = page_at(now, folder)
    return {
        block.key: block.row(page.title) if isinstance(block, Matrices) else block
        for block in filter(_follows, page.all_blocks)
    }


def encode(here: Pictures, stops: Mapping[str, Pictures]) -> bytes:
    """Return pictures by stop as the browser takes them: a header, then float32 values.

    here: what the server drew. A matrix with the same values is not sent: its `at` is null, and else the
    place of its values among all, which holds equal ones once. A chart with the same lines is null. What
    would be too large ends before such a stop; if that is the first, it has no pictures.
    """
    places: dict[bytes, int] = {}
    header: dict[str, dict[str, Any]] = {}
    for stop, pictures in stops.items():
        before = {**places}
        of_stop = {key: _header(one, here.get(key), places) for key, one in pictures.items()}
        if sum(map(len, places)) <= MOST_BYTES:
            header[stop] = of_stop
            continue
        places = before
        if not header:
            header[stop] = {}
        break
    counts = [len(values) // 4 for values in places]
    return joined({"stops": header, "counts": counts}, places)


def _header(picture: Picture, here: Picture | None, places: dict[bytes, int]) -> Any:
    """Return what is sent of a picture beside the values of matrices, which are entered in `places`."""
    if isinstance(picture, Clocks):
        return picture.sent
    if isinstance(picture, Chart):
        same = isinstance(here, Chart) and picture.frame.equals(here.frame)
        return None if same else {"columns": _columns(picture.thinned(POINTS))}
    values = [sent_bytes(panel.values) for panel in picture.panels]
    header = row_header(picture, values)
    drawn = list(here.panels) if isinstance(here, Row) else []
    for n, (panel, sent) in enumerate(zip(header["panels"], values, strict=True)):
        same = n < len(drawn) and _same(picture.panels[n].values, drawn[n].values, sent)
        panel["at"] = None if same else places.setdefault(sent, len(places))
    return header


def _same(values: MatrixValues, drawn: MatrixValues, sent: bytes) -> bool:
    return (type(values), values.shape) == (type(drawn), drawn.shape) and sent == sent_bytes(drawn)


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of a chart's frame as JSON has them, numbers with four digits, none as null."""
    return {
        str(name): [float(f"{value:.4g}") if isfinite(value) else None for value in values]
        if values.dtype.kind == "f"
        else values.astype(object).where(values.notna(), None).tolist()
        for name, values in frame.items()
    }
