"""The sidebar: what a page does not use is hidden, keeps its value, stays in the link, is reset."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from dashboard import controls, used
from dashboard import widgets as drawing
from dashboard.controls import DIALS
from posenc import Setting, fields, own_fields
from posenc.presets import PRESETS
from posenc.schemes import SCHEMES
from tests.pages import (
    LABELS,
    PAGES,
    captions,
    charts,
    drawn,
    headline,
    notices,
    rows_of_matrices,
    setting,
    visit,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")

OPEN = {"more": True, "exact_values": True}
# Another legal value of every control, all of which fit each other and the defaults of the rest.
OTHER: dict[str, Any] = {
    "dim": 256, "base": 500.0, "length": 40, "train_length": 24, "heads": 4, "equal_width": True,
    "alibi_head": 2, "seed": 9, "learned_source": "random", "precision": "bfloat16",
    "device": "cpu", "rope.layout": "half", "sinusoidal.layout": "half",
    "rope.partial_rotary_factor": 0.5, "model": "deepseek-v3",
}  # fmt: skip


def path(page: str) -> str:
    return "" if page == "start" else page


def keys(at: AppTest) -> set[str]:
    """The controls that the sidebar draws, by the fields that they set; a dial is one, too."""
    found = {str(one.key) for one in at.sidebar if getattr(one, "key", None)}
    for kind in ("number_input", "slider", "select_slider", "toggle", "button_group", "selectbox",
                 "text_input"):  # fmt: skip
        found |= {str(one.key) for one in getattr(at.sidebar, kind)}
    ends = ("_control", "_dial")
    return {key.removesuffix(end) for key in found for end in ends if key.endswith(end)}


def dials(at: AppTest) -> set[str]:
    """The dials that the sidebar draws, by the fields that they set."""
    found = {str(one.key) for one in at.sidebar.select_slider}
    return {key.removesuffix("_dial") for key in found if key.endswith("_dial")}


def said(at: AppTest) -> list[Any]:
    return [headline(at), captions(at), [one.value for one in at.main.markdown]]


def test_every_page_says_what_it_uses_and_nothing_that_is_no_control() -> None:
    assert set(used.PAGES) == {path(page) for page in PAGES}
    every = fields.rules(Setting).keys() | own_fields.rules().keys()
    for page in used.PAGES.values():
        assert {*page.itself, *page.never} <= every
        assert not {*page.itself} & {*page.never}
    with pytest.raises(LookupError, match=r"^used\.PAGES must say what every page uses"):
        used.controls("a page that says nothing", Setting())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("schemes", [None, ("alibi",), ("rope", "none"), ("none",)])
def test_the_sidebar_draws_what_is_used(page: str, schemes: tuple[str, ...] | None) -> None:
    chosen = {} if schemes is None else {"schemes": [*schemes]}
    at = drawn(visit(page, **OPEN, **chosen))
    wanted = used.controls(path(page), setting(at))
    itself = {*used.PAGES[path(page)].drawn}
    assert keys(at) == wanted - (itself - {*DIALS})  # numbers stay under Exact values
    assert not itself & dials(at)
    if page != "claims":  # whose sentences are about schemes of their own
        owners = {name.split(".")[0] for name in keys(at) if "." in name}
        assert owners <= {*setting(at).schemes}


@pytest.mark.parametrize("schemes", [None, ("alibi", "none"), ("sinusoidal",)])
@pytest.mark.parametrize("page", PAGES)
def test_a_hidden_control_changes_nothing_on_its_page(
    page: str, schemes: tuple[str, ...] | None
) -> None:
    chosen = {} if schemes is None else {"schemes": [*schemes]}
    usual = drawn(visit(page, **chosen))
    hidden = {n: v for n, v in OTHER.items() if n not in used.controls(path(page), setting(usual))}
    other = drawn(visit(page, **chosen, **hidden))
    for name, value in hidden.items():
        assert setting(other).record()[name] == value
    assert said(other) == said(usual)
    for one, another in zip(charts(usual), charts(other), strict=True):
        pd.testing.assert_frame_equal(one, another)
    assert repr(rows_of_matrices(other)) == repr(rows_of_matrices(usual))


def test_a_hidden_control_stays_in_the_address_and_in_the_session() -> None:
    link = {"rope.layout": "half", "seed": "9", "schemes": ["ALiBi"]}
    at = drawn(visit("similarity", link | {"heads": "4"}, **OPEN))
    assert not {"rope.layout", "seed", "dim", "learned_source"} & keys(at)
    assert "heads" in keys(at)
    assert at.query_params == link | {"heads": "4", "schemes": "ALiBi"}
    at.query_params.clear()  # as the browser does when the page is left
    at.switch_page("views/train.py").run()
    assert not {"heads", "dim", "rope.layout"} & keys(drawn(at))
    assert at.query_params == link | {"heads": "4", "schemes": "ALiBi"}
    at.switch_page("views/similarity.py").run()
    at.button_group(key="schemes_control").set_value(["alibi", "rope"]).run()
    assert "rope.layout" in keys(drawn(at))
    assert dict(setting(at).own) == {"rope.layout": "half"}


def test_closed_drawers_send_nothing() -> None:
    at = drawn(visit("similarity"))
    assert len(at.sidebar.number_input) == 0
    assert len(at.sidebar.slider) == 0
    assert keys(at) == {"schemes", *controls.DIALS, "equal_width", "learned_source", "model"}


def test_reset_and_presets_set_what_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"schemes": ["none"], **OTHER}
    at = drawn(visit("train", **odd))
    at.button(key="reset").click().run()
    assert setting(drawn(at)) == Setting()
    assert at.query_params == {}
    monkeypatch.setattr(DeltaGenerator, "menu_button", lambda self, *words, **more: "bert")
    assert setting(drawn(at.run())) == PRESETS["bert"].apply(Setting())


# The picker of schemes ----------------------------------------------------------------------------


def offered(at: AppTest) -> list[str]:
    return [*at.button_group(key="schemes_control").options]


def test_first_schemes_and_chosen_ones_are_offered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at = drawn(visit("similarity", {"schemes": ["Learned", "ALiBi"]}))
    assert offered(at)[:5] == list(LABELS.values())
    monkeypatch.setattr(controls, "AT_ONCE", 2)
    at = drawn(visit("similarity", {"schemes": ["Learned", "ALiBi"]}))
    assert offered(at) == ["Learned", "Sinusoidal", "ALiBi"]
    assert setting(at).schemes == ("learned", "alibi")
    at.button_group(key="schemes_control").set_value(["learned"]).run()
    assert offered(drawn(at)) == ["Learned", "Sinusoidal"]
    assert setting(at).schemes == ("learned",)
    asked = []
    monkeypatch.setattr(
        st, "menu_button", lambda label, kinds, **more: asked.append(kinds) or "none"
    )
    assert setting(drawn(at.run())).schemes == ("learned", "none")
    assert asked[0] == [kind for kind in SCHEMES if kind not in ("learned", "sinusoidal")]
    assert offered(at) == ["Learned", "Sinusoidal", "NoPE"]
    assert notices(at) == []


def test_a_seventh_scheme_is_refused_and_what_was_chosen_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [*SCHEMES]
    six = kinds[:1] + kinds[2:7]  # the second stands beside them as a pill that can be pressed
    at = drawn(visit("similarity", {"schemes": ",".join(six)}))
    assert notices(at) == []
    assert offered(at) == [SCHEMES[kind].label for kind in kinds[:7]]
    at.button_group(key="schemes_control").set_value([*six, kinds[1]]).run()
    assert [*setting(drawn(at)).schemes] == six
    assert [*at.button_group(key="schemes_control").value] == six
    assert notices(at) == [
        "At most 6 schemes stand side by side: take one away before you add "
        f"{SCHEMES[kinds[1]].label}."
    ]
    assert notices(at.run()) == []
    menus: list[dict[str, Any]] = []
    monkeypatch.setattr(
        st, "menu_button", lambda label, asked, **more: menus.append(more) or asked[0]
    )
    assert [*setting(drawn(at.run())).schemes] == six
    assert menus[0]["disabled"]
    at.button_group(key="schemes_control").set_value(six[1:]).run()
    assert [*setting(drawn(at)).schemes] == [*six[1:], kinds[7]]  # now the menu adds one
    assert not menus[-2]["disabled"]


def test_a_link_of_seven_schemes_shows_six_and_says_so() -> None:
    kinds = [*SCHEMES][:7]
    at = drawn(visit("similarity", {"schemes": ",".join(kinds)}))
    assert [*setting(at).schemes] == kinds[:6]
    (notice,) = notices(at)
    assert notice.startswith("Schemes must be 1 to 6 of ")
    assert notice.endswith(
        f"{', '.join(SCHEMES[kind].label for kind in kinds[:6])} are used instead."
    )


# Free text among the shared controls --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Few(fields.Rule):
    """Two whole numbers, as text such as "1,2"."""

    def allowed(self) -> str:
        return "two whole numbers"

    def accepts(self, value: object) -> bool:
        return isinstance(value, tuple) and len(value) == 2

    def nearest(self, text: str) -> tuple[int, ...] | None:
        parts = text.split(",")
        return tuple(map(int, parts)) if len(parts) == 2 and all(
            part.strip().isdigit() for part in parts
        ) else None  # fmt: skip

    def write(self, value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))


def _page() -> None:
    import streamlit as st

    from dashboard.widgets import control
    from tests.test_page_controls import Few

    st.session_state.setdefault("few", (1, 2))
    control(st, "few", Few(label="Few"), (1, 2))


def test_a_tuple_of_numbers_is_typed_and_told_where_it_says_nothing() -> None:
    assert drawing.typed(Few(label="Few"))
    at = AppTest.from_function(_page).run()
    (box,) = at.text_input
    assert box.value == "1,2"
    box.set_value("3, 4").run()
    assert at.session_state["few"] == (3, 4)
    assert not at.warning
    at.text_input[0].set_value("x").run()
    assert at.session_state["few"] == (1, 2)
    assert at.text_input[0].value == "x"
    assert "Few must be two whole numbers" in at.warning[0].value
    at.session_state["few"] = (5, 6)
    assert at.run().text_input[0].value == "5,6"
    assert not at.warning


def test_every_rule_of_today_has_a_widget_of_its_own() -> None:
    for name, rule in (fields.rules(Setting) | own_fields.rules()).items():
        assert drawing.typed(rule) == isinstance(rule, fields.Word | fields.Sentence) or (
            type(rule).__name__ == "Numbers"
        ), name
    assert set(OTHER) | {"schemes"} >= fields.rules(Setting).keys()
    assert own_fields.defaults().keys() == own_fields.rules().keys()
