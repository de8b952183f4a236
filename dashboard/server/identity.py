"""Who a visitor is: whom the proxy names in the header of POSENC_USER_HEADER, else nobody."""

import streamlit as st

from dashboard.server import settings
from posenc.lab.labels import is_owner

KEY = "posenc_user"  # under which the header stands in st.user


def name() -> str:
    """Return who this is, "" where nobody says it; what can be no owner is nobody, too."""
    claim = st.user.get(KEY) if settings.current().user_header else ""
    return claim if isinstance(claim, str) and is_owner(claim) else ""


def may_own() -> bool:
    """Whether this visitor can be told from others; on a private server that knows nobody, all are one."""
    allowed = settings.current()
    return bool(name()) or (allowed.one_person and not allowed.user_header)
