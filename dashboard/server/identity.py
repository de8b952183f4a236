"""Who a visitor is: by a proxy's header, or by Streamlit's login with the providers of [auth].

Streamlit checks that table whenever somebody logs in, and fails there; here its checks run before anything
is served, so that the operator is told what is missing, by its name and never by its value.
"""

import functools
from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit import auth_util
from streamlit.errors import StreamlitAuthError

from dashboard.server import settings
from dashboard.server.settings import ServerSettingError
from posenc.lab.labels import is_owner
from posenc.text import install_command

KEY = "posenc_user"  # under which the proxy's header stands in st.user
UNNAMED = "default"  # what Streamlit calls the provider whose keys stand in [auth] itself
_HERE = "[auth] of secrets.toml"


def offered() -> dict[str, str]:
    """Return the label of the login button of each provider of this server, by the provider's name.

    There is none without [auth], and none where a proxy says who people are.

    Raises ServerSettingError where nobody could log in.
    """
    allowed = settings.current()
    return {} if allowed.user_header else _of_secrets(allowed.base_path)


def passed_over() -> bool:
    """Whether there is an [auth] that counts nothing, because the proxy says who people are."""
    return bool(settings.current().user_header) and _section() is not None


def _section() -> Any:
    return st.secrets.get("auth") if st.secrets.load_if_toml_exists() else None


@functools.cache  # as all that secrets say, looked for once for each process
def _of_secrets(path: str) -> dict[str, str]:
    """Return the labels of buttons by provider. path: where the proxy has the server."""
    section = _section()
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ServerSettingError(f"{_HERE} must be a table.")
    if not auth_util.is_authlib_installed():
        raise ServerSettingError(
            f"{_HERE} needs a library that is not installed: {install_command('login')}."
        )
    tables = [name for name, keys in section.items() if isinstance(keys, Mapping)]
    providers = [name for name in tables if name != "client_kwargs"]  # those are of the unnamed one
    if UNNAMED not in providers and (not providers or "client_id" in section):
        providers.insert(0, UNNAMED)
    try:
        for name in providers:
            auth_util.validate_auth_credentials(name)
        auth_util.get_expose_tokens_config()
    except StreamlitAuthError as error:
        raise ServerSettingError(f"{_HERE}: {' '.join(str(error).split())}") from None
    path = path or st.get_option("server.baseUrlPath").strip("/")
    callback = f"/{path}/oauth2callback" if path else "/oauth2callback"
    if not str(section["redirect_uri"]).endswith(callback):
        raise ServerSettingError(f"redirect_uri in {_HERE} must end with {callback}.")
    if len(providers) == 1:
        return {providers[0]: "Log in"}
    words = {name: name.capitalize() if name.islower() else name for name in providers}
    labels = {name: f"Log in with {words[name]}" for name in providers}
    return labels | ({UNNAMED: "Log in"} if UNNAMED in labels else {})


def name() -> str:
    """Return who this is, "" where nobody says it; what can be no owner is nobody, too."""
    if settings.current().user_header:  # it alone: a provider's claims may have any name
        claim = st.user.get(KEY)
    else:
        claim = st.user.get("email") if logged_in() and _verified() else ""
    return claim if isinstance(claim, str) and is_owner(claim) else ""


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
    return allowed.one_person and not allowed.user_header and not offered()
