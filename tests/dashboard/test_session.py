"""The state in a session: read from the address, changed by widgets, the same on every page."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from dashboard import all_pages, controls, render, session, tools
from dashboard.blocks import Changes, Chart, Matrices, Page, Text, Uses
from dashboard.pages.pca import options as pca
from dashboard.server import streamlit_parts
from dashboard.settings import PRESETS, Setting
from dashboard.settings.stops import STOPS
from dashboard.state import RULES, State, with_changes
from posenc import fields
from posenc.schemes import SCHEMES
from tests.dashboard import pages
from tests.dashboard.pages import as_read, drawn, notices, options, setting, state, turn_to, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SMALL = {"dim": "64", "heads": "4", "length": "24", "train_length": "16"}
OPEN = {"more": True, "exact_values": True}


def app() -> None:
    """Draw a page whose options have a rule of every kind, and whose blocks change them."""
    import streamlit as st

    from dashboard import session
    from dashboard.blocks import Button, Controls, Drawer, Live, Page, Tabs, Text
    from dashboard.render import Renderer
    from tests.dashboard.test_state import EveryKind

    now, _ = session.begin("here", EveryKind)
    options = now.of("here", EveryKind)
    for notice in session.take_notices():
        st.warning(notice)
    names = ("count", "share", "word", "on", "several", "factors", "text", "base", "heads", "seed")
    word = {"a": "First", "b-c": "Second"}
    onward = ({"on": True}, {"on": False})
    blocks = (
        Controls(names, {"word": word}),
        Tabs("place", ("near", "far"), options.place, [Text(f"It is {options.place}.")]),
        Button("next", "Next", {"count": options.count + 2}),
        Button("odd", "Odd", {"count": 3}),
        Live("probe", {"word": "Probe"}),
        Drawer("menu", "Menu", lambda: [Text("In the menu.")], menu=True),
        Drawer("lid", "Lid", lambda: [Text("It is on.")], changes=onward, opened=options.on),
    )
    page = Page(title="Here", headline="It is so.", blocks=blocks)
    Renderer("Here", {}, presenting=False).page(page)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The page of `app`, not run yet."""

    def probe(place: Any, change: Callable[[Changes], None], *, word: str) -> None:
        place.button(word, key="probe", on_click=change, args=(lambda: {"share": 0.5},))

    monkeypatch.setitem(render.LIVE, "probe", probe)
    return AppTest.from_function(app, default_timeout=60)


def texts(at: AppTest) -> list[str]:
    """The texts under the headline."""
    assert not at.exception
    return [text.value for text in at.markdown[1:]]


WIDGETS: dict[str, Callable[[AppTest], Any]] = {
    "count": lambda at: at.slider(key="count").set_value(12),
    "share": lambda at: at.number_input(key="share").set_value(0.3),
    "word": lambda at: at.button_group(key="word").set_value("b-c"),
    "on": lambda at: at.toggle(key="on").set_value(True),
    "several": lambda at: at.button_group(key="several").set_value(["z", "x"]),
    "factors": lambda at: at.text_input(key="factors").set_value("1, 2.5"),
    "text": lambda at: at.text_input(key="text").set_value("three four"),
    "base": lambda at: at.select_slider(key="base").set_value(500.0),
    "heads": lambda at: at.select_slider(key="heads").set_value(4),
    "seed": lambda at: at.number_input(key="seed").set_value(7),
}
EXPECTED: dict[str, Any] = {
    "count": 12, "share": 0.3, "word": "b-c", "on": True, "several": ("x", "z"), "factors": (1.0, 2.5),
    "text": "three four", "base": 500.0, "heads": 4, "seed": 7,
}  # fmt: skip


def test_widget_of_each_kind_changes_the_state_and_the_address(here: AppTest) -> None:
    at = here.run()
    assert pages.link_of(at) == {}
    for name, turn in WIDGETS.items():
        turn(at).run()
        assert not at.exception
        assert {**vars(setting(at)), **vars(options(at))}[name] == EXPECTED[name], name
        words = [fields.written(EXPECTED[name])] if name != "several" else ["x", "z"]
        found = at.query_params[name]
        assert (found if isinstance(found, list) else [found]) == words, name
    assert [box.value for box in at.warning] == []


