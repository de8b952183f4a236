"""Who a visitor is, as far as this server is told: by a proxy's header, or by a login of Streamlit's."""

import streamlit as st

from dashboard.server import identity, settings
from posenc.lab.labels import is_owner

KEY = "posenc_user"  # under which the proxy's header stands in st.user


def name() -> str:
    """Return who this is, "" where nobody says it; what can be no owner is nobody, too."""
    if settings.current().user_header:  # it alone: a provider's claims may have any name
        said = st.user.get(KEY)
    else:
        said = st.user.get("email") if logged_in() and _verified() else ""
    return said if isinstance(said, str) and is_owner(said) else ""


def logged_in() -> bool:
    """Whether Streamlit's own login knows this visitor, by whatever name."""
    return st.user.get("is_logged_in") is True


def _verified() -> bool:
    """Whether the provider stands by the e-mail address, in a word or as a word.

    Where it says nothing, people may have set the address themselves, and would own what another one's is.
    """
    return str(st.user.get("email_verified")).lower() == "true"


def may_own() -> bool:
    """Whether this visitor can be told from others; on a private server that knows nobody, all are one."""
    if name():
        return True
    allowed = settings.current()
    return allowed.one_person and not allowed.user_header and not identity.offered()
