"""One colour, one stroke and one marker per scheme, the same on every page and ground.

The first five are Okabe and Ito's (2008, "Color universal design"), moved to one lightness so that each
reads on white and on near-black. Those after them were taken one by one from the sRGB colours of at
least 3:1 against both grounds (WCAG 2.2, 1.4.11) and of a chroma that sits beside the first: each the
one farthest, in OKLab, from all before it as seen with normal sight and with protanopia, deuteranopia
and tritanopia (Machado et al. 2009). The six from SSMax to stick-breaking were taken together: far from
the first five, beside which they are measured, and from each other. So many colours on two grounds cannot
all be told apart by everybody: no two schemes share a stroke before the twelfth, and no two share both.
"""

from collections.abc import Iterable

from posenc.schemes import SCHEMES

PALETTE = (
    "#d55e00", "#2f86c6", "#0d9a74", "#c56fa3", "#8b8f96", "#786c00", "#7854cc", "#846084",
    "#c03c60", "#9c9000", "#9c78f0", "#18786c", "#309000", "#9c6c54", "#b448a8", "#e4606c",
    "#9078b4", "#5478f0", "#6c8460", "#546c9c", "#249ca8", "#a85400", "#b48454", "#7c90e4",
    "#d02c3c", "#08783c", "#5464e4", "#7854a4", "#a44464", "#a884c0",
)  # fmt: skip
DASHES = (
    [1, 0], [12, 3], [7, 3], [2, 2], [1, 3], [9, 3, 2, 3], [4, 4], [16, 3, 2, 3, 2, 3], [3, 6],
    [14, 6], [6, 2, 6, 2, 1, 2],
)  # fmt: skip
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right", "triangle-left",
)  # fmt: skip

# The schemes in the order in which they took their colours. A new one is added at the end: whatever its
# place in the registry, it changes no colour of the others.
ORDER = (
    "learned", "sinusoidal", "rope", "alibi", "none", "rope_linear", "rope_ntk", "rope_dynamic",
    "rope_yarn", "rope_yarn_paper", "rope_longrope", "rope_llama3", "rope_proportional",
    "rope_sections", "shaw", "transformer_xl", "t5", "kerple_log", "kerple_power", "fire",
    "sandwich", "xpos", "cope", "ssmax", "ssmax_rope", "rnope", "pope", "fox",
    "stick_breaking",
)  # fmt: skip


def looks(kinds: Iterable[str]) -> dict[str, tuple[str, list[int], str]]:
    """Return colour, stroke and marker of each scheme, those that ORDER does not name last."""
    names = tuple(kinds)
    ordered = (*ORDER, *(kind for kind in names if kind not in ORDER))
    places = {kind: n for n, kind in enumerate(ordered)}
    return {
        kind: (PALETTE[n % len(PALETTE)], DASHES[n % len(DASHES)], SHAPES[n % len(SHAPES)])
        for kind, n in ((kind, places[kind]) for kind in names)
    }


def _mixed(colour: str, other: str) -> str:
    """Return 70% of a colour and 30% of another."""
    pairs = ((int(colour[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(0.7 * part + 0.3 * of_other):02x}" for part, of_other in pairs)


def text_colours(colour: str) -> tuple[str, str]:
    """Return a colour as text has it, on a light and on a dark ground: 4.5:1 (WCAG 2.2, 1.4.3)."""
    return _mixed(colour, "#000000"), _mixed(colour, "#ffffff")


_LOOKS = looks(SCHEMES)
COLOURS = {kind: colour for kind, (colour, _, _) in _LOOKS.items()}
STROKES = {kind: dash for kind, (_, dash, _) in _LOOKS.items()}
MARKERS = {kind: shape for kind, (_, _, shape) in _LOOKS.items()}
