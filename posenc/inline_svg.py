"""Pictures of lines and matrices as one small SVG each, drawn without another library.

Text and axes take the colour of the page around them, so that a picture is read on white and on black.
"""

import base64
import html
import math
import struct
import zlib
from collections.abc import Mapping, Sequence

from torch import Tensor, uint8

from posenc.text import significant

Points = Sequence[tuple[float, float]]

SIDE, WIDTH = 220, 480  # CSS pixels of the plane: its height, and its width under lines
LEFT, TOP, BELOW = 64, 12, 40  # CSS pixels around it
# Okabe and Ito's colours that are seen on white and on black; a dash each, for greyscale.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("", "6 3", "2 2", "8 3 2 3", "1 3", "10 4")


def line_picture(title: str, x: str, lines: Mapping[str, Points], *, dots: bool) -> str:
    """Return points (x, y) by the name of their line as an SVG; a y that is not finite is a gap.

    x: name of the horizontal axis. dots: whether points are not joined. An SVG without a finite point
    says so.
    """
    finite = [point for points in lines.values() for point in points if math.isfinite(point[1])]
    if not finite:
        return _svg(title, [_label(LEFT, TOP + 20, "no finite value", "start")])
    (left, right), (low, high) = (_range([point[axis] for point in finite]) for axis in (0, 1))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across, down = (point[0] - left) / (right - left), (high - point[1]) / (high - low)
        return round(LEFT + across * WIDTH, 1), round(TOP + down * SIDE, 1)

    bottom = TOP + SIDE
    drawn = [
        f'<path d="M{LEFT},{TOP}v{SIDE}h{WIDTH}" fill="none" stroke="currentColor"/>',
        _label(LEFT - 6, TOP + 8, significant(high), "end"),
        _label(LEFT - 6, bottom, significant(low), "end"),
        _label(LEFT, bottom + 16, significant(left), "start"),
        _label(LEFT + WIDTH // 2, bottom + 16, x, "middle"),
        _label(LEFT + WIDTH, bottom + 16, significant(right), "end"),
    ]
    across = LEFT
    for index, (name, points) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        stroke = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{DASHES[index % 6]}"'
        if dots:
            places = [place(point) for point in points if math.isfinite(point[1])]
            places.append((across + 12, bottom + 29))
            drawn += [f'<circle cx="{cx}" cy="{cy}" r="2" fill="{colour}"/>' for cx, cy in places]
        else:
            commands = []
            for before, point in zip([(0.0, math.nan), *points], points, strict=False):
                if math.isfinite(point[1]):
                    command = "L" if math.isfinite(before[1]) else "M"
                    commands.append("{}{},{}".format(command, *place(point)))
            drawn.append(f'<path d="{"".join(commands)}" {stroke}/>')
            drawn.append(f'<path d="M{across},{bottom + 29}h24" {stroke}/>')
        drawn.append(_label(across + 30, bottom + 33, name, "start"))
        across += 50 + 7 * len(name)
    return _svg(title, drawn)


def matrix_picture(title: str, matrix: Tensor) -> str:
    """Return a matrix (n, m) as an SVG in grey, its lowest value black and its highest white.

    A value that is not finite is drawn as the nearest of both, NaN as black.
    """
    finite = matrix[matrix.isfinite()].tolist()
    low, high = _range(finite or [0.0])
    grey = ((matrix - low) / (high - low) * 255).nan_to_num(0, 255, 0).round().clamp(0, 255)
    image = base64.b64encode(_png(grey.to(uint8).tolist())).decode()
    size = f'x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"'
    return _svg(
        title,
        [
            f'<image {size} preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{image}"/>',
            f'<rect {size} fill="none" stroke="currentColor"/>',
            _label(LEFT, TOP + SIDE + 16, f"black {significant(low)}", "start"),
            _label(LEFT + SIDE, TOP + SIDE + 16, f"white {significant(high)}", "end"),
        ],
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value, apart where they are equal."""
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _svg(title: str, drawn: Sequence[str]) -> str:
    width, height = LEFT + WIDTH + 16, TOP + SIDE + BELOW
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" font-size="11" '
        f'font-family="sans-serif" fill="currentColor"><title>{html.escape(title)}</title>'
        f"{''.join(drawn)}</svg>"
    )


def _png(rows: Sequence[Sequence[int]]) -> bytes:
    """Return rows of grey values, 0 to 255, as a PNG (W3C PNG, third edition, sections 5 and 9)."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + bytes(row) for row in rows), 9)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
