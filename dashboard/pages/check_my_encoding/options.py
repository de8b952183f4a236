"""What the page Check my encoding asks: which part is open, and which table is checked."""

import re
from dataclasses import dataclass

from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.visitor_files import NUMBERS_NAME as UPLOADED
from posenc import fields

TABLE, LAYOUTS, DECODING = "Your table", "RoPE layouts", "Position decoding"


@dataclass(frozen=True, kw_only=True)
class CheckPart:
    """Which part of the page is open."""

    part: str = fields.Choice(
        options=(TABLE, LAYOUTS, DECODING),
        label="Check",
        help="A table against its formula, mixed-up layouts of queries and keys, or how well positions "
        "are decoded from vectors.",
    ).field(TABLE)


@dataclass(frozen=True, kw_only=True)
class CheckChoice:
    """Which table is checked: an example by its name, or an upload."""

    table: str = fields.Word(
        pattern="|".join((*map(re.escape, EXAMPLES), UPLOADED)),
        in_words=f"one of {', '.join(EXAMPLES)}, or the name of an uploaded table",
        label="Try a broken example",
        help="Examples have the sidebar's sizes. Your uploads are listed as array-...",
    ).field("sinusoidal")
