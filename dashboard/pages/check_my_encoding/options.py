"""Options of Check my encoding: which part is open, and which table is checked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dashboard.blocks import Changes
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.logit_samples import SAMPLES
from dashboard.visitor_files import NUMBERS_NAME
from posenc import fields

TABLE, LAYOUTS, DECODING = "Your table", "RoPE layouts", "Position decoding"
LOGITS = "Attention logits"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which part of the page is open, which table is checked, and what a visitor uploaded besides.

    PARTS: of the page, one after the other where it is written as files.
    """

    UNLINKED: ClassVar[tuple[str, ...]] = (
        "vectors",
        "rotated",
        "queries",
        "keys",
        "logits",
        "refused",
    )
    PARTS: ClassVar[Mapping[str, Changes]] = {
        part: {"part": part} for part in (TABLE, LAYOUTS, LOGITS, DECODING)
    }

    part: str = fields.Choice(
        options=(TABLE, LAYOUTS, LOGITS, DECODING),
        label="Check",
        help="A table against its formula, mixed-up layouts of queries and keys, the scale, bias and mask "
        "of attention logits, or how well positions are decoded from vectors.",
    ).field(TABLE)
    table: str = fields.Word(
        pattern="|".join((*map(re.escape, EXAMPLES), NUMBERS_NAME)),
        in_words=f"one of {', '.join(EXAMPLES)}, or the name of an uploaded table",
        label="Try an example",
        help="The broken ones stand first. Examples have the sidebar's sizes. Your uploads are listed as "
        "array-...",
    ).field(next(iter(EXAMPLES)))
    vectors: str = fields.Word(
        pattern=f"({NUMBERS_NAME})?", in_words="the name of an upload", label="Queries and keys"
    ).field("")
    rotated: str = fields.Word(
        pattern=f"({NUMBERS_NAME})?",
        in_words="the name of an upload",
        label="Rotated queries and keys",
    ).field("")
    sample: str = fields.Choice(
        options=(*SAMPLES,),
        label="Try a sample",
        help="The broken ones stand first. Samples are of fixed sizes.",
    ).field(next(iter(SAMPLES)))
    queries: str = fields.Word(
        pattern=f"({NUMBERS_NAME})?", in_words="the name of an upload", label="Queries"
    ).field("")
    keys: str = fields.Word(
        pattern=f"({NUMBERS_NAME})?", in_words="the name of an upload", label="Keys"
    ).field("")
    logits: str = fields.Word(
        pattern=f"({NUMBERS_NAME})?", in_words="the name of an upload", label="Logits"
    ).field("")
    refused: str = fields.Word(
        pattern="(?s).*", in_words="a part, a table and a file", label="Refused"
    ).field("")

    @property
    def mark(self) -> str:
        """The beginning of the option `refused`, which counts while this part and this table are shown."""
        return f"{self.part}, {self.table}: "

    @property
    def refused_file(self) -> str:
        """The file that cannot be checked, "" for none, and once something else was chosen."""
        return self.refused.removeprefix(self.mark) if self.refused.startswith(self.mark) else ""
