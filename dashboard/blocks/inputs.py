"""Controls, buttons, links and other blocks with which a visitor changes something."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Narrowed = int | Sequence[str] | Mapping[str, str]
Changes = Mapping[str, Any]  # of shared fields and of options, by name


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls of these fields, shared or of the page, in a row.

    narrowed: the largest number, or the choices, that are offered now; of a word, titles by word, where a
    word without a title stands for the default. empty: what a number's field says
    while it is empty, which stands for its default; of the model, what its choice calls none.
    """

    names: Sequence[str]
    narrowed: Mapping[str, Narrowed] = field(default_factory=dict)
    empty: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Button:
    """A button that changes options of the page. key: its name among those of the page.

    changes: a function that makes them at the press where making them takes long. shortcut: a key that
    presses it.
    """

    key: str
    label: str
    changes: Changes | Callable[[], Changes]
    shortcut: str = ""
    disabled: bool = False
    icon: str = ""
    help: str = ""


@dataclass(frozen=True, eq=False)
class Link:
    """A link to a page by its folder. label: by default its name in the menu.

    changes: of what is shown there.
    """

    page: str
    label: str | None = None
    changes: Changes = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Live:
    """A part that only a running server can draw, by the name that the renderer has for it.

    values: the arguments that its function takes by name. Of two settings that of B alone is drawn.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Download:
    """A button that gives a file, which is made when it is pressed."""

    key: str
    label: str
    file_name: str
    make: Callable[[], bytes]
    help: str = ""
