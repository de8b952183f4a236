"""Names from files as a message or a page may show them: no control characters, not too long."""

import unicodedata

SHOWN_NAME = 80  # characters


def printable_name(name: str, limit: int = SHOWN_NAME) -> str:
    """Return `name` for display: control and bidirectional characters escaped, cut to `limit`.

    A backslash is doubled, so two different names that fit the limit never look the same.
    """
    shown = "".join(
        character.encode("unicode_escape").decode("ascii")
        if character == "\\" or unicodedata.category(character).startswith(("C", "Zl", "Zp"))
        else character
        for character in name[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
