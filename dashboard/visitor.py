"""Who a visitor is, as far as this server is told: by a proxy's header, or by a login of Streamlit's."""

import streamlit as st

from dashboard import server_settings
from posenc.lab.labels import is_owner

KEY = "posenc_user"  # under which the proxy's header stands in st.user


def name() -> str:
    """Return who this is, "" where nobody says it; what can be no owner is nobody, too."""
    said = st.user.get(KEY)
    if not said and st.user.get("is_logged_in"):
        said = st.user.get("email")
    return said if isinstance(said, str) and is_owner(said) else ""


def may_own() -> bool:
    """Whether this visitor can be told from others; on a private server that knows nobody, all are one."""
    allowed = server_settings.current()
    return bool(name()) or (allowed.one_person and not allowed.user_header)
