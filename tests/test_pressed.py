"""A press of a button counts, however early it comes: also where its own run is cut short."""

import pytest
from streamlit.runtime.state import SessionState
from streamlit.testing.v1 import AppTest


def app() -> None:
    import streamlit as st

    from dashboard.widgets import pressed

    st.session_state.setdefault("counted", {"ours": 0, "Streamlit's": 0})
    if st.session_state.get("cut"):
        st.session_state["cut"] = False
        st.rerun()  # before the buttons are come to
    if pressed(st, "Ours", key="ours"):
        st.session_state["counted"]["ours"] += 1
    if st.button("Streamlit's", key="theirs"):
        st.session_state["counted"]["Streamlit's"] += 1


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("key", "name"), [("ours", "ours"), ("theirs", "Streamlit's")])
def test_a_press_counts_once_even_if_its_run_is_cut_short(cut: bool, key: str, name: str) -> None:
    page = AppTest.from_function(app).run()
    page.session_state["cut"] = cut
    page.button(key=key).click()
    page.run()
    lost = cut and name != "ours"  # the control: what a press in a cut run came to before
    other = "ours" if name != "ours" else "Streamlit's"
    assert page.session_state["counted"] == {name: 0 if lost else 1, other: 0}
    page.run()
    assert page.session_state["counted"][name] == (0 if lost else 1)
    assert not page.exception


def test_a_press_counts_if_the_run_before_ends_after_its_own_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy server: Streamlit takes the press back when the run before is done, too late."""
    begin = SessionState.on_script_will_rerun

    def begin_then_end_the_run_before(self: SessionState, *given: object, **named: object) -> None:
        begin(self, *given, **named)
        self.on_script_finished(frozenset(), remove_stale_widgets=False)

    page = AppTest.from_function(app).run()
    monkeypatch.setattr(SessionState, "on_script_will_rerun", begin_then_end_the_run_before)
    page.button(key="ours").click().run()
    page.button(key="theirs").click().run()
    assert page.session_state["counted"] == {"ours": 1, "Streamlit's": 0}
