"""Plots of positions in the plane of two components: what each draws, and which share a scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.ab import AB
from dashboard.charts.frames import evenly
from dashboard.compute.schemes import Array
from dashboard.pages.pca.charts import HEIGHT, WIDTH
from dashboard.pages.pca.data import AXES, Read
from dashboard.pages.pca.options import PLANES

# A score this many times further out than 99 of 100 is left out of the picture, and named beside it:
# one outlier (BERT's position 0 is one) would press all others into a dot.
FAR = 2.0
LABELS = 5  # positions with their number beside them, the first and the last among them
ROOM = 0.12  # of the width and the height of a plot: labels closer than that would cover each other
LETTER, LINE = 9, 20  # pixels: size of a label's digit on a projector, where it is largest
MARGIN = 1.12  # of the axes over what is drawn, so that labels stay inside


@dataclass(frozen=True)
class Panel:
    """One plot: a scheme under one setting, B or A, and what lies outside of the picture."""

    frame: pd.DataFrame
    outside: str


def panels(both: AB[Read], plot: str, *, same_scale: bool) -> dict[tuple[str, str], Panel]:
    """Return the plots by scheme and setting.

    Plots of one scheme share a scale, with same_scale those of all schemes. Both axes of a plot have one
    unit.
    """
    reads = {"B": both.current} | ({} if both.pinned is None else {"A": both.pinned})
    scores = {
        (kind, name): result.scores
        for name, read in reads.items()
        for kind, result in read.results.items()
        if result.explained.sum() > 0
    }
    last = max((len(each) for each in scores.values()), default=1) - 1
    drawn = {}
    for key, own in scores.items():
        group = [each for other, each in scores.items() if same_scale or other[0] == key[0]]
        extent = _extent(group)
        ends = _ends([each[_sizes(each) <= extent] for each in group], plot)
        boundary = reads[key[1]].setting.train_length
        drawn[key] = Panel(
            _frame(own, extent, boundary, last, ends, PLANES[plot]), outside(own, extent)
        )
    return drawn


def outside(scores: Array, extent: float) -> str:
    """Say which positions lie outside of the picture, and where the furthest of them is."""
    sizes = _sizes(scores)
    (far,) = np.nonzero(sizes > extent)
    if not len(far):
        return ""
    furthest = far[int(sizes[far].argmax())]
    at = ", ".join(
        f"{axis} {score:.3g}" for axis, score in zip(AXES, scores[furthest], strict=True)
    )
    many = "" if len(far) == 1 else f"{len(far):,} positions, the furthest is "
    return f"Outside the picture: {many}position {furthest:,} at {at}."


def _frame(
    scores: Array,
    extent: float,
    boundary: int,
    last: int,
    ends: Mapping[str, np.float32],
    plane: tuple[str, str],
) -> pd.DataFrame:
    """Return what is drawn of one plot, in 32 bits. last: the last position of any plot."""
    inside = np.nonzero(_sizes(scores) <= extent)[0]
    position = inside[evenly(len(inside))]
    components = {axis: scores[position, n].astype(np.float32) for n, axis in enumerate(AXES)}
    size = np.array([ends["right"] - ends["left"], ends["top"] - ends["bottom"]])
    origin = np.array([ends["left"], ends["bottom"]])
    pixels = (np.stack([components[axis] for axis in plane], axis=1) - origin) / size
    pixels *= (WIDTH, HEIGHT)
    labels = _labels(position, pixels)
    centres = _label_centres(labels, pixels) / (WIDTH, HEIGHT) * size + origin
    return pd.DataFrame(
        {"position": position.astype(np.int32)}
        | components
        | {
            "place": (position / max(1, last)).astype(np.float32),
            "past": position >= boundary,
        }
        | {name: np.full(len(position), end) for name, end in ends.items()}
        | {"label": labels}
        | {name: centres[:, n].astype(np.float32) for n, name in enumerate(("label_x", "label_y"))}
    )


def _labels(position: npt.NDArray[np.int64], pixels: Array) -> list[str | None]:
    """Return the number beside each dot: of the first, the last and a few with room between them."""
    places = pixels / (WIDTH, HEIGHT)
    row, *rows = evenly(len(position), LABELS).tolist()
    labelled = [row]
    for row in reversed(rows):  # the last one first
        if all((np.abs(places[row] - places[other]) > ROOM).any() for other in labelled):
            labelled.append(row)
    return [f"{n:,}" if row in labelled else None for row, n in enumerate(position.tolist())]


def _label_centres(labels: Sequence[str | None], pixels: Array) -> Array:
    """Return the middle of each label, beside its dot where it covers no other dot and no other label.

    pixels: of the dots, from the lower left corner. NaN without a label.
    """
    angles = np.arange(16) * np.pi / 8 + np.pi / 2  # above the dot first
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    centres = np.full_like(pixels, np.nan)
    taken: list[tuple[Array, Array]] = []  # middle and half size of the labels so far
    for row, text in enumerate(labels):
        if text is None:
            continue
        half = np.array([LETTER * len(text), LINE]) / 2
        near = pixels[row] + directions * (half + 3)
        candidates = np.concatenate([near + out * directions for out in (0, 8, 16)])
        # In half sizes; a label and a dot touch at less than 1.
        apart = np.abs(candidates[:, None] - pixels) / (half + 2)
        clearance = apart.max(axis=2).min(axis=1)
        for centre, size in taken:
            clearance = np.minimum(
                clearance, (np.abs(candidates - centre) / (half + size)).max(axis=1)
            )
        within = (candidates > half) & (candidates < np.array([WIDTH, HEIGHT]) - half)
        clearance = np.where(within.all(axis=1), np.minimum(clearance, 1), -1)
        centres[row] = candidates[int(clearance.argmax())]
        taken.append((centres[row], half))
    return centres


def _extent(group: Sequence[Array]) -> float:
    """Return the largest size that is drawn; a few positions have no usual size."""
    sizes = [own[~np.isnan(own)] for own in map(_sizes, group)]
    usual = max(
        (
            float(np.quantile(own, 0.99 if len(own) >= 20 else 1.0, method="lower"))
            for own in sizes
            if len(own)
        ),
        default=0.0,
    )
    near = [own[own <= FAR * usual] for own in sizes]
    return max((float(own.max()) for own in near if len(own)), default=0.0)


def _ends(drawn: Sequence[Array], plot: str) -> dict[str, np.float32]:
    """Return where the axes end, so that a unit is as long on one as on the other."""
    plane = [AXES.index(axis) for axis in PLANES[plot]]
    points = np.concatenate(drawn)[:, plane]
    low, high = points.min(axis=0), points.max(axis=0)
    across, up = high - low
    aspect = WIDTH / HEIGHT
    width = MARGIN * max(across, up * aspect, 1e-12)
    (left, bottom), (right, top) = (
        (low + high + sign * np.array([width, width / aspect])) / 2 for sign in (-1, 1)
    )
    ends = {"left": left, "right": right, "bottom": bottom, "top": top}
    return {name: np.float32(end) for name, end in ends.items()}


def _sizes(scores: Array) -> Array:
    """The largest component of every position; NaN where there is no row."""
    largest: Array = np.abs(scores).max(axis=1)
    return largest
