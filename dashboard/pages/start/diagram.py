"""A drawing of one attention block as SVG, with the part lit on which a scheme acts."""

from dashboard.scheme_facts import BIAS, EMBEDDING, ROTATION, WEIGHTS

GREY = "#80868f"  # at least 3.5:1 on the light and on the dark ground
# Name, left, top and width of every box; the lit parts by place, with the sign of what happens there.
_BOXES = (
    ("token", 1, 29, 56), ("q", 84, 1, 30), ("k", 84, 29, 30), ("v", 84, 57, 30), ("logits", 144, 15, 58),
)  # fmt: skip
_LIT = {
    EMBEDDING: (("token",), "+", 29, 22),
    ROTATION: (("q", "k"), "↻", 130, 16),
    BIAS: (("logits",), "+", 173, 56),
    WEIGHTS: (("logits",), "×", 173, 56),
}
_WIRES = "M57 41H84 M70 41V13H84 M70 41V69H84 M114 13L144 24 M114 41L144 30 M202 27H226 M114 69H226"
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
            f'<text x="{left + width / 2}" y="{top + 17.5}" fill="{ink}">{name}</text>'
        )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 228 82" font-family="sans-serif" '
        f'font-size="16" text-anchor="middle"><path d="{_WIRES}" fill="none" stroke="{GREY}"/>'
        f'{"".join(boxes)}<text x="{x}" y="{y}" fill="{colour}" font-size="22" font-weight="bold">'
        f"{sign}</text></svg>"
    )
