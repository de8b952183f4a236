"""Plots of positions in the plane of two components: what each draws, and which share a scale."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.blocks import Block, Chart, Text
from dashboard.charts.frames import evenly
from dashboard.pages.pca.charts import HEIGHT, WIDTH
from dashboard.pages.pca.data import AXES
from dashboard.results import Array
from dashboard.text import number

# A score this many times further out than 99 of 100 is left out of the picture, and named beside it:
# one outlier (BERT's position 0 is one) would press all others into a dot.
FAR = 2.0
LABELS = 5  # positions with their number beside them, the first and the last among them
ROOM = 0.12  # of the width and the height of a plot: labels closer than that would cover each other
LETTER, LINE = 9, 20  # pixels: size of a label's digit on a projector, where it is largest
MARGIN = 1.12  # of the axes over what is drawn, so that labels stay inside
AREA = np.array([WIDTH, HEIGHT])


def lay_out(
    cells: Mapping[str, Sequence[Block]], *, plane: tuple[str, str], same_scale: bool
) -> dict[str, list[Block]]:
    """Return cells with their plots laid out together, and what lies outside of a plot under it.

    cells: at most one chart in each, whose frame has every position with its scores.
    """
    charts = {
        name: cell for name, part in cells.items() for cell in part if isinstance(cell, Chart)
    }
    drawn = panels(
        {
            (chart.names[0], name): np.stack([chart.frame[axis] for axis in AXES], axis=1)
            for name, chart in charts.items()
        },
        {name: int((~chart.frame["past"]).sum()) for name, chart in charts.items()},
        plane,
        same_scale=same_scale,
    )
    laid_out: dict[str, list[Block]] = {}
    for name, cell in cells.items():
        laid_out[name] = []
        for block in cell:
            if not isinstance(block, Chart):
                laid_out[name].append(block)
                continue
            frame, outside = drawn[block.names[0], name]
            laid_out[name].append(replace(block, frame=frame))
            laid_out[name] += [Text(outside, "caption")] if outside else []
    return laid_out


def panels(
    scores: Mapping[tuple[str, str], Array],
    trained: Mapping[str, int],
    plane: tuple[str, str],
    *,
    same_scale: bool,
) -> dict[tuple[str, str], tuple[pd.DataFrame, str]]:
    """Return what is drawn of each scheme under each setting, and a sentence on what lies outside.

    Plots of one scheme share a scale, with same_scale those of all schemes. Both axes of a plot have one
    unit. scores: (positions, components) by scheme and setting. trained: training length by setting.
    plane: the components that are the axes.
    """
    last = max(map(len, scores.values()), default=1) - 1
    drawn = {}
    for (kind, setting), points in scores.items():
        group = [other for (scheme, _), other in scores.items() if same_scale or scheme == kind]
        extent = _extent(group)
        inside = np.nonzero(_sizes(points) <= extent)[0]
        shown = inside[evenly(len(inside))]
        columns = _columns(points, shown, plane, _ends(group, extent, plane))
        columns["place"] = (shown / max(1, last)).astype(np.float32)
        columns["past"] = shown >= trained[setting]
        drawn[kind, setting] = pd.DataFrame(columns), outside(points, extent)
    return drawn


def outside(scores: Array, extent: float) -> str:
    """Say which positions lie outside of the picture, and where the furthest of them is."""
    sizes = _sizes(scores)
    (far,) = np.nonzero(sizes > extent)
    if not len(far):
        return ""
    furthest = far[sizes[far].argmax()]
    at = ", ".join(
        f"{axis} {number(float(score))}" for axis, score in zip(AXES, scores[furthest], strict=True)
    )
    many = "" if len(far) == 1 else f"{len(far):,} positions, the furthest is "
    return f"Outside the picture: {many}position {furthest:,} at {at}."


def _columns(
    scores: Array, position: npt.NDArray[np.int64], plane: tuple[str, str], ends: Array
) -> dict[str, Any]:
    """Return dots and labels of some positions, in 32 bits. ends: left and bottom, right and top."""
    components = dict(zip(AXES, scores[position].astype(np.float32).T, strict=True))
    origin, size = ends[0], ends[1] - ends[0]
    pixels = (np.stack([components[axis] for axis in plane], axis=1) - origin) / size
    pixels *= AREA
    labels, centres = _labels(position, pixels)
    centres = centres / AREA * size + origin
    return (
        {"position": position.astype(np.int32)}
        | components
        | dict(zip(("left", "bottom", "right", "top"), ends.ravel(), strict=True))
        | {"label": labels}
        | dict(zip(("label_x", "label_y"), centres.astype(np.float32).T, strict=True))
    )


def _labels(position: npt.NDArray[np.int64], pixels: Array) -> tuple[list[str | None], Array]:
    """Return the number beside each dot, of the first, the last and a few with room, and its middle.

    A number stands beside its dot where it covers no other dot and no other number. pixels: of the dots,
    from the lower left corner. None and NaN without a label.
    """
    places = pixels / AREA
    first, *rows = evenly(len(position), LABELS).tolist()
    labelled = [first]
    for row in reversed(rows):  # the last one first
        if (np.abs(places[row] - places[labelled]) > ROOM).any(axis=1).all():
            labelled.append(row)
    angles = np.arange(16) * np.pi / 8 + np.pi / 2  # above the dot first
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    labels: list[str | None] = [None] * len(position)
    centres = np.full_like(pixels, np.nan)
    taken: list[tuple[Array, Array]] = []  # middle and half size of the labels so far
    for row in sorted(labelled):
        labels[row] = text = f"{position[row]:,}"
        half = np.array([LETTER * len(text), LINE]) / 2
        near = pixels[row] + directions * (half + 3)
        candidates = np.concatenate([near + out * directions for out in (0, 8, 16)])
        # In half sizes; a label and a dot touch at less than 1. Axis by axis: three times as fast.
        across, up = (
            np.abs(np.subtract.outer(candidates[:, axis], pixels[:, axis])) / (half[axis] + 2)
            for axis in (0, 1)
        )
        clearance = np.maximum(across, up).min(axis=1)
        for centre, size in taken:
            clearance = np.minimum(
                clearance, (np.abs(candidates - centre) / (half + size)).max(axis=1)
            )
        within = (candidates > half) & (candidates < AREA - half)
        clearance = np.where(within.all(axis=1), np.minimum(clearance, 1), -1)
        centres[row] = candidates[clearance.argmax()]
        taken.append((centres[row], half))
    return labels, centres


def _extent(group: Sequence[Array]) -> float:
    """Return the largest size that is drawn; a few positions have no usual size."""
    sizes = [size[~np.isnan(size)] for size in map(_sizes, group)]
    usual = max(
        np.quantile(size, 0.99 if len(size) >= 20 else 1.0, method="lower") for size in sizes
    )
    every = np.concatenate(sizes)
    return float(every[every <= FAR * usual].max())


def _ends(group: Sequence[Array], extent: float, plane: tuple[str, str]) -> Array:
    """Return where the axes end, so that a unit is as long on one as on the other."""
    points = np.concatenate([scores[_sizes(scores) <= extent] for scores in group])
    points = points[:, [AXES.index(axis) for axis in plane]]
    low, high = points.min(axis=0), points.max(axis=0)
    across, up = high - low
    aspect = WIDTH / HEIGHT
    width = MARGIN * max(across, up * aspect, 1e-12)
    half = np.array([width, width / aspect])
    return np.array([low + high - half, low + high + half], np.float32) / 2


def _sizes(scores: Array) -> Array:
    """Return the largest component of every position; NaN where there is no row."""
    largest: Array = np.abs(scores).max(axis=1)
    return largest
