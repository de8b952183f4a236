"""The settings of a hosted server: one object, read from the environment or the secrets, for all modules.

Every field is one variable, POSENC_..., of the environment or at the top of Streamlit's secrets.toml,
which counts more. A profile sets those that are not said: "private" for one person on a machine of
their own, "shared" for people who do not know each other.
"""

import functools
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.limits import (
    MAX_RUN_SECONDS,
    MAX_RUNNING,
    MAX_TEXT_BYTES,
    MAX_UPLOAD_BYTES,
    MAX_WAITING,
    MOST_WAITING,
)
from dashboard.settings import Setting
from dashboard.settings.setting import MAX_SHOWN_LENGTH
from posenc.checkpoints.file_store import ENVIRONMENT, WORK_ENVIRONMENT, store_url, work_folder
from posenc.errors import PosencError, RunError, quoted
from posenc.fields import Choice, Flag, IntRange, Rule, Word, rules
from posenc.lab.runs import Store

PRIVATE, SHARED = "private", "shared"
MB = 2**20
_PLACE = r"[^\x00-\x1f]{0,1024}"
_PLACE_IN_WORDS = (
    "of up to 1,024 characters, none of them a line break or another control character"
)
_HOST = r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"


class ServerSettingError(PosencError):
    """A variable of the server cannot be used; the message names it and what it may be."""


def _number(variable: str, high: int, *, low: int = 1, default: int | None = None) -> Any:
    """Return a field for a whole number, by default the largest that is allowed."""
    return IntRange(label=variable, low=low, high=high).field(high if default is None else default)


