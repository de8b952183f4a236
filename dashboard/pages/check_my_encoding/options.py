"""Options of Check my encoding: which part is open, and which table is checked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dashboard.blocks import Changes
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.logit_samples import SAMPLES
from dashboard.visitor_files import NUMBERS_NAME, UploadOptions, upload_field
from posenc import fields

TABLE, LAYOUTS, DECODING = "Your table", "RoPE layouts", "Position decoding"
LOGITS = "Attention logits"


@dataclass(frozen=True, kw_only=True)
class Options(UploadOptions):
    """Which part of the page is open, which table is checked, and what a visitor uploaded besides.

    PARTS: of the page, one after the other where it is written as files.
    """

    UNLINKED: ClassVar[tuple[str, ...]] = ("vectors", "rotated", "logits", *UploadOptions.UNLINKED)
    MARKED: ClassVar[tuple[str, ...]] = ("part", "table")
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
        label="Table",
        help="Examples, the broken ones first, of the sidebar's sizes; then your uploads.",
    ).field(next(iter(EXAMPLES)))
    vectors: str = upload_field("Queries and keys")
    rotated: str = upload_field("Rotated queries and keys")
    sample: str = fields.Choice(
        options=(*SAMPLES,),
        label="Try a sample",
        help="The broken ones stand first. Samples are of fixed sizes.",
    ).field(next(iter(SAMPLES)))
    logits: str = upload_field("Logits")
