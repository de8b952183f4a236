"""What a hosted server allows: one object, read from the environment or the secrets, the same everywhere.

Every field is one variable, POSENC_..., of the environment or at the top of Streamlit's secrets.toml,
which counts more. A profile sets those that are not said: "private" for one person on a machine of
their own, "shared" for people who do not know each other.
"""

import functools
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.limits import (
    MAX_RUN_SECONDS,
    MAX_RUNNING,
    MAX_TEXT_BYTES,
    MAX_UPLOAD_BYTES,
    MAX_WAITING,
    MAX_WORKERS,
)
from dashboard.server import log_lines
from posenc.checkpoints.file_store import ENVIRONMENT, WORK_ENVIRONMENT, store_url, work_folder
from posenc.errors import PosencError, RunError, quoted
from posenc.fields import Choice, Flag, IntRange, Rule, Word
from posenc.lab.runs import Store
from posenc.settings import Setting
from posenc.settings.setting import MAX_SHOWN_LENGTH

PRIVATE, SHARED = "private", "shared"
LOGS = log_lines.VARIABLE
MB = 2**20
_PLACE = r"[^\x00-\x1f]{0,1024}"
_PLACE_SAID = "of up to 1,024 characters, none of them a line break or another control character"
_HOST = r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"


class ServerSettingError(PosencError):
    """A variable of the server cannot be used; the message names it and what it may be."""