def test_menus_show_the_labels_of_options() -> None:
    at = drawn(visit("pca", SMALL))
    assert at.button_group(key="fit").options == ["training positions", "all positions"]
    labels = [scheme.label for scheme in SCHEMES.values()]
    assert at.multiselect(key="schemes").options == labels


def test_buttons_drawers_tabs_and_live_parts_change_the_state(here: AppTest) -> None:
    at = here.run()
    assert texts(at) == ["It is near."]
    at.button(key="next").click().run()
    at.button(key="next").click().run()
    at.button(key="probe").click().run()
    assert (options(at).count, options(at).share) == (8, 0.5)
    at.session_state["menu"] = True  # as when it is pressed
    at.toggle(key="on").set_value(True).run()
    assert texts(at) == ["It is near.", "In the menu.", "It is on."]
    again = AppTest.from_function(app, default_timeout=60)
    again.query_params.update(pages.link_of(at) | {"place": "far"})
    assert texts(again.run()) == ["It is far.", "It is on."]


def test_value_that_is_not_allowed_is_told_and_the_widget_goes_back(here: AppTest) -> None:
    at = here.run()
    at.text_input(key="factors").set_value("1, x").run()
    assert [box.value for box in at.warning] == [
        "Factors must be 1 to 3 numbers from 0.5 to 100, with commas between them, or none."
    ]
    assert (options(at).factors, at.text_input(key="factors").value) == ((), "none")
    at.button_group(key="several").set_value([]).run()
    assert [box.value for box in at.warning] == ["Several must be 1 to 2 of X, Y, Z."]
    assert at.button_group(key="several").value == ["x"]
    at.button(key="odd").click().run()
    assert [box.value for box in at.warning] == [
        "Nothing was changed: EveryKind.count must be a multiple of 2 from 0 to 40, got 3."
    ]
    assert options(at).count == 4
    assert [box.value for box in at.run().warning] == []  # told once


def test_typed_sentence_stays_in_its_field_while_it_is_shown_cut(here: AppTest) -> None:
    at = here.run()
    at.text_input(key="text").set_value("one two three four five").run()
    assert options(at).text == "one two three four"
    for _ in range(2):
        assert at.text_input(key="text").value == "one two three four five"
        assert "is used instead" in at.warning[0].value
        at.run()
    at.text_input(key="text").set_value("one").run()  # the last one stays
    assert options(at).text == "one two three four"
    assert at.text_input(key="text").value == "one"
    at.text_input(key="text").set_value("five six").run()
    assert options(at).text == "five six"
    assert [box.value for box in at.warning] == []


