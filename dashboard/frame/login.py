"""Streamlit's own login: the visitor's name and the buttons, where the operator's secrets have [auth].

A provider sends the browser back to the root of the app. So the browser stores the visitor's link before
it leaves, in this tab alone, and opens it after the login, if it is an address of this server.
"""

import streamlit as st

from dashboard.components import browser
from dashboard.controls.widgets import button
from dashboard.server import identity
from dashboard.server.incidents import show_callback_errors
from dashboard.text import plain

_LEAVING = "login_leaving"  # the provider to which this visitor is about to go, "" to log out
_REFUSED = "login_refused"
_NAMELESS = "Logged in, but without a verified e-mail address: you own no run."


def draw() -> None:
    """Draw the visitor's name and the buttons to log in or out, where login is set up."""
    offered = identity.offered()
    if not offered:
        return
    known = identity.logged_in()
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="login")
    if known:
        who = identity.name()
        row.caption(f"Logged in as {plain(who)}" if who else _NAMELESS, width="stretch")
        if button(row, "Log out", key="logout", type="tertiary", icon=":material/logout:"):
            st.session_state[_LEAVING] = ""
    else:
        for provider, label in offered.items():
            icon = ":material/login:"
            if button(row, label, key=f"login_{provider}", type="tertiary", icon=icon):
                st.session_state[_LEAVING] = provider
    leaving = st.session_state.get(_LEAVING)
    with row:
        browser.login_link(
            {
                "root": f"/{st.get_option('server.baseUrlPath').strip('/')}/".replace("//", "/"),
                "known": known,
                "leaving": None if leaving is None else "in" if leaving else "out",
            },
            _leave,
            _refuse,
        )
    if st.session_state.pop(_REFUSED, False):
        st.toast("You were not logged in.", icon=":material/info:", duration="long")


@show_callback_errors
def _leave() -> None:
    """Log in or out, once the browser has stored its link."""
    leaving = st.session_state.pop(_LEAVING, None)
    if leaving:
        st.login(leaving)
    elif leaving is not None:  # else nobody pressed a button
        st.logout()


@show_callback_errors
def _refuse() -> None:
    st.session_state[_REFUSED] = True
