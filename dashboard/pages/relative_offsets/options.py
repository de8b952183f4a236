"""What the Relative offsets page asks."""

from dataclasses import dataclass

from posenc import fields


@dataclass(frozen=True, kw_only=True)
class OffsetChoice:
    """The offsets of M_k and of the composition."""

    offset: int = fields.IntRange(
        low=1,
        high=64,
        label="Offset k",
        help="The number of positions that M moves a vector by.",
    ).field(1)
    second: int = fields.IntRange(
        low=1,
        high=64,
        label="Second offset",
        help="b in the composition M_a M_b; a is the offset k.",
    ).field(2)