def test_fault_in_a_callback_is_one_sentence_and_the_page_stays(
    here: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = here.run()

    def fail(*arguments: object) -> None:
        raise ValueError("/srv/secret")

    monkeypatch.setattr(session, "change", fail)
    at.toggle(key="on").set_value(True).run()
    assert not at.exception
    (box,) = at.warning
    assert "incident" in box.value
    assert "secret" not in box.value
    assert not options(at).on
    assert not at.toggle(key="on").value


# The address ----------------------------------------------------------------------------------


def test_menu_keeps_the_state_and_a_link_within_the_app_sets_it() -> None:
    at = drawn(visit("similarity", SMALL | {"reference": "3", "base": "500"}))
    at.query_params.clear()  # as the browser does when a page is chosen in the menu
    turn_to(at, "learn").run()
    assert (setting(drawn(at)).base, options(at).step) == (500, "1")
    at.query_params.clear()
    turn_to(at, "similarity").run()
    assert options(drawn(at)).reference == 3
    at.query_params.update({"v": "1", "step": "3"})  # as a link with parameters leads there
    turn_to(at, "learn").run()
    assert (setting(drawn(at)), options(at).step) == (Setting(), "3")
    at.query_params.update({"v": "1", "step": "2"})  # of the same page: a pressed key outran it
    at.run()
    assert options(drawn(at)).step == "3"
    assert at.query_params == {"v": "1", "step": "3"}


def written(at: AppTest) -> str | None:
    """The query that the browser writes into the address, None for none."""
    sent = [element.proto for element in at.get("bidi_component")]
    (history,) = [one for one in sent if one.component_name.endswith("posenc_history")]
    query: str | None = json.loads(history.json)["query"] if history.json else None
    return query


def test_address_counts_at_back_and_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    at = drawn(visit("similarity", SMALL | {"base": "500"}))
    real = streamlit_parts.get_script_run_ctx

    def going_back() -> Any:
        run = real()
        assert run is not None
        run.is_history_navigation = True
        return run

    monkeypatch.setattr(streamlit_parts, "get_script_run_ctx", going_back)
    at.query_params.clear()
    at.query_params.update({"v": "1", "base": "700", "step": "2"})
    turn_to(at, "learn").run()
    assert (setting(drawn(at)), options(at).step) == (Setting(base=700.0), "2")
    assert written(at) is None  # it is there


def test_address_of_a_page_that_was_chosen_is_written_by_the_browser() -> None:
    at = drawn(visit("similarity", SMALL | {"base": "500", "gone": "1"}))
    assert written(at) == "v=1&dim=64&base=500&length=24&train_length=16&heads=4"
    at.select_slider(key="base").set_value(630.0).run()
    assert written(at) is None
    assert at.query_params["base"] == "630"


def test_page_names_once_what_it_leaves_out_of_a_link() -> None:
    at = drawn(visit("similarity", SMALL | {"reference": "3", "key_position": "x", "foo": "1"}))
    assert notices(at) == ["Ignored in this link: 'foo' and 'key_position'."]
    assert (options(at).reference, options(at).key_position) == (3, 0)
    assert notices(drawn(at.run())) == []


# Shared controls ------------------------------------------------------------------------------


def test_slider_and_exact_value_set_each_other() -> None:
    at = drawn(visit("similarity", SMALL | {"dim": "500", "heads": "2"}, **OPEN))
    assert at.select_slider(key="dim").value == 500  # between two stops: a stop of its own
    at.number_input(key="base_exact").set_value(12345.0).run()
    assert setting(drawn(at)).base == 12345
    assert at.select_slider(key="base").value == 12345
    at.select_slider(key="base").set_value(12500.0).run()
    assert setting(drawn(at)).base == at.number_input(key="base_exact").value == 12500
    at.number_input(key="dim_exact").set_value(502).run()  # no multiple of 4
    (told,) = notices(drawn(at))
    assert told.startswith(
        "Nothing was changed: Model dimension must be a multiple of twice the heads"
    )
    assert (setting(at).dim, at.number_input(key="dim_exact").value) == (500, 500)


def test_sliders_offer_what_goes_with_the_other_numbers() -> None:
    at = drawn(visit("similarity", {"heads": "12", "dim": "768", "length": "64"}, **OPEN))
    assert at.select_slider(key="dim").options[-2:] == ["1,536", "3,072"]
    assert "5" not in at.select_slider(key="heads").options
    at.select_slider(key="heads").set_value(4).run()
    assert at.select_slider(key="alibi_head").options == ["mean", "1", "2", "3", "4"]


def test_switching_every_scheme_off_keeps_the_last_ones_with_a_notice() -> None:
    at = drawn(visit("similarity", SMALL | {"schemes": "rope,alibi"}))
    at.multiselect(key="schemes").set_value([]).run()
    assert setting(drawn(at)).schemes == ("rope", "alibi")
    assert at.multiselect(key="schemes").value == ["rope", "alibi"]
    assert len(notices(at)) == 1


def test_seventh_scheme_cannot_be_chosen_and_seven_of_a_link_are_left_out() -> None:
    kinds = [*SCHEMES]
    at = drawn(visit("similarity", SMALL | {"schemes": ",".join(kinds[:7])}))
    assert setting(at).schemes == Setting().schemes
    assert notices(at) == ["Ignored in this link: 'schemes'."]
    assert at.multiselect(key="schemes").proto.max_selections == 6
    at.multiselect(key="schemes").set_value([kinds[8], kinds[0]]).run()
    assert setting(drawn(at)).schemes == (kinds[0], kinds[8])  # in the registry's order


def choose_from_menu(monkeypatch: pytest.MonkeyPatch, key: str, option: str) -> None:
    """Choose from a menu, which AppTest cannot press, in the next run: its callback is called."""

    def draw(place: Any, *words: Any, on_click: Any, args: Any = (), **more: Any) -> None:
        if more["key"] == key:
            with pytest.MonkeyPatch.context() as chosen:
                chosen.setitem(st.session_state, key, option)
                on_click(*args)

    monkeypatch.setattr(DeltaGenerator, "menu_button", draw)


def test_reset_and_presets_set_what_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    link = SMALL | {"schemes": "none", "base": "500", "rope.layout": "half", "seed": "9"}
    at = drawn(visit("why_position", link))
    at.button(key="reset").click().run()
    assert setting(drawn(at)) == Setting()
    assert at.query_params == {}
    choose_from_menu(monkeypatch, "preset", "bert")
    bert = setting(drawn(at.run()))  # AppTest presses it after the page is made
    assert bert == Setting().replace(**PRESETS["bert"].changes)
    assert [toast.value for toast in at.toast]


def test_reset_gives_the_controls_of_this_page_their_defaults_and_keeps_the_rest() -> None:
    at = drawn(visit("relative_offsets", {"base": "500", "offset": "9", "schemes": "rope"}))
    own, others = replace(options(at), dense=True), pca.Options(plot=pca.SECOND)
    at.session_state["_state"] = replace(
        state(at), options={"relative_offsets": own, "pca": others}
    )
    at.button(key="reset").click().run()
    assert pages.link_of(drawn(at)) == {}
    assert (setting(at), options(at).offset) == (Setting(), 1)
    assert options(at).dense  # which no link holds, as uploads
    assert state(at).options["pca"] == others


def test_hidden_control_keeps_its_value_in_the_address() -> None:
    link = {"rope.layout": "half", "seed": "9", "schemes": ["alibi"], "heads": "4"}
    at = drawn(visit("similarity", link, **OPEN))
    keys = {str(widget.key) for widget in (*at.sidebar.select_slider, *at.sidebar.button_group)}
    assert not {"rope.layout", "dim"} & keys
    assert pages.link_of(at) == {"v": ["1"]} | {
        name: text if isinstance(text, list) else [text] for name, text in link.items()
    }
    at.multiselect(key="schemes").set_value(["alibi", "rope"]).run()
    assert at.button_group(key="rope.layout").value == "half"


# Another legal value of every control, all of which fit each other and SMALL.
OTHER: dict[str, Any] = {
    "dim": 96, "base": 500.0, "length": 40, "train_length": 20, "heads": 2, "equal_width": True,
    "alibi_head": 2, "seed": 9, "learned_source": "random", "precision": "bfloat16",
    "device": "cpu", "rope.layout": "half", "sinusoidal.layout": "half",
    "rope.partial_rotary_factor": 0.5, "model": "deepseek-v3",
}  # fmt: skip
LONE = Setting(dim=64, heads=4, length=24, train_length=16, schemes=("alibi", "none"))


def uses_of(page: str, now: State) -> Uses:
    """What a page reads of a setting, at its options."""
    return all_pages.uses_of(now, pages.FOLDERS[page])


def keys_of_sidebar(at: AppTest) -> set[str]:
    """The fields that the sidebar's widgets set."""
    kinds = (
        "number_input",
        "slider",
        "select_slider",
        "toggle",
        "button_group",
        "text_input",
        "multiselect",
    )
    keys = {str(widget.key) for kind in kinds for widget in getattr(at.sidebar, kind)}
    return {key.removesuffix("_exact") for key in keys}


@pytest.mark.usefixtures("fixed_speed")
@pytest.mark.parametrize("page", pages.PAGES)
def test_sidebar_draws_what_the_page_uses(page: str) -> None:
    at = drawn(visit(page, SMALL | {"schemes": "alibi,none"}, **OPEN))
    uses = uses_of(page, state(at))
    assert {*uses.itself, *uses.never} <= RULES.keys()
    assert not {*uses.itself} & {*uses.never}
    wanted = controls.used(uses, LONE)
    menus = {"model", "learned_source"}  # whose widgets are in menus
    assert keys_of_sidebar(at) - menus == wanted - menus - ({*uses.drawn} - {*STOPS})
    assert not {*uses.drawn} & {str(dial.key) for dial in at.sidebar.select_slider}


@pytest.mark.parametrize("page", [page for page in pages.PAGES if page != "train"])
def test_what_the_sidebar_does_not_draw_changes_nothing(page: str) -> None:
    uses, module = uses_of(page, State()), all_pages.module_of(pages.FOLDERS[page])
    hidden = {name: value for name, value in OTHER.items() if name not in controls.used(uses, LONE)}
    assert hidden
    usual, other = (
        module.page(one, module.Options()) for one in (LONE, with_changes(LONE, hidden))
    )
    assert described(other) == described(usual)


def described(page: Page) -> list[Any]:
    """What a page says and draws, but for its script, which holds the whole setting."""
    parts: list[Any] = [page.title, page.headline, dict(page.reasons)]
    for block in page.all_blocks:
        match block:
            case Text():
                parts.append(block.text)
            case Chart():
                parts += [block.title, block.spec, block.frame.to_csv()]
            case Matrices():
                parts += [(panel.title, panel.values.dense().tobytes()) for panel in block.panels]
    return parts


# A/B and presenting ---------------------------------------------------------------------------


def test_pinning_and_unpinning_by_hand() -> None:
    at = drawn(visit("similarity", SMALL, menu_compare=True))
    before = setting(at)
    at.button(key="pin").click().run()
    at.select_slider(key="base").set_value(500.0).run()
    assert len(pages.rows_of_matrices(drawn(at))) == 3
    assert "A has base 10,000." in [as_read(text.value) for text in at.caption]
    at.query_params.clear()
    turn_to(at, "why_position").run()
    at.query_params.clear()
    turn_to(at, "similarity").run()
    assert state(drawn(at)).pinned == before
    at.button(key="unpin").click().run()
    assert len(pages.rows_of_matrices(drawn(at))) == 1


def test_presenting_moves_the_controls_into_a_menu_and_is_in_the_link() -> None:
    at = drawn(visit("similarity", SMALL | {"present": "true"}))
    assert len(at.sidebar.children) == 0
    at.session_state["menu_controls"] = True
    at.run()
    at.select_slider(key="base").set_value(500.0).run()
    assert pages.link_of(drawn(at))["present"] == ["true"]
    at.toggle(key=tools.PRESENTING).set_value(False).run()
    assert (setting(drawn(at)).base, state(at).presenting) == (500, False)
    assert len(at.sidebar.children) > 0


def test_server_shows_no_more_positions_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_POSITIONS", "100")
    at = drawn(visit("similarity", {"dim": "64", "a": "dim~64~length~2048"}))
    told = "This server shows at most 100 positions: 100 are used, not 256."
    assert notices(at) == [told]
    assert (setting(at).length, state(at).pinned.length) == (100, 100)  # type: ignore[union-attr]
    assert at.select_slider(key="length").options[-1] == "100"
    at.button(key="reset").click().run()
    assert notices(drawn(at)) == [told]


def test_keys_of_widgets_are_apart_from_names_of_fields() -> None:
    """A setting or an option of such a name would be taken for a drawer, or a menu."""
    named = {
        "preset",
        "reset",
        "more",
        "exact_values",
        "drawers",
        "export",
        "pin",
        "unpin",
        tools.PRESENTING,
    }
    named |= {f"menu_{name}" for name in ("controls", "compare", "python", "export")}
    names = {name for kind in pages.OPTIONS.values() for name in fields.rules(kind)}
    names |= {*fields.rules(Setting)}
    assert not names & named
    assert not [
        name
        for name in names
        if name.startswith("_") or name.endswith(("_exact", "_menu", "_list"))
    ]