def _text(variable: str, pattern: str, in_words: str) -> Any:
    return Word(label=variable, pattern=pattern, in_words=in_words).field("")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of a server: what visitors may do, where it keeps things, and how it knows people.

    The table in .deploy/README.md says what every variable sets.
    """

    profile: str = Choice(label="POSENC_PROFILE", options=(PRIVATE, SHARED)).field(PRIVATE)
    uploads: bool = Flag(label="POSENC_UPLOADS").field(True)
    upload_mb: int = _number("POSENC_UPLOAD_MB", MAX_UPLOAD_BYTES // MB)
    text_mb: int = _number("POSENC_TEXT_MB", MAX_TEXT_BYTES // MB)
    positions: int = _number("POSENC_POSITIONS", MAX_SHOWN_LENGTH, low=2)
    running: int = _number("POSENC_RUNNING", MAX_RUNNING, low=0)
    waiting: int = _number("POSENC_WAITING", MOST_WAITING, low=0, default=MAX_WAITING)
    run_minutes: int = _number("POSENC_RUN_MINUTES", MAX_RUN_SECONDS // 60)
    hub: bool = Flag(label="POSENC_HUB").field(False)
    store: str = _text(ENVIRONMENT, _PLACE, f"a folder or an fsspec URL {_PLACE_IN_WORDS}")
    work: str = _text(WORK_ENVIRONMENT, _PLACE, f"a folder {_PLACE_IN_WORDS}")
    user_header: str = _text(
        "POSENC_USER_HEADER",
        "(?:(?!(?i:cookie|host|authorization)$)[A-Za-z][A-Za-z0-9-]{0,63})?",
        "the name of an HTTP header of its own",
    )
    hosts: str = _text(
        "POSENC_HOSTS",
        rf"(?:{_HOST}(?:,{_HOST}){{0,31}})?",
        "host names with commas between them, such as demo.example.org,*.example.org",
    )
    base_path: str = _text(
        "POSENC_PATH",
        r"(?:[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+){0,7})?",
        "a path without slashes at its ends, such as tools/posenc",
    )

    @property
    def upload_bytes(self) -> int:
        """Bytes of the largest upload."""
        return self.upload_mb * MB

    @property
    def run_seconds(self) -> int:
        """Seconds of the longest start of training."""
        return self.run_minutes * 60

    @property
    def training(self) -> bool:
        """Whether visitors may start a training."""
        return self.running > 0

    @property
    def one_person(self) -> bool:
        """Whether everybody who comes is one and the same: the private server of somebody."""
        return self.profile == PRIVATE


NAMES = {rule.label: name for name, rule in rules(ServerSettings).items()}  # of fields, by variable
# Variables of earlier versions, with what holds now: what they ask for would be passed over in silence.
REMOVED = {
    "POSENC_LOGS": "the log is text, on a shared server without what visitors wrote",
    "POSENC_EACH": "POSENC_WAITING limits the jobs of all visitors together",
    "POSENC_BUSY_TRAINING": "on a shared server a training waits for an idle core",
}
# What the profile "shared" sets where the operator does not.
OF_SHARED: dict[str, Any] = {
    "uploads": False, "upload_mb": 10, "text_mb": 2, "positions": 1_024, "running": 0, "waiting": 4,
    "run_minutes": 30,
}  # fmt: skip


def read(texts: Mapping[str, str]) -> ServerSettings:
    """Return the settings that these variables mean. Raises ServerSettingError for a bad value."""
    for variable, now in REMOVED.items():
        if variable in texts:
            raise ServerSettingError(f"{variable} must not be set any more: {now}.")
    values = {
        name: _value(rule, texts[rule.label])
        for name, rule in rules(ServerSettings).items()
        if rule.label in texts
    }
    return ServerSettings(**((OF_SHARED if values.get("profile") == SHARED else {}) | values))


def current() -> ServerSettings:
    """Return the settings of this server. Raises ServerSettingError for a bad value."""
    secrets_to_environment()
    return _of_environment(tuple((name, os.environ.get(name)) for name in (*NAMES, *REMOVED)))


@functools.lru_cache(maxsize=8)
def _of_environment(texts: tuple[tuple[str, str | None], ...]) -> ServerSettings:
    return read({name: text for name, text in texts if text is not None})


@functools.cache  # looked for once for each process: a file that is not there is looked for anew
def secrets_to_environment() -> None:
    """Put what secrets.toml says of our variables into the environment, so that all read one place.

    Streamlit does so itself with text and numbers at the top of the file, not with true and false.
    """
    for place in map(Path, st.get_option("secrets.files")):
        if not place.is_file():
            continue
        try:
            tomllib.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # Streamlit would go on as if there were none
            reason = error.strerror if isinstance(error, OSError) else error
            raise ServerSettingError(f"{place.name} cannot be read: {reason}.") from None
    if not st.secrets.load_if_toml_exists():
        return
    if "auth" in st.secrets:
        raise ServerSettingError(
            "[auth] of secrets.toml must not be there: this server has no login of its own; a proxy names "
            "visitors in the header of POSENC_USER_HEADER."
        )
    for variable in (*NAMES, *REMOVED):
        if variable in st.secrets:
            value = st.secrets[variable]
            if not isinstance(value, str | bool | int | float) or "\0" in str(value):
                raise ServerSettingError(
                    f"{variable} of secrets.toml must be a number, true, false or a text without a null "
                    "character."
                )
            os.environ[variable] = str(int(value)) if isinstance(value, bool) else str(value)


def check_places(allowed: ServerSettings) -> None:
    """Raise ServerSettingError where runs or work cannot be kept in the places that are set."""
    try:
        store = Store(allowed.store or None)
        if allowed.training and store.local and not _writable(Path(store.root)):
            raise ServerSettingError(f"{ENVIRONMENT} must be a folder that this server can write.")
    except RunError as error:
        raise ServerSettingError(f"{ENVIRONMENT} cannot be used: {error}") from None
    if "://" in allowed.work or not _writable(work_folder()):
        raise ServerSettingError(f"{WORK_ENVIRONMENT} must be a folder that this server can write.")


def _writable(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that is there, is one and can be written."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def as_variables(allowed: ServerSettings) -> dict[str, str]:
    """Return every variable as it can be set, with the places that are used; passwords of URLs left out."""
    texts = {}
    for variable, name in NAMES.items():
        value = getattr(allowed, name)
        texts[variable] = str(int(value)) if isinstance(value, bool) else str(value)
    texts[ENVIRONMENT] = re.sub(r"(?<=://)[^/@]*@", "...@", store_url())
    texts[WORK_ENVIRONMENT] = str(work_folder())
    return texts


def unknown() -> list[str]:
    """Return variables that look like ours and are not, as a slip of the pen leaves them."""
    return sorted(name for name in os.environ if name.startswith("POSENC_") and name not in NAMES)


def within(setting: Setting) -> tuple[Setting, list[str]]:
    """Return the setting nearest to one that this server shows, and what had to be changed."""
    most = current().positions
    if setting.length <= most:
        return setting, []
    notice = (
        f"This server shows at most {most:,} positions: {most:,} are used, not {setting.length:,}."
    )
    return setting.replace(length=most), [notice]


def _value(rule: Rule, text: str) -> Any:
    value: Any = text
    allowed = rule.allowed()
    if isinstance(rule, Flag):
        value, allowed = {"0": False, "1": True}.get(text), "0 or 1"
    elif isinstance(rule, IntRange):
        value = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
    if not rule.accepts(value):
        # The URL of a store may hold a password.
        got = "" if rule.label in (ENVIRONMENT, WORK_ENVIRONMENT) else f", got {quoted(text)}"
        raise ServerSettingError(f"{rule.label} must be {allowed}{got}.")
    return value
