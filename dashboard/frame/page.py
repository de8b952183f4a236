"""What every page has around its panels: headline, how to read it, definition, source, numbers."""

import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import notes, render
from dashboard.ab import AB
from dashboard.charts import theme
from dashboard.charts.frames import arrow, compared, named, plotless
from dashboard.charts.lines import coinciding
from dashboard.charts.theme import Spec
from dashboard.components.matrix import Panel, Row, Scale
from dashboard.components.matrix.component import matrix_row
from dashboard.controls import model_picker, pin
from dashboard.frame import drawers, page_contents
from dashboard.notes import by_scheme as by_scheme
from dashboard.notes import label as label
from dashboard.notes import names as names
from dashboard.notes import panel_note as panel_note
from dashboard.notes import panel_notes as panel_notes
from dashboard.render import PRESENT as PRESENT
from dashboard.script import uploaded
from dashboard.server.incidents import PageEnded
from dashboard.settings import Setting
from dashboard.text import plain
from posenc import fields as config_fields
from posenc.schemes import SCHEMES


@dataclass(frozen=True, kw_only=True)
class PresentChoice:
    """Whether a page is presented; the toggle is drawn among the tools."""

    present: bool = config_fields.Flag(label="Present").field(False)


def setting() -> Setting:
    """Return the setting that the sidebar of this run means."""
    current: Setting = st.session_state["setting"]
    return current


def settings() -> AB[Setting]:
    """Return the setting of this run, B, beside the pinned one, A."""
    return pin.ab(setting())


def setting_name(which: str) -> str:
    """Return what captions call "A" or "B": by what differs."""
    return plain(pin.names(settings())[which])