def _setting(
    rule: Rule, private: Any, shared: Any, *, otherwise: str = "", repeatable: bool = True
) -> Any:
    """Make a field; its rule's label is the variable.

    otherwise: what an empty word stands for. repeatable: whether a refusal may repeat what was set, which
    in the URL of a store holds a password.
    """
    facts = {"rule": rule, SHARED: shared, "otherwise": otherwise, "repeatable": repeatable}
    return field(default=private, metadata=facts)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What this server allows its visitors, where it keeps things, and how it knows people."""

    profile: str = _setting(
        Choice(
            label="POSENC_PROFILE",
            options=(PRIVATE, SHARED),
            help="What holds for every variable that is not set.",
        ),
        PRIVATE,
        SHARED,
    )
    uploads: bool = _setting(
        Flag(label="POSENC_UPLOADS", help="Whether visitors may upload files."), True, False
    )
    upload_mb: int = _setting(
        IntRange(
            label="POSENC_UPLOAD_MB",
            low=1,
            high=MAX_UPLOAD_BYTES // MB,
            help="Largest file, in MB.",
        ),
        MAX_UPLOAD_BYTES // MB,
        10,
    )
    text_mb: int = _setting(
        IntRange(
            label="POSENC_TEXT_MB",
            low=1,
            high=MAX_TEXT_BYTES // MB,
            help="Largest text to train on, in MB.",
        ),
        MAX_TEXT_BYTES // MB,
        2,
    )
    positions: int = _setting(
        IntRange(
            label="POSENC_POSITIONS",
            low=2,
            high=MAX_SHOWN_LENGTH,
            help="Most positions that a page shows.",
        ),
        MAX_SHOWN_LENGTH,
        1_024,
    )
    running: int = _setting(
        IntRange(
            label="POSENC_RUNNING",
            low=0,
            high=MAX_WORKERS,
            help="Trainings at a time; 0 switches starting off: what is finished is shown.",
        ),
        MAX_RUNNING,
        0,
    )
    waiting: int = _setting(
        IntRange(
            label="POSENC_WAITING",
            low=0,
            high=MAX_WORKERS,
            help="Starts of training that may wait.",
        ),
        MAX_WAITING,
        4,
    )
    each: int = _setting(
        IntRange(
            label="POSENC_EACH",
            low=1,
            high=2 * MAX_WORKERS,
            help="Starts that one person may have there at a time; where nobody is known, one session.",
        ),
        2 * MAX_WORKERS,
        2,
    )
    run_minutes: int = _setting(
        IntRange(
            label="POSENC_RUN_MINUTES",
            low=1,
            high=MAX_RUN_SECONDS // 60,
            help="Longest start of training, by the estimate made before it, in minutes.",
        ),
        MAX_RUN_SECONDS // 60,
        30,
    )
    busy_training: bool = _setting(
        Flag(
            label="POSENC_BUSY_TRAINING",
            help="Whether a training goes on, niced, while no core is idle (asked on Linux alone).",
        ),
        True,
        False,
    )
    hub: bool = _setting(
        Flag(
            label="POSENC_HUB",
            help="Whether visitors may have a learned table fetched from the Hugging Face Hub.",
        ),
        False,
        False,
    )
    store: str = _setting(
        Word(
            label=ENVIRONMENT,
            pattern=_PLACE,
            in_words=f"a folder or an fsspec URL {_PLACE_SAID}",
            help="Where finished runs and their names are: a folder, or any fsspec URL.",
        ),
        "",
        "",
        otherwise="the user's data folder",
        repeatable=False,
    )
    work: str = _setting(
        Word(
            label=WORK_ENVIRONMENT,
            pattern=_PLACE,
            in_words=f"a folder {_PLACE_SAID}",
            help="Folder of the queue, of checkpoints and of the operator's counters.",
        ),
        "",
        "",
        otherwise="the user's cache",
        repeatable=False,
    )
    user_header: str = _setting(
        Word(
            label="POSENC_USER_HEADER",
            pattern="(?:(?!(?i:cookie|host|authorization)$)[A-Za-z][A-Za-z0-9-]{0,63})?",
            in_words="the name of an HTTP header of its own",
            help="Header in which the proxy says who a visitor is; it must drop what clients send.",
        ),
        "",
        "",
        otherwise="none",
    )
    hosts: str = _setting(
        Word(
            label="POSENC_HOSTS",
            pattern=rf"(?:{_HOST}(?:,{_HOST}){{0,31}})?",
            in_words="host names with commas between them, such as demo.example.org,*.example.org",
            help="Host names under which pages connect; files and uploads answer any: see Proxy.",
        ),
        "",
        "",
        otherwise="any",
    )
    base_path: str = _setting(
        Word(
            label="POSENC_PATH",
            pattern=r"(?:[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+){0,7})?",
            in_words="a path without slashes at its ends, such as tools/posenc",
            help="Path under which the proxy has it.",
        ),
        "",
        "",
        otherwise="the root",
    )
    logs: str = _setting(
        Choice(
            label=LOGS,
            options=("text", "lines"),
            help="Log for people, with traces, or JSON lines without a word of what visitors wrote.",
        ),
        "text",
        "lines",
    )

    @property
    def upload_bytes(self) -> int:
        """Bytes of the largest upload."""
        return self.upload_mb * MB

    @property
    def text_bytes(self) -> int:
        """Bytes of the largest text to train on."""
        return self.text_mb * MB

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


FIELDS = {one.metadata["rule"].label: one for one in fields(ServerSettings)}  # by their variables


def read(said: Mapping[str, str]) -> ServerSettings:
    """Return the settings that these variables mean. Raises ServerSettingError for a bad value."""
    values = {
        one.name: _value(
            one.metadata["rule"], said[variable], repeatable=one.metadata["repeatable"]
        )
        for variable, one in FIELDS.items()
        if variable in said
    }
    if values.get("profile") == SHARED:
        values = {one.name: one.metadata[SHARED] for one in FIELDS.values()} | values
    return ServerSettings(**values)


def current() -> ServerSettings:
    """Return the settings of this server. Raises ServerSettingError for a bad value."""
    secrets_to_environment()
    return _of_environment(tuple((name, os.environ.get(name)) for name in FIELDS))


@functools.lru_cache(maxsize=8)
def _of_environment(said: tuple[tuple[str, str | None], ...]) -> ServerSettings:
    return read({name: text for name, text in said if text is not None})


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
            said = error.strerror if isinstance(error, OSError) else error
            raise ServerSettingError(f"{place.name} cannot be read: {said}.") from None
    if not st.secrets.load_if_toml_exists():
        return
    for variable in FIELDS:
        if variable in st.secrets:
            value = st.secrets[variable]
            os.environ[variable] = str(int(value)) if isinstance(value, bool) else str(value)


def check_places(allowed: ServerSettings) -> None:
    """Raise ServerSettingError where runs or work cannot be kept in the places that are set."""
    try:
        found = Store(allowed.store or None)
        if allowed.training and found.local and not _writable(Path(found.root)):
            raise ServerSettingError(f"{ENVIRONMENT} must be a folder that this server can write.")
    except RunError as error:
        raise ServerSettingError(f"{ENVIRONMENT} cannot be used: {error}") from None
    if "://" in allowed.work or not _writable(work_folder()):
        raise ServerSettingError(f"{WORK_ENVIRONMENT} must be a folder that this server can write.")


def _writable(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that is there, is one and can be written."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def written(allowed: ServerSettings) -> dict[str, str]:
    """Return every variable as it can be set, with the places that are used; passwords of URLs left out."""
    found = {}
    for variable, one in FIELDS.items():
        value = getattr(allowed, one.name)
        found[variable] = str(int(value)) if isinstance(value, bool) else str(value)
    found[ENVIRONMENT] = re.sub(r"(?<=://)[^/@]*@", "...@", store_url())
    found[WORK_ENVIRONMENT] = str(work_folder())
    return found


def unknown() -> list[str]:
    """Return variables that look like ours and are not, as a slip of the pen leaves them."""
    return sorted(name for name in os.environ if name.startswith("POSENC_") and name not in FIELDS)


def within(setting: Setting) -> tuple[Setting, list[str]]:
    """Return the setting nearest to one that this server shows, and what had to be changed."""
    most = current().positions
    if setting.length <= most:
        return setting, []
    said = (
        f"This server shows at most {most:,} positions: {most:,} are used, not {setting.length:,}."
    )
    return setting.replace(length=most), [said]


def table() -> str:
    """Return all settings as a table in Markdown, as README shows it."""
    lines = ["| variable | private | shared | what it sets |", "|---|---|---|---|"]
    for variable, one in FIELDS.items():
        otherwise = one.metadata["otherwise"]
        private, shared = (_told(of, otherwise) for of in (one.default, one.metadata[SHARED]))
        lines.append(f"| `{variable}` | {private} | {shared} | {one.metadata['rule'].help} |")
    return "\n".join(lines)


def _value(rule: Rule, text: str, *, repeatable: bool) -> Any:
    value: Any = text
    allowed = rule.allowed()
    if isinstance(rule, Flag):
        value, allowed = {"0": False, "1": True}.get(text), "0 or 1"
    elif isinstance(rule, IntRange):
        value = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
    if not rule.accepts(value):
        got = f", got {quoted(text)}" if repeatable else ""
        raise ServerSettingError(f"{rule.label} must be {allowed}{got}.")
    return value


def _told(value: Any, otherwise: str) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return f"{value:,}"
    return value or otherwise
