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
class TablePicture:
    """One picture: a matrix, its title, what is written under it, and the columns of its second half."""

    title: str
    subtitle: str
    values: MatrixValues


def identified(result: Identification) -> pd.DataFrame:
    """Return everything that was found, one row, in full precision."""
    values = record(result)
    scheme = (values["config"] or {}).get("kind")
    return pd.DataFrame([{"scheme": scheme} | {name: values[name] for name in FIELDS}])


def facts(result: Identification) -> pd.DataFrame:
    """Return what was found in words, a row for each fact: what, found."""
    hypothesis, arrangement = result.hypothesis, result.arrangement
    rows = {
        "Rows x columns": f"{result.rows:,} x {result.width:,}",
        "Numbers": record(result)["format"],
    }
    if hypothesis is None or arrangement is None or result.recipe is None:
        rows["Residual of the nearest formula (RMS)"] = f"{result.residual:.3g} of the table's size"
        return pd.DataFrame({"what": [*rows], "found": [*rows.values()]})
    first = f"position {hypothesis.start:,}"
    if result.padding:
        first = f"padding; row {result.padding:,} is {first}"
    is_single = math.isinf(result.base_within)
    rows = {
        "Scheme": scheme_name(result) if result.config is not None else "none that is right",
        "Columns": arrangement.words,
        "Base": base_words(result),
        "Relative uncertainty of the base": "any base fits"
        if is_single
        else f"{result.base_within:.1g}",
        "Row 0": first,
        **rows,
        "Angles multiplied by": f"{record(result)['scale']:.6g}",
        "Numbers multiplied by": f"{hypothesis.size:.6g}",
        "Angles": result.recipe.words,
        "Residual (RMS)": f"{result.residual:.3g}",
        "Residual (largest)": f"{result.largest:.3g}",
    }
    return pd.DataFrame({"what": [*rows], "found": [*rows.values()]})


def by_column(result: Identification, error: Differences | None) -> pd.DataFrame:
    """Return the largest differences of every column from the formula, none where none fits."""
    if error is None or result.arrangement is None or result.by_column is None:
        return pd.DataFrame()
    columns = result.arrangement.columns(len(result.by_column))
    index = torch.arange(len(columns.sines))
    cache = result.arrangement.form != "table"
    parts = [
        ("cosines" if n < result.width else "sines") if cache else "table" for n in index.tolist()
    ]
    return pd.DataFrame(
        {
            "part": parts,
            "column": (index % result.width).numpy(),
            "x": index.numpy(),
            "function": ["sine" if is_sine else "cosine" for is_sine in columns.sines.tolist()],
            "as found": result.by_column.numpy(),
            "exact angles": error.by_column.numpy(),
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


def tables(one: Identification, table: Tensor, sines: Tensor | None) -> tuple[TablePicture, ...]:
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
    given = TablePicture("This table", said, _picture(columns))
    if one.hypothesis is None:
        return (given,)
    exact = reconstruct(one, table, sines, rows=most)
    return given, TablePicture("Its formula, exact", said, _picture(exact))


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


def scores(one: LayoutInspection) -> tuple[TablePicture, ...]:
    """Return scores of one query and one key at many positions, as intended and in every other way."""
    titles = ("Permuted", "Wrong in both", "Wrong in queries", "Wrong cache")
    ways = (one.mended, *one.mistakes.values())
    return (
        TablePicture("As intended", "interleaved pairs, as trained", Full.from_tensor(one.alike)),
        *(
            TablePicture(title, _numbers(use), Full.from_tensor(use.alike))
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
        f"(correlation {both.correlation:.2f}). Tests of norms and offsets pass all the same (changes of "
        f"{both.norm_change:.1g} and {both.offset_spread:.1g}). In queries alone, the scores at one offset "
        f"spread by {single.offset_spread:.2g}. Through the permutation, the layouts agree to "
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
                "index error (MAE)": index,
                "MAE of guessing": ours.guessing,
                "order accuracy": order,
                **_properties(properties),
            }
            for label, index, order, properties in rows
        ]
    )


def _properties(measured: Properties) -> dict[str, float | None]:
    return {
        "shift-invariance error": measured.translation_invariance_error,
        "first rise at distance": measured.first_rise,
        "rank agreement with distance (Kendall tau)": measured.kendall_tau,
    }


def probe_sentence(name: str, one: Probes, rows_there: int) -> str:
    """Return how far index and order are read back from a table of `rows_there` rows."""
    first = (
        f" (first {one.positions:,} of {rows_there:,} rows)" if one.positions < rows_there else ""
    )
    return (
        f"{name[0].upper()}{name[1:]}{first}: a linear map decodes a vector's position with an error of "
        f"{one.index_error.value:.2g} (MAE; guessing: {one.guessing:.3g}, control with random numbers: "
        f"{one.index_error.control:.3g}). It orders {one.order_accuracy.value:.0%} of pairs of vectors "
        f"correctly (control: {one.order_accuracy.control:.0%})."
    )
