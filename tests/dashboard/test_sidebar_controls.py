"""The sidebar: a page draws what it uses; what it hides keeps its value and changes nothing."""

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.state import SessionState
from streamlit.testing.v1 import AppTest

from dashboard import render
from dashboard.blocks import Changes
from dashboard.controls import page_controls
from dashboard.settings import PRESETS, Setting, record
from posenc import fields
from posenc.schemes import SCHEMES
from posenc.schemes.sizes import own_rules
from tests.dashboard import pages
from tests.dashboard.pages import (
    PAGES,
    charts,
    drawn,
    notices,
    rows_of_matrices,
    setting,
    turn_to,
    visit,
    visit_place,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks", "fixed_speed")

OPEN = {"more": True, "exact_values": True}
SMALL = {"dim": "64", "heads": "4", "length": "24", "train_length": "16"}
# Another legal value of every control, all of which fit each other and SMALL.
OTHER: dict[str, Any] = {
    "dim": 96, "base": 500.0, "length": 40, "train_length": 20, "heads": 2, "equal_width": True,
    "alibi_head": 2, "seed": 9, "learned_source": "random", "precision": "bfloat16",
    "device": "cpu", "rope.layout": "half", "sinusoidal.layout": "half",
    "rope.partial_rotary_factor": 0.5, "model": "deepseek-v3",
}  # fmt: skip


VIEWS = ("layouts", "decoding")  # of Check my encoding


def schemes_box(at: AppTest) -> Any:
    return at.multiselect(key="schemes_control")


def drawn_controls(at: AppTest) -> tuple[set[str], set[str]]:
    """The fields that the sidebar's controls set, dials among them; and those of the dials."""
    keys = {str(widget.key) for widget in at.sidebar if getattr(widget, "key", None)}
    for kind in ("number_input", "slider", "select_slider", "toggle", "button_group", "selectbox",
                 "text_input", "multiselect"):  # fmt: skip
        keys |= {str(widget.key) for widget in getattr(at.sidebar, kind)}
    names = {
        re.sub("_(control|exact)$", "", key) for key in keys if re.search("_(control|exact)$", key)
    }
    return names, {str(box.key).removesuffix("_control") for box in at.sidebar.select_slider}


def choose_from_menu(monkeypatch: pytest.MonkeyPatch, key: str, option: str) -> None:
    """Choose from a menu, which AppTest cannot press, in the next run: its callback is called."""

    def draw(place: Any, *words: Any, on_click: Any, args: Any = (), **more: Any) -> None:
        if more["key"] == key:
            with pytest.MonkeyPatch.context() as chosen:
                chosen.setitem(st.session_state, key, option)
                on_click(*args)

    monkeypatch.setattr(DeltaGenerator, "menu_button", draw)
    monkeypatch.setattr(st, "menu_button", lambda *words, **more: draw(None, *words, **more))


@pytest.mark.parametrize("page", [*PAGES, *VIEWS])
def test_every_page_names_the_controls_it_uses(page: str) -> None:
    used = visit_place(page).session_state["used_controls"]
    assert {*used.itself, *used.never} <= fields.rules(Setting).keys() | own_rules().keys()
    assert not {*used.itself} & {*used.never}


def test_slider_of_the_head_shown_ends_at_the_last_head() -> None:
    at = visit("similarity", SMALL | {"alibi_head": "4"}, **OPEN, schemes=["alibi"])
    head = drawn(at).slider(key="alibi_head_control")
    assert (head.max, head.value) == (4, 4)
    head = drawn(at.slider(key="heads_control").set_value(8).run()).slider(key="alibi_head_control")
    assert (head.max, head.value) == (8, 4)
    head = drawn(at.slider(key="heads_control").set_value(2).run()).slider(key="alibi_head_control")
    assert (head.max, head.value, setting(at).alibi_head) == (2, 0, 0)
    assert notices(at) == ["Head shown must be from 0 (the mean) to 2; the mean is used instead."]


@pytest.mark.parametrize("page", [*PAGES, *VIEWS])
def test_sidebar_draws_what_is_used_and_nothing_else_matters(page: str) -> None:
    schemes = ["alibi", "none"]
    usual = drawn(visit_place(page, SMALL, **OPEN, schemes=schemes))
    used = usual.session_state["used_controls"]
    wanted = page_controls.controls(used, setting(usual))
    itself = {*used.drawn}
    keys, dials = drawn_controls(usual)
    assert keys == wanted - (itself - {"base", "dim"})  # numbers stay under Exact values
    assert not itself & dials
    if page != "claims":  # whose sentences are about schemes of their own
        assert {name.split(".")[0] for name in keys if "." in name} <= {*schemes}
    hidden = {name: value for name, value in OTHER.items() if name not in wanted}
    assert hidden
    link = {name: text for name, text in SMALL.items() if name not in hidden}
    other = drawn(visit_place(page, link, **OPEN, schemes=schemes, **hidden))
    for name, value in hidden.items():
        assert record(setting(other))[name] == value
    assert pages.captions(other) == pages.captions(usual)
    texts, others = ([text.value for text in at.main.markdown] for at in (usual, other))
    assert texts == others
    for frame, another in zip(charts(usual), charts(other), strict=True):
        pd.testing.assert_frame_equal(frame, another)
    assert repr(rows_of_matrices(other)) == repr(rows_of_matrices(usual))


def test_controls_of_the_learned_table_are_drawn_for_a_learned_table_alone() -> None:
    own = {"train_length", "learned_source"}
    assert own <= drawn_controls(visit("check_my_encoding", {"table": "learned"}, **OPEN))[0]
    upload = {"table": "array-" + "0" * 12}
    assert "base" not in drawn_controls(visit("check_my_encoding", upload, **OPEN))[0]


def test_hidden_control_stays_in_the_address_and_in_the_session() -> None:
    link = {"rope.layout": "half", "seed": "9", "schemes": ["ALiBi"], "heads": "4"}
    at = drawn(visit("similarity", link, **OPEN))
    assert not {"rope.layout", "seed", "dim"} & drawn_controls(at)[0]
    at.query_params.clear()  # as the browser does when the page is left
    turn_to(at, "context_planner").run()
    assert not {"heads", "dim", "rope.layout"} & drawn_controls(drawn(at))[0]
    assert at.query_params == link | {"schemes": "ALiBi"}
    turn_to(at, "similarity").run()
    schemes_box(at).set_value(["alibi", "rope"]).run()
    assert "rope.layout" in drawn_controls(drawn(at))[0]
    assert dict(setting(at).own) == {"rope.layout": "half"}


def test_reset_and_presets_set_what_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    at = drawn(visit("why_position", {"schemes": ["none"], **OTHER}))
    at.button(key="reset").click().run()
    assert setting(drawn(at)) == Setting()
    assert at.query_params == {}
    choose_from_menu(monkeypatch, "preset", "bert")
    bert = setting(drawn(at.run().run()))  # AppTest presses it after the setting is read
    assert bert == Setting().replace(**PRESETS["bert"].changes)
    monkeypatch.undo()
    source = f"{PRESETS['bert'].label}: {PRESETS['bert'].source}."
    for _ in range(2):  # as long as its numbers stand
        drawn(at.run())
        assert source in [pages.as_read(caption.value) for caption in at.sidebar.caption]


def test_seventh_scheme_cannot_be_chosen_and_seven_of_a_link_are_left_out() -> None:
    kinds = [*SCHEMES]
    at = drawn(visit("similarity", SMALL | {"schemes": ",".join(kinds[:7])}))
    assert setting(at).schemes == Setting().schemes
    assert notices(at) == ["Ignored in this link: 'schemes'."]
    assert schemes_box(at).proto.max_selections == 6
    drawn(schemes_box(at).set_value([kinds[8], kinds[0]]).run())
    assert setting(at).schemes == (kinds[0], kinds[8])  # in the registry's order
    assert notices(at) == []


def test_list_of_numbers_is_typed_and_nonsense_gets_a_notice() -> None:
    at = drawn(visit("similarity", SMALL | {"schemes": "rope_sections"}, **OPEN))
    box = "rope_sections.sections_control"
    assert at.text_input(key=box).value == "none"
    at.text_input(key=box).set_value("4, 2, 2").run()
    assert dict(setting(drawn(at)).own) == {"rope_sections.sections": (4, 2, 2)}
    at.text_input(key=box).set_value("x").run()
    assert setting(drawn(at)).own == ()
    assert at.text_input(key=box).value == "x"
    assert "1 to 4 whole numbers" in notices(at)[0]


def pressing_app() -> None:
    import streamlit as st

    from dashboard.controls.widgets import button

    st.session_state.setdefault("counted", {"ours": 0, "theirs": 0})
    if st.session_state.get("cut"):
        st.session_state["cut"] = False
        st.rerun()  # before any button is drawn
    if button(st, "Ours", key="ours"):
        st.session_state["counted"]["ours"] += 1
    if st.button("Streamlit's", key="theirs"):
        st.session_state["counted"]["theirs"] += 1


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("key", ["ours", "theirs"])
def test_press_counts_once_even_if_its_run_is_cut_short(cut: bool, key: str) -> None:
    page = AppTest.from_function(pressing_app).run()
    page.session_state["cut"] = cut
    page.button(key=key).click().run()
    count = 0 if cut and key == "theirs" else 1  # Streamlit's own button loses the press
    assert page.session_state["counted"] == {"ours": 0, "theirs": 0} | {key: count}
    page.run()
    assert page.session_state["counted"][key] == count
    assert not page.exception


def test_press_counts_if_the_run_before_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy server Streamlit resets the press at the end of the run before, which is too late."""
    begin = SessionState.on_script_will_rerun

    def begin_then_end_the_run_before(self: SessionState, *args: object, **named: object) -> None:
        begin(self, *args, **named)  # type: ignore[arg-type]
        self.on_script_finished(frozenset(), remove_stale_widgets=False)

    page = AppTest.from_function(pressing_app).run()
    monkeypatch.setattr(SessionState, "on_script_will_rerun", begin_then_end_the_run_before)
    page.button(key="ours").click().run()
    page.button(key="theirs").click().run()
    assert page.session_state["counted"] == {"ours": 1, "theirs": 0}


def live_app() -> None:
    from dashboard.blocks import Live, Page
    from dashboard.pages.similarity.page import Options
    from dashboard.render import Renderer

    page = Page(title="Title", headline="It is so.", blocks=[Live("probe", {"word": "drawn"})])
    Renderer("Title", Options, {}, presenting=False).page(page)


def test_live_part_takes_its_values_and_changes_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(place: Any, change: Callable[[Changes], None], *, word: str) -> None:
        place.button(word, key="probe", on_click=change, args=({"reference": 7},))

    monkeypatch.setitem(render.LIVE, "probe", draw)
    page = AppTest.from_function(live_app).run()
    assert page.button(key="probe").label == "drawn"
    page.button(key="probe").click().run()
    assert page.session_state["reference"] == 7
    assert not page.exception