def kinds(shown: AB[Setting] | AB[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the schemes of both settings, or those with a result of either, in their fixed order."""
    both = [part.schemes if isinstance(part, Setting) else part for part in shown.each]
    return tuple(kind for kind in SCHEMES if any(kind in names for names in both))


def presenting() -> bool:
    """Whether this visitor presents: no sidebar, larger type."""
    return bool(st.session_state.get(PRESENT, st.query_params.get(PRESENT) == "true"))


def link(place: Any, folder: str, label: str | None = None, **query: str | Sequence[str]) -> None:
    """Draw a link to a page, by default under its name and icon in the menu."""
    place.page_link(st.session_state["pages"][folder], label=label, query_params=query or None)


def title(text: str) -> None:
    """Draw the page's title, once in a run, at its place beside the tools."""
    contents = page_contents.current()
    if contents.title != text:
        contents.title = text
        (contents.heading or st).title(text, anchor=False)


def head(text: str, headline: str | AB[str]) -> None:
    """Draw the page's title and the sentence that answers its question, of A under that of B."""
    sentence = headline if isinstance(headline, AB) else AB(headline)
    title(text)
    lead = f"{setting_name('B')}. " if sentence.pinned is not None else ""
    st.markdown(f"**{lead}{sentence.current}**")
    contents = page_contents.current()
    contents.sentences.append(sentence.current)
    if sentence.pinned is not None:
        same = "The same result." if sentence.pinned == sentence.current else sentence.pinned
        st.caption(f"{setting_name('A')}. {same or 'Nothing to show.'}")
        contents.pinned.append(f"Pinned setting, A (pinned.json): {sentence.pinned}")


def show_assumption(settings: AB[Setting]) -> None:
    """Warn above a page on which assumption its model was read, if a visitor made one."""
    sentence, contents = settings.map(model_picker.assumption), page_contents.current()
    if sentence.current:
        st.warning(plain(sentence.current), icon=":material/warning:")
        contents.sentences.append(sentence.current)
    if sentence.pinned and sentence.pinned != sentence.current:
        st.warning(f"Pinned setting, A: {plain(sentence.pinned)}", icon=":material/warning:")
        contents.pinned.append(f"Pinned setting, A: {sentence.pinned}")


def second_headline(sentence: AB[str]) -> None:
    """Draw a second sentence under the headline, of B and of A."""
    st.markdown(sentence.current)
    if sentence.pinned and sentence.pinned != sentence.current:
        st.caption(f"{setting_name('A')}. {sentence.pinned}")
    page_contents.current().sentences.append(sentence.current)


def chart(
    frames: AB[pd.DataFrame],
    build: Callable[..., Spec],
    *arguments: Any,
    key: str,
    title: str,
    **more: Any,
) -> None:
    """Draw a chart of both settings' frames; `build` makes its specification of the arguments.

    title: of the picture where it is saved.
    """
    spec = build(*arguments, pinned=frames.compared, **more)
    if frames.compared:
        spec = theme.name_settings(spec, pin.names(settings()))
    picture(named(side_by_side(frames)), spec, key=key, title=title)


def curves(
    frames: AB[pd.DataFrame],
    build: Callable[..., Spec],
    *arguments: Any,
    key: str,
    title: str,
    fields: tuple[str, str] = ("x", "y"),
    log: bool = False,
    **more: Any,
) -> None:
    """Draw lines as `chart` does, and say which coincide.

    fields: x and y of the frames. log: whether y is drawn on a log scale.
    """
    chart(frames, build, *arguments, key=key, title=title, **more)
    if sentence := coinciding(frames.current, *fields, log=log):
        st.caption(sentence)


def picture(
    frame: pd.DataFrame, spec: Spec, *, key: str, title: str, alt: str | None = None
) -> None:
    """Draw a chart as it is; one whose specification has widths of its own keeps them.

    title: of the picture where it is saved. alt: what a reader hears instead of a picture that does not
    describe itself.
    """
    contents, projected = page_contents.current(), presenting()
    drawn = theme.for_projector(spec) if projected else spec
    drawn = theme.titled(drawn, title, contents.title, projected=projected)
    st.vega_lite_chart(
        arrow(frame), drawn, key=key, width="content" if "width" in spec else "stretch", alt=alt
    )
    saved = theme.titled(spec, title, contents.title, projected=False)
    contents.pictures[key] = page_contents.Picture(saved, frame)


def matrices(
    panels: Sequence[Panel],
    *,
    key: str,
    scale: Scale,
    text_alternative: str,
    name: str = "",
    on_cell: Callable[[], None] | None = None,
    **layout: Any,
) -> None:
    """Draw a row of matrices, and note it for the export.

    name: of its setting, beside a pinned one. layout: further fields of a `Row`.
    """
    contents = page_contents.current()
    title = ", ".join(filter(None, (contents.title, name)))
    row = Row(
        panels=panels,
        key=key,
        scale=scale,
        text_alternative=text_alternative,
        title=title,
        **layout,
    )
    matrix_row(row, on_cell)
    contents.pictures[row.key] = row


def side_by_side(frames: AB[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of B, with those of A under them and a column that tells them apart."""
    if frames.pinned is None:
        return frames.current
    both = {"B": frames.current, "A": frames.pinned}
    parts = [frame.assign(setting=name) for name, frame in both.items() if len(frame)]
    return pd.concat(parts, ignore_index=True) if parts else frames.current.assign(setting="B")


def show_excluded(read: AB[Any], shown: Mapping[str, Any], name: str) -> None:
    """Say which schemes have no place on this page and why; end the page where none is left.

    shown: the schemes that B shows. name: title of a page that ends here.
    """
    if not shown:
        title(name)
    for result, lead in zip(read.each, ("", "Pinned setting, A: "), strict=False):
        for reason in dict.fromkeys(result.reasons.values()):
            st.info(f"{lead}{plain(reason)}", icon=":material/info:")
    if not shown:
        raise PageEnded


def last_row(shown: AB[Setting]) -> str:
    """Return a sentence on the jump at the last row of the bundled table, "" where it is not shown."""
    return next(filter(None, map(notes.last_row, shown.each)), "")


def how_to_read(text: str) -> None:
    """Put the guide to the pictures of this page into its drawer."""
    page_contents.current().drawers[drawers.HOW_TO_READ] = functools.partial(st.markdown, text)


def definition(formula: str, words: str, *functions: Callable[..., Any]) -> None:
    """Put the definition, and the source of the functions that compute it, into their drawers."""

    def define() -> None:
        st.latex(formula)
        st.markdown(words)

    def code() -> None:
        for function in functions:
            st.code(textwrap.dedent(inspect.getsource(function)), language="python")

    page_contents.current().drawers |= {drawers.DEFINITION: define, drawers.CODE: code}


def table(findings: pd.DataFrame | AB[pd.DataFrame]) -> None:
    """Draw a small table of findings, numbers with three significant digits, no empty column.

    With a pinned setting every row has A's under it, and the change from A to B, unless A has the same.
    """
    frames = findings if isinstance(findings, AB) else AB(findings)
    frame = frames.current
    if frames.pinned is not None and not frame.equals(frames.pinned):
        frame = compared(frame, frames.pinned)
    render.findings(frame, st)


def small_table(frame: pd.DataFrame, columns: dict[str, Any]) -> None:
    """Draw a table that stands open."""
    st.dataframe(arrow(frame), hide_index=True, column_config=columns, placeholder="–")


def numbers(
    frames: pd.DataFrame | AB[pd.DataFrame], name: str, renamed: Mapping[str, str] | None = None
) -> None:
    """Put the numbers behind the pictures, and their CSV, into the page's data.

    With a pinned setting the rows of A follow those of B. renamed: columns by what they are called there.
    """
    frame = side_by_side(frames) if isinstance(frames, AB) else frames
    if not frame.empty:
        page_contents.current().tables[name] = functools.partial(plotless, frame, renamed or {})


def script(text: str) -> None:
    """Give the page its script: this as Python, in the toolbar."""
    assumption = model_picker.assumption(setting())
    lead = f"# {assumption}\n" if assumption else ""
    page_contents.current().script = lead + uploaded(setting()) + text
