"""What people call runs: a name for each run and owner, beside the runs, which never change.

A label is one small file, `labels/RUN.OWNER.json` in the store of runs, OWNER being a hash. Whoever may
write the store may write any label; who a visitor is, and so which labels are theirs, the caller knows.
A run that all of its labels hide is left out of lists; nothing here removes a run.
"""

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from posenc.checkpoints.file_store import FileStore, store_url
from posenc.errors import RunError, StoreUnavailable, shown

FOLDER = "labels"
MAX_NAME = 64  # characters
MAX_OWNER = 128
_MOST_MARKS = 3  # on one letter; more would be drawn over the lines above
_MOST_BYTES = 4_096  # of a file
# Of a name without its marks (accents, vowels of Indic scripts). It begins with a letter, a digit or _: no
# formula of a spreadsheet and no formatting does.
_NAME = re.compile(rf"\w[\w .,()-]{{0,{MAX_NAME - 1}}}")
_RUN = re.compile(r"[0-9a-f]{20}")
_FILE = re.compile(r"([0-9a-f]{20})\.([0-9a-f]{16})\.json")


@dataclass(frozen=True)
class Label:
    """What one owner calls one run. owner: "" where nobody is known. name: "" for none."""

    run_id: str
    owner: str = ""
    name: str = ""
    hidden: bool = False

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run_id):
            raise RunError(f"A run's name is 20 hexadecimal digits, got {shown(self.run_id)}.")
        if self.owner and not is_owner(self.owner):
            raise RunError(
                f"An owner is 1 to {MAX_OWNER} printable characters, got {shown(self.owner)}."
            )
        if self.name:
            check_name(self.name)

    @property
    def file_name(self) -> str:
        """The file that holds the label; another owner of the same run has another."""
        return f"{self.run_id}.{hashlib.sha256(self.owner.encode()).hexdigest()[:16]}.json"


def check_name(name: str) -> str:
    """Return a name that a run may have, its letters composed. Raises RunError for any other."""
    name = unicodedata.normalize("NFC", name)
    kinds = "".join("M" if unicodedata.category(letter)[0] == "M" else "L" for letter in name)
    bare = "".join(letter for letter, kind in zip(name, kinds, strict=True) if kind == "L")
    marked = kinds.startswith("M") or "M" * (_MOST_MARKS + 1) in kinds
    if not _NAME.fullmatch(bare) or marked or len(name) > MAX_NAME:
        raise RunError(
            f"A run's name has 1 to {MAX_NAME} letters, digits, spaces and any of _ . , ( ) -, and begins "
            "with a letter, a digit or _."
        )
    return name


def is_owner(text: str) -> bool:
    """Whether a text can name an owner: short, without anything that is not seen or reorders text."""
    return (
        0 < len(text) <= MAX_OWNER
        and text == text.strip()
        and not any(unicodedata.category(letter)[0] in "CZ" and letter != " " for letter in text)
    )


class Labels:
    """The labels of one store of runs."""

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the labels of the store at `url`: default that of this machine."""
        place = os.fspath(url) if url is not None else store_url()
        self.files = FileStore(f"{place.rstrip('/')}/{FOLDER}")
        self._read: dict[str, tuple[tuple[int, int], Label | None]] = {}

    def all(self) -> dict[str, tuple[Label, ...]]:
        """Return every label by its run, in a fixed order; a file that is none is passed over.

        Raises StoreUnavailable where the place cannot be listed.
        """
        found: dict[str, list[Label]] = {}
        names = [name for name in self.files.names() if _FILE.fullmatch(name)]
        for name in names:
            label = self._label(name)
            if label is not None:
                found.setdefault(label.run_id, []).append(label)
        return {run: tuple(labels) for run, labels in found.items()}

    def of(self, run_id: str, owner: str) -> Label | None:
        """Return an owner's label of a run, None where there is none that can be read."""
        return self._label(Label(run_id, owner).file_name)

    def add(self, label: Label) -> bool:
        """Write a label unless there is one of this owner and run. Returns whether it was new."""
        return self.files.create(label.file_name, _content(label))

    def put(self, label: Label) -> None:
        """Write a label in the place of that of the same owner and run. Raises RunError."""
        self.files.put(label.file_name, _content(label))

    def change(
        self, run_id: str, owner: str, *, name: str | None = None, hidden: bool | None = None
    ) -> Label:
        """Rename or hide what an owner's label says of a run; what is None stays.

        Raises RunError for a run of which this owner has no label: it is not theirs.
        """
        label = self.of(run_id, owner)
        if label is None:
            raise RunError(f"Run {run_id} is not yours to rename or hide.")
        label = replace(label, name=label.name if name is None else name)
        label = replace(label, hidden=label.hidden if hidden is None else hidden)
        self.put(label)
        return label

    def _label(self, name: str) -> Label | None:
        stamp = self._stamp(name)
        if stamp is not None and name in self._read and self._read[name][0] == stamp:
            return self._read[name][1]
        try:
            found = _from_content(self.files.content(name), name)
        except FileNotFoundError:
            return None
        except StoreUnavailable:
            raise
        except RunError:  # larger than any file of a run
            found = None
        if stamp is not None:
            self._read[name] = stamp, found
        return found

    def _stamp(self, name: str) -> tuple[int, int] | None:
        """Return what changes with a file's content, None where that is not known: then it is read."""
        if not self.files.local:
            return None
        try:
            found = os.stat(self.files.path(name))
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino  # every label written is a new file


def hidden(labels: Iterable[Label]) -> bool:
    """Whether a run with these labels is left out of lists: each of its owners hid it."""
    found = tuple(labels)
    return bool(found) and all(label.hidden for label in found)


def names(labels: Iterable[Label]) -> tuple[str, ...]:
    """Return what those who show a run call it, each name once."""
    return tuple(dict.fromkeys(one.name for one in labels if one.name and not one.hidden))


def _content(label: Label) -> bytes:
    said = {"run": label.run_id, "owner": label.owner, "name": label.name, "hidden": label.hidden}
    return json.dumps(said).encode()


def _from_content(content: bytes, name: str) -> Label | None:
    """Return the label of a file, None for a file that is none, or one that was renamed."""
    try:
        if len(content) > _MOST_BYTES:
            return None
        said = json.loads(content)
        label = Label(
            str(said["run"]), str(said["owner"]), str(said["name"]), said["hidden"] is True
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return label if label.file_name == name else None
