"""Frames, pictures and sentences of Check my encoding, made of what posenc found."""

import math
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from dashboard.charts.frames import MOST_POINTS
from dashboard.components.matrix import Full, MatrixValues
from dashboard.limits import MAX_DRAWN_CELLS
from posenc.analysis import LayoutInspection, LayoutUse, Probes, Properties
from posenc.identification import Identification
from posenc.identification.columns import TableInput
from posenc.identification.deviations import Differences
from posenc.identification.identify import base_words, reconstruct, record, scheme_name
from posenc.text import count_of

FIELDS = (
    "arrangement", "layout", "base", "base_within", "start", "scale", "size", "sense", "angles", "format",
    "rows", "width", "residual", "largest_difference", "row", "column",
)  # fmt: skip
COMPARED = {  # what the chart draws, by name
    "the formula, angles exact": "exact angles",
    "the formula, rounded as found": "as found",
}


@dataclass(frozen=True)
class Drawn:
    """One picture: a matrix, its title, what is written under it, and the columns of its second half."""

    title: str
    subtitle: str
    values: MatrixValues


def found(one: Identification) -> pd.DataFrame:
    """Return everything that was found, one row, in full precision."""
    said = record(one)
    scheme = (said["config"] or {}).get("kind")
    return pd.DataFrame([{"scheme": scheme} | {name: said[name] for name in FIELDS}])


def shown(one: Identification, apart: Differences | None) -> pd.DataFrame:
    """Return what was found as people read it: what, found."""
    guess, arrangement = one.hypothesis, one.arrangement
    rows = {"Rows x columns": f"{one.rows:,} x {one.width:,}", "Numbers": record(one)["format"]}
    if guess is None or arrangement is None or one.recipe is None or apart is None:
        rows["Nearest formula leaves"] = f"{one.residual:.3g} of its size"
        return pd.DataFrame({"what": [*rows], "found": [*rows.values()]})
    within = "shown by one pair only" if math.isinf(one.base_within) else f"{one.base_within:.1g}"
    scheme = scheme_name(one) if one.config is not None else "none that is right"
    rows = {
        "Largest error, angles exact": f"{apart.largest:.3g}",
        "Scheme": scheme,
        "Columns": arrangement.words,
        "Base": base_words(one),
        "Base known to a share of": within,
        "Row 0 is position": f"{guess.start:,}"
        if not one.padding
        else f"none: row {one.padding:,}, after the padding, is position {guess.start:,}",
        **rows,
        "Angles multiplied by": f"{record(one)['scale']:.6g}",
        "Numbers multiplied by": f"{guess.size:.6g}",
        "Angles": one.recipe.words,
        "Left, root mean square": f"{one.residual:.3g}",
        "Left, at most": f"{one.largest:.3g}",
    }
    return pd.DataFrame({"what": [*rows], "found": [*rows.values()]})


def by_column(one: Identification, apart: Differences | None) -> pd.DataFrame:
    """Return the largest differences of every column from the formula, none where none fits."""
    if apart is None or one.arrangement is None or one.by_column is None:
        return pd.DataFrame()
    columns = one.arrangement.columns(len(one.by_column))
    index = torch.arange(len(columns.sines))
    cache = one.arrangement.form != "table"
    parts = [
        ("cosines" if n < one.width else "sines") if cache else "table" for n in index.tolist()
    ]
    return pd.DataFrame(
        {
            "part": parts,
            "column": (index % one.width).numpy(),
            "x": index.numpy(),
            "function": ["sine" if is_sine else "cosine" for is_sine in columns.sines.tolist()],
            "as found": one.by_column.numpy(),
            "exact angles": apart.by_column.numpy(),
        }
    )


