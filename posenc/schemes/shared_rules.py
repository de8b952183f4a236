"""What fields that many schemes have may hold: the base of a ladder, the number of heads."""

from posenc import fields, limits

BASE = fields.Real(low=limits.MIN_BASE, high=limits.MAX_BASE, closed=False, label="Base")
HEADS = fields.Whole(low=1, high=limits.MAX_HEADS, label="Heads")
