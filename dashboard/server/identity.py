"""Who a visitor is: by a proxy's header, or by Streamlit's login with the providers of [auth].

Streamlit reads that table itself whenever somebody logs in, and fails there; here it is read before
anything is served, so that what is missing is said to the operator, by its name and never by its value.
"""

import functools
import importlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from streamlit.auth_util import is_authlib_installed

from dashboard.server import settings
from dashboard.server.settings import ServerSettingError
from posenc.errors import quoted
from posenc.lab.labels import is_owner

KEY = "posenc_user"  # under which the proxy's header stands in st.user
UNNAMED = "default"  # what Streamlit calls the provider whose keys stand in [auth] itself
SHARED_KEYS = ("redirect_uri", "cookie_secret")
_PROVIDER_KEYS = ("client_id", "client_secret", "server_metadata_url")
CALLBACK = "/oauth2callback"
SHORTEST_SECRET = 32  # characters: whoever guesses it can be anybody
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")
_HERE = "[auth] of secrets.toml"
_USUAL = {"http": 80, "https": 443}  # ports that browsers leave out
_OWN_MACHINE = ("localhost", "127.0.0.1", "::1")  # where browsers trust http, too


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


@functools.cache  # as all that secrets say, looked for once for each process
def _of_secrets(path: str) -> dict[str, str]:
    section = _section()
    return {} if section is None else read(section, path)


def _section() -> Any:
    return st.secrets.get("auth") if st.secrets.load_if_toml_exists() else None


def read(section: Any, path: str = "") -> dict[str, str]:
    """Return the labels of buttons, by the providers that a table [auth] names.

    path: where the proxy has the server. Raises ServerSettingError for the
    first thing for which nobody could log in.
    """
    if not isinstance(section, Mapping):
        raise ServerSettingError(f"{_HERE} must be a table.")
    if not _has_library():
        raise ServerSettingError(
            f"{_HERE} needs a library that is not installed: pip install 'posenc[login]'."
        )
    _whole(section, SHARED_KEYS, _HERE)
    _callback(section["redirect_uri"], path)
    if len(section["cookie_secret"]) < SHORTEST_SECRET:
        raise ServerSettingError(
            f"cookie_secret in {_HERE} must be {SHORTEST_SECRET} random characters or more."
        )
    exposed = section.get("expose_tokens", [])  # else every page would lose its connection
    exposed = exposed if isinstance(exposed, list) else [exposed]
    if not all(value in ("id", "access") for value in exposed):
        raise ServerSettingError(f"expose_tokens in {_HERE} must be id, access or both.")
    return _providers(section)


def _has_library() -> bool:
    try:
        importlib.import_module("authlib.integrations.starlette_client")  # needs httpx, too
    except ImportError:
        return False
    return is_authlib_installed()  # a version that Streamlit takes


def _providers(section: Mapping[str, Any]) -> dict[str, str]:
    named = {
        name: keys
        for name, keys in section.items()
        if isinstance(keys, Mapping) and name != "client_kwargs"  # of the unnamed one
    }
    if len({name.lower() for name in named}) < len(named):  # Streamlit does not tell them apart
        raise ServerSettingError(f"Two providers in {_HERE} differ in upper and lower case alone.")
    for name, keys in named.items():
        if not _NAME.fullmatch(name):
            raise ServerSettingError(
                f"A provider in {_HERE} must be named with letters, digits and hyphens, got "
                f"{quoted(name)}."
            )
        _whole(keys, _PROVIDER_KEYS, f"[auth.{name}] of secrets.toml")
    providers = [*named]
    if not named or (UNNAMED not in named and any(key in section for key in _PROVIDER_KEYS)):
        _whole(section, _PROVIDER_KEYS, _HERE)
        providers.insert(0, UNNAMED)
    if len(providers) == 1:
        return {providers[0]: "Log in"}
    words = {name: name.capitalize() if name.islower() else name for name in providers}
    labels = {name: f"Log in with {words[name]}" for name in providers}
    return labels | ({UNNAMED: "Log in"} if UNNAMED in labels else {})


def _whole(table: Mapping[str, Any], keys: tuple[str, ...], place: str) -> None:
    """Raise ServerSettingError for keys that are not there, or hold no text."""
    missing = [key for key in keys if not (isinstance(table.get(key), str) and table[key].strip())]
    if missing:
        raise ServerSettingError(f"{place} lacks {' and '.join(missing)}.")
    if "server_metadata_url" in keys and not table["server_metadata_url"].startswith(
        ("https://", "http://")
    ):
        raise ServerSettingError(f"server_metadata_url in {place} must be an address of the web.")


def _callback(address: str, path: str) -> None:
    """Raise ServerSettingError for an address at which Streamlit does not listen or knows nobody again.

    It compares scheme, host and port with what browsers say they are, letter by letter.
    """
    path = path or st.get_option("server.baseUrlPath").strip("/")
    where = f"/{path}{CALLBACK}" if path else CALLBACK
    try:
        url = urlsplit(address.replace("{port}", "8501"))
        port = f":{url.port}" if url.port not in (None, _USUAL.get(url.scheme)) else ""
    except ValueError:
        url, port = urlsplit(""), ""
    host = url.hostname or ""
    browsers = f"[{host}]{port}" if ":" in host else f"{host}{port}"
    secure = url.scheme == "https" or (url.scheme == "http" and host in _OWN_MACHINE)
    if (
        not (secure and host)
        or url.netloc != browsers
        or url.path != where
        or url.query
        or url.fragment
    ):
        raise ServerSettingError(
            f"redirect_uri in {_HERE} must be https, the host as browsers write it, and {where}."
        )


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
