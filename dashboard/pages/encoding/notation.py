"""Formulas of schemes at a setting: in either notation, with symbols or with the current numbers."""

from collections.abc import Iterable

from dashboard.compute import schemes
from posenc.errors import SchemeArgumentError, quoted
from posenc.formula import NOTATIONS, Notation, formula
from posenc.settings import Setting


def notation_of(text: str) -> Notation:
    """Return the notation that a control of these words means."""
    for notation in NOTATIONS:
        if notation == text:
            return notation
    raise SchemeArgumentError(
        f"notation must be one of {'; '.join(NOTATIONS)}, got {quoted(text)}."
    )


def scheme_formula(setting: Setting, kind: str, notation: str, *, numbers: bool) -> str:
    """Return one scheme's formula in LaTeX; a named table is written with its own shape."""
    query = schemes.query(setting, kind)
    # What is built knows its shape: a file's table has another width than the setting.
    config = query.build("cpu").config
    return formula(config, notation_of(notation), numbers=numbers, head=query.head)


def formulas(
    setting: Setting, kinds: Iterable[str], notation: str, *, numbers: bool
) -> dict[str, str]:
    """Return the formulas of these schemes at a setting."""
    return {kind: scheme_formula(setting, kind, notation, numbers=numbers) for kind in kinds}
