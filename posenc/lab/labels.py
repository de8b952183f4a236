"""Labels of runs: a name for each run and owner, which may also hide the run from lists.

A label is a small file, `labels/RUN.OWNER.json` in the store of runs, OWNER being a hash. Callers must
check who the owner is.
"""

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from posenc.checkpoints.file_store import FileStore
from posenc.errors import RunError, StoreUnavailable, quoted

FOLDER = "labels"
MAX_NAME = 64  # characters
MAX_OWNER = 128
_MOST_MARKS = 3  # on one letter; more overlap the lines above
# Of a name without its marks (accents, vowels of Indic scripts). The first character cannot begin a
# spreadsheet formula.
_NAME = re.compile(rf"\w[\w .,()-]{{0,{MAX_NAME - 1}}}")
_RUN = re.compile(r"[0-9a-f]{20}")
_FILE = re.compile(r"([0-9a-f]{20})\.([0-9a-f]{16})\.json")


@dataclass(frozen=True)
class Label:
    """A run's name by an owner. owner: "" for nobody known. name: "" for none."""

    run_id: str
    owner: str = ""
    name: str = ""
    hidden: bool = False

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run_id):
            raise RunError(f"A run's name is 20 hexadecimal digits, got {quoted(self.run_id)}.")
        if self.owner and not is_owner(self.owner):
            raise RunError(
                f"An owner is 1 to {MAX_OWNER} printable characters, got {quoted(self.owner)}."
            )
        if self.name:
            check_name(self.name)

    @property
    def file_name(self) -> str:
        """The name of the label's file, one per run and owner."""
        return f"{self.run_id}.{hashlib.sha256(self.owner.encode()).hexdigest()[:16]}.json"


def check_name(name: str) -> str:
    """Return a run's name in normal form C. Raises RunError for an invalid name."""
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
    """Whether a text can name an owner: short, without invisible or reordering characters."""
    return (
        0 < len(text) <= MAX_OWNER
        and text == text.strip()
        and not any(unicodedata.category(letter)[0] in "CZ" and letter != " " for letter in text)
    )


class Labels:
    """The labels of one store of runs."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        """Open the labels of the store at `url`."""
        self.files = FileStore(f"{os.fspath(url).rstrip('/')}/{FOLDER}")

    def all(self) -> dict[str, tuple[Label, ...]]:
        """Return every readable label by its run. Raises StoreUnavailable."""
        labels: dict[str, tuple[Label, ...]] = {}
        for name in self.files.names():
            label = self._label(name) if _FILE.fullmatch(name) else None
            if label is not None:
                labels[label.run_id] = (*labels.get(label.run_id, ()), label)
        return labels

    def of(self, run_id: str, owner: str) -> Label | None:
        """Return an owner's label of a run, None if absent or unreadable."""
        return self._label(Label(run_id, owner).file_name)

    def add(self, label: Label) -> bool:
        """Write a label unless this owner has one for the run; return whether it was new."""
        return self.files.put(label.file_name, _content(label), new=True)

    def put(self, label: Label) -> None:
        """Write a label, replacing the owner's for the run. Raises RunError."""
        self.files.put(label.file_name, _content(label))

    def change(
        self, run_id: str, owner: str, *, name: str | None = None, hidden: bool | None = None
    ) -> Label:
        """Rename or hide a run by its owner's label; None changes nothing.

        Raises RunError where this owner has no label of the run.
        """
        label = self.of(run_id, owner)
        if label is None:
            raise RunError(f"Run {run_id} is not yours to rename or hide.")
        label = replace(
            label,
            name=label.name if name is None else name,
            hidden=label.hidden if hidden is None else hidden,
        )
        self.put(label)
        return label

    def _label(self, name: str) -> Label | None:
        """Return the label of a file, None for a missing, invalid or renamed file."""
        try:
            values = json.loads(self.files.content(name))
            run, owner, text = (str(values[key]) for key in ("run", "owner", "name"))
            label = Label(run, owner, text, values["hidden"] is True)
        except StoreUnavailable:
            raise
        except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return label if label.file_name == name else None


def hidden(labels: Iterable[Label]) -> bool:
    """Whether a run with these labels is hidden from lists, which takes all of its owners."""
    labels = tuple(labels)
    return bool(labels) and all(label.hidden for label in labels)


def names(labels: Iterable[Label]) -> tuple[str, ...]:
    """Return the distinct names in the labels that do not hide the run."""
    return tuple(dict.fromkeys(label.name for label in labels if label.name and not label.hidden))


def _content(label: Label) -> bytes:
    values = {"run": label.run_id, "owner": label.owner, "name": label.name, "hidden": label.hidden}
    return json.dumps(values).encode()
