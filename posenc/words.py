"""Numbers and nouns as sentences write them."""


def counted(count: int, noun: str, several: str = "") -> str:
    """Write how many there are of something: 1 row, 2 rows; `several` where an s is not enough."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"
