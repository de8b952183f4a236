"""The name of a visitor, which the proxy sends in the header of POSENC_USER_HEADER; else none."""

import unicodedata

import streamlit as st

from dashboard.server import settings

KEY = "posenc_user"  # under which the header stands in st.user
LONGEST = 128  # characters of a name


def name() -> str:
    """Return who this is, "" where nobody says it; what can be no name is nobody, too."""
    claim = st.user.get(KEY) if settings.current().user_header else ""
    return claim if isinstance(claim, str) and _can_be_name(claim) else ""


def _can_be_name(text: str) -> bool:
    """Whether a text is short, and has no invisible or reordering characters."""
    return (
        len(text) <= LONGEST
        and text == text.strip()
        and not any(unicodedata.category(letter)[0] in "CZ" and letter != " " for letter in text)
    )
