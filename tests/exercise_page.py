"""The exercise of a page as a visitor works it: its questions, an answer, the verdict on it."""

from typing import Any

from streamlit.testing.v1 import AppTest

from tests.pages import as_read, charts, drawn, visit

ON = {"predict": "true"}
MEASURED = {"half": "measured"}
PLACES = {
    "similarity": ("similarity", {}),
    "formula": ("extrapolation", {}),
    "measured": ("extrapolation", MEASURED),
    "copy": ("extrapolation", MEASURED | {"comparison": "copy"}),
    "recall": ("extrapolation", MEASURED | {"comparison": "recall"}),
}


def comparison(task: str) -> str:
    """The name of the comparison of a task that ships, as the page offers it."""
    at = visit("extrapolation", MEASURED)
    box = at.selectbox(key="comparison")
    return next(name for name in box.options if name.startswith(task))


def open_place(place: str, link: dict[str, str] | None = None, **state: Any) -> AppTest:
    page, own = PLACES[place]
    if own.get("comparison"):
        own = own | {"comparison": comparison(own["comparison"])}
    return drawn(visit(page, own | (link or {}), **state))


def screen(place: str) -> str:
    """The name by which a place's exercise keeps its widgets."""
    return place if place in ("similarity", "formula") else "measured"


def asked(at: AppTest, place: str) -> AppTest:
    return at.selectbox(key=f"question_{screen(place)}")


def questions(at: AppTest, place: str) -> list[str]:
    return list(asked(at, place).options)


def choose(at: AppTest, place: str, text: str) -> AppTest:
    asked(at, place).select(text).run()
    return drawn(at)


def answer(at: AppTest, place: str, said: Any) -> AppTest:
    """Give an answer to the question shown and look."""
    name = screen(place)
    if at.main.radio:
        at.main.radio[0].set_value(said).run()
    else:
        (slider,) = [one for one in at.main.select_slider if one.key.startswith("answer_")]
        slider.set_value(said).run()
    at.button(key=f"look_{name}").click().run()
    return drawn(at)


def stops(at: AppTest) -> list[str]:
    (slider,) = [one for one in at.main.select_slider if one.key.startswith("answer_")]
    return list(slider.options)


def verdict(at: AppTest) -> str:
    boxes = [*at.main.success, *at.main.info]
    (text,) = [
        as_read(box.value)
        for box in boxes
        if as_read(box.value).startswith(("Right.", "Not quite."))
    ]
    assert text.startswith("Right.") == bool(at.main.success)
    return text


def everything_said(at: AppTest) -> str:
    """All text of the page's main part, as read."""
    parts = [*at.main.markdown, *at.main.caption, *at.main.info, *at.main.success, *at.main.warning]
    return as_read("\n".join(str(part.value) for part in parts))


def pictures(at: AppTest) -> int:
    rows = [one for one in at.get("bidi_component") if one.proto.bytes]
    return len(charts(at)) + len(rows) + len(at.dataframe)
