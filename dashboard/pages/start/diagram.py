"""A drawing of one attention block as SVG, with the part lit on which a scheme acts."""

from dashboard.compute.scheme_facts import BIAS, EMBEDDING, ROTATION

GREY = "#80868f"  # at least 3.5:1 on the light and on the dark ground
# Name, left, top and width of every box; the lit parts by place, with the sign of what happens there.
_BOXES = (
    ("token", 2, 35, 58), ("q", 92, 4, 30), ("k", 92, 36, 30), ("v", 92, 68, 30), ("logits", 156, 20, 58),
    ("softmax", 246, 20, 70),
)  # fmt: skip
_LIT = {
    EMBEDDING: (("token",), "+", 31, 27),
    ROTATION: (("q", "k"), "↻", 138, 22),
    BIAS: (("logits",), "+", 185, 14),
}
_WIRES = (
    "M60 47H76 M92 16H76V80H92 M76 48H92 M122 16L156 30 M122 48L156 36 M214 32H246 M122 80H336 "
    "M316 32H336"
)
HEIGHT = 24  # of a box


def attention_block(lit: str, colour: str) -> str:
    """Return the drawing. lit: one of the places, or "". colour: of the lit part, #rrggbb."""
    names, sign, x, y = _LIT.get(lit, ((), "", 0, 0))
    boxes = []
    for name, left, top, width in _BOXES:
        fill, ink = (colour, "white") if name in names else ("none", GREY)
        boxes.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{HEIGHT}" rx="4" fill="{fill}" '
            f'stroke="{colour if name in names else GREY}"/>'
            f'<text x="{left + width / 2}" y="{top + 17}" fill="{ink}">{name}</text>'
        )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 340 94" font-family="sans-serif" '
        f'font-size="14" text-anchor="middle"><path d="{_WIRES}" fill="none" stroke="{GREY}"/>'
        f'{"".join(boxes)}<text x="{x}" y="{y}" fill="{colour}" font-size="22" font-weight="bold">'
        f"{sign}</text></svg>"
    )