def drawn_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the differences as a chart has them: x, compared, y; what is 0 has no place on a log scale.

    A formula that was found to be exact is compared once; of very many columns the farthest of every
    few are drawn.
    """
    if frame.empty:
        return pd.DataFrame()
    once = bool((frame["as found"] == frame["exact angles"]).all())
    compared = {
        name: column for name, column in COMPARED.items() if not (once and column == "as found")
    }
    parts = [
        pd.DataFrame({"x": frame["x"].astype("int32"), "compared": name, "y": frame[column]})
        for name, column in compared.items()
    ]
    marks = pd.concat(parts, ignore_index=True)
    if len(frame) > MOST_POINTS:
        few = marks["x"] * MOST_POINTS // len(frame)
        marks = marks.loc[marks.groupby(["compared", few])["y"].idxmax()]
    return marks[marks["y"] > 0].reset_index(drop=True)


def tables(one: Identification, table: Tensor, sines: Tensor | None) -> tuple[Drawn, ...]:
    """Return pictures of the first entries of a table and of its formula."""
    most = MAX_DRAWN_CELLS
    columns = TableInput.of(table, sines).columns
    rows, width = columns.shape
    cut = [
        f"the first {most} of {count_of(size, word)}"
        for size, word in ((rows, "row"), (width, "column"))
        if size > most
    ]
    form = "cosines, then sines" if width > one.width else ""
    said = "; ".join(part for part in (form, *cut) if part)
    given = Drawn("This table", said, _picture(columns))
    if one.hypothesis is None:
        return (given,)
    exact = reconstruct(one, table, sines, rows=most)
    return given, Drawn("Its formula, exact", said, _picture(exact))


def _picture(columns: Tensor) -> MatrixValues:
    return Full.from_tensor(columns[:MAX_DRAWN_CELLS, :MAX_DRAWN_CELLS])


# Layouts ------------------------------------------------------------------------------------


def layouts(one: LayoutInspection) -> pd.DataFrame:
    """Return the numbers of every way of using a layout, one row each."""
    return pd.DataFrame(
        [
            {
                "way": use.words,
                "change of scores": use.change,
                "correlation": use.correlation,
                "change of norms": use.norm_change,
                "spread at an offset": use.offset_spread,
            }
            for use in (one.mended, *one.mistakes.values())
        ]
    )


def scores(one: LayoutInspection) -> tuple[Drawn, ...]:
    """Return scores of one query and one key at many positions, as meant and of every other way."""
    titles = ("Permuted", "Wrong in both", "Wrong in one", "Wrong cache")
    ways = (one.mended, *one.mistakes.values())
    return (
        Drawn("As meant", "interleaved pairs, as trained", Full.from_tensor(one.alike)),
        *(
            Drawn(title, _numbers(use), Full.from_tensor(use.alike))
            for title, use in zip(titles, ways, strict=True)
        ),
    )


def _numbers(use: LayoutUse) -> str:
    return (
        f"{use.words}: scores change by {_share(use.change)}, correlation {use.correlation:.3f}; norms by "
        f"{_share(use.norm_change)}, spread at an offset {_share(use.offset_spread)}"
    )


def _share(value: float) -> str:
    return "rounding alone" if value < 1e-9 else f"{value:.1%}"


def layout_sentence(one: LayoutInspection, width: int) -> str:
    """Return what a consistent mix-up changes and what tests do not find."""
    if width == 2:
        return "A head of width 2 has one pair, so its two layouts are the same."
    both, single = one.mistakes["both"], one.mistakes["one"]
    return (
        f"The wrong layout in queries and keys alike changes the scores by {both.change:.0%} of their size "
        f"(correlation {both.correlation:.2f}), and passes tests of norms (change {both.norm_change:.1g}) "
        f"and of offsets (spread {both.offset_spread:.1g}); in one of the two, the spread of "
        f"{single.offset_spread:.2g} gives it away. Through the permutation the layouts agree to "
        f"{one.largest:.1g}."
    )


# Probes -------------------------------------------------------------------------------------


def probes(name: str, width: int, ours: Probes, sinusoidal: Probes) -> pd.DataFrame:
    """Return what three tables of one shape tell, one row each."""
    shape = f"{ours.positions:,} x {width:,}"
    rows = (
        (name, ours.index_error.value, ours.order_accuracy.value, ours.properties),
        (f"sinusoidal, {shape}", sinusoidal.index_error.value, sinusoidal.order_accuracy.value,
         sinusoidal.properties),
        (f"random numbers, {shape}", ours.index_error.control, ours.order_accuracy.control,
         ours.control_properties),
    )  # fmt: skip
    return pd.DataFrame(
        [
            {
                "table": label,
                "positions": ours.positions,
                "index off by": index,
                "guessing off by": ours.guessing,
                "order told": order,
                **_properties(properties),
            }
            for label, index, order, properties in rows
        ]
    )


def _properties(measured: Properties) -> dict[str, float | None]:
    return {
        "shift-invariance error": measured.translation_invariance_error,
        "first rise at distance": measured.first_rise,
        "order kept by similarity (tau)": measured.kendall_tau,
    }


def probe_sentence(name: str, one: Probes, rows_there: int) -> str:
    """Return how far index and order are read back from a table of `rows_there` rows."""
    first = (
        f" (first {one.positions:,} of {rows_there:,} rows)" if one.positions < rows_there else ""
    )
    return (
        f"From a vector of the {name}{first} a linear map reads its index to within "
        f"{one.index_error.value:.2g} positions on average (guessing: {one.guessing:.3g}, random numbers "
        f"of the same shape: {one.index_error.control:.3g}), and from two vectors which comes first in "
        f"{one.order_accuracy.value:.0%} of pairs (random numbers: {one.order_accuracy.control:.0%})."
    )
