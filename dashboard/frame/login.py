"""Streamlit's own login: who one is, and the buttons; only where the operator's secrets have [auth].

Streamlit comes back from a provider at its root, whatever link somebody had. So their browser keeps the
link before it leaves, in the one tab and nowhere else, and goes there once it is back: to an address of
this server alone, read from what this server's own page wrote.
"""

import streamlit as st

from dashboard.controls.widgets import pressed
from dashboard.server import identity, visitor
from dashboard.server.incidents import answered
from dashboard.text import plain

_LEAVING = "login_leaving"  # the provider to which this visitor is about to go, "" to log out
_REFUSED = "login_refused"
_NAMELESS = "Logged in, but without a verified e-mail address: you own no run."

_link = st.components.v2.component(
    "posenc_login_link",
    js="""
const KEY = "posenc.login";
const LONGEST = 15 * 60 * 1000;  // milliseconds until somebody who left is not expected back
const left = Symbol.for("posenc.login");  // this page is being left: what it keeps is for the next

const kept = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
};
const keep = (value) => {
  try {
    if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
    else sessionStorage.removeItem(KEY);
  } catch {}  // a browser that keeps nothing comes back to the start page
};

export default ({ data, setTriggerValue }) => {
  if (data.leaving) {
    window[left] = true;
    keep({ link: location.href, at: Date.now(), leaving: data.leaving });
    setTriggerValue("kept", true);
    return;
  }
  const was = window[left] ? null : kept();
  if (!was) return;
  keep(null);
  if (was.back || was.link === location.href) {
    if (was.leaving === "in" && !data.known) setTriggerValue("refused", true);
    return;
  }
  const here = location.pathname.replace(/[/]*$/, "/");
  if (here !== data.root || location.search || !(Date.now() - was.at < LONGEST)) return;
  const link = new URL(was.link);
  const ours = link.origin === location.origin && link.pathname.startsWith(data.root);
  if (!ours || link.pathname.includes("//")) return;
  keep({ ...was, back: true });
  location.replace(link.href);
};
""",
)


def draw() -> None:
    """Draw who this visitor is and what logs in or out, where Streamlit's own login is set up."""
    offered = identity.offered()
    if not offered:
        return
    known = visitor.logged_in()
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="login")
    if known:
        who = visitor.name()
        row.caption(f"Logged in as {plain(who)}" if who else _NAMELESS, width="stretch")
        if pressed(row, "Log out", key="logout", type="tertiary", icon=":material/logout:"):
            st.session_state[_LEAVING] = ""
    else:
        for one in offered:
            icon = ":material/login:"
            if pressed(row, one.words, key=f"login_{one.name}", type="tertiary", icon=icon):
                st.session_state[_LEAVING] = one.name
    leaving = st.session_state.get(_LEAVING)
    with row:
        _link(
            key="login_link",
            data={
                "root": f"/{st.get_option('server.baseUrlPath').strip('/')}/".replace("//", "/"),
                "known": known,
                "leaving": None if leaving is None else "in" if leaving else "out",
            },
            on_kept_change=_leave,
            on_refused_change=_told,
            width="content",
        )
    if st.session_state.pop(_REFUSED, False):
        st.toast("You were not logged in.", icon=":material/info:", duration="long")


@answered
def _leave() -> None:
    """Send the browser, which has kept its link, to the provider or out."""
    leaving = st.session_state.pop(_LEAVING, None)
    if leaving is None:  # it was sent already, or nobody asked
        return
    if leaving:
        st.login(leaving)
    else:
        st.logout()


@answered
def _told() -> None:
    st.session_state[_REFUSED] = True
